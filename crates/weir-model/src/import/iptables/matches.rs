//! Matches of rules.

use std::iter::Peekable;
use std::net::{IpAddr, Ipv4Addr};

use super::read::{Mistake, missing};
use super::{ConnState, InterfaceMatch};
use crate::doc::did_you_mean;
use crate::error::quote;
use crate::filter::{Cmp, Dir, Expr, Field, Layer, Prim, icmp_type, protocol_number, service_port};
use crate::value::{IpPrefix, TCP_FLAGS};

/// Most ports or ranges after `--dports`.
const MAX_PORTS: usize = 256;
/// Modules of matches that are read; their options are known below.
const MODULES: &[&str] = &[
    "tcp",
    "udp",
    "udplite",
    "sctp",
    "dccp",
    "icmp",
    "icmp6",
    "icmpv6",
    "conntrack",
    "state",
    "multiport",
    "comment",
    "iprange",
    "mac",
    "addrtype",
];

/// The matches of a rule, as read so far.
#[derive(Debug, Default)]
pub(super) struct Matches {
    pub in_interface: Option<InterfaceMatch>,
    pub out_interface: Option<InterfaceMatch>,
    pub states: Option<Vec<ConnState>>,
    /// What is not modelled.
    pub unknown: Vec<String>,
    arms: Vec<Expr>,
    /// The protocol of `-p`, unless negated: ports and flags are of it.
    proto: Option<u8>,
    /// `!` stood before the option that comes.
    negated: bool,
}

/// Whether a word begins an option.
pub(super) fn is_option(word: &str) -> bool {
    word == "!"
        || (word.starts_with('-') && word.len() > 1 && !word[1..].starts_with(|c: char| c.is_ascii_digit()))
}

impl Matches {
    /// All but interfaces and states, as one filter.
    pub(super) fn filter(self) -> Result<Expr, Mistake> {
        if self.negated {
            return Err(("\"!\" stands before nothing".into(), "it stands before an option".into()));
        }
        Ok(Expr::and(self.arms))
    }

