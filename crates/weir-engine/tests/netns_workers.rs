//! Two workers between hosts in network namespaces. Needs root: the test fails where it is missing.

use std::process::{Child, Stdio};
use std::sync::Arc;

use weir_engine::{Worker, WorkerOptions};
use weir_io::Netns;
use weir_plan::Classes;
use weir_protocol::{Answer, Command as Ask};
use weir_testkit::Namespace;

/// NAT for TCP and UDP, and for ICMP errors about these.
const NAT: &str = "
    FromDevice(left) -> cl :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader
        -> nat :: IPRewriter(pattern 10.9.2.1 20000-60000 - - 0 1, drop);
    FromDevice(right) -> cr :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> kind :: IPClassifier(icmp, -);
    kind[0] -> errors :: ICMPRewriter(nat) -> in :: EtherEncap(0x0800, 02:00:00:00:00:11, 02:00:00:00:00:01) -> ToDevice(left);
    kind[1] -> [1] nat [1] -> in;
    nat[0] -> EtherEncap(0x0800, 02:00:00:00:00:12, 02:00:00:00:00:02) -> ToDevice(right);
    cl[1] -> Discard; cr[1] -> Discard;
";

/// A host behind a veth link to the namespace of the engine: its address, and the gateway's.
fn host(label: &str, middle: &Namespace, net: u8) -> Namespace {
    let host = Namespace::new(label);
    host.ip(&format!("link add eth0 type veth peer name {label} netns {}", middle.name()));
    host.ip(&format!("link set eth0 address 02:00:00:00:00:0{net} up"));
    middle.ip(&format!("link set {label} up"));
    host.ip(&format!("addr add 10.9.{net}.2/24 dev eth0"));
    host.ip(&format!("neigh add 10.9.{net}.1 lladdr 02:00:00:00:00:1{net} dev eth0"));
    host.ip(&format!("route add default via 10.9.{net}.1"));
    host
}

/// A process that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Received bytes of an iperf3 run with several streams.
fn iperf(client: &Namespace, more: &[&str]) -> f64 {
    for _ in 0..40 {
        let args = ["-c", "10.9.2.2", "-J", "-P", "4", "-t", "1"];
        let out = client.command("iperf3").args(args).args(more).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        let sum = &report["end"][if more.contains(&"-u") { "sum" } else { "sum_received" }];
        if let Some(bytes) = sum["bytes"].as_f64() {
            assert_ne!(sum["lost_percent"].as_f64(), Some(100.0), "{sum}");
            return bytes;
        }
        // The server is not ready, or busy with the run before.
        std::thread::sleep(std::time::Duration::from_millis(250));
    }
    panic!("iperf3 does not connect");
}

#[test]
fn two_workers_translate_addresses_for_tcp_udp_and_errors() {
    let middle = Namespace::new("m");
    let left = host("left", &middle, 1);
    let right = host("right", &middle, 2);
    let netns = Netns::Named(middle.name().to_owned());
    let options = WorkerOptions { workers: 2, ..WorkerOptions::default() };
    let worker = Worker::start(Arc::new(Classes::default()), options, move |engine| {
        engine.set_openers(move || {
            let netns = netns.clone();
            Box::new(move |spec| spec.open_in(&netns))
        });
    })
    .unwrap();
    let call = |ask: Ask| worker.handle().call(ask).unwrap_or_else(|e| panic!("{e:?}"));
    let graph = || "g".to_owned();
    let read = |handler: &str| match call(Ask::Read { graph: graph(), handler: handler.to_owned() }) {
        Answer::Text { text } => text,
        other => panic!("{other:?}"),
    };
    let load = |config: &str| {
        call(Ask::Load {
            graph: graph(),
            config: config.to_owned(),
            file: "t".into(),
            tag: String::new(),
            scope: None,
            memory: None,
        })
    };
    load(NAT);
    // Each worker has a socket of its own on each interface.
    let sockets = middle.exec("cat /proc/net/packet");
    assert_eq!(sockets.lines().count() - 1, 4, "{sockets}");

    let server = right.command("iperf3").arg("-s").stdout(Stdio::null()).spawn().unwrap();
    let _server = Server(server);
    let tcp = iperf(&left, &[]);
    assert!(tcp > 1e6, "{tcp} bytes by TCP");
    // A swap in between changes nothing for flows.
    load(&NAT.replace("cl[1] -> Discard;", "cl[1] -> Null -> Discard;"));
    let udp = iperf(&left, &["-u", "-b", "2M"]);
    assert!(udp > 1e5, "{udp} bytes by UDP");
    let mappings: u32 = read("nat.nmappings").trim().parse().unwrap();
    assert!(mappings >= 8, "{mappings} mappings");

    // Each port that nobody listens on is reported by an ICMP error, which the kernel may give to any worker. It sends a limited
    // number of them in a moment, sometimes more and sometimes less: what is not answered is asked again, the same way.
    let script = "import socket\n\
        refused = 0\n\
        for i in range(40):\n    \
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); s.connect(('10.9.2.2', 9000 + i))\n    \
            for attempt in range(3):\n        \
                try:\n            \
                    s.send(b'x'); s.recv(10)\n        \
                except ConnectionRefusedError: refused += 1; break\n        \
                except OSError: pass\n\
        print(refused)";
    right.exec("sysctl -qw net.ipv4.icmp_ratelimit=0");
    let out = left.command("/usr/bin/python3").args(["-c", script]).output().unwrap();
    let refused = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    assert_eq!(refused, "40", "{}, drops: {}", String::from_utf8_lossy(&out.stderr), read("drops"));

    let Answer::Status { status } = call(Ask::Status { graph: graph() }) else { panic!() };
    let left_side = status.devices.iter().find(|d| d.name == "left").unwrap();
    assert!(left_side.rx_packets > 40 && left_side.tx_packets > 40, "{left_side:?}");
    call(Ask::Shutdown);
    worker.join();
}
