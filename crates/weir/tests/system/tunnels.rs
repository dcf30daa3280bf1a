//! Tunnels, with the kernel or another program at the other end.

use crate::lab::{Lab, until_pings};
use crate::traffic::{big_file, sha256, web_server};

/// A client on `lan`, and `peer`, the other end of the tunnel, behind `wan`; `TUNNEL` and `BACK` are the elements on the
/// two ways.
const CONFIG: &str = "
    lan :: FromDevice(lan) -> FinishOffloads -> TUNNEL -> arp :: ARPQuerier(10.0.2.1, 02:00:00:00:02:01)
        -> out :: Queue -> ToDevice(wan);
    FromDevice(wan) -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
    kind [0] -> ARPResponder(10.0.2.1 02:00:00:00:02:01) -> out;
    kind [1] -> [1] arp;
    kind [2] -> Strip(14) -> CheckIPHeader -> BACK -> Queue -> ToDevice(lan);
    kind [3] -> Discard;";

#[test]
fn the_kernels_vxlan_is_the_other_end() {
    let lab = Lab::new(&["client", "node", "peer"]);
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("peer", "eth0"));
    lab.ip("client", "addr add 10.7.0.1/24 dev eth0");
    lab.ip("client", "link set eth0 mtu 1450");
    lab.ip("peer", "addr add 10.0.2.2/24 dev eth0");
    lab.ip("peer", "link add vx0 type vxlan id 42 local 10.0.2.2 remote 10.0.2.1 dstport 4789 dev eth0");
    lab.ip("peer", "addr add 10.7.0.2/24 dev vx0");
    lab.ip("peer", "link set vx0 mtu 1450 up");
    let config =
        CONFIG.replace("TUNNEL", "VXLANEncap(10.0.2.1, 10.0.2.2, 42)").replace("BACK", "d :: VXLANDecap(42)");
    let file = lab.write("vxlan.click", config);
    let weir = lab.ns("node").spawn_weir(&["run", &file, "--drops", "--handler", "d.drops"]);
    let client = lab.ns("client");
    until_pings(&client, "10.7.0.2");

    // Both directions with the offloads of senders on one machine: large packets, unfinished checksums.
    let (_, sum) = big_file(&lab, "file", 5_000_000);
    let got = lab.path("got");
    let _there = web_server(&lab, "peer", 8000, &lab.path(""));
    client.run(&["curl", "-sS", "--max-time", "60", "-o", &got, "http://10.7.0.2:8000/file"]).ok();
    assert_eq!(sha256(&got), sum);
    let _here = web_server(&lab, "client", 8000, &lab.path(""));
    let back = lab.path("back");
    lab.ns("peer").run(&["curl", "-sS", "--max-time", "60", "-o", &back, "http://10.7.0.1:8000/file"]).ok();
    assert_eq!(sha256(&back), sum);

    let out = weir.interrupt().ok();
    assert!(!out.contains("BadChecksum") && !out.contains("NotSegmentable"), "{out}");
}

#[test]
fn gre_packets_of_another_program_are_understood_and_the_other_way_round() {
    let lab = Lab::new(&["node"]);
    let make = lab.write(
        "make.py",
        "import sys
from scapy.all import *
inner = IP(src='10.7.0.1', dst='10.7.0.2') / UDP(sport=1, dport=2) / b'hello'
gre = GRE(chksum_present=1, key_present=1, seqnum_present=1, key=42, sequence_number=7, proto=0x800)
wrpcap(sys.argv[1], [Ether() / IP(src='10.0.2.2', dst='10.0.2.1') / gre / inner])
wrpcap(sys.argv[2], [Ether(bytes(Ether(dst='02:00:00:00:00:01', src='02:00:00:00:00:02') / inner))])
",
    );
    let check = lab.write(
        "check.py",
        "import sys
from scapy.all import *
inner = rdpcap(sys.argv[1])[0]
assert bytes(inner[UDP].payload) == b'hello' and inner[IP].dst == '10.7.0.2', inner.show(dump=True)
p = rdpcap(sys.argv[2])[0]
g = p[GRE]
assert (g.proto, g.key, g.sequence_number) == (0x800, 42, 0), p.show(dump=True)
assert bytes(g.payload[UDP].payload) == b'hello'
claimed = g.chksum
del g.chksum
assert GRE(bytes(g)).chksum == claimed, 'checksum'
",
    );
    let [outer, plain, inner, tunnelled] =
        ["outer.pcap", "plain.pcap", "inner.pcap", "tunnelled.pcap"].map(|name| lab.path(name));
    let node = lab.ns("node");
    node.run(&[crate::lab::PYTHON, &make, &outer, &plain]).ok();
    let config = format!(
        "FromDump({outer}, STOP true) -> Strip(14) -> CheckIPHeader -> GREDecap(KEY 42) -> CheckIPHeader
             -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> ToDump({inner});
         FromDump({plain}) -> Strip(14) -> GREEncap(10.0.2.1, 10.0.2.2, KEY 42, SEQUENCE true, CHECKSUM true)
             -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> ToDump({tunnelled});"
    );
    let file = lab.write("gre.click", config);
    node.weir(&["run", &file]).ok();
    node.run(&[crate::lab::PYTHON, &check, &inner, &tunnelled]).ok();
}
