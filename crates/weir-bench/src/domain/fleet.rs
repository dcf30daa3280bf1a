//! What a controller of many nodes takes. The nodes have the interface of nodes and no data plane (`weir-sim`'s), all in this process; it is reached over loopback.

use std::convert::Infallible;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_stream::pending;
use weir_api::mark::HEADER;
use weir_api::members::{Certificate, JoinRequest};
use weir_rest::dial::{connect, post};
use weir_rest::listen::{Peer, serve_dialled};
use weir_sim::node::Node;
use weir_tls::authority::{Identity, request};
use weir_tls::{NODE_PROTOCOL, Pin, client};

use super::figure;
use crate::functions::Figure;
use crate::references::process::{Folder, run};

const NODES: usize = 100;
const GRAPHS: usize = 2000;
/// Graphs of one request.
const LIST: usize = 500;
/// How long is waited for nodes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A simulated node.
#[derive(Clone)]
struct Simulated {
    node: Arc<Mutex<Node>>,
    owner: Arc<str>,
}

/// Answers as a node does.
async fn answer(
    State(at): State<Simulated>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let path = uri.path().strip_prefix("/v1").unwrap_or(uri.path());
    match path {
        // Nothing happens, and it does not end.
        "/events" => return Body::from_stream(pending::<Result<Bytes, Infallible>>()).into_response(),
        "/queries" => return r#"{"queries":[]}"#.into_response(),
        _ => {}
    }
    let mark = headers.get(HEADER).and_then(|h| h.to_str().ok()?.parse().ok());
    let mut node = at.node.lock().unwrap_or_else(PoisonError::into_inner);
    let ((status, text), _) = node.answer((&method, path), mark.as_ref(), &body, &at.owner, false);
    (status, text).into_response()
}

/// A node that has joined.
struct Joined {
    identity: Identity,
    router: Router,
}

/// The controller.
struct Controller {
    child: Child,
    weir: PathBuf,
    folder: Folder,
    port: u16,
    pin: Pin,
}

impl Drop for Controller {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Controller {
    fn start() -> Result<Controller> {
        let weir = std::env::current_exe()?.with_file_name("weir");
        ensure!(weir.exists(), "{} is not there: cargo build --release -p weir", weir.display());
        let folder = Folder::new("domain-fleet")?;
        let log = folder.file("log");
        let mut command = Command::new(&weir);
        command.args(["controller", "--listen", "127.0.0.1:0", "--store"]).arg(folder.file("c.db"));
        command.env("WEIR_LOG", "info").stdout(Stdio::null()).stderr(std::fs::File::create(&log)?);
        let child = command.spawn()?;
        let pin = Pin::of(&Vec::new().into());
        let mut controller = Controller { child, weir, folder, port: 0, pin };
        let word = |before: &str| {
            let begun = Instant::now();
            loop {
                let text = std::fs::read_to_string(&log)?;
                let rest = text.split_once(before).and_then(|(_, r)| r.split_once(char::is_whitespace));
                if let Some((word, _)) = rest {
                    return Ok(word.to_owned());
                }
                ensure!(begun.elapsed() < PATIENCE, "the controller does not say {before}: {text}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let (token, address) = (word("admin token: ")?, word("address=")?);
        let pin = word("pin=")?;
        controller.pin = pin.parse()?;
        controller.port = address.rsplit_once(':').context("its port")?.1.parse()?;
        let url = format!("https://127.0.0.1:{}", controller.port);
        controller.weir(&["context", "add", "fleet", &url, "--token", &token, "--fingerprint", &pin])?;
        Ok(controller)
    }

    fn weir(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.weir);
        command.env("HOME", self.folder.path()).env_remove("XDG_CONFIG_HOME").env("WEIR_LOG", "error");
        run(command.args(arguments), "")
    }

    /// Megabytes of memory, and seconds of processors.
    fn takes(&self) -> Result<(f64, f64)> {
        let pid = self.child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kilobytes = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next());
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let fields: Vec<&str> = stat.rsplit_once(") ").context("stat")?.1.split(' ').collect();
        let ticks = fields.get(11).context("utime")?.parse::<f64>()?
            + fields.get(12).context("stime")?.parse::<f64>()?;
        Ok((kilobytes.context("VmRSS")?.parse::<f64>()? / 1024.0, ticks / 100.0))
    }

    fn until_online(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let list: Value = serde_json::from_str(&self.weir(&["--json", "get", "nodes"])?)?;
            let nodes = list["nodes"].as_array().context("nodes")?;
            let online = nodes.iter().filter(|n| n["state"] == "online").count();
            if online == NODES {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "{online} nodes of {NODES} are online");
        }
    }

