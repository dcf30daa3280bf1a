//! Real devices in network namespaces. Needs root: the tests fail where it is missing.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::{Worker, WorkerOptions};
use weir_io::Netns;
use weir_plan::Classes;
use weir_protocol::{Answer, Command as Ask, DeviceStatus, Event};
use weir_testkit::{Hosts, Namespace, link};

/// Two hosts, and an engine in a namespace between them.
struct Between {
    hosts: Hosts,
    worker: Option<Worker>,
}

impl Between {
    fn new() -> Between {
        let hosts = Hosts::new();
        let netns = Netns::Named(hosts.middle.name().to_owned());
        let worker = Worker::start(Arc::new(Classes::default()), WorkerOptions::default(), move |engine| {
            engine.set_opener(Box::new(move |spec| spec.open_in(&netns)));
        });
        Between { hosts, worker: Some(worker.unwrap()) }
    }

    fn call(&self, command: Ask) -> Answer {
        self.worker.as_ref().unwrap().handle().call(command).unwrap()
    }

    fn load(&self, config: &str) {
        self.call(Ask::Load {
            graph: "g".into(),
            config: config.into(),
            file: "t".into(),
            tag: String::new(),
            scope: None,
            memory: None,
        });
    }

    fn device(&self, name: &str) -> DeviceStatus {
        let Answer::Status { status } = self.call(Ask::Status { graph: "g".into() }) else { panic!() };
        status.devices.into_iter().find(|d| d.name == name).unwrap()
    }

    fn ping(&self, count: u32) {
        let out = self.hosts.left.exec(&format!("ping -c {count} -i 0.01 -W 2 10.9.0.2"));
        assert!(out.contains(" 0% packet loss"), "{out}");
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let Some(worker) = self.worker.take() else { return };
        let _ = worker.handle().call(Ask::Shutdown);
        worker.join();
    }
}

const BRIDGE: &str =
    "FromDevice(left) -> Null -> ToDevice(right); FromDevice(right) -> Queue -> ToDevice(left);";

