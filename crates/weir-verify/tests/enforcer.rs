//! The rules of `ChangeEnforcer`, proved: whatever a module sends and whatever the enforcer remembers, what leaves keeps them.
//!
//! By induction over packets. A flow is remembered only for a packet to the module, as that packet has it (`what_is_remembered_came_in`). The
//! module's side changes no flow (`the_module_changes_no_flow`). And what leaves is from the module to who agreed, or has the addresses and ports of
//! a flow that was found, whatever flows there are (`what_leaves_keeps_the_rules_whatever_is_remembered`).

mod net;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use net::{Net, element, holds};
use weir_ir::program::{BlockId, End, Op, Program, Target, Type, Value};
use weir_ir::{Builder, Layer, V, Width, check};
use weir_verify::checks::{Checker, Framing, Query, Start, never};
use weir_verify::{Limits, SymbolicInput};

const OWN: [u8; 4] = [172, 100, 10, 1];
/// Annotations: whether a flow was found or made, and its key.
const FLAG: u32 = 16;
const KEY: [(u32, Width); 4] = [(17, Width::W8), (20, Width::W32), (24, Width::W16), (26, Width::W16)];

/// An address, and how many of its bits count.
type Prefix = ([u8; 4], u32);

/// Where an enforcer lets packets go, as it is configured and as prefixes.
const TO: [(&str, &[Prefix]); 4] = [
    ("", &[]),
    (", 172.16.15.133/32", &[([172, 16, 15, 133], 32)]),
    (", 10.0.0.0/8, 172.100.10.0/29", &[([10, 0, 0, 0], 8), ([172, 100, 10, 0], 29)]),
    (", 0.0.0.0/0", &[([0, 0, 0, 0], 0)]),
];

fn enforcer(to: &str) -> Program {
    let program = element("enforce", &format!("ChangeEnforcer(172.100.10.1{to})"), (2, 2));
    Arc::unwrap_or_clone(program)
}

/// The number of the table of flows.
fn flows(p: &Program) -> u32 {
    p.tables.iter().position(|t| t.decl.name == "flows").unwrap() as u32
}

fn value(p: &mut Program, width: Width) -> Value {
    p.types.push(Type::Int(width));
    Value(p.types.len() as u32 - 1)
}

/// Writes into the annotations whether a flow was found or made, and with which key; a flow is found or not, as it comes: that is any table.
fn noting(mut p: Program) -> Program {
    for port in [0, 1] {
        let entry = p.packet_entry(0, port).unwrap();
        let zero = value(&mut p, Width::W8);
        let clear = [Op::Const { dst: zero, value: 0 }, Op::StoreAnno { off: FLAG, src: zero }];
        p.blocks[entry.0 as usize].ops.splice(0..0, clear);
    }
    let mut noted = BTreeSet::new();
    for i in 0..p.blocks.len() {
        let (key, then) = match &p.blocks[i].end {
            End::Lookup { table, key, hit, .. } if table.0 == flows(&p) => (key.clone(), hit.block),
            End::Insert { table, key, ok, .. } if table.0 == flows(&p) => (key.clone(), ok.block),
            _ => continue,
        };
        assert!(noted.insert(then), "what goes on there found this flow and no other");
        let into = p.blocks.iter().flat_map(|b| b.end.targets()).filter(|t| t.block == then).count();
        assert_eq!(into, 1, "nothing else goes on there");
        let one = value(&mut p, Width::W8);
        let mut note = vec![Op::Const { dst: one, value: 1 }, Op::StoreAnno { off: FLAG, src: one }];
        note.extend(KEY.iter().zip(&key).map(|((off, _), k)| Op::StoreAnno { off: *off, src: *k }));
        p.blocks[then.0 as usize].ops.splice(0..0, note);
        let End::Lookup { hit, miss, .. } = p.blocks[i].end.clone() else { continue };
        let (random, cond) = (value(&mut p, Width::W32), value(&mut p, Width::W1));
        let found = p.blocks[then.0 as usize].params.remove(0);
        let text = format!("{:?}", p.blocks[then.0 as usize]);
        assert!(!text.contains(&format!("{found:?}")), "nothing of the entry is read: {text}");
        let then = Target { block: hit.block, args: hit.args };
        p.blocks[i].ops.extend([Op::Random { dst: random }, Op::Resize { dst: cond, a: random }]);
        p.blocks[i].end = End::Branch { cond, then, other: miss };
    }
    assert!(!noted.is_empty());
    check(&p).unwrap_or_else(|e| panic!("{e:?}\n{p}"));
    p
}

