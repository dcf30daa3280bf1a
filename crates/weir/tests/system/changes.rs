//! `weir check` about changes and about what packets reach.

use serde_json::Value;

use crate::lab::{Lab, weir};

const OLD: &str = "FromDevice(lan) -> Strip(14) -> CheckIPHeader
    -> fw :: IPFilter(allow tcp dst port 80, deny all)
    -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Queue -> ToDevice(wan);";

#[test]
fn two_documents_are_compared() {
    let lab = Lab::new(&[]);
    let old = lab.write("old.click", OLD);
    let new = lab.write("new.click", OLD.replace("deny all", "allow udp dst port 53, deny all"));
    assert!(weir(&["check", &old, &old]).ok().contains("no traffic is treated differently"));
    let pcap = lab.path("packets.pcapng");
    let out = weir(&["check", &old, &new, "--pcap", &pcap]);
    assert_eq!(out.code, 1, "{out:?}");
    assert!(out.stdout.contains("different: from lan"), "{}", out.stdout);
    assert!(out.stdout.contains("before: dropped: Denied"), "{}", out.stdout);
    assert!(out.stdout.contains("after:  arrives at wan"), "{}", out.stdout);
    assert!(
        out.stdout.contains("rule 2 'allow udp dst port 53'"),
        "the path after the change is shown: {}",
        out.stdout
    );
    assert!(std::fs::metadata(&pcap).unwrap().len() > 0);
    let json: Value = serde_json::from_str(&weir(&["--json", "check", &old, &new]).stdout).unwrap();
    assert_eq!(json["differences"][0]["after"][0]["end"], "arrives at wan", "{json}");
    assert!(!json["differences"][0]["packets"][0]["hex"].as_str().unwrap().is_empty(), "{json}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let lab = Lab::new(&[]);
    let old = lab.write("old.click", OLD);
    let net = lab.write("net.yaml", "version: 1\nname: n\nboxes:\n  internet: {kind: internet}\nlinks: []\n");
    let e = weir(&["check", &old, &net]).fails(1);
    assert!(e.contains("give two documents of the same kind"), "{e}");
    weir(&["check", &old, "/nowhere/new.click"]).fails(3);
    weir(&["check", &old, &old, "--require", "can lan wan"]).fails(2);
    let unknown = OLD.replace("fw ::", "r :: IPReassembler -> fw ::");
    let unknown = lab.write("unknown.click", &unknown);
    let out = weir(&["check", &unknown, &unknown]);
    assert_eq!(out.code, 0, "what is the same is the same, whatever it does: {out:?}");
    let other = lab.write("other.click", OLD.replace("fw ::", "Counter -> r :: IPReassembler -> fw ::"));
    let out = weir(&["check", &unknown, &other]);
    assert!(out.code == 2 && out.stdout.contains("inconclusive"), "{out:?}");
}

#[test]
fn what_packets_reach_is_reported() {
    let lab = Lab::new(&[]);
    let text = OLD.replace("deny all", "deny tcp dst port 80, deny all");
    let file = lab.write("box.click", format!("{text}\ncan lan wan tcp\n"));
    let out = weir(&["check", &file, "--coverage"]).ok();
    assert!(out.contains("holds: can lan wan tcp"), "{out}");
    assert!(
        out.contains("dead: fw :: IPFilter: no packet is decided by rule 2 'deny tcp dst port 80'"),
        "{out}"
    );
    assert!(out.contains("drop: fw :: IPFilter: Denied"), "{out}");
    assert!(out.contains("may be consolidated"), "{out}");
    assert!(weir(&["check", &file, "--coverage=packets"]).ok().contains("dropped: Denied"));
    let json = weir(&["--json", "check", &file, "--coverage"]).json();
    assert_eq!(json["coverage"]["dead"][0]["node"], "fw", "{json}");
    assert_eq!(json["verdict"], "holds", "{json}");
}

#[test]
fn a_what_if_tells_which_answers_it_changes() {
    let lab = Lab::new(&[]);
    let net = lab.write(
        "net.yaml",
        "version: 1\nname: n\nboxes:\n  internet: {kind: internet}\n  phone: {kind: client, owns: 10.1.0.7}\n  \
         gw: {kind: router, interfaces: {wan: 192.0.2.2/30, lan: 10.1.0.1/16}, routes: [default via 192.0.2.1]}\n\
         links: ['gw:wan - internet', 'gw:lan - phone']\n\
         requirements: ['can internet phone udp', 'never phone internet src host 10.9.9.9']\n",
    );
    let out = weir(&["check", &net, "--what-if", "link gw - phone down"]);
    assert_eq!(out.code, 1, "{out:?}");
    let changed = "violated: can internet phone udp  (line 8)\n  no such packet arrives at phone; this one comes nearest\n  \
                   without the change: holds\n";
    assert!(out.stdout.contains(changed), "{}", out.stdout);
}
