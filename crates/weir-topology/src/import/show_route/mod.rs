//! `show ip route` and `show ipv6 route`, as FRR (also of SONiC) and Cisco's IOS, IOS XE and ASA print them.

mod hop;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use super::paste::{is_prompt, on_screen};
use super::route::{ImportedAction, ImportedHop, ImportedRoute, RoutingTable, is_link_local};
use super::{Errors, MAX_LINES, Note};
use hop::{Hop, Used, hop};
use weir_filter::text::quote;
use weir_model::DocErrors;
use weir_model::value::IpPrefix;

/// What FRR writes before a next hop that it does not use, or not yet (`re_status_output_char` of zebra_vty.c).
const STATES: [char; 5] = ['q', 'r', 'b', 't', 'o'];

/// A mistake: what is wrong, and what would be right.
type Mistake = (String, String);

/// Reads a routing table of FRR or Cisco. FRR marks selected routes with `>` and next hops in use with `*`: only those count. Of a
/// prefix without a selected route, what the kernel has (`*` alone) counts.
pub fn show_ip_route(text: &str) -> Result<RoutingTable, DocErrors> {
    let lines = || text.lines().map(on_screen);
    let frr = lines().any(|l| l.contains("> - selected") || marks(&l).contains('>'));
    let mut reader = Reader {
        frr,
        errors: Errors::new("routing table"),
        table: RoutingTable::default(),
        places: HashMap::new(),
        installed: Vec::new(),
        route: None,
        subnets: None,
        legend: false,
        vrf: None,
    };
    for (line, number) in lines().zip(1..) {
        if number > MAX_LINES {
            reader.errors.add(number, "one line too many", format!("at most {MAX_LINES} are read"));
            break;
        }
        if let Err((message, help)) = reader.line(line.trim(), number) {
            reader.errors.add(number, message, help);
        }
    }
    reader.end_route();
    for route in std::mem::take(&mut reader.installed) {
        if !reader.places.contains_key(&route.prefix) {
            reader.take(route);
        }
    }
    reader.errors.finish(reader.table)
}

struct Reader {
    frr: bool,
    errors: Errors,
    table: RoutingTable,
    /// The line of the route to each prefix.
    places: HashMap<IpPrefix, usize>,
    /// Routes of FRR that the kernel has without their being selected.
    installed: Vec<Pending>,
    route: Option<Pending>,
    /// The network whose subnets come below, and their length, which IOS says once.
    subnets: Option<(IpPrefix, u8)>,
    /// The legend of codes is not over.
    legend: bool,
    /// The routing table that the routes are of, as its heading says.
    vrf: Option<String>,
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

/// A line that begins a route: its codes, what it leads to, and what stands behind that.
struct Start<'a> {
    codes: String,
    addr: IpAddr,
    len: Option<u8>,
    rest: &'a str,
}

impl Reader {
    fn line(&mut self, text: &str, number: usize) -> Result<(), Mistake> {
        // A pager may have stopped within the legend.
        self.legend = (self.legend || text.contains("Codes:")) && (text.is_empty() || text.contains(" - "));
        if text.is_empty() || self.legend || text.starts_with("Gateway of last resort") {
            return Ok(());
        }
        if let Some(vrf) = heading(text) {
            return self.heading(vrf, text);
        }
        if let Some(rest) = self.further_hop(text) {
            return self.hop_line(text, rest);
        }
        match start(text)? {
            Some(start) => self.route_line(start, number),
            None if is_prompt(text) => Ok(()),
            None => {
                let help = "lines are as \"show ip route\" prints them, such as \"S>* 10.0.0.0/8 [1/0] via 192.0.2.1, eth0\"";
                Err((format!("{} is not a route", quote(text)), help.into()))
            }
        }
    }

    /// The heading of a table: the first, or one of the same table, such as that of its IPv6 routes.
    fn heading(&mut self, vrf: &str, text: &str) -> Result<(), Mistake> {
        self.end_route();
        let begun = !self.places.is_empty() || self.vrf.is_some();
        if begun && self.vrf.as_deref().unwrap_or("default") != vrf {
            return Err((
                format!("another routing table begins: {}", quote(text)),
                "import the table of one VRF".into(),
            ));
        }
        self.vrf = Some(vrf.to_string());
        Ok(())
    }

