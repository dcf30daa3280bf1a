//! `weir run`: a configuration between real hosts.

use crate::lab::{Lab, Ns, PYTHON, Process, two_networks, until, until_pings};
use crate::traffic::{Stream, big_file, sha256, web_server};

const EXAMPLE: &str = "examples/firewall-nat.click";

/// The example between two networks, with more options.
fn example<'a>(lab: &'a Lab, options: &[&str]) -> (Ns<'a>, Ns<'a>, Process) {
    two_networks(lab);
    let weir = lab.ns("node").spawn_weir(&[&["run", EXAMPLE], options].concat());
    let client = lab.ns("client");
    until_pings(&client, "10.0.1.1");
    (client, lab.ns("server"), weir)
}

#[test]
fn a_page_comes_through_firewall_and_nat() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _, weir) = example(&lab, &["--handler", "nat.nmappings"]);
    let (_, sum) = big_file(&lab, "file", 20_000_000);
    let server = web_server(&lab, "server", 80, &lab.path(""));
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "30", "-o", &got, "http://10.0.2.2/file"]).ok();
    assert_eq!(sha256(&got), sum);
    until("the server's log", || server.stderr().contains("GET /file"));
    assert!(server.stderr().lines().all(|l| l.starts_with("10.0.2.1 ")), "{}", server.stderr());
    assert_eq!(weir.interrupt().ok().trim(), "1", "one mapping");
}

#[test]
fn a_refused_port_is_answered_and_can_be_traced() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _, weir) = example(&lab, &["--drops", "--trace", "tcp dst port 22"]);
    let dump = client.spawn(&["tcpdump", "-nvl", "-c", "1", "-i", "eth0", "icmp[icmptype] == icmp-unreach"]);
    until("tcpdump", || dump.stderr().contains("listening on"));
    let e = client.run(&["curl", "-sS", "--max-time", "20", "http://10.0.2.2:22/"]).fails(7);
    assert!(e.contains("Failed to connect"), "{e}");
    let seen = dump.wait().ok();
    assert!(
        seen.contains("10.0.1.1 > 10.0.1.2: ICMP host 10.0.2.2 unreachable - admin prohibited filter"),
        "{seen}"
    );
    assert!(!seen.contains("wrong icmp cksum"), "{seen}");
    let out = weir.interrupt().ok();
    // The trace: in by lan, refused by the firewall, answered, out by lan.
    let path = ["(from lan/FromDevice", "firewall ", "ICMPError", "sent to lan"];
    let mut rest = out.as_str();
    for step in path {
        let at = rest.find(step).unwrap_or_else(|| panic!("'{step}' is missing or too early in:\n{out}"));
        rest = &rest[at..];
    }
    assert!(out.contains("REASON"), "{out}");
}

#[test]
fn iperf3_runs_with_offloads_on() {
    let lab = Lab::alone(&["client", "node", "server"]);
    let (client, server, weir) = example(&lab, &["--drops"]);
    for (ns, device) in [("client", "eth0"), ("server", "eth0"), ("node", "lan"), ("node", "wan")] {
        let features = lab.ns(ns).run(&["ethtool", "-k", device]).ok();
        for f in ["tcp-segmentation-offload: on", "tx-checksumming: on"] {
            assert!(features.contains(f), "{ns} {device}: {features}");
        }
    }
    let iperf = server.spawn(&["iperf3", "--forceflush", "-s", "-p", "5201"]);
    until("iperf3", || iperf.stdout().contains("listening"));
    for (what, options) in
        [("to the server", &[][..]), ("from the server", &["-R"]), ("four at a time", &["-P", "4"])]
    {
        let bytes = 200_000_000_u64;
        let size = bytes.to_string();
        let r = client.run(&[&["iperf3", "-c", "10.0.2.2", "-n", &size, "--json"], options].concat()).json();
        let received = r["end"]["sum_received"]["bytes"].as_u64().unwrap_or(0);
        // The receiver's count stops a little before the last segments.
        assert!(received > bytes / 10 * 9, "{what}: {received} of {bytes}: {}", r["end"]);
    }
    let drops = weir.interrupt().ok();
    assert!(!drops.contains("Truncated") && !drops.contains("Bad"), "{drops}");
}