/// A program that lets out on output 1 what breaks a rule.
fn judge(broken: impl Fn(&mut Builder, &Packet) -> V) -> Program {
    let mut b = Builder::new("rule", 1, 2);
    b.input(0, |b| {
        b.require_or(Layer::Net, 20, |b| b.emit(1));
        let packet = Packet::read(b);
        let broken = broken(b, &packet);
        b.when(broken, |b| b.emit(1));
        b.emit(0);
    });
    b.finish()
}

/// The fields and annotations of a packet.
struct Packet {
    /// IPv4 without options.
    plain: V,
    four: V,
    later_fragment: V,
    fragment: V,
    src: V,
    dst: V,
    found: V,
    key: [V; 4],
    proto: V,
    /// Both ports, or twice the identifier of an echo request, or of a reply, or zeros; and whether these are there.
    ports: [V; 2],
    is_request: V,
    is_reply: V,
}

impl Packet {
    fn read(b: &mut Builder) -> Packet {
        let first = b.load(Width::W8, Layer::Net, 0);
        let version = b.shr(first, 4);
        let words = b.load(Width::W16, Layer::Net, 6);
        let (any, offset) = (b.and(words, 0x3fff_u16), b.and(words, 0x1fff_u16));
        let proto = b.load(Width::W8, Layer::Net, 9);
        let (tcp, udp, icmp) = (b.eq(proto, 6), b.eq(proto, 17), b.eq(proto, 1));
        let has_ports = b.or(tcp, udp);
        let words = b.and(first, 0x0f);
        let header = b.shl(words, 2);
        let header = b.resize(Width::W32, header);
        let zero = b.constant(Width::W16, 0_u16);
        let no = b.constant(Width::W1, 0_u8);
        // Behind the header, if it is there; else nothing is equal to it.
        let read = b.repeat(1, &[zero, zero, zero, no], |b, round, _| {
            b.require_or(Layer::Net, header, |b| round.leave(b, &[zero, zero, zero, no]));
            b.set_mark(Layer::Transport, Layer::Net, header);
            b.require_or(Layer::Transport, 8, |b| {
                b.require_or(Layer::Transport, 4, |b| round.leave(b, &[zero, zero, zero, no]));
                let [s, d] = [0, 2].map(|off| b.load(Width::W16, Layer::Transport, off));
                let yes = b.not(no);
                round.leave(b, &[s, d, zero, yes]);
            });
            let [s, d, id] = [0, 2, 4].map(|off| b.load(Width::W16, Layer::Transport, off));
            let yes = b.not(no);
            round.leave(b, &[s, d, id, yes]);
        });
        let kind = b.shr(read[0], 8);
        let (is_request, is_reply) = (b.eq(kind, 8), b.eq(kind, 0));
        let sport = b.select(icmp, read[2], zero);
        let dport = b.select(icmp, read[2], zero);
        let ports = [b.select(has_ports, read[0], sport), b.select(has_ports, read[1], dport)];
        let not_icmp = b.not(icmp);
        let found = b.load_anno(Width::W8, FLAG);
        Packet {
            plain: b.eq(first, 0x45),
            four: b.eq(version, 4),
            later_fragment: b.ne(offset, 0),
            fragment: b.ne(any, 0),
            src: b.load(Width::W32, Layer::Net, 12),
            dst: b.load(Width::W32, Layer::Net, 16),
            found: b.eq(found, 1),
            key: KEY.map(|(off, width)| b.load_anno(width, off)),
            proto,
            ports,
            is_request: b.or(is_request, not_icmp),
            is_reply: b.or(is_reply, not_icmp),
        }
    }

    /// Whether the flow that was found has this protocol, sender and ports.
    fn is_flow(&self, b: &mut Builder, src: V, ports: [V; 2]) -> V {
        let parts = [self.proto, src, ports[0], ports[1]];
        let same: Vec<V> = self.key.iter().zip(parts).map(|(k, part)| b.eq(*k, part)).collect();
        all(b, &same)
    }
}

fn all(b: &mut Builder, parts: &[V]) -> V {
    let mut all = b.constant(Width::W1, 1_u8);
    for part in parts {
        all = b.and(all, *part);
    }
    all
}

/// Whether no packet whatever on an input of the enforcer comes to where the rule is broken. What leaves by `output` is judged.
fn never_broken(p: Program, rule: Program, (input, output): (u32, u32)) -> bool {
    let mut n = Net::new("sink = sink\nother = sink\nbroken = sink");
    let (enforce, rule) = (Arc::new(p), Arc::new(rule));
    let enforce = n.net.add_program("enforce", &enforce, 0);
    let rule = n.net.add_program("rule", &rule, 1);
    let port = |node, port| weir_verify::NodePort { node, port };
    n.net.connect(port(enforce, output), port(rule, 0));
    n.net.connect(port(enforce, 1 - output), n.port("other"));
    n.net.connect(port(rule, 0), n.port("sink"));
    n.net.connect(port(rule, 1), n.port("broken"));
    n.net.finish();
    let from = vec![Start::new(port(enforce, input), Framing::Ip, SymbolicInput::ip())];
    let q = Query { from, ..n.query("sink", "broken", "") };
    let q = Query { others: Vec::new(), ..q };
    let mut c = Checker::new(&n.net, Limits::default());
    let verdict = never(&mut c, &q);
    let violated = matches!(verdict, weir_verify::checks::Verdict::Violated(_));
    assert!(violated || holds(&verdict), "{verdict:?}");
    holds(&verdict)
}

