//! What names of addresses and ports mean in a graph: those of its `AddressInfo` and `PortInfo` elements, and devices of
//! the machine.

use std::cell::Cell;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;

use weir_click::{Graph, split_words};
use weir_elements::{NameKind, Names, with_names};
use weir_net::{EtherAddr, Ipv4Prefix};

/// Addresses of one name.
#[derive(Debug, Clone, Default)]
struct Addresses {
    ip: Option<Ipv4Addr>,
    prefix: Option<Ipv4Prefix>,
    ip6: Option<String>,
    ether: Option<EtherAddr>,
    udp: Option<u16>,
}

thread_local! {
    /// Whether addresses of the machine were asked for.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Says of `f` whether what it made depends on addresses and routes of the machine.
pub fn asks_machine<R>(f: impl FnOnce() -> R) -> (R, bool) {
    let before = ASKED.replace(false);
    let result = f();
    (result, ASKED.replace(before))
}

/// The names that a graph defines, by the compound element in which they are known.
pub struct Defined {
    by_name: Rc<HashMap<(String, String), Addresses>>,
}

impl Defined {
    /// Collects the definitions of a graph.
    pub fn of(graph: &Graph) -> Defined {
        let mut by_name: HashMap<_, Addresses> = HashMap::new();
        for element in &graph.elements {
            let scope = outer(&element.name).to_owned();
            if element.class == "PortInfo" {
                for (name, port) in element.args.iter().flat_map(|arg| ports(arg)) {
                    by_name.entry((scope.clone(), name)).or_default().udp = Some(port);
                }
            }
            if element.class != "AddressInfo" {
                continue;
            }
            for arg in &element.args {
                let words = split_words(arg);
                let Some((name, values)) = words.split_first() else { continue };
                let addresses: &mut Addresses = by_name.entry((scope.clone(), name.clone())).or_default();
                values.iter().for_each(|v| addresses.add(v));
            }
        }
        Defined { by_name: Rc::new(by_name) }
    }

    /// Configures an element, whose arguments may use the names that are known where it is.
    pub fn within<R>(&self, element: &str, f: impl FnOnce() -> R) -> R {
        let (by_name, scope) = (self.by_name.clone(), outer(element).to_owned());
        let names: Rc<Names> = Rc::new(move |text, kind| find(&by_name, &scope, text, kind));
        with_names(names, f)
    }
}

/// The UDP ports of an entry of a `PortInfo`: `NAME PORT[/PROTOCOL] [NAME...]`, with a comment behind `#`.
fn ports(entry: &str) -> Vec<(String, u16)> {
    let entry = entry.split('#').next().unwrap_or_default();
    let words = split_words(entry);
    let [name, port, more @ ..] = &words[..] else { return Vec::new() };
    let (port, protocol) = port.split_once('/').unwrap_or((port, "udp"));
    match port.parse() {
        Ok(port) if protocol.eq_ignore_ascii_case("udp") => {
            std::iter::once(name).chain(more).map(|name| (name.clone(), port)).collect()
        }
        _ => Vec::new(),
    }
}

/// The compound element that an element is in; empty outside of all.
fn outer(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(outer, _)| outer)
}

impl Addresses {
    fn add(&mut self, text: &str) {
        if let Some((address, _)) = text.split_once('/')
            && let (Ok(ip), Ok(prefix)) = (address.parse::<Ipv4Addr>(), text.parse::<Ipv4Prefix>())
        {
            // `10.0.0.1/8` is an address, too; `10.0.0.0/8` is none, but where a network has no address of its own (RFC 3021).
            // Nor does it replace one.
            self.ip = self.ip.or(Some(ip).filter(|ip| *ip != prefix.addr() || prefix.len() >= 31));
            self.prefix = Some(prefix);
        } else if let Ok(ip) = text.parse() {
            self.ip = Some(ip);
        } else if let Ok(ether) = text.parse() {
            self.ether = Some(ether);
        } else if text.split('/').next().is_some_and(|a| a.parse::<std::net::Ipv6Addr>().is_ok()) {
            self.ip6 = text.split('/').next().map(str::to_owned);
        } else if let Some(device) = of_device(text.trim_end_matches(":simple")) {
            // A device: what it has, as far as nothing else is said.
            self.ip = self.ip.or(device.ip);
            self.prefix = self.prefix.or(device.prefix);
            self.ether = self.ether.or(device.ether);
        }
    }