#[test]
fn numbered_datagrams_come_once_by_the_nat() {
    let lab = Lab::alone(&["client", "node", "server"]);
    let (_client, _, weir) = example(&lab, &[]);
    let stream = Stream::start(&lab, "client", "server", "10.0.2.2", 5201, 2000);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let r = stream.all_came_once();
    assert_eq!(r.sources, ["10.0.2.1"], "{}", r.account);
    weir.interrupt().ok();
}

#[test]
fn an_interface_vanishes_and_comes_back() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _, mut weir) = example(&lab, &[]);
    let link = lab.ip("client", "-br link show eth0");
    let mac = link.split_whitespace().nth(2).unwrap();
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let page = ["curl", "-sS", "--max-time", "5", "-o", "/dev/null", "http://10.0.2.2/"];
    client.run(&page).ok();

    lab.ip("node", "link del lan");
    until("the notice", || weir.stderr().contains("device-down"));
    assert!(weir.stderr().contains("lan"), "{}", weir.stderr());
    assert!(weir.runs());

    lab.link(("node", "lan"), ("client", "eth0"));
    // The client is the same host: the example's ARP table knows it for some minutes more.
    lab.ip("client", &format!("link set eth0 address {mac}"));
    lab.ip("client", "addr add 10.0.1.2/24 dev eth0");
    lab.ip("client", "route add default via 10.0.1.1");
    until_pings(&client, "10.0.1.1");
    client.run(&page).ok();
    assert!(weir.stderr().contains("device-up"), "{}", weir.stderr());

    // Down and up without vanishing.
    lab.ip("node", "link set wan down");
    until("the notice", || weir.stderr().contains("`wan` is down"));
    lab.ip("node", "link set wan up");
    until("the page", || client.run(&page).code == 0);
    weir.interrupt().ok();
}

/// Makes a capture file with scapy.
fn pcap(lab: &Lab, name: &str, packets: &str) -> String {
    let file = lab.path(name);
    let code = format!("from scapy.all import *\nwrpcap('{file}', {packets})");
    lab.ns("node").run(&[PYTHON, "-c", &code]).ok();
    file
}

fn tcpdump(lab: &Lab, arguments: &[&str]) -> Vec<String> {
    let out = lab.ns("node").run(&[&["tcpdump", "-n", "-tt"], arguments].concat()).ok();
    out.lines().map(str::to_owned).collect()
}

#[test]
fn from_a_capture_file_to_another() {
    let lab = Lab::new(&["node"]);
    let input = pcap(
        &lab,
        "in.pcap",
        "[Ether(src='02:00:00:00:00:01', dst='02:00:00:00:00:02') / IP(src='10.0.0.1', dst='10.0.0.2') / \
          UDP(sport=1000 + i, dport=[53, 67, 80][i % 3]) / Raw(b'x' * i) for i in range(300)]",
    );
    let output = lab.path("out.pcap");
    let config = format!(
        "FromDump({input}, STOP true) -> c :: Counter -> Strip(14) -> CheckIPHeader \
         -> IPFilter(allow udp dst port 53, deny all) -> Unstrip(14) -> ToDump({output})"
    );
    let out = lab.ns("node").weir(&["run", "--drops", "-h", "c.count", "-e", &config]).ok();
    assert!(out.starts_with("c.count:\n300\n") || out.starts_with("300\n"), "{out}");
    let denied = out.lines().find(|l| l.contains("Denied")).unwrap_or_else(|| panic!("no reason in:\n{out}"));
    assert!(denied.contains("IPFilter") && denied.trim_end().ends_with("200"), "{out}");

    // The same packets, times included, as the input's.
    let want = tcpdump(&lab, &["-xx", "-r", &input, "udp dst port 53"]);
    assert_eq!(want.iter().filter(|l| l.contains("10.0.0.2.53")).count(), 100);
    assert_eq!(tcpdump(&lab, &["-xx", "-r", &output]), want);
}

#[test]
fn the_same_handlers_as_json() {
    let lab = Lab::new(&["node"]);
    let input = pcap(&lab, "in.pcap", "[Ether() / IP(dst='10.0.0.2', ttl=1) / UDP() for i in range(7)]");
    let config = format!(
        "FromDump({input}, STOP true) -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL -> c :: Counter -> Discard"
    );
    let v = lab.ns("node").weir(&["--json", "run", "-h", "c.count", "-e", &config]).json();
    assert_eq!(v["handlers"]["c.count"].as_str().unwrap().trim(), "0", "{v}");
    let reasons = v["drops"]["ttl"].as_object().unwrap();
    assert_eq!(reasons.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 7, "{v}");
}

