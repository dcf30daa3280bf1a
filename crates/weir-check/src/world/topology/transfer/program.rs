//! What a transfer function does with packets of one port, as a program.

use std::collections::HashMap;

use weir_ir::program::TableId;
use weir_ir::{Builder, Layer, Program, Reason, TableDecl, V, Width};
use weir_model::requirement::HeaderField;
use weir_table::{KeyMatch, Kind, Row};
use weir_topology::import::hassel::{FieldBytes, Rule, TransferFunction};

use super::super::TAG;
use super::super::send::choose;
use super::diagram::{Bits, Diagram, Interval, Node, Rule as Fits};

/// Most nodes of a diagram, each as often as paths lead to it, in a program.
const MAX_PARTS: usize = 1 << 13;
/// The order in which fields are looked at: those that distinguish few kinds of packets come first.
const ORDER: [HeaderField; 7] = [
    HeaderField::Vlan,
    HeaderField::Proto,
    HeaderField::IpDst,
    HeaderField::IpSrc,
    HeaderField::DstPort,
    HeaderField::SrcPort,
    HeaderField::TcpFlags,
];

/// The program of a port.
pub(super) struct PortProgram {
    pub program: Program,
    /// For each output the function's port that packets leave by there.
    pub outputs: Vec<u32>,
    /// The output of packets that rules change in a way that is not modelled: the one behind those. With the lines of the rules.
    pub unknown: Vec<usize>,
}

/// The action of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    /// The packet gets the tag that its own becomes (mask, value), and leaves by one of these outputs.
    Send(Option<(u16, u16)>, Vec<u32>),
    Unknown,
}

/// The program of packets that come to the function by a port. `first`: they have not been looked at yet.
///
/// # Errors
/// If the function's headers or rules are not what can be made a program of.
pub(super) fn program(
    name: &str,
    function: &TransferFunction,
    port: u32,
    first: bool,
) -> Result<PortProgram, String> {
    let layout = function
        .layout()
        .ok_or_else(|| format!("what lies where in headers of {} bytes is not known", function.header_len))?;
    let fields: Vec<FieldBytes> =
        ORDER.iter().filter_map(|f| layout.iter().find(|l| l.field == *f).copied()).collect();
    let (mut rules, mut actions, mut outputs, mut unknown) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut numbers: HashMap<Action, u32> = HashMap::new();
    for rule in function.rules.iter().filter(|r| r.in_ports.contains(&port)) {
        let action = match tag(rule, &fields) {
            Some(change) => {
                let ports = rule.out_ports.iter().filter(|p| function.send_on_receiving_port || **p != port);
                let mut all: Vec<u32> = ports
                    .map(|p| {
                        let place = outputs.iter().position(|o| o == p).unwrap_or_else(|| {
                            outputs.push(*p);
                            outputs.len() - 1
                        });
                        place as u32
                    })
                    .collect();
                all.sort_unstable();
                all.dedup();
                Action::Send(change, all)
            }
            None => {
                unknown.push(rule.line);
                Action::Unknown
            }
        };
        let number = *numbers.entry(action.clone()).or_insert(actions.len() as u32);
        if number as usize == actions.len() {
            actions.push(action);
        }
        rules.push(Fits { bits: bits(rule, &fields), action: number });
    }
    let widths: Vec<u32> = fields.iter().map(|f| 8 * f.len as u32).collect();
    let too_large = || format!("the rules of port {port} distinguish too many kinds of packets");
    let diagram = Diagram::new(&widths, &rules).ok_or_else(too_large)?;
    let mut b = Builder::new(name, 1, outputs.len() as u32 + u32::from(!unknown.is_empty()));
    let tables = diagram.nodes.iter().enumerate().map(|(i, n)| table(&mut b, i, n, &fields)).collect();
    let mut make = Make { diagram: &diagram, tables, fields: &fields, actions: &actions, left: MAX_PARTS };
    let mut fits = true;
    b.input(0, |b| {
        let mut read: HashMap<usize, V> = HashMap::new();
        if first {
            b.require(Layer::Net, 20, Reason::TRUNCATED);
            let byte = b.load(Width::W8, Layer::Net, 0);
            let version = b.shr(byte, 4);
            let other = b.ne(version, 4);
            b.when(other, |b| b.drop(Reason::new("NotIPv4")));
            // Here for all stages of this box and of those behind it: they look at ports by the mark.
            let words = b.and(byte, 0x0f);
            let bytes = b.shl(words, 2);
            let bytes = b.resize(Width::W32, bytes);
            b.require(Layer::Net, bytes, Reason::TRUNCATED);
            b.set_mark(Layer::Transport, Layer::Net, bytes);
        } else if diagram.nodes.iter().any(|n| make.reads_header(n)) {
            b.require(Layer::Net, 20, Reason::TRUNCATED);
        }
        fits = make.node(b, diagram.root, &mut read);
    });
    if !fits {
        return Err(too_large());
    }
    Ok(PortProgram { program: b.finish(), outputs, unknown })
}

