//! The node with many graphs: each a firewall between VLANs of two interfaces, applied over REST.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use weir_api::client::NodeClient;
use weir_engine::WorkerOptions;
use weir_node::{Options, serve};
use weir_protocol::{Answer, Command};

use crate::ports::lab::Lab;
use crate::stats::Spread;
use anyhow::{Context, Result, anyhow, ensure};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// How long is waited for a data plane that is started again.
const PATIENCE: Duration = Duration::from_secs(60);
/// A graph's time is the median of so many, up to it.
const WINDOW: usize = 10;
/// Graphs of one request.
const LIST: usize = 500;

/// A measured value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// What is measured, and in which unit.
    pub what: String,
    /// The figure.
    pub value: Spread,
}

/// Measures everything; says in `skipped` what could not be.
pub fn measure(quick: bool, skipped: &mut Vec<String>) -> Vec<Figure> {
    let mut all = Vec::new();
    let most = if quick { 300 } else { 2000 };
    for step in [one_by_one, in_one_request] {
        if let Err(e) = step(most, &mut all) {
            skipped.push(format!("node: {e:#}"));
        }
    }
    all
}

/// Runs the data plane: this program starts itself so.
pub fn engine(socket: &Path) -> Result<()> {
    let classes = weir_plan::Classes::with(weir_switch::CLASSES.iter().copied());
    Ok(weir_engine::serve(socket, None, classes, WorkerOptions::default())?)
}

