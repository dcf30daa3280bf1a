//! What two documents do differently, for people and programs.

use std::fmt;

use serde::Serialize;
use weir_verify::Hop;
use weir_verify::checks::{Difference, Ended};

use super::text::write_trace;
use super::{Shown, Step, decode, place_name, shown, steps};
use crate::answer::Status;
use crate::compare::{entered, hops_of};
use crate::world::World;

/// How the end of a packet begins that arrives somewhere.
pub(crate) const ARRIVES: &str = "arrives at ";

/// How the end of a packet begins that an element made, of nothing that came in.
pub(crate) const MADE: &str = "an element's own packet ";

/// A comparison of what becomes of the same packets before and after a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// The document before.
    pub before: String,
    /// The document after.
    pub after: String,
    /// One packet for each class of traffic that is treated differently.
    pub differences: Vec<Treated>,
    /// Entries that are there only before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only_before: Vec<String>,
    /// Entries that are there only after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only_after: Vec<String>,
    /// Entries by which other packets come in after than before, so that they cannot be compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlike: Vec<String>,
    /// Entries whose packets there was no time to compare.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// Whether there may be more classes than are shown, as there is a limit.
    pub more: bool,
    /// Why there may be differences that are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A class of traffic that is treated differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Treated {
    /// Where it comes in.
    pub place: String,
    /// Whether its packet is one as hosts send them.
    pub well_formed: bool,
    /// What becomes of its packet before the change.
    pub before: Vec<Fated>,
    /// What becomes of it after the change.
    pub after: Vec<Fated>,
    /// The packets of the run that shows it: the last one is treated differently, others come before it.
    pub packets: Vec<Shown>,
    /// Their path before, step by step.
    pub trace_before: Vec<Step>,
    /// Their path after.
    pub trace_after: Vec<Step>,
    /// The time at which they come in, in nanoseconds.
    #[serde(skip_serializing_if = "super::is_zero")]
    pub time: u64,
    /// Random numbers that the run draws, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub random: Vec<u32>,
}

/// The end of a packet or of a copy of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fated {
    /// Where and how it ends.
    pub end: String,
    /// What was changed on the way, if it arrives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

impl Changes {
    pub(crate) fn new(before: &str, after: &str) -> Changes {
        Changes { before: before.to_owned(), after: after.to_owned(), ..Changes::default() }
    }

    /// What becomes of packets that no host sends: in a line those that come in at one place and end alike after the change.
    pub fn malformed(&self) -> Vec<String> {
        let text = |list: &[Fated]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", and ");
        let mut lines: Vec<(&str, Vec<String>, String)> = Vec::new();
        for d in self.differences.iter().filter(|d| !d.well_formed) {
            let (before, after) = (text(&d.before), text(&d.after));
            match lines.iter_mut().find(|(place, _, end)| *place == d.place && *end == after) {
                Some((_, list, _)) if list.contains(&before) => {}
                Some((_, list, _)) => list.push(before),
                None => lines.push((&d.place, vec![before], after)),
            }
        }
        lines
            .into_iter()
            .map(|(place, before, after)| format!("from {place}: now {}; then {after}", before.join(", or ")))
            .collect()
    }

    /// Whether nothing is treated differently, something is, or it is not known.
    pub fn verdict(&self) -> Status {
        let gone = [&self.only_before, &self.only_after, &self.unlike];
        if !self.differences.is_empty() || gone.iter().any(|l| !l.is_empty()) {
            Status::Violated
        } else if self.reason.is_some() || !self.open.is_empty() {
            Status::Inconclusive
        } else {
            Status::Holds
        }
    }
}

impl Treated {
    pub(crate) fn new<'a>(
        place: &str,
        d: &Difference,
        world: impl Fn(usize) -> &'a World,
        own: impl Fn(usize, Vec<Hop>) -> Vec<Hop>,
    ) -> Treated {
        let e = &d.evidence;
        let entries = entered(e);
        let packets = entries.iter().zip(e.packets.iter().zip(&e.meta)).map(|((at, hop), (bytes, meta))| {
            let ip = hop.is_some_and(|h| h.net == Some(0));
            shown(place_name(world(0), at.node), ip, (bytes.as_slice(), meta))
        });
        let last = entries.last().and_then(|(_, hop)| *hop);
        let fates = |list: &[Ended]| list.iter().map(|e| fated(e, last)).collect();
        let trace = |side: usize| steps(world(side), &own(side, hops_of(e, side)));
        Treated {
            place: place.to_owned(),
            well_formed: d.is_first,
            before: fates(&d.before),
            after: fates(&d.after),
            packets: packets.collect(),
            trace_before: trace(0),
            trace_after: trace(1),
            time: e.now,
            random: e.randoms.clone(),
        }
    }

    /// What people send comes first, then what their hosts say to each other, and last what no host sends.
    pub(crate) fn rank(&self) -> u8 {
        let kind = self.packets.last().map(|p| kind_of(&p.bytes, p.ip));
        match kind {
            _ if !self.well_formed => 3,
            Some(Kind::Usual) => 0,
            Some(Kind::Other) | None => 1,
            Some(Kind::Control) => 2,
        }
    }

    /// What arrives elsewhere comes before what arrives with other contents, and that before what is dropped in both.
    pub(crate) fn weight(&self) -> u8 {
        let at =
            |list: &[Fated]| list.iter().filter_map(|f| f.arrival().map(str::to_owned)).collect::<Vec<_>>();
        match (at(&self.before), at(&self.after)) {
            (a, b) if a != b => 0,
            (a, _) if !a.is_empty() => 1,
            _ => 2,
        }
    }

    /// What packets of a class have in common: where they come in, how they end, and which fields are changed on the way.
    pub(crate) fn class(&self) -> (String, Vec<Fated>, Vec<Fated>) {
        let fields = |list: &[Fated]| list.iter().map(Fated::fields).collect();
        (self.place.clone(), fields(&self.before), fields(&self.after))
    }
}

