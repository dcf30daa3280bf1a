//! Who forwards between `lan` and `wan`.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::{Worker, WorkerOptions};
use weir_io::interface::Method;
use weir_plan::Classes;
use weir_protocol::Command as Ask;

use super::ENGINE;
use super::lab::Lab;
use crate::references::process::{Folder, Running, program, run};
use anyhow::{Context, Result, anyhow, ensure};

/// How long the engine waits awake where it is to.
const BUSY_POLL: Duration = Duration::from_millis(2);

/// A program that forwards frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarder {
    /// The engine with packet sockets.
    Packet,
    /// The same, awake for as long as packets come every two milliseconds.
    BusyPoll,
    /// The engine with AF_XDP sockets.
    Xdp,
    /// The kernel's bridge.
    Bridge,
    /// The kernel's bridge with an nftables rule that all packets pass.
    Nftables,
    /// Open vSwitch's datapath in user space.
    OpenVswitch,
    /// Nobody: one link from sender to sink.
    Wire,
}

/// A forwarding program that ends when this is dropped.
#[expect(dead_code, reason = "kept for what dropping does")]
pub enum Forwarding {
    Engine(Engine),
    Switch(Vec<Running>, Folder),
    Kernel,
}

impl Forwarder {
    /// All of them.
    pub const ALL: [Forwarder; 7] = [
        Forwarder::Wire,
        Forwarder::Packet,
        Forwarder::BusyPoll,
        Forwarder::Xdp,
        Forwarder::Bridge,
        Forwarder::Nftables,
        Forwarder::OpenVswitch,
    ];

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Forwarder::Packet => "Weir, AF_PACKET",
            Forwarder::BusyPoll => "Weir, AF_PACKET, --busy-poll 2000",
            Forwarder::Xdp => "Weir, AF_XDP",
            Forwarder::Bridge => "kernel bridge",
            Forwarder::Nftables => "kernel bridge with nftables",
            Forwarder::OpenVswitch => "Open vSwitch in user space",
            Forwarder::Wire => "one link, nobody between",
        }
    }

    /// Starts forwarding.
    pub fn start(self, lab: &Lab) -> Result<Forwarding> {
        const CROSS: &str = "FromDevice(lan) -> ToDevice(wan); FromDevice(wan) -> ToDevice(lan);";
        match self {
            Forwarder::Packet => Ok(Forwarding::Engine(Engine::start(lab, Method::Packet, CROSS)?)),
            Forwarder::BusyPoll => {
                let options = WorkerOptions { busy_poll: Some(BUSY_POLL), ..Engine::options(Method::Packet) };
                Ok(Forwarding::Engine(Engine::start_with(lab, options, CROSS)?))
            }
            Forwarder::Xdp => Ok(Forwarding::Engine(Engine::start(lab, Method::Xdp, CROSS)?)),
            Forwarder::Bridge => bridge(lab),
            Forwarder::Nftables => {
                program("nft", "nftables")?;
                let rules = "table bridge t {\nchain c {\ntype filter hook forward priority 0; policy drop;\n\
                             ip protocol udp accept\n}\n}\n";
                run(lab.command("middle", "nft").args(["-f", "-"]), rules)?;
                bridge(lab)
            }
            Forwarder::OpenVswitch => open_vswitch(lab),
            Forwarder::Wire => {
                lab.ip("middle", "link del wan")?;
                lab.ip("middle", "link del lan")?;
                let sink = lab.netns("sink").path();
                let name = sink.file_name().and_then(|n| n.to_str()).context("a namespace has a name")?;
                lab.ip("sender", &format!("link add eth0 type veth peer name eth0 netns {name}"))?;
                lab.ip("sink", &format!("link set eth0 address {}", super::lab::SINK))?;
                lab.ip("sender", "link set eth0 up")?;
                lab.ip("sink", "link set eth0 up")?;
                Ok(Forwarding::Kernel)
            }
        }
    }
}

