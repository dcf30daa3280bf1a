//! What the verifier says of iptables rules, beside what the kernel does with them.

use std::fmt::Write as _;

use serde_json::Value;

use crate::lab::{Lab, PYTHON, host};

const RULES: &str = "\
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:web - [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -m state --state INVALID -j DROP
-A FORWARD -s 10.77.1.0/24 -i lan -p udp -m udp --dport 53 -j ACCEPT
-A FORWARD -i lan -p tcp -m multiport --dports 80,443,8000:8010 -j web
-A FORWARD -i lan -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A FORWARD -d 10.77.1.2/32 -i wan -p tcp -m tcp --dport 80 -j ACCEPT
-A FORWARD -o wa+ -p udp -m udp --sport 7000:7010 -j REJECT --reject-with icmp-admin-prohibited
-A FORWARD ! -i wan -p udp -m udp ! --dport 1:6999 -j ACCEPT
-A web -p tcp -m tcp --dport 8000:8005 --tcp-flags FIN,SYN,RST,ACK SYN -j RETURN
-A web -j ACCEPT
COMMIT
";
const NAT: &str = "\
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -i wan -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.77.1.2:80
-A POSTROUTING -s 10.77.1.0/24 -o wan -p tcp -m tcp --dport 443 -j SNAT --to-source 10.77.2.1:40000-40010
-A POSTROUTING -s 10.77.1.0/24 -o wan -j MASQUERADE
COMMIT
";

/// Packets from `lan`: as scapy makes them, and as the filter language describes them on arrival.
const OUT: [(&str, &str); 14] = [
    ("UDP(sport=1001, dport=53)", "udp src port 1001 and udp dst port 53"),
    ("UDP(sport=1002, dport=54)", "udp src port 1002 and udp dst port 54"),
    ("UDP(sport=1003, dport=7000)", "udp src port 1003 and udp dst port 7000"),
    ("UDP(sport=7005, dport=7000)", "udp src port 7005 and udp dst port 7000"),
    ("UDP(sport=1004, dport=6999)", "udp src port 1004 and udp dst port 6999"),
    ("TCP(sport=1005, dport=80, flags='S')", "tcp src port 1005 and tcp dst port 80 and tcp[13] & 23 = 2"),
    ("TCP(sport=1006, dport=80, flags='A')", "tcp src port 1006 and tcp dst port 80 and tcp[13] & 23 = 16"),
    ("TCP(sport=1007, dport=80, flags='SA')", "tcp src port 1007 and tcp dst port 80 and tcp[13] & 23 = 18"),
    ("TCP(sport=1008, dport=80, flags='R')", "tcp src port 1008 and tcp dst port 80 and tcp[13] & 23 = 4"),
    (
        "TCP(sport=1009, dport=8003, flags='S')",
        "tcp src port 1009 and tcp dst port 8003 and tcp[13] & 23 = 2",
    ),
    (
        "TCP(sport=1010, dport=8008, flags='S')",
        "tcp src port 1010 and tcp dst port 8008 and tcp[13] & 23 = 2",
    ),
    ("TCP(sport=1011, dport=81, flags='S')", "tcp src port 1011 and tcp dst port 81"),
    ("ICMP(type=8, id=1012)", "icmp type 8"),
    ("ICMP(type=0, id=1013)", "icmp type 0"),
];
/// Packets to `lan`, which is asked for by the router's own address with translation.
const IN: [(&str, &str); 4] = [
    ("TCP(sport=2001, dport=80, flags='S')", "tcp src port 2001 and tcp dst port 80"),
    ("TCP(sport=2002, dport=81, flags='S')", "tcp src port 2002 and tcp dst port 81"),
    ("UDP(sport=2003, dport=53)", "udp src port 2003 and udp dst port 53"),
    ("ICMP(type=8, id=2004)", "icmp type 8"),
];

fn topology(stateful: &str) -> String {
    format!(
        "version: 1
boxes:
  lan: {{kind: host, owns: 10.77.1.2, sources: own}}
  wan: {{kind: host, owns: 10.77.2.2, sources: own}}
  gw:
    kind: router
    interfaces: {{lan: 10.77.1.1/24, wan: 10.77.2.1/24}}
    firewall: {{file: {stateful}}}
links: [lan - gw:lan, gw:wan - wan]
"
    )
}

/// What `weir check` says of each requirement, and how many packets it takes to show it.
fn verdicts(file: &str, requirements: &[String]) -> Vec<(String, usize)> {
    let mut argv = vec!["--json", "check", file];
    argv.extend(requirements.iter().flat_map(|r| ["-r", r.as_str()]));
    let out = crate::lab::weir(&argv);
    assert!(out.code <= 2, "{out:?}");
    let report: Value = serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let findings = report["findings"].as_array().unwrap();
    let packets = |f: &Value| f["packets"].as_array().map_or(0, Vec::len);
    findings.iter().map(|f| (f["verdict"].as_str().unwrap().to_owned(), packets(f))).collect()
}

