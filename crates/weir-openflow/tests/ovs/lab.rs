//! Open vSwitch for tests: in a directory of its own, with its simulated ports, so that it needs neither root nor a network.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_openflow::connection::{Controller, ControllerEvent, Limits};
use weir_openflow::multipart::{MultipartReply, MultipartRequest, Part};
use weir_openflow::{ErrorCode, Message};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A running Open vSwitch.
pub struct Ovs {
    directory: tempfile::TempDir,
    processes: Vec<Child>,
}

impl Ovs {
    /// One with a bridge `br0` without ports, that drops what it has no entry for.
    pub fn start() -> Ovs {
        let directory = tempfile::tempdir().expect("there is place for it");
        let mut ovs = Ovs { directory, processes: Vec::new() };
        ovs.run("ovsdb-tool", &["create", "conf.db", SCHEMA]);
        ovs.spawn("ovsdb-server", &["conf.db", "--remote=punix:db.sock", "--unixctl=ovsdb.ctl"]);
        ovs.wait_for("db.sock");
        ovs.vsctl(&["--no-wait", "init"]);
        ovs.spawn(
            "ovs-vswitchd",
            &["unix:db.sock", "--enable-dummy=override", "--disable-system", "--unixctl=vswitchd.ctl"],
        );
        ovs.vsctl(&[
            "add-br",
            "br0",
            "--",
            "set",
            "bridge",
            "br0",
            "datapath_type=dummy",
            "fail_mode=secure",
            "protocols=OpenFlow13",
            "other-config:datapath-id=00000000000000ab",
        ]);
        ovs
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let directory = self.directory.path();
        let mut command = Command::new(program);
        command.args(args).current_dir(directory).stdin(Stdio::null());
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, directory);
        }
        command
    }

    fn spawn(&mut self, program: &str, args: &[&str]) {
        let log = std::fs::File::create(self.path(&format!("{program}.log"))).expect("a log can be written");
        let mut command = self.command(program, args);
        command.args(["--no-chdir", "-vconsole:warn"]).stderr(log).stdout(Stdio::null());
        self.processes.push(command.spawn().expect("Open vSwitch is installed (scripts/setup.sh)"));
    }

    /// Runs a program to its end; gives what it printed.
    pub fn run(&self, program: &str, args: &[&str]) -> String {
        let out = self.command(program, args).output().expect("Open vSwitch is installed (scripts/setup.sh)");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{program} {args:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
        text
    }

    pub fn vsctl(&self, args: &[&str]) -> String {
        self.run("ovs-vsctl", &[&["--db=unix:db.sock", "--timeout=30"], args].concat())
    }

    /// `ovs-ofctl` as a client of the bridge.
    pub fn ofctl(&self, command: &str, args: &[&str]) -> String {
        self.run(
            "ovs-ofctl",
            &[&["-O", "OpenFlow13", "--timeout=30", command, "unix:br0.mgmt"], args].concat(),
        )
    }

    pub fn appctl(&self, args: &[&str]) -> String {
        let socket = self.path("vswitchd.ctl").display().to_string();
        self.run("ovs-appctl", &[&["-t", &socket], args].concat())
    }

    /// A simulated port; what is sent there goes into `NAME.pcap`.
    pub fn add_port(&self, name: &str, number: u32) {
        let capture = format!("options:tx_pcap={name}.pcap");
        let request = format!("ofport_request={number}");
        self.vsctl(&[
            "add-port",
            "br0",
            name,
            "--",
            "set",
            "interface",
            name,
            "type=dummy",
            &request,
            &capture,
        ]);
    }

    fn wait_for(&self, name: &str) {
        eventually(|| self.path(name).exists().then_some(()));
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Asks until there is an answer.
pub fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A controller over a socket.
pub struct Client {
    stream: UnixStream,
    controller: Controller,
    start: Instant,
    /// What was said and not asked for.
    pub said: Vec<Message>,
}

impl Client {
    pub fn new(stream: UnixStream) -> Client {
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket has timeouts");
        let controller = Controller::new(Limits::default(), Duration::ZERO);
        let mut client = Client { stream, controller, start: Instant::now(), said: Vec::new() };
        client.until(|event| matches!(event, ControllerEvent::Ready(_)).then_some(()));
        client
    }

    /// Makes a bridge connect to controllers at these sockets.
    pub fn of_bridge(ovs: &Ovs, names: &[&str]) -> Vec<Client> {
        let sockets: Vec<_> =
            names.iter().map(|n| UnixListener::bind(ovs.path(n)).expect("a new name")).collect();
        let targets: Vec<String> = names.iter().map(|n| format!("unix:{}", ovs.path(n).display())).collect();
        let args: Vec<&str> =
            ["set-controller", "br0"].into_iter().chain(targets.iter().map(String::as_str)).collect();
        ovs.vsctl(&args);
        sockets.iter().map(|s| Client::new(s.accept().expect("the bridge connects").0)).collect()
    }

    pub fn features(&self) -> weir_openflow::message::Features {
        self.controller.features().cloned().expect("it is connected")
    }

    /// Runs until an event has an answer. What is said by itself is kept.
    pub fn until<T>(&mut self, mut wanted: impl FnMut(&ControllerEvent) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            while let Some(event) = self.controller.poll() {
                if let Some(found) = wanted(&event) {
                    return found;
                }
                match event {
                    ControllerEvent::Said(frame) => self.said.push(frame.message),
                    ControllerEvent::Malformed { error, .. } => {
                        panic!("Open vSwitch says something else: {error}")
                    }
                    ControllerEvent::Closed(reason) => panic!("{reason}"),
                    _ => {}
                }
            }
            assert!(start.elapsed() < PATIENCE, "it takes too long; said so far: {:?}", self.said);
            self.turn();
        }
    }

    /// Moves bytes once.
    fn turn(&mut self) {
        let now = self.start.elapsed();
        self.controller.tick(now);
        let output = self.controller.output();
        self.stream.write_all(output).expect("the other side reads");
        let written = output.len();
        self.controller.sent(written);
        let mut bytes = [0; 65536];
        match self.stream.read(&mut bytes) {
            Ok(n) => assert_eq!(self.controller.receive(&bytes[..n], now), n),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => panic!("{e}"),
        }
    }

    /// The answer to a request, or its error.
    pub fn ask(&mut self, message: Message) -> Result<Message, ErrorCode> {
        let asked = self.controller.request(message).expect("it can be asked");
        self.until(|event| match event {
            ControllerEvent::Reply { xid, message } if *xid == asked => Some(Ok(message.clone())),
            ControllerEvent::Failed { xid, error } if *xid == asked => Some(Err(error.code)),
            _ => None,
        })
    }

    /// The answer to a multipart request.
    pub fn multipart(&mut self, body: MultipartRequest) -> MultipartReply {
        match self.ask(Message::MultipartRequest(Part::of(body))) {
            Ok(Message::MultipartReply(part)) => part.body,
            other => panic!("no reply: {other:?}"),
        }
    }

    /// A change: done, or refused.
    pub fn change(&mut self, message: Message) -> Result<(), ErrorCode> {
        let changed = self.controller.request(message).expect("it can be sent");
        self.controller.request(Message::BarrierRequest).expect("it can be sent");
        self.until(|event| match event {
            ControllerEvent::Done { xid } if *xid == changed => Some(Ok(())),
            ControllerEvent::Failed { xid, error } if *xid == changed => Some(Err(error.code)),
            _ => None,
        })
    }

    /// Changes that happen together: done, or refused.
    pub fn bundle(&mut self, changes: Vec<Message>) -> Result<(), ErrorCode> {
        let changed = self.controller.bundle(changes).expect("it can be sent");
        self.until(|event| match event {
            ControllerEvent::Done { xid } if *xid == changed => Some(Ok(())),
            ControllerEvent::Failed { xid, error } if *xid == changed => Some(Err(error.code)),
            _ => None,
        })
    }

    /// Something that is said by itself, now or later.
    pub fn hear<T>(&mut self, mut wanted: impl FnMut(&Message) -> Option<T>) -> T {
        if let Some(found) = self.said.iter().find_map(&mut wanted) {
            return found;
        }
        self.until(|event| match event {
            ControllerEvent::Said(frame) => wanted(&frame.message),
            _ => None,
        })
    }
}

/// A bridge with two ports, and its controller.
pub fn bridge() -> (Ovs, Client) {
    let ovs = Ovs::start();
    ovs.add_port("p1", 1);
    ovs.add_port("p2", 2);
    let client = Client::of_bridge(&ovs, &["c1"]).pop().expect("one");
    (ovs, client)
}