fn bridge(lab: &Lab) -> Result<Forwarding> {
    lab.ip("middle", "link add name switch type bridge")?;
    for link in ["dev lan master switch", "dev wan master switch", "dev switch up"] {
        lab.ip("middle", &format!("link set {link}"))?;
    }
    // Otherwise it would flood until the sink has sent something.
    run(
        lab.command("middle", "bridge")
            .args(["fdb", "add", &super::lab::SINK.to_string()])
            .args(["dev", "wan", "master", "static"]),
        "",
    )?;
    Ok(Forwarding::Kernel)
}

/// The engine in a thread of this process.
pub struct Engine(Option<Worker>);

impl Engine {
    /// Runs a configuration on the interfaces in the middle.
    pub fn start(lab: &Lab, method: Method, config: &str) -> Result<Engine> {
        Engine::start_with(lab, Engine::options(method), config)
    }

    fn options(method: Method) -> WorkerOptions {
        let core = std::thread::available_parallelism().is_ok_and(|n| n.get() > ENGINE).then_some(ENGINE);
        WorkerOptions { core, method, ..WorkerOptions::default() }
    }

    fn start_with(lab: &Lab, options: WorkerOptions, config: &str) -> Result<Engine> {
        let netns = lab.netns("middle");
        let worker = Worker::start(Arc::new(Classes::default()), options, move |engine| {
            engine.set_opener(Box::new(move |spec| spec.open_in(&netns)));
        })?;
        let engine = Engine(Some(worker));
        let load = Ask::Load {
            graph: "g".into(),
            config: config.into(),
            file: "bench".into(),
            tag: String::new(),
            scope: None,
            memory: None,
        };
        let worker = engine.0.as_ref().context("the worker runs")?;
        worker.handle().call(load).map_err(|e| anyhow!(e.join("; ")))?;
        // Compiled code replaces the interpreter within this.
        std::thread::sleep(Duration::from_millis(500));
        Ok(engine)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(worker) = self.0.take() {
            _ = worker.handle().call(Ask::Shutdown);
            worker.join();
        }
    }
}

/// The switch with its data base, in the middle.
fn open_vswitch(lab: &Lab) -> Result<Forwarding> {
    for tool in ["ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl"] {
        program(tool, "openvswitch-switch")?;
    }
    let folder = Folder::new("ovs-veth")?;
    let environment = |command: &mut Command| {
        let names = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"];
        command.envs(names.map(|name| (name, folder.path())));
    };
    let file = |name: &str| folder.file(name).display().to_string();
    let socket = format!("unix:{}", file("db.sock"));
    let mut create = Command::new("ovsdb-tool");
    run(create.args(["create", &file("conf.db"), "/usr/share/openvswitch/vswitch.ovsschema"]), "")?;
    let mut database = Command::new("ovsdb-server");
    environment(&mut database);
    database.args([file("conf.db"), format!("--remote=p{socket}"), format!("--log-file={}", file("db.log"))]);
    let database = Running::start(database.arg("-vconsole:off"))?;
    appears(&folder, "db.sock")?;
    let vsctl = |arguments: &str| {
        let mut command = Command::new("ovs-vsctl");
        command.args([format!("--db={socket}"), "--timeout=30".into()]);
        run(command.args(arguments.split(' ')), "")
    };
    vsctl("--no-wait init")?;
    let mut switch = lab.command("middle", "ovs-vswitchd");
    environment(&mut switch);
    switch.args([&socket, "-vconsole:off"]);
    switch.args([format!("--unixctl={}", file("ctl")), format!("--log-file={}", file("switch.log"))]);
    let switch = Running::start(&mut switch)?;
    appears(&folder, "ctl")?;
    vsctl("add-br b -- set bridge b datapath_type=netdev")?;
    vsctl("add-port b lan -- add-port b wan")?;
    std::thread::sleep(Duration::from_millis(500));
    Ok(Forwarding::Switch(vec![switch, database], folder))
}

fn appears(folder: &Folder, name: &str) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(20);
    while !folder.file(name).exists() {
        ensure!(Instant::now() < end, "{name} did not appear: see the logs of Open vSwitch");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
