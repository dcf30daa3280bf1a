//! A daemon on loopback, before a data plane that speaks the protocol on a Unix socket.
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use weir_api::client::{ClientError, Credentials, NodeClient};
use weir_api::problem::Problem;
use weir_node::{LoginOptions, Options, serve};

use crate::fake::{self, Fake};

/// A daemon with its data plane.
pub struct Daemon {
    pub client: NodeClient,
    pub address: SocketAddr,
    pub fake: Arc<Mutex<Fake>>,
    pub dir: Arc<tempfile::TempDir>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

pub const FIREWALL: &str = "
name: firewall
description: Lets through what the rules allow.
ports: [inside, outside]
params: [{name: RULES, type: text, default: allow all, doc: the rules}]
handlers:
  count: {handler: c.count, access: r}
  reset: {handler: c.reset, access: w}
click: 'in_0 -> filter :: IPFilter($RULES) -> c :: Counter -> out_1; in_1 -> out_0;'
";

/// Two interfaces with a firewall in between.
pub fn firewall(rules: &str) -> String {
    format!(
        "
id: fw
name: office
tenant: t1
SFs:
  - {{id: fw, name: firewall, ports: [a, b], params: {{RULES: '{rules}'}}}}
saps:
  - {{id: lan, type: interface, interface: {{if-name: eth1}}}}
  - {{id: wan, type: vlan, vlan: {{vlan-id: 25, if-name: eth2}}}}
flowrules:
  - {{id: r1, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:fw:a'}}}}
  - {{id: r2, priority: 1, match: {{port_in: 'sf:fw:b'}}, actions: {{output_to_port: 'sap:wan'}}}}
  - {{id: r3, priority: 1, match: {{port_in: 'sap:wan'}}, actions: {{output_to_port: 'sf:fw:b'}}}}
  - {{id: r4, priority: 1, match: {{port_in: 'sf:fw:a'}}, actions: {{output_to_port: 'sap:lan'}}}}
"
    )
}

pub fn options(dir: &Path) -> Options {
    Options {
        revisions: 50,
        workers: 1,
        join: None,
        login: None,
        tls: false,
        hostnames: Vec::new(),
        launcher: vec![],
        zygote: vec![],
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        socket: dir.join("engine.sock"),
        store: dir.join("node.db"),
        images: vec![dir.join("images")],
        engine_command: vec![],
        stop_engine: false,
        upgrade: false,
        insecure_registries: Vec::new(),
        resources: weir_node::resources::Resources::of_machine(),
        overcommit: true,
        region: None,
        probes: false,
        graph_memory: 256 << 20,
    }
}

impl Daemon {
    pub fn start() -> Daemon {
        let (dir, fake) = Daemon::place();
        Daemon::with(dir, fake)
    }

    /// Where one can run.
    pub fn place() -> (Arc<tempfile::TempDir>, Arc<Mutex<Fake>>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("images")).unwrap();
        std::fs::write(dir.path().join("images/firewall.yaml"), FIREWALL).unwrap();
        let fake = Arc::new(Mutex::new(Fake::default()));
        fake::serve(&dir.path().join("engine.sock"), fake.clone());
        (Arc::new(dir), fake)
    }

    /// One that asks for a login, with a client that has the admin token.
    pub fn guarded(dir: Arc<tempfile::TempDir>, fake: Arc<Mutex<Fake>>, token: &str) -> Daemon {
        let login = LoginOptions { announce: |_| panic!("there is a token already") };
        let mut daemon = Daemon::run(dir, fake, Some(login));
        daemon.client = daemon.client.with_credentials(Credentials::Token(token.into()));
        daemon
    }

    pub fn with(dir: Arc<tempfile::TempDir>, fake: Arc<Mutex<Fake>>) -> Daemon {
        Daemon::run(dir, fake, None)
    }

    fn run(dir: Arc<tempfile::TempDir>, fake: Arc<Mutex<Fake>>, login: Option<LoginOptions>) -> Daemon {
        let hostnames = vec!["node.example".into()];
        let options = Options { login, hostnames, ..options(dir.path()) };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            runtime().block_on(async {
                let listener = TcpListener::bind(options.listen).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                serve(options, listener, async { _ = stopped.await }).await.unwrap();
            });
        });
        let address = told.recv().unwrap();
        let client = NodeClient::new(&address.to_string());
        while !client.health().unwrap().ready {
            std::thread::sleep(Duration::from_millis(10));
        }
        Daemon { client, address, fake, dir, stop: Some(stop), thread: Some(thread) }
    }

    /// The daemon ends; the data plane does not.
    pub fn stop(mut self) -> (Arc<tempfile::TempDir>, Arc<Mutex<Fake>>) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
        (self.dir.clone(), self.fake.clone())
    }

    /// A request as some other client makes it: status, media type, body.
    pub fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, String, String) {
        let response = self.response(method, path, headers, body);
        let (status, kind) = (response.status().as_u16(), header(&response, "content-type"));
        (status, kind, response.into_body().read_to_string().unwrap())
    }

    /// The same: status and entity tag.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let response = self.response(method, path, headers, body);
        (response.status().as_u16(), header(&response, "etag"))
    }

    pub fn response(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> ureq::http::Response<ureq::Body> {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).allow_non_standard_methods(true);
        config.proxy(None).build().new_agent().run(request.body(body).unwrap()).unwrap()
    }
}

pub fn header(response: &ureq::http::Response<ureq::Body>, name: &str) -> String {
    response.headers().get(name).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default()
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

pub fn problem<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Problem {
    match result {
        Err(ClientError::Problem(p)) => *p,
        other => panic!("{other:?}"),
    }
}
