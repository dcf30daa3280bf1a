//! `show ip route` and `show ipv6 route`, as FRR and Cisco IOS print them.

use std::collections::HashMap;
use std::net::IpAddr;

use super::route::{ImportedAction, ImportedHop, ImportedRoute, RoutingTable};
use super::{Errors, MAX_LINES};
use crate::error::{DocErrors, quote};
use crate::value::IpPrefix;

/// Reads a routing table of FRR or Cisco IOS. FRR marks selected routes with `>` and next hops in use with `*`: only those count.
pub fn show_ip_route(text: &str) -> Result<RoutingTable, DocErrors> {
    let frr = text.lines().any(|l| {
        l.contains("> - selected")
            || l.split_whitespace().next().is_some_and(|w| w.contains('>') && w.len() <= 5)
    });
    let mut reader = Reader {
        frr,
        errors: Errors::new("routing table"),
        table: RoutingTable::default(),
        places: HashMap::new(),
        route: None,
        subnet_len: None,
        legend: false,
    };
    for (line, number) in text.lines().zip(1..) {
        if number > MAX_LINES {
            reader.errors.add(number, "one line too many", format!("at most {MAX_LINES} are read"));
            break;
        }
        reader.line(line, number);
    }
    reader.end_route();
    reader.errors.finish(reader.table)
}

struct Reader {
    frr: bool,
    errors: Errors,
    table: RoutingTable,
    /// The line of the route to each prefix.
    places: HashMap<IpPrefix, usize>,
    route: Option<Pending>,
    /// The length of the subnets below, which IOS says once.
    subnet_len: Option<u8>,
    /// The legend of codes is not over.
    legend: bool,
}

/// A route whose next hops may go on.
struct Pending {
    prefix: IpPrefix,
    line: usize,
    /// It is in use; otherwise FRR chose another.
    selected: bool,
    local: bool,
    hops: Vec<ImportedHop>,
    action: Option<ImportedAction>,
}

/// What a line says of a next hop.
enum Hop {
    Forward(ImportedHop),
    Action(ImportedAction),
    /// A next hop that is not in use: FRR lists the hops that it leads to below it.
    Unused,
}

impl Reader {
    fn line(&mut self, line: &str, number: usize) {
        let text = line.trim();
        self.legend = (self.legend || text.starts_with("Codes:")) && !text.is_empty() && text.contains(" - ");
        let heading = text.is_empty()
            || self.legend
            || text.starts_with("Gateway of last resort")
            || text.starts_with("IPv6 Routing Table")
            || matches!(text, "VRF default:" | "IPv4 unicast VRF default:" | "IPv6 unicast VRF default:")
            || text.contains("show ip route")
            || text.contains("show ipv6 route");
        if heading {
            return;
        }
        if text.starts_with("VRF ") || text.starts_with("Routing Table:") || text.contains(" VRF ") {
            self.errors.add(
                number,
                format!("another routing table begins: {}", quote(text)),
                "import the table of one VRF",
            );
            return;
        }
        let continues = line.starts_with(char::is_whitespace);
        let result = if continues && self.starts_as_hop(text) {
            self.hop_line(text)
        } else {
            self.route_line(line, number)
        };
        if let Err((message, help)) = result {
            self.errors.add(number, message, help);
        }
    }

    /// `* via …`, `via …`, `[110/2] via …`, `is directly connected …` without a destination before it.
    fn starts_as_hop(&self, text: &str) -> bool {
        let text = text.trim_start_matches(['*', '>', 'q', 'r', 'b', 't', 'o']).trim_start();
        ["via ", "[", "is directly connected", "unreachable", "directly connected"]
            .iter()
            .any(|w| text.starts_with(w))
    }

    fn hop_line(&mut self, text: &str) -> Result<(), Mistake> {
        let marked = text.starts_with('*');
        let rest = text.trim_start_matches(['*', '>', 'q', 'r', 'b', 't', 'o']).trim_start();
        let used = !self.frr || marked;
        let Some(route) = &mut self.route else {
            return Err((
                format!("{} belongs to no route", quote(text)),
                "a line with its destination stands before it".into(),
            ));
        };
        add(route, hop(rest)?, used);
        Ok(())
    }