/// What a rule asks of the fields.
fn bits(rule: &Rule, fields: &[FieldBytes]) -> Vec<Bits> {
    let Some(wildcard) = &rule.matches else { return Vec::new() };
    let number = |bytes: &[u8], f: &FieldBytes| {
        let bytes = bytes.get(f.offset..f.offset + f.len).unwrap_or(&[]);
        bytes.iter().fold(0_u32, |n, byte| n << 8 | u32::from(*byte))
    };
    let asked = fields.iter().enumerate().map(|(field, f)| Bits {
        field,
        value: number(&wildcard.value, f),
        mask: number(&wildcard.mask, f),
    });
    asked.filter(|b| b.mask != 0).collect()
}

/// What becomes of the VLAN tag, if anything. `None`: the rule changes something else.
fn tag(rule: &Rule, fields: &[FieldBytes]) -> Option<Option<(u16, u16)>> {
    let Some(rewrite) = &rule.rewrite else { return Some(None) };
    let vlan = fields.iter().find(|f| f.field == HeaderField::Vlan);
    let (from, to) = vlan.map_or((0, 0), |f| (f.offset, f.offset + f.len));
    let kept = |(i, m): (usize, &u8)| *m == 0xff || (from..to).contains(&i);
    if !rewrite.mask.iter().enumerate().all(kept) {
        return None;
    }
    let word = |bytes: &[u8]| Some(u16::from_be_bytes(*bytes.get(from..to)?.first_chunk()?));
    let (mask, value) = (word(&rewrite.mask).unwrap_or(0xffff), word(&rewrite.value).unwrap_or(0));
    Some((mask != 0xffff).then_some((mask, value)))
}

/// The table of a node that splits: for each value of the field the number of the part.
fn table(b: &mut Builder, number: usize, node: &Node, fields: &[FieldBytes]) -> Option<TableId> {
    let Node::Split(field, parts) = node else { return None };
    let width = Width::from_bits(8 * fields.get(*field)?.len as u32)?;
    let mut rows = Vec::new();
    for (part, (all, _)) in parts.iter().enumerate() {
        for interval in all {
            prefixes(*interval, width.bits(), &mut |value, len| {
                let key = vec![KeyMatch::Prefix(value.into(), len)];
                rows.push(Row { key, value: vec![part as u128], priority: 0, ttl: None });
            });
        }
    }
    let size = rows.len().max(1) as u32;
    let name = format!("rules{number}");
    let decl = TableDecl::new(&name, Kind::Lpm, &[("field", width)], &[("part", Width::W32)], size);
    Some(b.table(decl.configured(), rows))
}

/// The prefixes that an interval consists of: value and length.
fn prefixes((lo, hi): Interval, bits: u32, add: &mut dyn FnMut(u32, u32)) {
    let (mut at, end) = (u64::from(lo), u64::from(hi) + 1);
    while at < end {
        let mut free = at.trailing_zeros().min(bits);
        while at + (1 << free) > end {
            free -= 1;
        }
        add(at as u32, bits - free);
        at += 1 << free;
    }
}

struct Make<'a> {
    diagram: &'a Diagram,
    tables: Vec<Option<TableId>>,
    fields: &'a [FieldBytes],
    actions: &'a [Action],
    left: usize,
}

