//! Every element gets every prefix of every packet of the corpus, marked in ways that are right and wrong. None may
//! fault, and none may lose or double a packet.

mod corpus;

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use weir_click::{ClassInfo, ElementSet, Graph, PortCounts, parse};
use weir_elements::testing::{Harness, Outcome};
use weir_elements::{Class, class_named, classes};
use weir_ir::{Peer, Peers};
use weir_packet::{Checksum, Layer, Packet, PacketType};

/// Prefixes up to this length are all tried; of frames that are longer than Ethernet's, only some beyond it.
const ALL_PREFIXES: usize = 1514;
/// Kinds of frames that may come, see [`arrival`].
const WAYS: u32 = 4;

/// The library's classes; elements of other kinds in the examples only have ports.
struct Library;

impl ElementSet for Library {
    fn class(&self, name: &str) -> Option<ClassInfo> {
        let info = class_named(name).map(|c| c.info);
        match info {
            Some(i) => ClassInfo::new(i.ports, i.processing, i.flow).ok(),
            None if name.starts_with(char::is_uppercase) => ClassInfo::new("-/-", "a/a", "x/y").ok(),
            None => None,
        }
    }
    fn names(&self) -> Vec<String> {
        classes().map(|c| c.info.name.to_owned()).collect()
    }
    fn ports(&self, class: &str, args: &[String]) -> Option<PortCounts> {
        class_named(class)?.configure(args).ok()?.ports().parse().ok()
    }
}

/// A way to set an element up: arguments and connected ports.
struct Setup {
    class: &'static Class,
    graph: Graph,
    name: String,
    args: Vec<String>,
    inputs: u32,
    outputs: u32,
}

impl Setup {
    fn harness(&self) -> Harness {
        let mut element = self.class.configure(&self.args).expect("the arguments of an example are right");
        let elements = self.graph.elements.iter();
        let all: Vec<Peer<'_>> =
            elements.map(|e| Peer { name: &e.name, class: &e.class, args: &e.args }).collect();
        element.resolve(&Peers::new(&all, &self.name)).expect("an example is complete");
        Harness::of(element, self.inputs, self.outputs)
    }
}

/// The elements of a class in its examples, with the ports used there, and with as few and as many as there may be.
fn setups(class: &'static Class) -> Vec<Setup> {
    let mut all = Vec::new();
    let mut seen = BTreeSet::new();
    for example in class.info.examples {
        let graph = parse(class.info.name, example, &Library).unwrap_or_else(|e| panic!("{example}: {e:?}"));
        for (i, e) in graph.elements.iter().enumerate().filter(|(_, e)| e.class == class.info.name) {
            let inputs = graph.ports[i].inputs.len() as u32;
            let outputs = graph.ports[i].outputs.len() as u32;
            let counts = Library
                .ports(&e.class, &e.args)
                .unwrap_or_else(|| panic!("{example}: the arguments of {} are wrong", e.name));
            for (inputs, outputs) in
                [(inputs, outputs), counts.nearest(inputs, 0), counts.nearest(inputs, outputs + 1)]
            {
                if inputs > 0 && seen.insert((e.args.clone(), inputs, outputs)) {
                    all.push(Setup {
                        class,
                        graph: graph.clone(),
                        name: e.name.clone(),
                        args: e.args.clone(),
                        inputs,
                        outputs,
                    });
                }
            }
        }
    }
    all
}

/// A frame as it may come to an element, by the number of the way. `None` if it is too short for that way.
fn arrival(way: u32, frame: &[u8]) -> Option<Packet> {
    let bytes = if way == 1 { frame.get(14..)? } else { frame };
    let mut p = Packet::from_bytes(bytes).expect("frames of the corpus fit");
    let (start, end) = (p.data(), p.end());
    match way {
        // From a device.
        0 => p.set_layer(Layer::Mac, Some(start)),
        // Behind Strip and MarkIPHeader.
        1 => mark_ip(&mut p, 0),
        // With the Ethernet header in front and all annotations set, from a kernel that did not finish the checksum.
        2 => {
            p.set_layer(Layer::Mac, Some(start));
            mark_ip(&mut p, 14);
            p.csum = Checksum::Partial as u8;
            p.csum_start = p.layer(Layer::Transport).unwrap_or(start);
            p.csum_offset = 16;
            p.anno.fill(0xff);
            p.packet_type = PacketType::Broadcast as u8;
        }
        // With marks that have nothing behind them.
        _ => {
            for layer in [Layer::Mac, Layer::Net, Layer::Transport, Layer::Cursor] {
                p.set_layer(layer, Some(end));
            }
            p.csum = Checksum::Full as u8;
        }
    }
    Some(p)
}