    fn route_line(&mut self, line: &str, number: usize) -> Result<(), Mistake> {
        self.end_route();
        let words: Vec<&str> = line.split_whitespace().collect();
        let code =
            |w: &str| w.len() <= 5 && w.chars().all(|c| c.is_ascii_alphanumeric() || "*>%+&!=".contains(c));
        let destination = words.iter().take(5).position(|w| destination(w).is_some());
        let Some(at) = destination.filter(|at| words.iter().take(*at).all(|w| code(w))) else {
            let help = "lines are as \"show ip route\" prints them, such as \"S>* 10.0.0.0/8 [1/0] via 192.0.2.1, eth0\"";
            return Err((format!("{} is not a route", quote(line.trim())), help.into()));
        };
        let codes: String = words.iter().take(at).copied().collect();
        let word = words.get(at).copied().unwrap_or_default();
        let Some((addr, len)) = destination_parts(word) else { return Ok(()) };
        let rest = line.get(after(line, word)..).unwrap_or_default().trim();
        if rest.contains("subnetted,") {
            // `10.0.0.0/8 is variably subnetted, 4 subnets, 2 masks`: a heading, not a route.
            self.subnet_len = if rest.contains("variably") { None } else { len };
            return Ok(());
        }
        let Some(len) = len.or(self.subnet_len) else {
            let help = "write its length, such as 10.0.0.0/8";
            return Err((format!("the route to {addr} has no prefix length"), help.into()));
        };
        let prefix = IpPrefix::new(addr, len).map_err(|e| (e.message, e.help))?;
        if codes.is_empty() {
            return Err((
                format!("the route to {prefix} has no code"),
                "a route begins with one, such as C, S or O".into(),
            ));
        }
        let mut route = Pending {
            prefix,
            line: number,
            selected: !self.frr || codes.contains('>'),
            local: codes.starts_with('L'),
            hops: Vec::new(),
            action: None,
        };
        // IOS breaks lines that are too long behind the destination, and those of IPv6 behind the distance.
        if !rest.is_empty() && !rest.ends_with(']') {
            let used = !self.frr || codes.contains('*');
            add(&mut route, hop(rest)?, used);
        }
        self.route = Some(route);
        Ok(())
    }

    fn end_route(&mut self) {
        let Some(route) = self.route.take().filter(|r| r.selected) else { return };
        let Pending { prefix, line, local, hops, action, .. } = route;
        if local {
            let devs = hops.iter().filter_map(|h| h.dev.clone());
            self.table.addresses.extend(devs.map(|dev| (dev, prefix.addr())));
        }
        let action = match action {
            Some(action) => action,
            None if local => ImportedAction::Local,
            None if hops.is_empty() => {
                self.errors.add(
                    line,
                    format!("the route to {prefix} has no next hop in use"),
                    "its next hops stand behind it, or below",
                );
                return;
            }
            None => ImportedAction::Forward(hops),
        };
        if let Some(first) = self.places.insert(prefix, line) {
            self.errors.add(
                line,
                format!("a second route to {prefix} in use"),
                format!("line {first} is one"),
            );
        }
        self.table.routes.push(ImportedRoute { prefix, action });
    }
}

type Mistake = (String, String);

fn add(route: &mut Pending, hop: Hop, used: bool) {
    match hop {
        Hop::Forward(hop) if used => route.hops.push(hop),
        Hop::Action(action) if used => route.action = Some(action),
        Hop::Forward(_) | Hop::Action(_) | Hop::Unused => {}
    }
}

/// Where the text after `word` begins.
fn after(line: &str, word: &str) -> usize {
    (word.as_ptr() as usize + word.len()).saturating_sub(line.as_ptr() as usize)
}

fn destination(word: &str) -> Option<IpAddr> {
    destination_parts(word).map(|(addr, _)| addr)
}

fn destination_parts(word: &str) -> Option<(IpAddr, Option<u8>)> {
    match word.split_once('/') {
        Some((addr, len)) => Some((addr.parse().ok()?, Some(len.parse().ok()?))),
        None => Some((word.parse().ok()?, None)),
    }
}