impl Make<'_> {
    fn reads_header(&self, node: &Node) -> bool {
        let Node::Split(field, _) = node else { return false };
        self.fields.get(*field).is_some_and(|f| f.field != HeaderField::Vlan)
    }

    /// What is done from a node on. False if that gets too long.
    fn node(&mut self, b: &mut Builder, number: usize, read: &mut HashMap<usize, V>) -> bool {
        let space = self.left.checked_sub(1);
        self.left = space.unwrap_or(0);
        let diagram = self.diagram;
        let table = self.tables.get(number).copied().flatten();
        let (Some(_), Some(node)) = (space, diagram.nodes.get(number)) else {
            b.drop(Reason::NO_MATCH);
            return false;
        };
        let (field, parts, table) = match (node, table) {
            (Node::Split(field, parts), Some(table)) => (*field, parts, table),
            (Node::Leaf(Some(action)), _) => {
                self.act(b, *action);
                return true;
            }
            _ => {
                b.drop(Reason::NO_MATCH);
                return true;
            }
        };
        let value = match read.get(&field) {
            Some(v) => *v,
            None => self.read(b, field),
        };
        read.insert(field, value);
        let entry = b.find(table, &[value], |b| b.drop(Reason::NO_MATCH));
        let part = b.get(entry, "part");
        let cases: Vec<u128> = (1..parts.len() as u128).collect();
        let mut fits = true;
        b.switch(part, &cases, |b, case| match parts.get(case.map_or(0, |i| i + 1)) {
            Some((_, next)) => fits &= self.node(b, *next, &mut read.clone()),
            None => b.drop(Reason::NO_MATCH),
        });
        fits
    }

    fn act(&self, b: &mut Builder, action: u32) {
        match self.actions.get(action as usize) {
            Some(Action::Send(change, outputs)) => {
                if outputs.is_empty() {
                    return b.drop(Reason::DENIED);
                }
                if let Some((mask, value)) = *change {
                    let tag = if mask == 0 {
                        b.constant(Width::W16, value)
                    } else {
                        let tag = b.load_anno(Width::W16, TAG);
                        let kept = b.and(tag, u32::from(mask));
                        b.or(kept, u32::from(value))
                    };
                    b.store_anno(TAG, tag);
                }
                // Each copy is followed by itself.
                choose(b, outputs.len(), |b, way| match outputs.get(way) {
                    Some(&output) => b.emit(output),
                    None => b.drop(Reason::UNCONNECTED),
                });
            }
            Some(Action::Unknown) => b.emit(b.outputs() - 1),
            None => b.drop(Reason::NO_MATCH),
        }
    }

    fn read(&self, b: &mut Builder, field: usize) -> V {
        match self.fields.get(field).map(|f| f.field) {
            Some(HeaderField::Vlan) => b.load_anno(Width::W16, TAG),
            Some(HeaderField::Proto) => b.load(Width::W8, Layer::Net, 9),
            Some(HeaderField::IpSrc) => b.load(Width::W32, Layer::Net, 12),
            Some(HeaderField::SrcPort) => transport(b, Width::W16, 0, &[6, 17]),
            Some(HeaderField::DstPort) => transport(b, Width::W16, 2, &[6, 17]),
            Some(HeaderField::TcpFlags) => transport(b, Width::W8, 13, &[6]),
            _ => b.load(Width::W32, Layer::Net, 16),
        }
    }
}

/// A field of the transport header; 0 if the packet has none of these protocols.
fn transport(b: &mut Builder, width: Width, offset: u32, protocols: &[u8]) -> V {
    let proto = b.load(Width::W8, Layer::Net, 9);
    let fragment = b.load(Width::W16, Layer::Net, 6);
    let behind = b.and(fragment, 0x1fff);
    let first = b.eq(behind, 0);
    let mut known = b.constant(Width::W1, 0_u8);
    for p in protocols {
        let same = b.eq(proto, *p);
        known = b.or(known, same);
    }
    let there = b.and(known, first);
    b.choose(
        there,
        |b| {
            b.choose_has(
                Layer::Transport,
                offset + width.bytes(),
                |b| b.load(width, Layer::Transport, offset),
                |b| b.constant(width, 0_u8),
            )
        },
        |b| b.constant(width, 0_u8),
    )
}