    /// What stands behind the marks of a line that has a further next hop: `* via …`, `[110/2] via …`, `is directly connected …`.
    fn further_hop<'a>(&self, text: &'a str) -> Option<&'a str> {
        let rest = text.trim_start_matches(|c| c == '*' || c == '>' || STATES.contains(&c)).trim_start();
        let begins = ["via ", "[", "is directly connected", "unreachable", "directly connected"];
        // A word may begin as the marks do.
        [rest, text].into_iter().find(|t| begins.iter().any(|w| t.starts_with(w)))
    }

    fn hop_line(&mut self, text: &str, rest: &str) -> Result<(), Mistake> {
        let used = !self.frr || text.starts_with('*');
        let Some(route) = &mut self.route else {
            return Err((
                format!("{} belongs to no route", quote(text)),
                "a line with its destination stands before it".into(),
            ));
        };
        let hop = hop(rest)?;
        self.table.unused.extend(hop.dev.clone());
        add(route, hop, used);
        Ok(())
    }

    fn route_line(&mut self, start: Start<'_>, number: usize) -> Result<(), Mistake> {
        self.end_route();
        let Start { codes, addr, len, rest } = start;
        if rest.contains("subnetted,") {
            // `10.0.0.0/8 is variably subnetted, 4 subnets, 2 masks`: a heading, not a route.
            let subnets = len.filter(|_| !rest.contains("variably"));
            self.subnets = subnets.and_then(|len| Some((classful(addr)?, len)));
            return Ok(());
        }
        let below = |(network, len): (IpPrefix, u8)| (classful(addr) == Some(network)).then_some(len);
        let Some(len) = len.or(self.subnets.and_then(below)) else {
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
            let hop = hop(rest)?;
            self.table.unused.extend(hop.dev.clone());
            add(&mut route, hop, used);
        }
        self.route = Some(route);
        Ok(())
    }

    fn end_route(&mut self) {
        match self.route.take() {
            Some(route) if route.selected => self.take(route),
            Some(route) if !route.hops.is_empty() || route.action.is_some() => self.installed.push(route),
            _ => {}
        }
    }

    /// Takes a route over that is in use.
    fn take(&mut self, route: Pending) {
        let Pending { prefix, line, local, hops, action, .. } = route;
        if is_link_local(&prefix) {
            let reason = "link-local routes hold for one interface each".into();
            self.table.notes.push(Note { line, text: format!("route to {prefix}"), reason });
            return;
        }
        if local && prefix == IpPrefix::host(prefix.addr()) {
            let devs = hops.iter().filter_map(|h| h.dev.clone());
            self.table.addresses.extend(devs.map(|dev| (dev, prefix.addr())));
        }
        let action = match action {
            _ if local => ImportedAction::Local,
            Some(action) => action,
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

fn add(route: &mut Pending, hop: Hop, used: bool) {
    match hop.used {
        _ if !used => {}
        Used::Not => {}
        Used::Action(action) => route.action = Some(action),
        Used::Forward => route.hops.push(ImportedHop { via: hop.via, dev: hop.dev }),
    }
}

/// The table that a line announces: `VRF blue:`, `IPv4 unicast VRF blue:`, `VRF blue table 10:` (FRR), `Routing Table: blue`,
/// `IPv6 Routing Table - blue - 5 entries` (IOS), `VRF: blue` (EOS).
fn heading(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix("IPv6 Routing Table") {
        let mut parts = rest.split(" - ").map(str::trim).filter(|p| !p.is_empty());
        return Some(parts.next().filter(|p| !p.contains(" entries")).unwrap_or("default"));
    }
    if let Some(name) = text.strip_prefix("Routing Table:").or(text.strip_prefix("VRF:")) {
        return Some(name.trim());
    }
    let title = text.strip_suffix(':')?;
    let at = title
        .find("VRF ")
        .filter(|at| matches!(title.get(..*at), Some("" | "IPv4 unicast " | "IPv6 unicast ")));
    match at {
        Some(at) => title.get(at + 4..).map(str::trim),
        None => title.starts_with("table ").then_some(title),
    }
}

/// The marks of FRR within the first word: `>*` of `C>*`, also where the destination follows without a space, as in SONiC.
fn marks(line: &str) -> &str {
    let word = line.split_whitespace().next().unwrap_or_default();
    let Some((code, marks)) = word.find(['>', '*']).map(|at| word.split_at(at)) else { return "" };
    let letters = code.split_once('[').map_or(code, |(letter, _)| letter);
    let is_code = letters.len() == 1 && letters.chars().all(|c| c.is_ascii_alphabetic());
    let end = marks.find(|c| c != '>' && c != '*').unwrap_or(marks.len());
    marks.get(..end).filter(|_| is_code).unwrap_or_default()
}

/// Reads the beginning of a route; `None` if the line is not one.
fn start(text: &str) -> Result<Option<Start<'_>>, Mistake> {
    let mut codes = String::new();
    let mut words = text.split_whitespace().take(6).peekable();
    while let Some(word) = words.next() {
        // `C>*10.0.0.0/8`: SONiC writes no space.
        let split = word.rfind(['>', '*']).map_or(0, |at| at + 1);
        let (before, behind) = word.split_at(split);
        let behind = if split > 0 { behind.trim_start_matches(STATES) } else { behind };
        let Some((addr, mut len)) = destination(behind) else {
            let long = word.contains('[') && word.len() <= 12;
            let code = (word.len() <= 5 || long)
                && word.chars().all(|c| c.is_ascii_alphanumeric() || "*>%+&!=[]".contains(c));
            if !code {
                return Ok(None);
            }
            codes.push_str(word);
            continue;
        };
        codes.push_str(before);
        let mut end = behind;
        // ASA and old IOS write masks.
        if len.is_none()
            && let Some(word) = words.peek()
            && let Ok(mask) = word.parse::<Ipv4Addr>()
        {
            let bits = u32::from(mask);
            if bits.count_ones() != bits.leading_ones() || addr.is_ipv6() {
                let help = "it is one such as 255.255.255.0";
                return Err((format!("{mask} is not a mask of a prefix"), help.into()));
            }
            len = u8::try_from(bits.leading_ones()).ok();
            end = word;
        }
        let rest = text.get(behind_word(text, end)..).unwrap_or_default().trim();
        return Ok(Some(Start { codes, addr, len, rest }));
    }
    Ok(None)
}

/// Where the text behind a word of it begins.
fn behind_word(text: &str, word: &str) -> usize {
    (word.as_ptr() as usize + word.len()).saturating_sub(text.as_ptr() as usize)
}

fn destination(word: &str) -> Option<(IpAddr, Option<u8>)> {
    match word.split_once('/') {
        Some((addr, len)) => Some((addr.parse().ok()?, Some(len.parse().ok()?))),
        None => Some((word.parse().ok()?, None)),
    }
}

/// The network of class A, B or C that an address lies in.
fn classful(addr: IpAddr) -> Option<IpPrefix> {
    let IpAddr::V4(v4) = addr else { return None };
    let len = match v4.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    };
    IpPrefix::containing(addr, len).ok()
}