/// What follows a destination: `[110/2] via 10.0.0.2, eth0, weight 1, 00:10:00` and the like.
fn hop(text: &str) -> Result<Hop, Mistake> {
    let mut text = text;
    if let Some(rest) = text.strip_prefix('[') {
        let Some((distance, rest)) = rest.split_once(']') else {
            return Err((
                format!("{} has no \"]\"", quote(text)),
                "distance and metric stand as [110/2]".into(),
            ));
        };
        if !distance.split('/').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
            return Err((
                format!("[{distance}] is not a distance and metric"),
                "they stand as [110/2]".into(),
            ));
        }
        text = rest.trim_start();
    }
    let mut parts = text.split(',').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let mut words = first.split_whitespace();
    let mut unused = false;
    let (via, mut dev) = match words.next() {
        Some("via") => {
            let word = words.next().unwrap_or_default();
            match word.parse() {
                Ok(addr) => (Some(addr), None),
                // IPv6 in IOS: `via GigabitEthernet0/0, directly connected`.
                Err(_) if is_interface(word) => (None, Some(word)),
                Err(_) => {
                    return Err((
                        format!("{} is not a next hop", quote(word)),
                        "it is an address such as 10.0.0.2".into(),
                    ));
                }
            }
        }
        Some("unreachable") => {
            let action = match first.split_once('(').map(|(_, why)| why.trim_end_matches(')')) {
                Some("blackhole") => ImportedAction::Blackhole,
                None | Some("ICMP unreachable") => ImportedAction::Unreachable,
                Some("ICMP admin-prohibited") => ImportedAction::Prohibit,
                Some(other) => {
                    let help = "known here: blackhole, ICMP unreachable, ICMP admin-prohibited";
                    return Err((format!("unreachable for {} is not known", quote(other)), help.into()));
                }
            };
            return Ok(Hop::Action(action));
        }
        Some("is" | "directly") if first.contains("directly connected") || first.contains("a summary") => {
            words.by_ref().for_each(drop);
            (None, None)
        }
        _ => {
            let help = "write \"via ADDRESS, INTERFACE\", \"is directly connected, INTERFACE\" or \"unreachable (blackhole)\"";
            return Err((format!("{} is not understood", quote(text)), help.into()));
        }
    };
    for word in words {
        unused |= modifier(word, text)?;
    }
    for part in parts {
        let mut words = part.split_whitespace();
        let Some(word) = words.next() else { continue };
        match word {
            // The source address that the system itself would use.
            "weight" | "src" => {
                words.next();
            }
            "directly" if part == "directly connected" => continue,
            _ if is_time(word) => {}
            _ if dev.is_none() && is_interface(word) => dev = Some(word),
            _ => unused |= modifier(word, text)?,
        }
        for word in words {
            unused |= modifier(word, text)?;
        }
    }
    if unused {
        return Ok(Hop::Unused);
    }
    match (via, dev) {
        (None, None) => Err((format!("{} has no interface", quote(text)), "it stands behind a comma".into())),
        // The interface that takes packets to nowhere.
        (None, Some(dev)) if dev.eq_ignore_ascii_case("null0") => Ok(Hop::Action(ImportedAction::Blackhole)),
        (via, dev) => Ok(Hop::Forward(ImportedHop { via, dev: dev.map(str::to_string) })),
    }
}

/// Words behind a next hop; true if it is not in use.
fn modifier(word: &str, text: &str) -> Result<bool, Mistake> {
    match word {
        "(recursive)" | "inactive" | "dead" => Ok(true),
        "onlink" => Ok(false),
        _ => Err((
            format!("{} in {} is not understood", quote(word), quote(text)),
            "tunnels, labels and routes into other VRFs are not modelled".into(),
        )),
    }
}

/// `00:10:00`, `1d02h`, `3w4d`.
fn is_time(word: &str) -> bool {
    let clock = word.split(':').count() == 3 && word.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let span = word.len() >= 2
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(|c: char| "ywdhms".contains(c))
        && word.chars().all(|c| c.is_ascii_digit() || "ywdhms".contains(c));
    clock || span || word == "never"
}

fn is_interface(word: &str) -> bool {
    let first = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    first
        && !matches!(
            word,
            "label"
                | "src"
                | "onlink"
                | "inactive"
                | "dead"
                | "seg6"
                | "seg6local"
                | "vrf"
                | "backup"
                | "rmapsrc"
        )
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-/@:".contains(c))
}