/// The rule for what leaves the module.
fn rule_of_sent(b: &mut Builder, p: &Packet, to: &[Prefix]) -> V {
    let own = b.eq(p.src, u32::from(Ipv4Addr::from(OWN)));
    let mut agreed = b.constant(Width::W1, 0_u8);
    for (address, len) in to {
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        let part = b.and(p.dst, mask);
        let within = b.eq(part, u32::from(Ipv4Addr::from(*address)));
        agreed = b.or(agreed, within);
    }
    let explicit = all(b, &[own, agreed]);
    let whole = b.not(p.fragment);
    let answered = p.is_flow(b, p.dst, [p.ports[1], p.ports[0]]);
    let answer = all(b, &[own, p.found, whole, answered, p.is_reply]);
    let came_in = p.is_flow(b, p.src, p.ports);
    let forwarded = all(b, &[agreed, p.found, whole, came_in, p.is_request]);
    let some = b.or(explicit, answer);
    let some = b.or(some, forwarded);
    let good = b.and(some, p.plain);
    b.not(good)
}

#[test]
fn what_leaves_keeps_the_rules_whatever_is_remembered() {
    for (text, to) in TO {
        let rule = judge(|b, p| rule_of_sent(b, p, to));
        assert!(never_broken(noting(enforcer(text)), rule, (1, 1)), "{text}");
    }
    // The rule is no rule that nothing breaks: an enforcer with one more prefix breaks it, and so does another address.
    let rule = || judge(|b, p| rule_of_sent(b, p, &[]));
    assert!(!never_broken(noting(enforcer(", 10.0.0.0/8")), rule(), (1, 1)));
    let other = element("enforce", "ChangeEnforcer(172.100.10.2)", (2, 2));
    assert!(!never_broken(noting(Arc::unwrap_or_clone(other)), rule(), (1, 1)));
}

#[test]
fn what_is_remembered_came_in() {
    let rule = judge(|b, p| {
        let to_module = b.eq(p.dst, u32::from(Ipv4Addr::from(OWN)));
        let is_its_own = p.is_flow(b, p.src, p.ports);
        let start = b.not(p.later_fragment);
        let remembered = all(b, &[is_its_own, p.is_request, start]);
        let nothing = b.not(p.found);
        let remembered = b.or(remembered, nothing);
        let good = all(b, &[to_module, p.four, remembered]);
        b.not(good)
    });
    assert!(never_broken(noting(enforcer("")), rule, (0, 0)));
}

/// The blocks that a packet on an input comes to.
fn reached(p: &Program, input: u32) -> BTreeSet<BlockId> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![p.packet_entry(0, input).unwrap()]);
    while let Some(block) = next.pop() {
        if reached.insert(block) {
            next.extend(p.block(block).end.targets().iter().map(|t| t.block));
        }
    }
    reached
}

#[test]
fn the_module_changes_no_flow() {
    let p = enforcer(", 10.0.0.0/8");
    let of_flows = |v: &Value| p.ty(*v) == Type::Entry(weir_ir::program::TableId(flows(&p)));
    for id in reached(&p, 1) {
        let block = p.block(id);
        for op in &block.ops {
            match op {
                Op::Set { entry, .. } | Op::Touch { entry, .. } | Op::Remove { entry } => {
                    assert!(!of_flows(entry), "{op:?}");
                }
                Op::Link { a, b } => assert!(!of_flows(a) && !of_flows(b), "{op:?}"),
                Op::Store { .. } | Op::CopyBytes { .. } | Op::Pull { .. } | Op::Trim { .. } => {
                    panic!("packets are as they were: {op:?}")
                }
                Op::Fork { .. } | Op::Release { .. } => panic!("there are no other packets: {op:?}"),
                _ => {}
            }
        }
        let made = matches!(&block.end, End::Insert { table, .. } | End::Claim { table, .. } if table.0 == flows(&p));
        assert!(
            !made && !matches!(block.end, End::Hold { .. } | End::Push { .. } | End::Put { .. }),
            "{:?}",
            block.end
        );
    }
    // Each way in is one of these, and nothing is there at first.
    assert_eq!(p.entries.len(), 2, "{:?}", p.entries);
    assert!(p.tables[flows(&p) as usize].rows.is_empty());
}
