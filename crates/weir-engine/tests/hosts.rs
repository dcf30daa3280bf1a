//! Virtual interfaces in graphs, with the kernel's stack at the other end. Needs root: the tests fail where it is missing.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_engine::{Engine, Until};
use weir_io::Netns;
use weir_plan::Classes;
use weir_testkit::Namespace;

/// Runs a configuration in a namespace of its own, with its kernel, while `line` runs there; gives what handlers say after
/// the line has succeeded.
fn run(label: &str, config: &str, line: &str, handlers: &[&str]) -> Vec<String> {
    let ns = Namespace::new(label);
    // As on any machine, the kernel sends by itself, too.
    ns.exec("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0");
    let inside = || {
        let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
        engine.load("g", config, "test").unwrap();
        let (flag, waker) = (Arc::new(AtomicBool::new(false)), engine.waker());
        let until = Until { flag: Some(flag.clone()), ..Until::default() };
        let done = std::thread::scope(|scope| {
            let command = scope.spawn(|| {
                // The thread inherits the namespace, and so does the command.
                let done = Command::new("sh").args(["-c", line]).output().unwrap();
                flag.store(true, Ordering::Relaxed);
                waker.wake();
                done
            });
            engine.run(&until).unwrap();
            command.join().unwrap()
        });
        assert!(
            done.status.success(),
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        let text = |h: &&str| engine.read("g", h).unwrap();
        handlers.iter().map(text).collect()
    };
    Netns::Named(ns.name().to_owned()).run(inside).unwrap()
}

const PING: &str = "ping -c 5 -i 0.01 -W 2 10.9.9.7";

/// What answers pings that come over Ethernet, between two elements.
const ANSWER: &str = "-> c :: Classifier(12/0806 20/0001, 12/0800, -);
    c[0] -> ARPResponder(0.0.0.0/0 02:00:00:00:00:02) -> out :: Null;
    c[1] -> Strip(14) -> CheckIPHeader -> IPClassifier(icmp type echo) -> ICMPPingResponder
        -> EtherEncap(0x0800, 02:00:00:00:00:02, 00:01:02:03:04:05) -> out;
    c[2] -> Discard;";

#[test]
fn a_tap_exchanges_frames_with_the_kernel() {
    let config = format!("tap :: KernelTap(10.9.9.1/24, DEVNAME k0) {ANSWER} out -> tap;");
    let got = run("tap", &config, PING, &["tap.dev_name", "tap.count", "tap.drops"]);
    assert_eq!((got[0].as_str(), got[2].as_str()), ("k0", "0"));
    assert!(got[1].parse::<u64>().unwrap() >= 6, "one ARP answer and five echoes: {got:?}");
}

#[test]
fn frames_to_a_tap_may_be_pulled() {
    let config = format!("tap :: KernelTap(10.9.9.1/24) {ANSWER} out -> Queue -> tap;");
    let got = run("pull", &config, PING, &["tap.dev_name", "tap.count"]);
    assert!(got[0].starts_with("tap"));
    assert!(got[1].parse::<u64>().unwrap() >= 6, "{got:?}");
}

#[test]
fn from_host_and_to_host_share_an_interface() {
    let config = format!(
        "FromHost(fake, 10.9.9.1/24, ETHER 00:01:02:03:04:05) {ANSWER} out -> to :: ToHost(fake);
         Idle -> ToHost(fake);"
    );
    let got = run("host", &config, PING, &["to.dev_name", "to.count", "to.drops"]);
    assert_eq!((got[0].as_str(), got[2].as_str()), ("fake", "0"));
    assert!(got[1].parse::<u64>().unwrap() >= 6, "{got:?}");
}

#[test]
fn a_tun_exchanges_ip_packets_with_the_kernel() {
    let config = "tun :: KernelTun(10.9.9.1/24) -> IPClassifier(icmp type echo) -> ICMPPingResponder -> tun;";
    let got = run("tun", config, PING, &["tun.packets", "tun.count"]);
    assert!(got[0].parse::<u64>().unwrap() >= 5 && got[1] == "5", "{got:?}");
}

#[test]
fn a_module_exchanges_ip_packets_with_its_platform() {
    let config = "FromNetfront() -> c :: Counter -> IPClassifier(icmp type echo) -> ICMPPingResponder -> d :: Counter \
                  -> ToNetfront();";
    let line = format!("ip addr add 10.9.9.1/24 dev netfront0 && ip link set netfront0 up && {PING}");
    let got = run("netfront", config, &line, &["c.count", "d.count"]);
    assert!(got[0].parse::<u64>().unwrap() >= 5 && got[1] == "5", "{got:?}");
}

#[test]
fn wrong_arguments_are_told() {
    let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
    for (config, error) in [
        ("KernelTap(10.9.9.1) -> Discard;", "like 10.0.0.1/8"),
        ("KernelTun(10.9.9.1/24, 10.8.0.1) -> Discard;", "network of 10.9.9.1/24"),
        ("FromHost(\"\") -> Discard;", "DEVNAME"),
        ("FromDevice(lo, METHOD FAST) -> Discard;", "AUTO, PACKET or XDP"),
    ] {
        let text = engine.load("g", config, "test").unwrap_err().texts().join("; ");
        assert!(text.contains(error), "{config}: {text}");
    }
}