impl Fated {
    /// Where the packet arrives, if it does.
    pub fn arrival(&self) -> Option<&str> {
        self.end.strip_prefix(ARRIVES)
    }

    /// With the names of changed fields only.
    fn fields(&self) -> Fated {
        let is_value = |w: &&str| w.contains(|c: char| c.is_ascii_digit()) || *w == "->";
        let name = |c: &String| c.split(' ').take_while(|w| !is_value(w)).collect::<Vec<_>>().join(" ");
        Fated { end: self.end.clone(), changes: self.changes.iter().map(name).collect() }
    }
}

/// The purpose of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// TCP, UDP, a question or answer of ping.
    Usual,
    /// ARP, ICMP errors and what else hosts and routers say to each other.
    Control,
    Other,
}

fn kind_of(bytes: &[u8], ip: bool) -> Kind {
    let word = |at: usize| bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let net = match (ip, word(12)) {
        (true, _) => Some(0),
        (false, Some(0x8100)) => word(16).map(|kind| (kind, 18)).and_then(ip_at),
        (false, kind) => kind.map(|kind| (kind, 14)).and_then(ip_at),
    };
    let Some(net) = net else {
        let is_arp = [word(12), word(16)].contains(&Some(0x0806));
        return if is_arp { Kind::Control } else { Kind::Other };
    };
    let byte = |at: usize| bytes.get(net + at).copied();
    let (proto, top) = match byte(0).map(|b| (b >> 4, b & 15)) {
        Some((4, words)) => (byte(9), 4 * usize::from(words)),
        Some((6, _)) => (byte(6), 40),
        _ => return Kind::Other,
    };
    match (proto, byte(top)) {
        (Some(6 | 17), _) | (Some(1), Some(0 | 8)) | (Some(58), Some(128 | 129)) => Kind::Usual,
        (Some(1 | 58), _) => Kind::Control,
        _ => Kind::Other,
    }
}

/// Where the IP header stands, if the EtherType in front of that position says that there is one.
fn ip_at((kind, at): (u16, usize)) -> Option<usize> {
    [0x0800, 0x86dd].contains(&kind).then_some(at)
}

/// What became of a packet that came in as `first` says.
fn fated(e: &Ended, first: Option<&Hop>) -> Fated {
    if e.made {
        let shown = (!e.bytes.is_empty()).then(|| decode::summary(&e.bytes));
        return Fated { end: e.fate.text.clone(), changes: shown.into_iter().collect() };
    }
    let changes =
        first.filter(|_| e.fate.whole).map(|hop| decode::changes(hop, &e.bytes)).unwrap_or_default();
    Fated { end: e.fate.text.clone(), changes }
}

impl fmt::Display for Fated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.end)?;
        if !self.changes.is_empty() {
            write!(f, " ({})", self.changes.join("; "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Treated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "different: from {}", self.place)?;
        for (when, list) in [("before", &self.before), ("after", &self.after)] {
            let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
            let text = if texts.is_empty() { "consumed".to_owned() } else { texts.join(", and ") };
            writeln!(f, "  {:7} {text}", format!("{when}:"))?;
        }
        if self.time != 0 {
            writeln!(f, "  at {} ns", self.time)?;
        }
        if !self.random.is_empty() {
            let numbers: Vec<String> = self.random.iter().map(u32::to_string).collect();
            writeln!(f, "  with the random numbers {}", numbers.join(", "))?;
        }
        for (i, packet) in self.packets.iter().enumerate() {
            packet.write(f, i + 1)?;
        }
        for (when, trace) in [("before", &self.trace_before), ("after", &self.trace_after)] {
            writeln!(f, "  {when}")?;
            write_trace(f, trace)?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for d in self.differences.iter().filter(|d| d.well_formed) {
            write!(f, "{d}")?;
        }
        for line in self.malformed() {
            writeln!(f, "different, of packets that no host sends: {line}\n")?;
        }
        let (old, new) = (&self.before, &self.after);
        for (names, what) in [
            (&self.only_before, format!("is an entry only before, in {old}")),
            (&self.only_after, format!("is an entry only after, in {new}")),
            (&self.unlike, "takes other packets after than before, which are not compared".to_owned()),
        ] {
            for name in names {
                writeln!(f, "different: {name} {what}\n")?;
            }
        }
        if self.more {
            writeln!(f, "note: there may be more; only the first {} are shown", self.differences.len())?;
        }
        if !self.open.is_empty() {
            writeln!(f, "note: not compared, for want of time: packets from {}", self.open.join(", "))?;
        }
        let n = self.differences.len();
        let verdict = match (n, self.verdict()) {
            (0, Status::Holds) => "no traffic is treated differently".to_owned(),
            (0, Status::Inconclusive) => "inconclusive: no difference was found".to_owned(),
            (0, Status::Violated) => "the entries differ".to_owned(),
            (1, _) => "1 class of traffic is treated differently".to_owned(),
            (n, _) => format!("{n} classes of traffic are treated differently"),
        };
        let doubt = self.reason.as_ref().map(|r| format!("; there may be more: {r}")).unwrap_or_default();
        writeln!(f, "{old} -> {new}: {verdict}{doubt}")
    }
}