#[test]
fn two_hosts_reach_each_other_through_the_engine() {
    let net = Between::new();
    net.load(BRIDGE);
    net.ping(20);
    // UDP, 200 datagrams there and back.
    let mut server = Command::new("ip")
        .args(["netns", "exec", net.hosts.right.name(), "/usr/bin/python3", "-c"])
        .arg(
            "import socket\n\
             s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('10.9.0.2', 9)); s.settimeout(20)\n\
             print('ready', flush=True)\n\
             for _ in range(200): d, a = s.recvfrom(2000); s.sendto(d[::-1], a)",
        )
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(server.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    let client = Command::new("ip")
        .args(["netns", "exec", net.hosts.left.name(), "/usr/bin/python3", "-c"])
        .arg(
            "import socket\n\
             s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10)\n\
             for i in range(200):\n\
             \x20 d = b'%d-' % i + b'x' * (i * 6); s.sendto(d, ('10.9.0.2', 9)); assert s.recv(2000) == d[::-1]",
        )
        .status()
        .unwrap();
    assert!(client.success());
    assert!(server.wait().unwrap().success());
    let (left, right) = (net.device("left"), net.device("right"));
    assert!(left.rx_packets >= 221 && right.tx_packets == left.rx_packets, "{left:?} {right:?}");
    assert_eq!((left.state.as_str(), right.tx_dropped, left.tx_dropped), ("up", 0, 0));
}

#[test]
fn swaps_under_traffic_lose_no_packet() {
    let net = Between::new();
    net.load(BRIDGE);
    net.ping(1);
    let mut ping = Command::new("ip")
        .args([
            "netns",
            "exec",
            net.hosts.left.name(),
            "ping",
            "-q",
            "-c",
            "300",
            "-i",
            "0.005",
            "-W",
            "2",
            "10.9.0.2",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let other = "FromDevice(left) -> Queue -> Unqueue -> ToDevice(right); FromDevice(right) -> Null -> ToDevice(left);";
    let mut swaps = 0;
    while ping.try_wait().unwrap().is_none() {
        net.load(if swaps % 2 == 0 { other } else { BRIDGE });
        swaps += 1;
    }
    let mut out = String::new();
    std::io::Read::read_to_string(&mut ping.stdout.take().unwrap(), &mut out).unwrap();
    assert!(out.contains("300 received, 0% packet loss"), "{out} after {swaps} swaps");
    assert!(swaps > 20);
}

#[test]
fn an_interface_that_vanishes_is_told_and_used_again_when_it_is_back() {
    let net = Between::new();
    let (events, heard) = std::sync::mpsc::channel();
    let handle = net.worker.as_ref().unwrap().handle();
    handle.stream(1, Ask::Subscribe, Box::new(move |e| events.send(e).is_ok())).unwrap();
    net.load(BRIDGE);
    net.ping(2);
    net.hosts.middle.ip("link del right");
    let wait = |wanted: &str| loop {
        match heard.recv_timeout(Duration::from_secs(10)).unwrap() {
            Event::Notice { what, text, .. } if what == wanted && text.contains("right") => return text,
            _ => {}
        }
    };
    wait("device-down");
    let start = Instant::now();
    while !net.device("right").state.contains("there is no interface `right`") {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", net.device("right"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(net.device("left").state, "up");
    link((&net.hosts.middle, "right"), (&net.hosts.right, "eth0"));
    net.hosts.right.ip("addr add 10.9.0.2/24 dev eth0");
    wait("device-up");
    assert_eq!(net.device("right").state, "up");
    // The right host has a new hardware address.
    net.hosts.left.ip("neigh flush all");
    net.ping(5);
}

#[test]
fn an_idle_engine_sleeps() {
    let net = Between::new();
    net.load(BRIDGE);
    net.ping(3);
    let ticks = || {
        let task = std::fs::read_dir("/proc/self/task").unwrap().flatten().find(|t| {
            std::fs::read_to_string(t.path().join("comm")).is_ok_and(|c| c.trim() == "weir-worker")
        });
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        let fields: Vec<u64> =
            stat.rsplit(')').next().unwrap().split_whitespace().map(|f| f.parse().unwrap_or(0)).collect();
        fields[11] + fields[12]
    };
    let before = ticks();
    std::thread::sleep(Duration::from_millis(500));
    assert!(ticks() - before <= 10, "the thread used the processor while nothing happened");
}

/// Traffic goes on while an interface goes down and up, away and back, and into another namespace and back.
fn interfaces_come_and_go_under_traffic(method: &str) {
    let net = Between::new();
    let (events, heard) = std::sync::mpsc::channel();
    let handle = net.worker.as_ref().unwrap().handle();
    handle.stream(1, Ask::Subscribe, Box::new(move |e| events.send(e).is_ok())).unwrap();
    net.load(&format!(
        "FromDevice(left, METHOD {method}) -> Null -> ToDevice(right);
         FromDevice(right, METHOD {method}) -> Null -> ToDevice(left);"
    ));
    let mut traffic = Command::new("ip")
        .args(["netns", "exec", net.hosts.left.name(), "ping", "-q", "-i", "0.002", "10.9.0.2"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let works = || {
        let start = Instant::now();
        loop {
            let ping = [
                "netns",
                "exec",
                net.hosts.left.name(),
                "ping",
                "-c",
                "3",
                "-i",
                "0.01",
                "-W",
                "1",
                "10.9.0.2",
            ];
            if Command::new("ip").args(ping).output().unwrap().status.success() {
                return;
            }
            let devices = (net.device("left"), net.device("right"));
            assert!(start.elapsed() < Duration::from_secs(30), "no way through: {devices:?}");
            // The right host may have a new hardware address.
            net.hosts.left.ip("neigh flush all");
        }
    };
    let wait = |wanted: &str| loop {
        match heard.recv_timeout(Duration::from_secs(20)).unwrap() {
            Event::Notice { what, text, .. } if what == wanted && text.contains("right") => return,
            _ => {}
        }
    };
    let again = || {
        link((&net.hosts.middle, "right"), (&net.hosts.right, "eth0"));
        net.hosts.right.ip("addr add 10.9.0.2/24 dev eth0");
    };
    let other = Namespace::new("o");
    let mut received = 0;
    let mut counted = || {
        let now = net.device("right").rx_packets;
        assert!(now > received, "counts go on: {now} after {received}");
        received = now;
    };
    works();
    counted();

    net.hosts.middle.ip("link set right down");
    wait("device-down");
    net.hosts.middle.ip("link set right up");
    wait("device-up");
    works();
    counted();

    net.hosts.middle.ip("link del right");
    wait("device-down");
    again();
    wait("device-up");
    works();
    counted();

    net.hosts.middle.ip(&format!("link set right netns {}", other.name()));
    wait("device-down");
    again_after_move(&net, &other);
    wait("device-up");
    works();
    counted();
    assert_eq!(net.device("left").state, "up");
    traffic.kill().unwrap();
    traffic.wait().unwrap();
}

/// The interface comes back from the other namespace.
fn again_after_move(net: &Between, other: &Namespace) {
    other.ip(&format!("link set right netns {}", net.hosts.middle.name()));
    net.hosts.middle.ip("link set right up");
}

#[test]
fn interfaces_with_packet_sockets_come_and_go_under_traffic() {
    interfaces_come_and_go_under_traffic("PACKET");
}

#[test]
fn interfaces_with_xdp_sockets_come_and_go_under_traffic() {
    interfaces_come_and_go_under_traffic("XDP");
}

#[test]
fn the_method_is_chosen_by_the_graph_and_told() {
    let net = Between::new();
    net.load(BRIDGE);
    assert_eq!(
        net.device("left").method,
        "AF_PACKET: packets of local senders pass unsegmented, up to 64 KB each"
    );
    net.ping(2);
    net.load(
        "f :: FromDevice(left, METHOD XDP) -> Null -> ToDevice(right, METHOD XDP);
         FromDevice(right) -> ToDevice(left);",
    );
    assert_eq!(net.device("left").method, "AF_XDP (native, queue 0): as asked for");
    let Answer::Text { text } = net.call(Ask::Read { graph: "g".into(), handler: "f.method".into() }) else {
        panic!("a handler answers with text")
    };
    assert_eq!(text, net.device("left").method);
    net.ping(5);
    net.load("FromDevice(left, METHOD PACKET) -> ToDevice(right); FromDevice(right) -> ToDevice(left);");
    assert_eq!(net.device("left").method, "AF_PACKET: as asked for");
    net.ping(5);
}

/// What ends in a device is counted with its reason, by each method.
fn frames_that_cannot_be_sent_are_counted(method: &str) {
    let net = Between::new();
    net.hosts.middle.ip("link set right mtu 1000");
    net.load(&format!(
        "FromDevice(left, METHOD {method}) -> t :: ToDevice(right, METHOD {method}); FromDevice(right) -> ToDevice(left);"
    ));
    net.ping(2);
    let drops = |reason: &str| {
        let Answer::Status { status } = net.call(Ask::Status { graph: "g".into() }) else { panic!() };
        status.drops.get("t").and_then(|of| of.get(reason)).copied().unwrap_or(0)
    };
    let pings = |args: &str| {
        let args = format!("-c 3 -i 0.01 -W 0.1 {args} 10.9.0.2");
        _ = net.hosts.left.command("ping").args(args.split_whitespace()).output().unwrap();
    };
    let until = |what: &str, come: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !come() {
            assert!(start.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(drops("TooLong"), 0);
    pings("-s 1200 -M dont");
    until("frames beyond the MTU", &|| drops("TooLong") == 3);
    net.hosts.middle.ip("link set right down");
    until("frames for an interface that is down", &|| {
        pings("");
        drops("DeviceDown") > 0
    });
    let Answer::Text { text } = net.call(Ask::Read { graph: "g".into(), handler: "t.drops".into() }) else {
        panic!()
    };
    assert!(text.parse::<u64>().unwrap() > 3, "{text}");
}

#[test]
fn frames_that_packet_sockets_cannot_send_are_counted() {
    frames_that_cannot_be_sent_are_counted("PACKET");
}

#[test]
fn frames_that_xdp_sockets_cannot_send_are_counted() {
    frames_that_cannot_be_sent_are_counted("XDP");
}
