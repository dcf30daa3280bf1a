//! Ports that are forwarded: mappings that the configuration makes, and that stay.

use super::super::pattern::{InputSpec, InputSpecs, Pattern, Source};
use crate::prelude::*;

/// Most entries: a dynamic mapping may have to step over that many ports.
const MOST: usize = 1024;

const WRITE: &str =
    "write PROTOCOL PORT ADDRESS [PORT], such as tcp 8080 10.0.0.5 80, with commas between entries";

/// Mappings of outer ports to inside endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forwards(pub(super) Vec<Forward>);

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forward {
    pub(super) proto: u8,
    /// The outer port; the address is that of a pattern.
    pub(super) outer: u16,
    pub(super) inside: (Ipv4Addr, u16),
}

/// The rule whose address forwarded ports are of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outer {
    pub(super) input: usize,
    pub(super) addr: u32,
    /// Its number among the rules.
    rule: usize,
    /// Of packets and of replies.
    outputs: [u32; 2],
}

impl FromArg for Forwards {
    const SYNTAX: &'static str = "forwarded ports";

    fn from_arg(text: &str) -> Result<Forwards, String> {
        let text = String::from_arg(text)?;
        let entries: Vec<&str> = text.split(',').map(str::trim).collect();
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        if entries.len() > MOST {
            return Err(format!("{} entries are too many; at most {MOST}", entries.len()));
        }
        let mut given: Vec<(usize, Forward)> = Vec::new();
        for (i, entry) in (1..).zip(&entries) {
            // A comma at the end, or nothing at all, is no entry.
            if entry.is_empty() && i == entries.len() {
                continue;
            }
            match Forward::read(entry).and_then(|f| f.differs(&given).map(|()| f)) {
                Ok(f) => {
                    given.push((i, f));
                    all.push(f);
                }
                Err(e) => errors.push(format!("entry {i}, '{entry}': {e}")),
            }
        }
        if errors.is_empty() { Ok(Forwards(all)) } else { Err(errors.join("; ")) }
    }
}

impl Forward {
    fn read(entry: &str) -> Result<Forward, String> {
        let words: Vec<&str> = entry.split_whitespace().collect();
        let (proto, outer, addr, inner) = match words[..] {
            [proto, outer, addr] => (proto, outer, addr, outer),
            [proto, outer, addr, inner] => (proto, outer, addr, inner),
            _ => return Err(WRITE.into()),
        };
        let proto = match proto {
            "tcp" => proto::TCP,
            "udp" => proto::UDP,
            other => return Err(format!("'{other}' is not tcp or udp; {WRITE}")),
        };
        let port = |text: &str| match text.parse() {
            Ok(0) | Err(_) => Err(format!("'{text}' is not a port from 1 to 65535; {WRITE}")),
            Ok(n) => Ok(n),
        };
        let address = Ipv4Addr::from_arg(addr).map_err(|e| format!("{e}; {WRITE}"))?;
        if address.is_unspecified() || address.is_multicast() || address.is_broadcast() {
            return Err(format!("{address} is no host's address; {WRITE}"));
        }
        Ok(Forward { proto, outer: port(outer)?, inside: (address, port(inner)?) })
    }

    /// An outer port is of one endpoint, and an endpoint has one outer port.
    fn differs(self, others: &[(usize, Forward)]) -> Result<(), String> {
        for (i, other) in others.iter().filter(|(_, other)| other.proto == self.proto) {
            if other.outer == self.outer {
                return Err(format!("entry {i} forwards that port already"));
            }
            if other.inside == self.inside {
                return Err(format!(
                    "entry {i} forwards port {} to the same address and port, whose answers can come from one port only",
                    other.outer
                ));
            }
        }
        Ok(())
    }
}

impl Forwards {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first rule that gives its packets one address; `None` as long as names stand for patterns that may.
    pub(super) fn outer(&self, inputs: &InputSpecs) -> Result<Option<Outer>, String> {
        let set = inputs.rules().enumerate().find_map(|(n, (input, rule))| match rule.pattern {
            Some(Pattern { src: Source::Set(addr), .. }) => {
                Some(Outer { input, addr, rule: n, outputs: rule.outputs })
            }
            _ => None,
        });
        let is_open = inputs.rules().any(|(_, rule)| rule.pattern.is_none())
            || inputs.0.iter().any(|spec| matches!(spec, InputSpec::Mapper(m) if m.rules.is_empty()));
        if set.is_none() && !is_open && !self.is_empty() {
            return Err("FORWARD: no input gives its packets one source address, which the forwarded ports would be of: \
                        write pattern ADDRESS PORTS - - FOUTPUT ROUTPUT"
                .into());
        }
        Ok(set)
    }

    /// Whether each goes to another address than that which it is a port of: there, it would come back for ever.
    pub(super) fn check_servers(&self, inputs: &InputSpecs) -> Result<(), String> {
        let Some(outer) = self.outer(inputs)? else { return Ok(()) };
        match (1..).zip(&self.0).find(|(_, f)| f.inside.0.to_bits() == outer.addr) {
            Some((i, f)) => Err(format!(
                "FORWARD: entry {i}: {} is the outer address itself; write that of an inside host",
                f.inside.0
            )),
            None => Ok(()),
        }
    }

    /// Whether a handler may change the pattern of an input: not if ports of its address are forwarded.
    pub(super) fn allow_pattern(&self, inputs: &InputSpecs, input: u32) -> Result<(), String> {
        let outer = self.outer(inputs)?.filter(|_| !self.is_empty());
        match outer {
            Some(outer) if outer.input == input as usize => Err(format!(
                "input {input}: ports of the pattern's address are forwarded: write another configuration for the graph \
                 (handler hotconfig)"
            )),
            _ => Ok(()),
        }
    }

    /// The rows of a table like that of mappings: two for each. Neither is that of replies, as there is no first packet that they
    /// would get annotations from.
    pub(super) fn rows(&self, inputs: &InputSpecs, with_anno: bool) -> Vec<Row> {
        let Ok(Some(Outer { addr, rule, outputs, .. })) = self.outer(inputs) else { return vec![] };
        let rows = self.0.iter().flat_map(|f| {
            let outside = (u128::from(addr), u128::from(f.outer));
            let inside = (u128::from(f.inside.0.to_bits()), u128::from(f.inside.1));
            [(0, inside, outside), (1, outside, inside)].map(|(is_dst, old, new)| {
                let output = outputs[is_dst as usize].into();
                let values = [new.0, new.1, 0, output, rule as u128, 0, 0];
                Row::exact(
                    &[is_dst, f.proto.into(), old.0, old.1],
                    &values[..values.len() - usize::from(!with_anno)],
                )
            })
        });
        rows.collect()
    }

    /// One line each.
    pub(super) fn list(&self, inputs: &InputSpecs) -> String {
        let Ok(Some(Outer { addr, .. })) = self.outer(inputs) else { return String::new() };
        let outside = Ipv4Addr::from(addr);
        let line = |f: &Forward| {
            let proto = if f.proto == proto::TCP { "tcp" } else { "udp" };
            format!("{proto} ({}, {}) => ({outside}, {}) forwarded\n", f.inside.0, f.inside.1, f.outer)
        };
        self.0.iter().map(line).collect()
    }
}