    /// Reads an option and its values.
    pub(super) fn option<'a>(
        &mut self,
        word: &str,
        words: &mut Peekable<impl Iterator<Item = &'a str>>,
    ) -> Result<(), Mistake> {
        if word == "!" {
            self.negated = !self.negated;
            return Ok(());
        }
        if let "-f" | "--fragment" = word {
            // Second and further fragments: the offset is not zero.
            let field = Field { layer: Layer::Ip, offset: 6, width: 2, mask: 0x1fff, cmp: Cmp::Ne, value: 0 };
            self.arm(Prim::Field(field).into());
            return Ok(());
        }
        if word == "--syn" {
            self.arm_of_header(tcp_flags(0x17, 0x02), Layer::Proto(6));
            return Ok(());
        }
        let mut value = || -> Result<&'a str, Mistake> {
            // Older versions put `!` behind the option.
            if words.next_if_eq(&"!").is_some() {
                self.negated = !self.negated;
            }
            words.next_if(|w| !is_option(w)).ok_or_else(|| missing(word))
        };
        match word {
            "-s" | "--source" | "--src" => {
                let arm = address(value()?, Dir::Src)?;
                self.arm(arm);
            }
            "-d" | "--destination" | "--dst" => {
                let arm = address(value()?, Dir::Dst)?;
                self.arm(arm);
            }
            "--src-range" => {
                let arm = address_range(value()?, Dir::Src)?;
                self.arm(arm);
            }
            "--dst-range" => {
                let arm = address_range(value()?, Dir::Dst)?;
                self.arm(arm);
            }
            "-p" | "--protocol" | "--proto" => {
                let proto = protocol(value()?)?;
                self.proto = proto.filter(|_| !self.negated);
                self.arm(proto.map_or(Expr::True, |p| Prim::Proto(p).into()));
            }
            "-i" | "--in-interface" => {
                self.in_interface = Some(interface(value()?, std::mem::take(&mut self.negated)));
            }
            "-o" | "--out-interface" => {
                self.out_interface = Some(interface(value()?, std::mem::take(&mut self.negated)));
            }
            "-m" | "--match" => {
                let module = value()?;
                if !MODULES.contains(&module) {
                    self.unknown.push(format!("the match {}", quote(module)));
                }
            }
            "--sport" | "--source-port" | "--dport" | "--destination-port" => {
                let dir = if word.starts_with("--s") { Dir::Src } else { Dir::Dst };
                let (lo, hi) = port_range(value()?, ':')?;
                let proto = self.port_protocol(word)?;
                self.arm_of_header(Prim::Port { dir, lo, hi, proto }.into(), port_layer(proto));
            }
            "--sports" | "--source-ports" | "--dports" | "--destination-ports" | "--ports" => {
                let dir = match word.get(..3) {
                    Some("--s") => Dir::Src,
                    Some("--d") => Dir::Dst,
                    _ => Dir::SrcOrDst,
                };
                let text = value()?;
                let proto = self.port_protocol(word)?;
                let ranges: Vec<_> = text
                    .split(',')
                    .take(MAX_PORTS + 1)
                    .map(|p| port_range(p, ':'))
                    .collect::<Result<_, _>>()?;
                if ranges.len() > MAX_PORTS {
                    return Err((
                        format!("more than {MAX_PORTS} ports"),
                        format!("at most {MAX_PORTS} are read"),
                    ));
                }
                let ports = ranges.into_iter().map(|(lo, hi)| Prim::Port { dir, lo, hi, proto }.into());
                self.arm_of_header(Expr::or(ports), port_layer(proto));
            }
            "--tcp-flags" => {
                let mask = flags(value()?)?;
                let set = flags(words.next().ok_or_else(|| missing(word))?)?;
                self.arm_of_header(tcp_flags(mask, set & mask), Layer::Proto(6));
                if set & !mask != 0 {
                    return Err((
                        "flags are to be set that are not looked at".into(),
                        "--tcp-flags MASK SET: the mask holds the set".into(),
                    ));
                }
            }
            "--icmp-type" | "--icmpv6-type" => {
                let layer = Layer::Proto(if word == "--icmp-type" { 1 } else { 58 });
                let arm = icmp(value()?, layer)?;
                self.arm_of_header(arm, layer);
            }
            "--ctstate" | "--state" => {
                let text = value()?;
                self.states(text)?;
            }
            "--comment" => {
                value()?;
            }
            "--mac-source" => {
                let text = value()?;
                let addr = text.parse().map_err(|e: crate::error::ValueError| (e.message, e.help))?;
                self.arm(Prim::EtherHost { dir: Dir::Src, addr }.into());
            }
            _ if word.starts_with('-') => {
                self.unknown.push(format!("the option {word}"));
                self.negated = false;
                while words.next_if(|w| !is_option(w)).is_some() {}
            }
            _ => return Err((format!("{} is not an option", quote(word)), "options begin with -".into())),
        }
        Ok(())
    }

    fn arm(&mut self, arm: Expr) {
        let arm = if std::mem::take(&mut self.negated) { arm.not() } else { arm };
        self.arms.push(arm);
    }

    /// A match on the transport header: without one, as in all but first fragments, its negation does not fit either.
    fn arm_of_header(&mut self, arm: Expr, layer: Layer) {
        if self.negated {
            let there = Field { layer, offset: 0, width: 1, mask: 0xff, cmp: Cmp::Ge, value: 0 };
            self.arms.push(Prim::Field(there).into());
        }
        self.arm(arm);
    }

    /// The protocol that ports are of: the rule's, which must have ports.
    fn port_protocol(&self, option: &str) -> Result<Option<u8>, Mistake> {
        match self.proto {
            Some(p @ (6 | 17 | 33 | 132 | 136)) => Ok(Some(p)),
            _ => Err((
                format!("{option} without a protocol that has ports"),
                "write -p tcp or -p udp before it".into(),
            )),
        }
    }

    fn states(&mut self, text: &str) -> Result<(), Mistake> {
        let mut states = Vec::new();
        for word in text.split(',') {
            states.push(match word {
                "NEW" => ConnState::New,
                "ESTABLISHED" => ConnState::Established,
                "RELATED" => ConnState::Related,
                "INVALID" => ConnState::Invalid,
                "UNTRACKED" => ConnState::Untracked,
                "SNAT" | "DNAT" => {
                    // Not states of their own: whether addresses of the connection are translated.
                    self.unknown.push(format!("the state {word}"));
                    self.negated = false;
                    return Ok(());
                }
                _ => {
                    let known = ["NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED"];
                    return Err((format!("{} is not a state", quote(word)), did_you_mean(word, &known)));
                }
            });
        }
        if std::mem::take(&mut self.negated) {
            states = ConnState::ALL.into_iter().filter(|s| !states.contains(s)).collect();
        }
        states.sort_unstable();
        states.dedup();
        let before = self.states.take();
        self.states = Some(match before {
            Some(before) => states.into_iter().filter(|s| before.contains(s)).collect(),
            None => states,
        });
        Ok(())
    }
}