    fn text(&self, what: Option<&str>, kind: NameKind) -> Option<String> {
        let network = || self.prefix.map(|p| p.to_string());
        match (what, kind) {
            (None | Some("ip"), NameKind::Ip) => Some(self.ip?.to_string()),
            (None, NameKind::UdpPort) => Some(self.udp?.to_string()),
            (None | Some("ip6"), NameKind::Ip6) => self.ip6.clone(),
            (None | Some("eth" | "ether"), NameKind::Ether) => Some(self.ether?.to_string()),
            (Some("ipnet" | "ipprefix" | "ip4net" | "net"), NameKind::IpPrefix) => network(),
            (Some("ip"), NameKind::IpPrefix) => Some(format!("{}/32", self.ip?)),
            (None, NameKind::IpPrefix) => self.ip.map(|ip| format!("{ip}/32")).or_else(network),
            (Some("bcast"), NameKind::Ip) => Some(self.prefix?.last().to_string()),
            (Some("bcast"), NameKind::IpPrefix) => Some(format!("{}/32", self.prefix?.last())),
            _ => None,
        }
    }
}

fn find(
    by_name: &HashMap<(String, String), Addresses>,
    scope: &str,
    text: &str,
    kind: NameKind,
) -> Option<String> {
    // `name:what`; a name may not hold a colon.
    let (name, what) = match text.split_once(':') {
        Some((name, what)) => (name, Some(what)),
        None => (text, None),
    };
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut scope = scope;
    loop {
        // A name may be that of an address and of a port.
        let found = by_name.get(&(scope.to_owned(), name.to_owned()));
        if let Some(text) = found.and_then(|found| found.text(what, kind)) {
            return Some(text);
        }
        if scope.is_empty() {
            break;
        }
        scope = outer(scope);
    }
    if what == Some("gw") && matches!(kind, NameKind::Ip | NameKind::IpPrefix) {
        let gateway = gateway(name)?;
        return Some(if kind == NameKind::Ip { gateway.to_string() } else { format!("{gateway}/32") });
    }
    of_device(name)?.text(what, kind)
}

/// The addresses of a device of the machine.
fn of_device(name: &str) -> Option<Addresses> {
    ASKED.set(true);
    let is_name = name.len() < 16 && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/') && name != "..";
    if !is_name || name.is_empty() {
        return None;
    }
    let ether = std::fs::read_to_string(format!("/sys/class/net/{name}/address")).ok()?;
    let mut addresses = Addresses { ether: ether.trim().parse().ok(), ..Addresses::default() };
    for entry in nix::ifaddrs::getifaddrs().ok()?.filter(|a| a.interface_name == name) {
        let of = |a: Option<nix::sys::socket::SockaddrStorage>| Some(a?.as_sockaddr_in()?.ip());
        if addresses.ip.is_none()
            && let Some(ip) = of(entry.address)
        {
            let length = of(entry.netmask).map_or(32, |mask| u32::from(mask).count_ones() as u8);
            addresses.ip = Some(ip);
            addresses.prefix = Ipv4Prefix::new(ip, length);
        }
    }
    Some(addresses)
}

