//! References from rules to service access points and functions' ports.

use std::collections::HashMap;

use crate::doc::{At, Reader};
use crate::error::quote;
use crate::graph::{Function, PortRef, Sap};
use crate::value::Name;

/// The names that rules may refer to.
pub(super) struct Index<'a> {
    pub functions: &'a [Function],
    pub saps: &'a [Sap],
    /// Positions in `functions` and `saps` by identifier: there may be many of both.
    pub function_ids: HashMap<&'a str, usize>,
    pub sap_ids: HashMap<&'a str, usize>,
    /// Some function or SAP could not be read; a reference that leads nowhere may mean that one.
    pub functions_lost: bool,
    pub saps_lost: bool,
}

/// Reads a reference to a port and finds the port.
pub(super) fn port_ref(r: &mut Reader, at: &At<'_>, index: &Index<'_>) -> Option<PortRef> {
    const FORMS: &str = "write sap:ID or sf:FUNCTION:PORT";
    let text = r.text(at, "sap:ID or sf:FUNCTION:PORT")?;
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match (kind, rest.split_once(':')) {
        ("service-access-point" | "sap", _) if !rest.is_empty() => {
            let what =
                Lookup { what: "service access point", of: String::new(), text, lost: index.saps_lost };
            let found = index.sap_ids.get(rest).copied();
            let i = what.find(
                r,
                at,
                rest,
                found,
                index.saps.iter().map(|s| (s.id.as_str(), s.name.as_ref().map(Name::as_str))),
            )?;
            Some(PortRef::Sap(index.saps.get(i)?.id.clone()))
        }
        ("sf", Some((function, port))) if !function.is_empty() && !port.is_empty() => {
            let what = Lookup { what: "function", of: String::new(), text, lost: index.functions_lost };
            let found = index.function_ids.get(function).copied();
            let all = index.functions.iter().map(|f| (f.id.as_str(), Some(f.name.as_str())));
            let f = index.functions.get(what.find(r, at, function, found, all)?)?;
            let what = Lookup {
                what: "port",
                of: format!(" of the function {}", f.id),
                text,
                lost: index.functions_lost,
            };
            let found = f.ports.iter().position(|p| p.id.as_str() == port);
            let all = f.ports.iter().map(|p| (p.id.as_str(), p.name.as_ref().map(Name::as_str)));
            let p = f.ports.get(what.find(r, at, port, found, all)?)?;
            Some(PortRef::Function { function: f.id.clone(), port: p.id.clone() })
        }
        _ => {
            r.error(at, format!("{} is not a port", quote(text)), FORMS);
            None
        }
    }
}

/// How to speak of a reference that is being resolved.
struct Lookup<'a> {
    what: &'a str,
    of: String,
    text: &'a str,
    lost: bool,
}

impl Lookup<'_> {
    /// The position of `word` in `all`: `by_id` if that found it, else by a name that only one item has.
    fn find<'b>(
        &self,
        r: &mut Reader,
        at: &At<'_>,
        word: &str,
        by_id: Option<usize>,
        all: impl Iterator<Item = (&'b str, Option<&'b str>)> + Clone,
    ) -> Option<usize> {
        if by_id.is_some() {
            return by_id;
        }
        let mut named = all.clone().enumerate().filter(|(_, (_, name))| *name == Some(word));
        let Self { what, of, text, lost } = self;
        match (named.next(), named.next()) {
            (Some((i, _)), None) => return Some(i),
            (Some((_, (a, _))), Some((_, (b, _)))) => {
                let message =
                    format!("{}: more than one {what}{of} has the name {}", quote(text), quote(word));
                r.error(at, message, format!("use an identifier, {a:?} or {b:?}"));
            }
            // Something was not read: this may be it, so say nothing.
            (None, _) if *lost => {}
            (None, _) => {
                const SHOWN: usize = 8;
                let mut known: Vec<&str> = all.map(|(id, _)| id).take(SHOWN + 1).collect();
                if known.len() > SHOWN {
                    known[SHOWN] = "…";
                }
                let help = match known.as_slice() {
                    [] => format!("there is no {what}{of}"),
                    known => format!("there is {}", known.join(", ")),
                };
                r.error(at, format!("{}: no {what}{of} is {}", quote(text), quote(word)), help);
            }
        }
        None
    }
}