fn port_layer(proto: Option<u8>) -> Layer {
    proto.map_or(Layer::TcpUdp, Layer::Proto)
}

fn interface(text: &str, negated: bool) -> InterfaceMatch {
    match text.strip_suffix('+') {
        Some(name) => InterfaceMatch { name: name.into(), is_prefix: true, negated },
        None => InterfaceMatch { name: text.into(), is_prefix: false, negated },
    }
}

/// `tcp`, `6`, `all`.
fn protocol(text: &str) -> Result<Option<u8>, Mistake> {
    let number = match text {
        "all" | "0" => return Ok(None),
        "ipv6-icmp" | "icmpv6" => Some(58),
        "ipencap" => Some(4),
        name => protocol_number(name).or_else(|| name.parse().ok()),
    };
    number.map(Some).ok_or_else(|| {
        (format!("{} is not a protocol", quote(text)), "write a name such as tcp, or a number".into())
    })
}

/// One range of ports, `80` or `1024:65535` with `separator` between; `:1023` and `1024:` too. Names of services are known.
pub(super) fn port_range(text: &str, separator: char) -> Result<(u16, u16), Mistake> {
    let port = |t: &str| t.parse().ok().filter(|_| !t.starts_with('+')).or_else(|| service_port(t));
    let range = match text.split_once(separator) {
        None => port(text).map(|p| (p, p)),
        Some(("", "")) => None,
        Some(("", hi)) => port(hi).map(|hi| (0, hi)),
        Some((lo, "")) => port(lo).map(|lo| (lo, u16::MAX)),
        Some((lo, hi)) => port(lo).zip(port(hi)),
    };
    // A service's name may hold the separator.
    let range = range.or_else(|| port(text).map(|p| (p, p)));
    range.filter(|(lo, hi)| lo <= hi).ok_or_else(|| {
        (
            format!("{} is not a port or range of ports", quote(text)),
            format!("write, for example, 80 or 1024{separator}65535"),
        )
    })
}

/// An address, a prefix, or an address with a mask, as a filter.
fn address(text: &str, dir: Dir) -> Result<Expr, Mistake> {
    if let Some((addr, mask)) = text.split_once('/')
        && let (Ok(addr), Ok(mask)) = (addr.parse::<Ipv4Addr>(), mask.parse::<Ipv4Addr>())
    {
        return Ok(Prim::Net { dir, addr: addr & mask, mask }.into());
    }
    match text.split_once(',') {
        // `iptables-save` writes one address a rule; `iptables` takes lists.
        Some(_) => Err((format!("{} is a list of addresses", quote(text)), "write one rule for each".into())),
        None => {
            let prefix: IpPrefix = text.parse().map_err(|e: crate::error::ValueError| (e.message, e.help))?;
            Ok(of_prefix(prefix, dir))
        }
    }
}

fn of_prefix(prefix: IpPrefix, dir: Dir) -> Expr {
    match prefix.addr() {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len())).unwrap_or(0).into();
            Prim::Net { dir, addr, mask }.into()
        }
        IpAddr::V6(addr) => Prim::Net6 { dir, addr, len: prefix.len() }.into(),
    }
}