/// Marks an IPv4 header that starts so many bytes into the packet, as far as it is there, whether it is one or not.
fn mark_ip(p: &mut Packet, at: usize) {
    let (net, end) = (p.data() + at as u32, p.end());
    p.set_layer(Layer::Net, Some(net).filter(|&net| net <= end));
    let transport = p.bytes().get(at).map(|first| net + u32::from(first & 15) * 4);
    p.set_layer(Layer::Transport, transport.filter(|&t| t <= end));
    if let Some(dst) = p.bytes().get(at + 16..at + 20).map(<[u8]>::to_vec) {
        p.anno[..4].copy_from_slice(&dst);
    }
}

/// Lengths of the prefixes of a frame that are tried.
fn lengths(frame: &[u8]) -> impl Iterator<Item = usize> {
    let whole = frame.len();
    let some = [1515, 2048, 8192, whole.saturating_sub(1), whole];
    (0..=whole.min(ALL_PREFIXES)).chain(some.into_iter().filter(move |&n| n > ALL_PREFIXES && n <= whole))
}

/// Sends everything into an element. Harness panics if the element faults.
fn bombard(setup: &Setup, frames: &[(&'static str, Vec<u8>)]) {
    let what = || format!("{}({})", setup.class.info.name, setup.args.join(", "));
    let mut e = setup.harness();
    for (name, frame) in frames {
        for n in lengths(frame) {
            for way in 0..WAYS {
                let Some(packet) = arrival(way, &frame[..n]) else { continue };
                for port in 0..setup.inputs {
                    let (held, started) = (e.held(), e.started());
                    let ends = e.send_packet(port, packet.copy());
                    let place =
                        || format!("{}: first {n} bytes of '{name}', way {way}, input {port}", what());
                    let (before, after) = (held + 1 + e.started() - started, e.held() + ends.len() as u64);
                    assert_eq!(before, after, "{}: packets before and after: {ends:?}", place());
                    for end in &ends {
                        match end {
                            Outcome::Out(port, _) => assert!(*port < setup.outputs, "{}", place()),
                            Outcome::Drop(reason) => assert!(!reason.is_empty(), "{}", place()),
                        }
                    }
                }
                // A slow clock: some entries of tables expire between packets.
                e.now += 1_000_000;
            }
        }
        e.lines.clear();
        settle(&mut e, &what);
    }
    for handler in setup.class.info.handlers.iter().filter(|h| h.read) {
        // Those that take a parameter ask for an address, or say what else it has to be; an N stands for the number of a
        // port.
        let name = handler.name.strip_suffix('N').map_or(handler.name.to_owned(), |name| format!("{name}0"));
        let answer = e.try_read(&format!("{name} 10.0.0.1"));
        assert!(
            answer.as_ref().err().is_none_or(|e| e.contains("is not a flow") || e.contains("is not an IPv6")),
            "{name}: {answer:?}"
        );
    }
    // A year later nothing that expires is left.
    e.now += 365 * 24 * 3600 * 1_000_000_000;
    settle(&mut e, &what);
}

/// Lets entries expire.
fn settle(e: &mut Harness, what: &dyn Fn() -> String) {
    let (held, started) = (e.held(), e.started());
    let ends = e.expire();
    let before = held + e.started() - started;
    assert_eq!(
        before,
        e.held() + ends.len() as u64,
        "{}: packets lost or doubled when entries expired",
        what()
    );
}

/// The elements are shared out among two tests, which run at the same time.
fn bombard_share(share: usize) {
    let frames = corpus::corpus();
    for setup in classes().skip(share).step_by(2).flat_map(setups) {
        bombard(&setup, &frames);
    }
}

#[test]
fn no_packet_faults_or_is_lost_or_doubled() {
    bombard_share(0);
}

#[test]
fn no_packet_faults_or_is_lost_or_doubled_in_the_other_elements() {
    bombard_share(1);
}

#[test]
fn every_class_with_inputs_is_tried() {
    for class in classes() {
        let takes_packets = !class.info.ports.starts_with('0');
        assert_eq!(
            !setups(class).is_empty(),
            takes_packets || class.info.name == "Idle",
            "{}",
            class.info.name
        );
    }
}

/// The corpus as a capture, for other tests and tools. `BLESS=1` renews it.
#[test]
fn the_capture_is_the_corpus() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/corpus.pcap");
    let mut wanted = Vec::new();
    let mut writer =
        weir_io::pcap::PcapWriter::new("corpus.pcap", &mut wanted, u32::from(u16::MAX) + 64).unwrap();
    for (i, (_, frame)) in corpus::corpus().iter().enumerate() {
        let mut p = Packet::from_bytes(frame).unwrap();
        p.timestamp = 1_000_000_000 + i as u64 * 1000;
        writer.write(&p).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    if env::var_os("BLESS").is_some_and(|v| v == "1") {
        fs::write(&path, &wanted).unwrap();
        return;
    }
    assert!(
        fs::read(&path).is_ok_and(|found| found == wanted),
        "tests/data/corpus.pcap is not the corpus; run: BLESS=1 cargo test -p weir-elements --test robust"
    );
}

#[test]
fn a_header_that_nobody_marked_is_not_called_cut() {
    let frames = corpus::corpus();
    let long = |frame: &[u8]| frame.len() > 100 && frame[12..14] == [8, 0] && frame[14] == 0x45;
    let ip = frames.iter().find(|(_, f)| long(f)).map(|(_, f)| &f[14..]).expect("a long IPv4 packet");
    for setup in classes().flat_map(setups) {
        let ends = |marked: bool, port: u32| {
            let mut p = Packet::from_bytes(ip).unwrap();
            if marked {
                mark_ip(&mut p, 0);
                let start = p.data();
                p.set_layer(Layer::Mac, Some(start));
            }
            let ends = setup.harness().send_packet(port, p);
            ends.iter().any(|end| matches!(end, Outcome::Drop(reason) if reason == "Truncated"))
        };
        for port in 0..setup.inputs {
            let what = || format!("{}({}), input {port}", setup.class.info.name, setup.args.join(", "));
            assert!(!ends(false, port) || ends(true, port), "{}", what());
        }
    }
}

/// What a parameter says and a handler may change is that of the new configuration after a hot swap, not of the old one.
#[test]
fn cells_that_handlers_write_are_configured_or_only_count() {
    // Written to set them to 0, or to count on from another number.
    const COUNTS: [&str; 1] = ["count"];
    let mut kept = BTreeSet::new();
    for setup in classes().flat_map(setups) {
        let mut element = setup.class.configure(&setup.args).expect("the arguments of an example are right");
        let elements = setup.graph.elements.iter();
        let all: Vec<Peer<'_>> =
            elements.map(|e| Peer { name: &e.name, class: &e.class, args: &e.args }).collect();
        element.resolve(&Peers::new(&all, &setup.name)).expect("an example is complete");
        let program = weir_ir::program_of(&*element, &setup.name, setup.inputs, setup.outputs);
        for h in setup.class.info.handlers.iter().filter(|h| h.read && h.write) {
            let cell = program.tables.iter().find(|t| t.decl.name == h.name);
            if cell.is_some_and(|t| !t.decl.configured) && !COUNTS.contains(&h.name) {
                kept.insert(format!("{}.{}", setup.class.info.name, h.name));
            }
        }
    }
    assert_eq!(kept, BTreeSet::new());
}
