//! A controller and three nodes, each in a network namespace of its own, and hosts at two of them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use weir_testkit::{Namespace, link, output};

use crate::references::process::Folder;

const CONTROLLER: &str = "https://10.99.0.254:7443";
const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The hosts' Ethernet addresses, which the NAT writes.
const MACS: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:03"];

/// Between hosts at n1 and n3. Mappings outlive the measurement.
const GRAPH: &str = "
id: bench
name: bench
SFs:
  - id: nat
    name: nat
    ports: [{id: in}, {id: out}]
    fifo: 100000
    click: |
      in_0 -> Strip(14) -> CheckIPHeader
        -> nat :: IPRewriter(pattern 10.2.0.1 1024-65535 - - 0 1, drop, MAPPING_CAPACITY 400000, UDP_TIMEOUT 3600);
      nat [0] -> EtherEncap(0x0800, 02:00:00:00:02:01, 02:00:00:00:00:03) -> out_1;
      in_1 -> Strip(14) -> CheckIPHeader -> [1] nat;
      nat [1] -> EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:00:01) -> out_0;
saps:
  - {id: a, type: interface, node: n1, interface: {if-name: lan}}
  - {id: b, type: interface, node: n3, interface: {if-name: lan}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:a'}, actions: {output_to_port: 'sf:nat:in'}}
  - {id: b, priority: 1, match: {port_in: 'sf:nat:out'}, actions: {output_to_port: 'sap:b'}}
  - {id: c, priority: 1, match: {port_in: 'sap:b'}, actions: {output_to_port: 'sf:nat:out'}}
  - {id: d, priority: 1, match: {port_in: 'sf:nat:in'}, actions: {output_to_port: 'sap:a'}}
";

/// The output of `weir migrate`.
#[derive(Debug, Clone, Deserialize)]
pub struct Moved {
    pub bytes: u64,
    pub pause_micros: u64,
    /// Packets for which there was no space to wait.
    #[serde(default)]
    pub dropped: u64,
    /// Packets that tunnels between nodes lost.
    #[serde(default)]
    pub missing: u64,
}

/// A process that ends with this.
pub struct Running(Child);

impl Running {
    /// Waits for its first line, which says so.
    pub fn until_ready(&mut self) -> Result<()> {
        let output = self.0.stdout.as_mut().context("its output")?;
        let mut byte = [0];
        // What is behind the line stays where it is.
        while byte != *b"\n" {
            output.read_exact(&mut byte).context("it ended before it was ready")?;
        }
        Ok(())
    }

    /// Ends its input, and gives what it says then.
    pub fn answer(mut self) -> Result<String> {
        drop(self.0.stdin.take());
        let mut text = String::new();
        self.0.stdout.take().context("its output")?.read_to_string(&mut text)?;
        ensure!(self.0.wait()?.success(), "it failed: {text}");
        Ok(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All of it.
pub struct Lab {
    folder: Folder,
    weir: PathBuf,
    names: Vec<(&'static str, Namespace)>,
    daemons: Vec<Running>,
}

impl Lab {
    /// With the graph running, the NAT at n1.
    pub fn new() -> Result<Lab> {
        let lab = Lab::joined("migration")?;
        lab.apply("bench", GRAPH)?;
        Ok(lab)
    }

    /// With a folder of this name, and nodes that join, or have joined.
    pub fn joined(name: &str) -> Result<Lab> {
        let weir = std::env::current_exe()?.with_file_name("weir");
        ensure!(
            weir.exists(),
            "there is no {}: build it before, with cargo build --release -p weir",
            weir.display()
        );
        let mut names = Vec::new();
        for name in ["control", "n1", "n2", "n3", "h1", "h3"] {
            names.push((name, Namespace::try_new(name)?));
        }
        let mut lab = Lab { folder: Folder::new(name)?, weir, names, daemons: Vec::new() };
        lab.wire();
        lab.start()?;
        Ok(lab)
    }

    /// A namespace.
    pub fn ns(&self, name: &str) -> &Namespace {
        let found = self.names.iter().find(|(n, _)| *n == name);
        &found.unwrap_or(&self.names[0]).1
    }

    fn wire(&self) {
        let control = self.ns("control");
        control.ip("link add br0 type bridge");
        control.ip("addr add 10.99.0.254/24 dev br0");
        control.ip("link set br0 up");
        for (i, node) in NODES.iter().enumerate() {
            let port = format!("p{i}");
            link((self.ns(node), "m0"), (control, &port));
            control.ip(&format!("link set {port} master br0"));
            self.ns(node).ip(&format!("addr add 10.99.0.{}/24 dev m0", i + 1));
        }
        for (i, (node, host)) in [("n1", "h1"), ("n3", "h3")].into_iter().enumerate() {
            link((self.ns(node), "lan"), (self.ns(host), "eth0"));
            let host = self.ns(host);
            host.ip(&format!("link set eth0 address {} mtu 1400", MACS[i]));
            host.ip(&format!("addr add 10.{}.0.{}/24 dev eth0", i + 1, 2 * i + 1));
        }
        let h1 = self.ns("h1");
        h1.ip("neigh add 10.1.0.254 lladdr 02:00:00:00:01:01 dev eth0");
        h1.ip("route add 10.2.0.0/16 via 10.1.0.254");
        self.ns("h3").ip("neigh add 10.2.0.1 lladdr 02:00:00:00:02:01 dev eth0");
    }

    fn start(&mut self) -> Result<()> {
        let log = self.folder.file("controller.log");
        let store = self.file("controller.db");
        let daemon =
            self.daemon("control", &["controller", "--listen", "10.99.0.254:7443", "--store", &store], &log)?;
        self.daemons.push(daemon);
        let (token, pin) = (printed(&log, "admin token: ")?, printed(&log, "pin=")?);
        self.weir(
            "control",
            &["context", "add", "home", CONTROLLER, "--token", &token, "--fingerprint", &pin],
        )?;
        let token = self.weir("control", &["token", "--uses", "3"])?;
        for node in NODES {
            let (socket, store) = (self.file(&format!("{node}.sock")), self.file(&format!("{node}.db")));
            let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../../images");
            let command = ["node", "--socket", &socket, "--store", &store, "--images", images];
            let join = ["--join", CONTROLLER, "--name", node, "--token", token.trim()];
            let log = self.folder.file(&format!("{node}.log"));
            let daemon = self.daemon(node, &[&command[..], &join].concat(), &log)?;
            self.daemons.push(daemon);
        }
        Ok(())
    }

    /// Applies a graph as soon as there are nodes for it.
    pub fn apply(&self, id: &str, document: &str) -> Result<()> {
        let graph = self.file(&format!("{id}.yaml"));
        std::fs::write(&graph, document)?;
        let begun = Instant::now();
        while let Err(e) = self.weir("control", &["apply", &graph]) {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(e);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    /// The path of a file of its own.
    pub fn file(&self, name: &str) -> String {
        self.folder.file(name).display().to_string()
    }

    fn command(&self, namespace: &str, program: &Path) -> Command {
        let mut command = self.ns(namespace).command(&program.display().to_string());
        command.env("HOME", self.file("home")).env_remove("XDG_CONFIG_HOME").env("WEIR_LOG", "info");
        command
    }

    fn daemon(&self, namespace: &str, arguments: &[&str], log: &PathBuf) -> Result<Running> {
        let mut command = self.command(namespace, &self.weir);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
        Ok(Running(command.spawn()?))
    }

    /// Runs `weir` in a namespace.
    pub fn weir(&self, namespace: &str, arguments: &[&str]) -> Result<String> {
        Ok(output(self.command(namespace, &self.weir).args(arguments))?)
    }

    /// A part of the traffic.
    pub fn traffic(&self, host: &str, arguments: &[&str]) -> Result<Running> {
        let mut command = self.command(host, &std::env::current_exe()?);
        command.arg("--move-traffic").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Running(command.spawn()?))
    }

    /// Moves the NAT.
    pub fn migrate(&self, to: &str, plan: bool) -> Result<Moved> {
        let more: &[&str] = if plan { &["--plan"] } else { &[] };
        let text =
            self.weir("control", &[&["--json", "migrate", "bench", "nat", "--to", to], more].concat())?;
        serde_json::from_str(&text).context("what weir migrate says")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // First the daemons: they would start their data planes again.
        self.daemons.clear();
        for node in NODES {
            let socket = self.file(&format!("{node}.sock"));
            let _ = self.weir(node, &["engine", "--stop", "--socket", &socket]);
        }
    }
}

/// What stands behind a text in what a daemon wrote.
fn printed(log: &PathBuf, before: &str) -> Result<String> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(log)?;
        let word = text.split_once(before).and_then(|(_, rest)| rest.split_once(char::is_whitespace));
        if let Some((word, _)) = word {
            return Ok(word.to_owned());
        }
        if begun.elapsed() > Duration::from_secs(20) {
            bail!("the controller does not say {before:?}: {text}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