#[test]
fn a_broken_capture_file_is_an_error_that_says_where() {
    let lab = Lab::new(&["node"]);
    let input =
        pcap(&lab, "in.pcap", "[Ether() / IP(dst='10.0.0.2') / UDP() / Raw(b'x' * 100) for i in range(10)]");
    let whole = std::fs::read(&input).unwrap();
    let cut = lab.write("cut.pcap", &whole[..whole.len() - 50]);
    let o = lab.ns("node").weir(&[
        "run",
        "-h",
        "c.count",
        "-e",
        &format!("FromDump({cut}, STOP true) -> c :: Counter -> Discard"),
    ]);
    assert_eq!((o.stdout.trim(), o.code), ("9", 1), "{o:?}");
    let at = 24 + 9 * (16 + 142);
    let message = format!("cut.pcap: the file ends inside a record (after 9 packets, at byte {at})");
    assert!(o.stderr.contains(&message), "{o:?}");

    let text = lab.write("text.pcap", "this is no capture file, whatever its name says\n");
    let e = lab.ns("node").weir(&["run", "-e", &format!("FromDump({text}, STOP true) -> Discard")]).fails(1);
    assert!(e.contains("text.pcap"), "{e}");
}

#[test]
fn vlan_tags_on_the_wire() {
    let lab = Lab::new(&["client", "a", "b", "server"]);
    lab.link(("client", "eth0"), ("a", "access"));
    lab.link(("a", "trunk"), ("b", "trunk"));
    lab.link(("b", "access"), ("server", "eth0"));
    lab.ip("client", "addr add 10.0.0.1/24 dev eth0");
    lab.ip("server", "addr add 10.0.0.2/24 dev eth0");
    // Two switches with an access port each; between them frames bear tag 42.
    let config = "FromDevice(access, PROMISC true) -> VLANEncap(42) -> Queue -> ToDevice(trunk);
                  FromDevice(trunk, PROMISC true) -> tag :: Classifier(12/8100 14/002a%0fff, -) -> VLANDecap -> Queue -> ToDevice(access);
                  tag [1] -> Discard;";
    let a = lab.ns("a").spawn_weir(&["run", "-e", config]);
    let b = lab.ns("b").spawn_weir(&["run", "-e", config]);
    let client = lab.ns("client");
    until_pings(&client, "10.0.0.2");
    let dump = lab.ns("b").spawn(&["tcpdump", "-nel", "-c", "4", "-i", "trunk", "vlan", "42", "and", "icmp"]);
    until("tcpdump", || dump.stderr().contains("listening on"));
    client.run(&["ping", "-c2", "-i0.2", "-W5", "-s", "1400", "10.0.0.2"]).ok();
    let seen = dump.wait().ok();
    assert_eq!(seen.matches("vlan 42").count(), 4, "{seen}");
    assert!(seen.contains("echo request") && seen.contains("echo reply"), "{seen}");
    let (_, sum) = big_file(&lab, "file", 2_000_000);
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let got = lab.path("got");
    // Segments that the sender's kernel left to the device have to come through with the tag as well.
    client.run(&["curl", "-sS", "--max-time", "30", "-o", &got, "http://10.0.0.2/file"]).ok();
    assert_eq!(sha256(&got), sum);
    for weir in [a, b] {
        weir.interrupt().ok();
    }
}

#[test]
fn it_ends_when_told_and_reads_handlers_then() {
    let lab = Lab::new(&["node"]);
    let config = "InfiniteSource(LIMIT 30) -> c :: Counter -> Discard";
    for end in ["INT", "TERM"] {
        let weir = lab.ns("node").spawn_weir(&[
            "run",
            "-h",
            "c.count",
            "-e",
            &format!("{config}; FromDevice(lo) -> Discard"),
        ]);
        // Sources run at once; the count stands in the handler only at the end, so wait for the device instead.
        let pid = weir.pid();
        until("the signal handler", || catches_sigint(pid));
        weir.signal(end);
        assert_eq!(weir.wait().ok().trim(), "30", "{end}");
    }
    let out = lab.ns("node").weir(&["run", "--for", "300ms", "-h", "c.count", "-e", config]).ok();
    assert_eq!(out.trim(), "30");
}

/// Whether a process has a handler for SIGINT.
fn catches_sigint(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).map(str::trim).unwrap_or("0");
    u64::from_str_radix(caught, 16).unwrap_or(0) & 0b10 != 0
}