fn one_by_one(most: usize, all: &mut Vec<Figure>) -> Result<()> {
    let node = Node::start()?;
    let before = node.engine_memory()?;
    let mut times = Vec::new();
    for n in 1..=most {
        let start = Instant::now();
        node.client.put(&id(n), &document(n, ""))?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    for n in [1, 300, 2000].into_iter().filter(|n| *n <= most) {
        let window = times[n.saturating_sub(WINDOW)..n].iter().copied();
        all.push(Figure { what: format!("graph {n} applied, ms"), value: Spread::of(window) });
    }
    let scrapes: Result<Vec<f64>> = (0..WINDOW)
        .map(|_| {
            let start = Instant::now();
            let text = node.client.metrics()?;
            ensure!(text.contains(&format!("graph=\"{}\"", id(most))), "a graph has no metrics");
            Ok(start.elapsed().as_secs_f64() * 1e3)
        })
        .collect();
    all.push(Figure { what: format!("metrics of {most} graphs read, ms"), value: Spread::of(scrapes?) });
    let bytes = (node.engine_memory()? - before) / most as f64 / 1024.0;
    all.push(Figure { what: format!("memory of one of {most} graphs, KB"), value: Spread::of([bytes]) });
    let start = Instant::now();
    kill(Pid::from_raw(node.engine()?), Signal::SIGKILL)?;
    while node.client.health()?.ready {
        std::thread::sleep(Duration::from_millis(1));
    }
    node.wait()?;
    let what = format!("{most} graphs back after the data plane was killed, s");
    all.push(Figure { what, value: Spread::of([start.elapsed().as_secs_f64()]) });
    Ok(())
}

fn in_one_request(most: usize, all: &mut Vec<Figure>) -> Result<()> {
    let node = Node::start()?;
    let most = most.min(LIST);
    let list: Result<Vec<serde_json::Value>> = (1..=most)
        .map(|n| {
            Ok(weir_model::graph::ServiceGraph::parse(&document(n, ""))
                .map_err(|e| anyhow!("{e}"))?
                .to_json())
        })
        .collect();
    let list = serde_json::to_string(&list?)?;
    let start = Instant::now();
    let applied = node.client.put_list(&list, false, false)?;
    let time = start.elapsed().as_secs_f64();
    ensure!(applied.graphs.len() == most, "{} of {most} graphs were applied", applied.graphs.len());
    let what = format!("{most} graphs applied in one request, s");
    all.push(Figure { what, value: Spread::of([time]) });
    Ok(())
}

fn id(n: usize) -> String {
    format!("t{n}")
}

/// A stateless firewall between two VLANs; `more` are further lines of its document.
pub fn document(n: usize, more: &str) -> String {
    format!(
        "id: t{n}
name: tenant {n}
{more}
SFs:
  - {{id: fw, name: packet-filter, ports: [{{id: inside}}, {{id: outside}}]}}
saps:
  - {{id: lan, type: vlan, vlan: {{vlan-id: {n}, if-name: lan}}}}
  - {{id: wan, type: vlan, vlan: {{vlan-id: {n}, if-name: wan}}}}
flowrules:
  - {{id: r1, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:fw:inside'}}}}
  - {{id: r2, priority: 1, match: {{port_in: 'sf:fw:outside'}}, actions: {{output_to_port: 'sap:wan'}}}}
  - {{id: r3, priority: 1, match: {{port_in: 'sap:wan'}}, actions: {{output_to_port: 'sf:fw:outside'}}}}
  - {{id: r4, priority: 1, match: {{port_in: 'sf:fw:inside'}}, actions: {{output_to_port: 'sap:lan'}}}}
"
    )
}

/// A daemon in this process, and a data plane of its own between two links.
pub struct Node {
    /// Its interface.
    pub client: NodeClient,
    socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<()>>>,
    dir: PathBuf,
    /// The links, and the hosts at their other ends.
    pub lab: Lab,
}

impl Node {
    /// Starts it.
    pub fn start() -> Result<Node> {
        let lab = Lab::new()?;
        let dir = std::env::temp_dir().join(lab.name("node"));
        std::fs::create_dir_all(&dir)?;
        let socket = dir.join("engine.sock");
        let program = std::env::current_exe()?;
        let arguments = ["netns", "exec", &lab.name("middle")].map(Into::into);
        let options = Options {
            revisions: 50,
            join: None,
            listen: ([127, 0, 0, 1], 0).into(),
            login: None,
            tls: false,
            hostnames: Vec::new(),
            launcher: Vec::new(),
            zygote: Vec::new(),
            socket: socket.clone(),
            store: dir.join("node.db"),
            images: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images")],
            engine_command: ["ip".into()]
                .into_iter()
                .chain(arguments)
                .chain([program.into(), "--engine".into(), socket.clone().into()])
                .collect(),
            stop_engine: true,
            upgrade: false,
            insecure_registries: Vec::new(),
            resources: weir_node::resources::Resources::of_machine(),
            overcommit: true,
            region: None,
            probes: false,
            workers: 1,
            graph_memory: 1 << 30,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
                let listener = TcpListener::bind(options.listen).await?;
                tell.send(listener.local_addr()?)?;
                Ok(serve(options, listener, async { _ = stopped.await }).await?)
            })
        });
        let address = told.recv().context("the daemon ended at once")?;
        let client = NodeClient::new(&address.to_string());
        let node = Node { client, socket, stop: Some(stop), thread: Some(thread), dir, lab };
        node.wait()?;
        Ok(node)
    }

    /// Waits until what should run runs.
    fn wait(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.client.health()?.ready {
            ensure!(Instant::now() < until, "the data plane does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The data-plane process.
    fn engine(&self) -> Result<i32> {
        match weir_protocol::Client::connect(&self.socket)?.call(Command::Hello)? {
            Answer::Hello { pid, .. } => Ok(i32::try_from(pid)?),
            other => Err(anyhow!("it answered Hello with {other:?}")),
        }
    }

    /// Bytes that it has.
    pub fn engine_memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.engine()?))?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024.0)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.stop.take());
        _ = self.thread.take().map(std::thread::JoinHandle::join);
        _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The figures as a table; nothing if there are none.
pub fn markdown(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut out = "\n## A node with many graphs\n\nGraphs of a firewall between VLANs of two interfaces, over REST, with all \
                   that is written to disk. A graph's time is the median of the ten up to it.\n\n| | |\n|---|---|\n"
        .to_owned();
    for f in figures {
        out += &format!("| {} | {} |\n", f.what, f.value.show(1));
    }
    out
}