/// `10.0.0.5-10.0.0.9` as the prefixes that it consists of.
fn address_range(text: &str, dir: Dir) -> Result<Expr, Mistake> {
    let bad = || {
        (
            format!("{} is not a range of addresses", quote(text)),
            "write, for example, 10.0.0.5-10.0.0.9".to_string(),
        )
    };
    let (lo, hi) = text.split_once('-').ok_or_else(bad)?;
    let (Ok(lo), Ok(hi)) = (lo.parse::<IpAddr>(), hi.parse::<IpAddr>()) else { return Err(bad()) };
    let (bits, lo, hi) = match (lo, hi) {
        (IpAddr::V4(lo), IpAddr::V4(hi)) => (32, u128::from(u32::from(lo)), u128::from(u32::from(hi))),
        (IpAddr::V6(lo), IpAddr::V6(hi)) => (128_u32, u128::from(lo), u128::from(hi)),
        _ => return Err(bad()),
    };
    if lo > hi {
        return Err(bad());
    }
    let mut arms = Vec::new();
    let mut at = lo;
    loop {
        // The largest block that begins here and does not end behind the range.
        let mut free = at.trailing_zeros().min(bits);
        let last = |free: u32| at | 1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        while last(free) > hi {
            free -= 1;
        }
        let addr = match bits {
            32 => IpAddr::V4(u32::try_from(at).unwrap_or(u32::MAX).into()),
            _ => IpAddr::V6(at.into()),
        };
        let prefix = IpPrefix::containing(addr, u8::try_from(bits - free).unwrap_or(u8::MAX))
            .map_err(|e| (e.message, e.help))?;
        arms.push(of_prefix(prefix, dir));
        match last(free).checked_add(1) {
            Some(next) if next <= hi => at = next,
            _ => return Ok(Expr::or(arms)),
        }
    }
}

/// `SYN,ACK`, `ALL`, `NONE`.
fn flags(text: &str) -> Result<u8, Mistake> {
    match text {
        "ALL" => return Ok(0x3f),
        "NONE" => return Ok(0),
        _ => {}
    }
    text.split(',').try_fold(0, |mask, flag| {
        let lower = flag.to_ascii_lowercase();
        let bit = TCP_FLAGS.iter().take(6).position(|f| *f == lower);
        bit.map(|b| mask | 1 << b).ok_or_else(|| {
            (
                format!("{} is not a TCP flag", quote(flag)),
                "known here: FIN, SYN, RST, PSH, ACK, URG, ALL, NONE".to_string(),
            )
        })
    })
}

fn tcp_flags(mask: u8, set: u8) -> Expr {
    if mask == 0 {
        return Prim::Proto(6).into();
    }
    let (mask, value) = (u32::from(mask), u32::from(set));
    Prim::Field(Field { layer: Layer::Proto(6), offset: 13, width: 1, mask, cmp: Cmp::Eq, value }).into()
}

/// `8`, `3/4`, `echo-request`, `any`.
fn icmp(text: &str, layer: Layer) -> Result<Expr, Mistake> {
    let byte = |offset, value: u8| -> Expr {
        Prim::Field(Field { layer, offset, width: 1, mask: 0xff, cmp: Cmp::Eq, value: value.into() }).into()
    };
    if text == "any" {
        return Ok(Expr::True);
    }
    if let Some((kind, code)) = text.split_once('/')
        && let (Ok(kind), Ok(code)) = (kind.parse(), code.parse())
    {
        return Ok(Expr::and([byte(0, kind), byte(1, code)]));
    }
    let v4 = layer == Layer::Proto(1);
    let kind = text.parse().ok().or(match text {
        "echo-request" | "ping" => Some(if v4 { 8 } else { 128 }),
        "echo-reply" | "pong" => Some(if v4 { 0 } else { 129 }),
        "destination-unreachable" => Some(if v4 { 3 } else { 1 }),
        "time-exceeded" | "ttl-exceeded" => Some(if v4 { 11 } else { 3 }),
        "parameter-problem" => Some(if v4 { 12 } else { 4 }),
        "packet-too-big" if !v4 => Some(2),
        "router-solicitation" if !v4 => Some(133),
        "router-advertisement" if !v4 => Some(134),
        "neighbour-solicitation" | "neighbor-solicitation" if !v4 => Some(135),
        "neighbour-advertisement" | "neighbor-advertisement" if !v4 => Some(136),
        "source-quench" if v4 => Some(4),
        other if v4 => icmp_type(other),
        _ => None,
    });
    if let Some(kind) = kind {
        return Ok(byte(0, kind));
    }
    let code = match text {
        "network-unreachable" => 0,
        "host-unreachable" => 1,
        "protocol-unreachable" => 2,
        "port-unreachable" => 3,
        "fragmentation-needed" => 4,
        _ => {
            let help = "write a number such as 8 or 3/4, or a name such as echo-request";
            return Err((format!("{} is not an ICMP type", quote(text)), help.into()));
        }
    };
    if !v4 {
        return Err((
            format!("{} is not an ICMPv6 type", quote(text)),
            "write a number such as 128 or 1/4".into(),
        ));
    }
    Ok(Expr::and([byte(0, 3), byte(1, code)]))
}