    async fn join(&self, number: usize, secret: &str) -> Result<Joined> {
        let (key, asked) = request()?;
        let asked = JoinRequest { name: format!("s{number}"), secret: secret.to_owned(), request: asked };
        let config = client::config(self.pin, None)?;
        let Certificate { chain } = post("127.0.0.1", self.port, &config, "/v1/nodes/join", &asked).await?;
        let node = Arc::new(Mutex::new(Node { number, ..Node::default() }));
        let at = Simulated { node, owner: self.pin.to_string().into() };
        Ok(Joined {
            identity: Identity { chain, key },
            router: Router::new().fallback(answer).with_state(at),
        })
    }
}

/// Connects them all, as they do that lost their controller.
fn connect_all(runtime: &Runtime, nodes: &[Joined], port: u16, pin: Pin) -> Vec<JoinHandle<Result<()>>> {
    let connect_one = |n: &Joined| {
        let (identity, router) = (n.identity.clone(), n.router.clone());
        runtime.spawn(async move {
            let config = client::config(pin, Some(&identity))?;
            let stream = connect("127.0.0.1", port, &config, NODE_PROTOCOL).await?;
            serve_dialled(stream, router, Peer { address: None, node: None, controller: true }).await?;
            anyhow::Ok(())
        })
    };
    nodes.iter().map(connect_one).collect()
}

/// A wire between two VLANs of a node.
fn document(n: usize) -> String {
    let (node, vlan) = (n % NODES + 1, 2 * (n / NODES) + 1);
    format!(
        "id: g{n}\nname: graph {n}\nnode: s{node}\nsaps:
  - {{id: l, type: vlan, vlan: {{vlan-id: {vlan}, if-name: lan}}}}
  - {{id: r, type: vlan, vlan: {{vlan-id: {}, if-name: lan}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: 'sap:r'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sap:r'}}, actions: {{output_to_port: 'sap:l'}}}}\n",
        vlan + 1
    )
}

pub fn measure(samples: usize, quick: bool, all: &mut Vec<Figure>, _: &mut Vec<String>) -> Result<()> {
    let controller = Controller::start()?;
    let mut say = |what: String, values: Vec<f64>| all.push(figure(what, "", values));
    say("controller without nodes, MB".into(), vec![controller.takes()?.0]);
    let token = controller.weir(&["token", "--uses", &NODES.to_string()])?;
    let secret = token.trim().split_once('@').context("the token")?.0;
    let runtime = Runtime::new()?;
    let nodes: Vec<Joined> = runtime.block_on(async {
        let mut nodes = Vec::new();
        for n in 1..=NODES {
            nodes.push(controller.join(n, secret).await?);
        }
        anyhow::Ok(nodes)
    })?;
    let connections = connect_all(&runtime, &nodes, controller.port, controller.pin);
    controller.until_online()?;
    let rest = Duration::from_secs(if quick { 3 } else { 10 });
    let at_rest = || -> Result<(f64, f64)> {
        let before = controller.takes()?.1;
        std::thread::sleep(rest);
        let (memory, after) = controller.takes()?;
        Ok((memory, (after - before) / rest.as_secs_f64() * 100.0))
    };
    let (memory, share) = at_rest()?;
    say(format!("controller with {NODES} nodes, MB"), vec![memory]);
    say("the same at rest, % of a processor".to_owned(), vec![share]);
    let graphs = if quick { GRAPHS / 10 } else { GRAPHS };
    let folder = controller.folder.file("graphs");
    let begun = Instant::now();
    for first in (0..graphs).step_by(LIST) {
        _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder)?;
        for n in first..graphs.min(first + LIST) {
            std::fs::write(folder.join(format!("{n}.yaml")), document(n))?;
        }
        controller.weir(&["apply", &folder.display().to_string()])?;
    }
    say(
        format!("{graphs} graphs applied, up to {LIST} in a request, s"),
        vec![begun.elapsed().as_secs_f64()],
    );
    let mut one = Vec::new();
    for n in graphs..graphs + samples.max(5) {
        let file = controller.folder.file("one.yaml");
        std::fs::write(&file, document(n))?;
        let begun = Instant::now();
        controller.weir(&["apply", &file.display().to_string()])?;
        one.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    say(format!("one more applied beside {graphs} graphs, ms"), one);
    let (memory, share) = at_rest()?;
    say(format!("controller with {NODES} nodes and {graphs} graphs, MB"), vec![memory]);
    say("the same at rest with the graphs, % of a processor".into(), vec![share]);
    // All nodes come back at once.
    connections.iter().for_each(JoinHandle::abort);
    let offline = || -> Result<bool> {
        let list: Value = serde_json::from_str(&controller.weir(&["--json", "get", "nodes"])?)?;
        Ok(list["nodes"].as_array().context("nodes")?.iter().all(|n| n["state"] == "offline"))
    };
    let begun = Instant::now();
    while !offline()? {
        ensure!(begun.elapsed() < PATIENCE, "nodes that went are still online");
    }
    let (before, begun) = (controller.takes()?.1, Instant::now());
    let _connections = connect_all(&runtime, &nodes, controller.port, controller.pin);
    controller.until_online()?;
    let took = begun.elapsed().as_secs_f64();
    say(format!("{NODES} nodes back at once, s until all are online"), vec![took]);
    std::thread::sleep(Duration::from_secs(2));
    say("processor time of the controller for that, s".into(), vec![controller.takes()?.1 - before]);
    let wrong = controller.weir(&["get", "nodes"])?.lines().filter(|l| l.contains("cannot")).count();
    ensure!(wrong == 0, "{wrong} nodes have trouble");
    drop(runtime);
    Ok(())
}
