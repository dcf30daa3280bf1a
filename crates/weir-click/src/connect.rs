//! Which ports an arrow between two lists connects.

use crate::ast::{Arrow, Ports};
use crate::diagnostic::Report;

/// A member of a list, as an arrow sees it.
#[derive(Debug)]
pub(crate) struct End {
    /// The item that packets go to.
    pub input_item: usize,
    /// The item that packets come from.
    pub output_item: usize,
    pub inputs: Option<Ports>,
    pub outputs: Option<Ports>,
}

/// An item and its port.
pub(crate) type Port = (usize, u32);

/// One side of an arrow.
struct Side<'a> {
    members: Vec<(usize, Option<&'a Ports>)>,
    /// How many ports are meant at least.
    least: usize,
    /// The member that can have further ports.
    open: Option<usize>,
}

impl<'a> Side<'a> {
    fn new(members: Vec<(usize, Option<&'a Ports>)>) -> Side<'a> {
        let least = members.iter().map(|(_, ports)| ports.map_or(1, |p| p.list.len().max(1))).sum();
        let open = members.iter().position(|(_, ports)| ports.is_some_and(|p| p.open));
        Side { members, least, open }
    }

    fn open_count(&self) -> usize {
        self.members.iter().filter(|(_, ports)| ports.is_some_and(|p| p.open)).count()
    }

    /// A lone element without ports can stand for as many of its ports as the other side needs.
    fn open_if_lone(&mut self, other: &Side<'_>) {
        let lone = matches!(self.members.as_slice(), [(_, None)]);
        if self.open.is_none() && lone && other.least > 1 {
            self.open = Some(0);
        }
    }

    /// More than one port is meant, or may be.
    fn is_many(&self) -> bool {
        self.least > 1 || self.open.is_some()
    }

    /// The ports in order, with enough further ones at the open member to make `wanted`.
    fn ports(&self, wanted: usize) -> Vec<Port> {
        let further = if self.open.is_some() { wanted.saturating_sub(self.least) } else { 0 };
        let mut out = Vec::with_capacity(self.least + further);
        for (i, (item, ports)) in self.members.iter().enumerate() {
            let list: &[u32] = match ports {
                Some(p) if !p.list.is_empty() => &p.list,
                _ => &[0],
            };
            out.extend(list.iter().map(|port| (*item, *port)));
            if self.open == Some(i) {
                let last = list.last().copied().unwrap_or(0);
                out.extend((1..=further as u32).map(|n| (*item, last.saturating_add(n))));
            }
        }
        out
    }
}

/// The pairs of output and input that `from -> to` or `from => to` connects. `->` connects each with each, where one
/// side must mean a single port; `=>` connects in order.
pub(crate) fn pair_ports(from: &[End], to: &[End], arrow: Arrow, report: &mut Report) -> Vec<(Port, Port)> {
    let mut outs = Side::new(from.iter().map(|e| (e.output_item, e.outputs.as_ref())).collect());
    let mut ins = Side::new(to.iter().map(|e| (e.input_item, e.inputs.as_ref())).collect());
    if outs.members.is_empty() || ins.members.is_empty() {
        return Vec::new();
    }
    if outs.open_count() + ins.open_count() > 1 {
        report.error(arrow.loc, "at most one expandable port allowed per connection");
        if ins.least < outs.least {
            outs.open = None;
        } else {
            ins.open = None;
        }
    }
    if arrow.double {
        outs.open_if_lone(&ins);
        ins.open_if_lone(&outs);
    }
    let out_ports = outs.ports(ins.least);
    let in_ports = ins.ports(outs.least);
    if outs.is_many() && ins.is_many() {
        check_many(&outs, &ins, arrow, report);
        return out_ports.into_iter().zip(in_ports).collect();
    }
    if out_ports.len().saturating_mul(in_ports.len()) > crate::MAX_CONNECTIONS {
        report.error(arrow.loc, format!("more than {} connections", crate::MAX_CONNECTIONS));
        return Vec::new();
    }
    out_ports.iter().flat_map(|from| in_ports.iter().map(|to| (*from, *to))).collect()
}

fn check_many(outs: &Side<'_>, ins: &Side<'_>, arrow: Arrow, report: &mut Report) {
    if !arrow.double {
        report.error(arrow.loc, "syntax error: many-to-many connections require '=>'");
    }
    let (m, n) = (outs.least, ins.least);
    let problem = match (outs.open.is_some(), ins.open.is_some()) {
        (false, false) if m != n => format!("{m} outputs connected to {n} inputs"),
        (true, false) if n < m => format!("{m} or more outputs connected to {n} inputs"),
        (false, true) if m < n => format!("{m} outputs connected to {n} or more inputs"),
        _ => return,
    };
    report.error(arrow.loc, format!("connection mismatch: {problem}"));
}