/// The default gateway of a device (`/proc/net/route`: numbers in hexadecimal, the bytes in the machine's order).
fn gateway(name: &str) -> Option<Ipv4Addr> {
    ASKED.set(true);
    let routes = std::fs::read_to_string("/proc/net/route").ok()?;
    routes.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["0" | "00000000", gateway] = [*words.get(1)?, *words.get(2)?] else { return None };
        let address = u32::from_str_radix(gateway, 16).ok().filter(|a| *a != 0)?;
        (words.first() == Some(&name)).then(|| Ipv4Addr::from(address.to_ne_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Classes, Part, Plan};
    use weir_ir::State;
    use weir_table::TableSet;

    /// What a handler of an element reads when its graph starts.
    fn read(config: &str, element: &str, handler: &str) -> Result<String, String> {
        let plan = Plan::new(&Classes::default(), config, "test").map_err(|e| e.to_string())?;
        let mut set = TableSet::new(plan.linked.tables.iter().map(|t| &t.decl)).unwrap();
        for (i, table) in (0..).zip(&plan.linked.tables) {
            set.table_mut(i).insert_rows(&table.rows, 0).unwrap();
        }
        match &plan.parts[plan.graph.find(element).unwrap()] {
            Part::Element { element, tables, .. } => element.read(handler, &State::new(&mut set, tables, 0)),
            Part::Node { .. } => panic!("{element} is an engine node"),
        }
    }

    fn list(definitions: &str, routes: &str) -> Result<String, String> {
        let config = format!("{definitions}; Idle -> r :: LinearIPLookup({routes}) -> Discard;");
        read(&config, "r", "table")
    }

    #[test]
    fn names_stand_for_addresses() {
        let table = list("AddressInfo(foo 1.2.3.4/20)", "foo 0, foo:ipnet 0, foo:bcast 0").unwrap();
        for prefix in ["1.2.3.4/32", "1.2.0.0/20", "1.2.15.255/32"] {
            assert!(table.contains(prefix), "{table}");
        }
    }

    #[test]
    fn a_network_of_one_or_two_is_an_address_too() {
        let configured = |config: &str| {
            Plan::new(&Classes::default(), config, "test").map(|_| ()).map_err(|e| e.to_string())
        };
        for (address, ok) in
            [("10.0.0.1/32", true), ("10.0.0.1/24", true), ("10.0.0.0/31", true), ("10.0.0.0/24", false)]
        {
            let config = format!(
                "AddressInfo(X {address} 02:00:00:00:00:01); Idle -> q :: ARPQuerier(X) -> Discard; Idle -> [1] q;"
            );
            assert_eq!(configured(&config).is_ok(), ok, "{address}: {:?}", configured(&config));
        }
    }

    #[test]
    fn a_name_is_unknown_outside_of_its_compound_element() {
        assert!(list("x :: { AddressInfo(foo 1.2.3.4); Idle -> Discard }", "foo 0").is_err());
        assert!(list("AddressInfo(foo 02:00:00:00:00:01)", "foo 0").unwrap_err().contains("'foo'"));
    }

    #[test]
    fn ports_have_names_of_their_own_first() {
        let read = |port: &str, element: &str, handler: &str| {
            let config = format!(
                "PortInfo(foo 79/udp # ssh 25/udp, bar 7/tcp);
                 Idle -> u :: UDPIPEncap(1.0.0.1, {port}, 1.0.0.2, ssh)
                 -> x :: {{ PortInfo(foo 80 ssh); input -> v :: UDPIPEncap(1.0.0.1, {port}, 1.0.0.2, ssh) -> output }}
                 -> Discard;"
            );
            read(&config, element, handler)
        };
        for (element, handler, port) in
            [("u", "sport", "79"), ("u", "dport", "22"), ("x/v", "sport", "80"), ("x/v", "dport", "80")]
        {
            assert_eq!(read("foo", element, handler).as_deref(), Ok(port), "{element}.{handler}");
        }
        assert!(read("bar", "u", "sport").unwrap_err().contains("'bar'"), "the name of a TCP port");
    }

    #[test]
    fn a_device_has_addresses() {
        assert_eq!(find(&HashMap::new(), "", "lo:ip", NameKind::Ip).as_deref(), Some("127.0.0.1"));
        assert_eq!(find(&HashMap::new(), "a/b", "lo", NameKind::Ether).as_deref(), Some("00:00:00:00:00:00"));
        assert_eq!(find(&HashMap::new(), "", "nosuch:ip", NameKind::Ip), None);
        assert_eq!(find(&HashMap::new(), "", "../..", NameKind::Ip), None);
    }
}
