//! The instructions of a few compiled elements, to be read. `BLESS=1` writes them anew.

#[expect(dead_code, reason = "more of a graph is for other tests")]
#[path = "support/graph.rs"]
mod graph;

use std::path::Path;

use weir_ebpf::{Options, compile};

fn check(name: &str, text: &str) {
    let g = graph::linked(text);
    let (owner, port) = g.points[0];
    let entry = g.fast.packet_entry(owner, port).expect("the point is an input");
    let object = compile(&g.fast, entry, &Options::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
    let is = format!("# {text}\n\n{}\n\n{}", g.fast.to_string().trim_end(), object.text());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name).with_extension("txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, is).expect("the file is written");
    } else {
        let wanted = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(wanted == is, "{} is no longer what it was; BLESS=1 writes it anew:\n{is}", path.display());
    }
}

#[test]
fn a_frame_that_goes_from_one_interface_to_another() {
    check("null", "Idle -> Null -> Discard;");
}

#[test]
fn a_counter_of_each_processor() {
    check("counter", "Idle -> Counter -> Discard;");
}

#[test]
fn a_longer_frame() {
    check("vlan_encap", "Idle -> VLANEncap(7) -> Discard;");
}

#[test]
fn a_route_by_prefix() {
    check(
        "route",
        "Idle -> Strip(14) -> MarkIPHeader -> GetIPAddress(16) -> r :: RadixIPLookup(10.0.0.0/8 0, 0/0 1);
         r [0] -> ttl :: DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Discard; r [1] -> Discard;",
    );
}

#[test]
fn what_is_refused_is_said() {
    let g = graph::linked("Idle -> Print(x) -> t :: Tee -> Discard; t [1] -> Discard;");
    let (owner, port) = g.points[0];
    let entry = g.fast.packet_entry(owner, port).expect("the point is an input");
    let why = compile(&g.fast, entry, &Options::default()).unwrap_err();
    assert_eq!(
        why.to_string(),
        "the kernel cannot run it: Print@2: reports events with what it saw; t: makes or copies packets"
    );
}