/// A router with rules between two hosts, whose packets are made by hand.
fn lab(rules: &str) -> Lab {
    let lab = Lab::new(&["lan", "gw", "wan"]);
    for (n, (name, mac)) in
        [("lan", "02:00:00:00:00:11"), ("wan", "02:00:00:00:00:12")].into_iter().enumerate()
    {
        lab.link(("gw", name), (name, "eth0"));
        lab.ip("gw", &format!("addr add 10.77.{}.1/24 dev {name}", n + 1));
        lab.ip("gw", &format!("link set {name} address 02:00:00:00:00:0{}", n + 1));
        lab.ip(name, &format!("link set eth0 address {mac}"));
        lab.ip("gw", &format!("neigh replace 10.77.{}.2 lladdr {mac} dev {name}", n + 1));
    }
    let gw = lab.ns("gw");
    gw.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]).ok();
    let file = lab.write("rules.v4", rules);
    gw.run(&["iptables-restore", &file]).ok();
    lab
}

/// Sends packets, each once, from a side to an address, and says which came out at the other side.
fn passed(lab: &Lab, from: &str, to: &str, dst: &str, packets: &[&str]) -> Vec<bool> {
    let (own, next) = if from == "lan" { ("10.77.1.2", 1) } else { ("10.77.2.2", 2) };
    let mut text = String::from("import sys, json\nfrom scapy.all import *\npackets = [\n");
    for (i, p) in packets.iter().enumerate() {
        // The identification says which packet it is: nothing changes that.
        let _ = writeln!(text, "  IP(src='{own}', dst='{dst}', id={}) / {p} / b'x',", 5000 + i);
    }
    let _ = writeln!(
        text,
        "]\nsendp([Ether(dst='02:00:00:00:00:0{next}') / p for p in packets], iface='eth0', verbose=0)"
    );
    let sender = lab.write("send.py", text);
    let capture = format!(
        "from scapy.all import *
import sys
def ready(): print('ready', flush=True)
found = sniff(iface='eth0', timeout=4, started_callback=ready, lfilter=lambda p: IP in p and 5000 <= p[IP].id < {})
print(' '.join(str(p[IP].id - 5000) for p in found if p[Ether].src != get_if_hwaddr('eth0')))
",
        5000 + packets.len()
    );
    let sniffer = lab.write("sniff.py", capture);
    let listening = lab.ns(to).spawn(&[PYTHON, &sniffer]);
    crate::lab::until("the sniffer listens", || listening.stdout().contains("ready"));
    lab.ns(from).run(&[PYTHON, &sender]).ok();
    let out = listening.wait().ok();
    let came: Vec<usize> = out.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    (0..packets.len()).map(|i| came.contains(&i)).collect()
}

/// Holds the kernel's answers against those of the verifier, as far as it has some.
fn compare(lab: &Lab, file: &str, (from, to, dst): (&str, &str, &str), packets: &[(&str, &str)]) {
    let made: Vec<&str> = packets.iter().map(|(p, _)| *p).collect();
    let kernel = passed(lab, from, to, dst, &made);
    let asked: Vec<String> = packets.iter().map(|(_, filter)| format!("can {from} {to} {filter}")).collect();
    let verifier = verdicts(file, &asked);
    assert!(kernel.contains(&true) && kernel.contains(&false), "{kernel:?}");
    // What is not known does not contradict, but is not much either. What takes packets before it, such as those that opened
    // a connection, was not tried with the kernel.
    let contradicts = |((verdict, packets), passed): (&(String, usize), &bool)| match verdict.as_str() {
        "holds" => !passed && *packets == 1,
        "violated" => *passed,
        _ => false,
    };
    let said: Vec<_> = packets.iter().zip(verifier.iter().zip(&kernel)).collect();
    assert!(!verifier.iter().zip(&kernel).any(contradicts), "{said:#?}");
    let known = verifier.iter().filter(|(v, _)| v != "inconclusive").count();
    assert!(known > 0, "{said:#?}");
}

#[test]
fn rules_let_pass_what_the_kernel_lets_pass() {
    host(&["iptables-restore", "--version"]).ok();
    let lab = lab(RULES);
    lab.write("gw.rules", RULES);
    let file = lab.write("network.yaml", topology("gw.rules"));
    compare(&lab, &file, ("lan", "wan", "10.77.2.2"), &OUT);
    compare(&lab, &file, ("wan", "lan", "10.77.1.2"), &IN);
}

#[test]
fn translated_packets_are_what_the_kernel_makes_of_them() {
    let rules = format!("{RULES}{NAT}");
    let lab = lab(&rules);
    lab.write("gw.rules", &rules);
    let file = lab.write("network.yaml", topology("gw.rules"));
    // Own source ports stay, so the same filters fit.
    compare(&lab, &file, ("lan", "wan", "10.77.2.2"), &OUT);
    let port = |n: u16| format!("TCP(sport=2005, dport={n}, flags='S')");
    let to = [port(8080), port(8081)];
    let kernel = passed(&lab, "wan", "lan", "10.77.2.1", &[to[0].as_str(), to[1].as_str()]);
    assert_eq!(kernel, [true, false]);
    let said = verdicts(
        &file,
        &[
            "can wan lan tcp dst port 80".into(),
            "return lan wan udp dst port 53".into(),
            "return wan lan tcp dst port 80".into(),
            "invariant lan wan ip src".into(),
        ],
    );
    let said: Vec<&str> = said.iter().map(|(verdict, _)| verdict.as_str()).collect();
    assert_eq!(said, ["holds", "holds", "holds", "violated"]);
}
