//! The mappings of a rewriter, for its handlers, in Click's formats.

use weir_table::{EntryRef, FieldDecl};

use super::live;
use super::pattern::InputSpecs;
use crate::prelude::*;

/// One entry of the mapping table, for handlers.
pub(super) struct Mapping<'a> {
    table: &'a weir_table::Table,
    slot: u32,
    /// Seconds until it expires.
    expires: u64,
}

impl Mapping<'_> {
    /// All entries, ordered by key.
    pub(super) fn all<'a>(s: &'a State<'_>) -> Vec<Mapping<'a>> {
        let table = s.table("map");
        let mut rows: Vec<_> = table.rows();
        rows.sort_by_cached_key(|(slot, _)| -> Vec<u128> {
            (0..table.decl().key.len() as u32).map(|f| table.key(*slot, f)).collect()
        });
        let seconds = |slot| (table.expiry(slot).saturating_sub(s.now) + 500_000_000) / 1_000_000_000;
        rows.into_iter().map(|(slot, _)| Mapping { table, slot, expires: seconds(slot) }).collect()
    }

    /// A field of the key or the value; 0 if there is none of that name.
    pub(super) fn get(&self, name: &str) -> u32 {
        let named = |f: &FieldDecl| f.name == name;
        let decl = self.table.decl();
        let value = match decl.key.iter().position(named) {
            Some(i) => self.table.key(self.slot, i as u32),
            None => decl.value_field(name).map_or(0, |i| self.table.get(self.slot, i)),
        };
        value as u32
    }

    /// An address field.
    pub(super) fn addr(&self, name: &str) -> Ipv4Addr {
        self.get(name).into()
    }

    /// The end of a line in Click's format: outputs (the entry's own with a star), input, seconds left.
    pub(super) fn tail(&self, specs: &InputSpecs) -> String {
        let (input, [out, reply_out]) = self.origin(specs);
        let outputs = if self.get("reply") == 0 {
            format!("*{out} {reply_out}")
        } else {
            format!("{out} *{reply_out}")
        };
        format!("[{outputs}] i{input} exp{}", self.expires)
    }

    /// The input whose rule made it, and the rule's outputs.
    fn origin(&self, specs: &InputSpecs) -> (usize, [u32; 2]) {
        specs.rules().nth(self.get("rule") as usize).map_or((0, [0, 0]), |(i, rule)| (i, rule.outputs))
    }
}

/// The pattern of each input and the number of its mappings.
pub(super) fn patterns(specs: &InputSpecs, s: &State<'_>) -> String {
    let mut counts = vec![0; specs.0.len()];
    for m in Mapping::all(s).iter().filter(|m| m.get("reply") == 0) {
        if let Some(n) = counts.get_mut(m.origin(specs).0) {
            *n += 1;
        }
    }
    live::current(specs, s).show(&counts)
}

/// The pattern of one input.
pub(super) fn pattern(specs: &InputSpecs, s: &State<'_>, input: u32) -> Result<String, String> {
    let all = patterns(specs, s);
    all.lines()
        .nth(input as usize)
        .map(|line| format!("{line}\n"))
        .ok_or_else(|| format!("there is no input {input}"))
}

/// Number of mappings.
pub(super) fn mappings(s: &State<'_>) -> u32 {
    s.table("map").len().div_ceil(2)
}

/// Changes the capacity, within what the table has space for. Mappings beyond it go, those that expire next first.
pub(super) fn set_capacity(s: &mut State<'_>, value: &str) -> Result<(), String> {
    let capacity = u32::from_arg(value.trim())?;
    let most = s.table("map").decl().capacity / 2;
    if capacity > most {
        return Err(format!("{capacity} is more than the {most} mappings that the table has space for"));
    }
    s.set_cell("capacity", capacity.into());
    if mappings(s) > capacity {
        let table = s.id("map").0;
        let set = s.set_mut();
        let mut slots: Vec<(u64, u32)> = set
            .table(table)
            .rows()
            .iter()
            .map(|&(slot, _)| (set.expiry(EntryRef { table, slot }), slot))
            .collect();
        slots.sort_unstable();
        for (_, slot) in slots {
            if set.table(table).len().div_ceil(2) <= capacity {
                break;
            }
            set.remove(EntryRef { table, slot });
        }
    }
    Ok(())
}

/// The entries of a protocol, or all, in Click's format.
pub(super) fn flows(inputs: &InputSpecs, s: &State<'_>, protocol: Option<u8>) -> String {
    let mut out = String::new();
    for m in Mapping::all(s) {
        if protocol.is_some_and(|p| u32::from(p) != m.get("proto")) {
            continue;
        }
        let flow = |[src, sport, dst, dport]: [&str; 4]| {
            format!("({}, {}, {}, {})", m.addr(src), m.get(sport), m.addr(dst), m.get(dport))
        };
        let old = flow(["src", "sport", "dst", "dport"]);
        let new = flow(["new_src", "new_sport", "new_dst", "new_dport"]);
        out += &format!("{old} => {new} {}\n", m.tail(inputs));
    }
    out
}

/// The new flow of the flow that the parameter of a handler names, `SADDR SPORT DADDR DPORT`; nothing if it has none.
pub(super) fn lookup(s: &State<'_>, protocol: u8) -> Result<String, String> {
    let wrong = || format!("'{}' is not a flow: write SADDR SPORT DADDR DPORT", s.param);
    let words: Vec<&str> = s.param.split_whitespace().collect();
    let &[src, sport, dst, dport] = &words[..] else { return Err(wrong()) };
    let addr = |text: &str| Ipv4Addr::from_arg(text).map(|a| u128::from(a.to_bits())).map_err(|_| wrong());
    let port = |text: &str| u16::from_arg(text).map(u128::from).map_err(|_| wrong());
    let table = s.table("map");
    let key = [protocol.into(), addr(src)?, port(sport)?, addr(dst)?, port(dport)?];
    Ok(table.lookup(&key).map_or_else(String::new, |slot| {
        let m = Mapping { table, slot, expires: 0 };
        let (src, dst) = (m.addr("new_src"), m.addr("new_dst"));
        format!("{src} {} {dst} {}", m.get("new_sport"), m.get("new_dport"))
    }))
}
