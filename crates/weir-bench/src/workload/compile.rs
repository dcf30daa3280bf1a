//! Graphs of many elements, whose compilation is timed.

/// Kinds of elements, heavy and light, as graphs of functions have them.
const KINDS: [&str; 10] = [
    "CheckIPHeader(14)",
    "IPFilter(deny tcp dst port 23, deny src net 192.168.0.0/16, allow all)",
    "Counter",
    "RadixIPLookup(10.0.0.0/8 0, 172.16.0.0/12 0, 192.0.2.0/24 10.0.0.1 0, 0/0 0)",
    "DecIPTTL",
    "IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0)",
    "Paint(3)",
    "CheckPaint(3)",
    "EtherMirror",
    "Null",
];

/// Numbers of elements.
pub const ELEMENTS: [usize; 6] = [1, 2, 5, 10, 20, 50];

/// A chain of `n` elements of ten kinds.
pub fn graph(n: usize) -> String {
    let mut text = "Input".to_owned();
    for kind in KINDS.iter().cycle().take(n) {
        text = format!("{text} -> {kind}");
    }
    text + " -> Output;"
}
