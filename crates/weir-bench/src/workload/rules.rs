//! Lists of rules, of which the first that matches decides.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

use weir_net::build::{TcpFields, icmp_echo, tcp4, udp4};
use weir_net::proto;

use super::frames::{Frames, Popularity, Random, random_source, udp_frames};
use super::router::{ETHERNET, ROUTES, encap, list, routed};
use super::{Expected, FRAME_LEN, FRAMES, Workload};

/// Rules of one shape: each but the last names a source address and a destination port, and only the last matches.
pub fn last(rules: usize) -> Workload {
    let mut text = "Input -> CheckIPHeader(14) -> IPFilter(".to_owned();
    for i in 1..rules {
        _ = write!(text, "deny src host 172.16.{}.{} and dst port {}, ", i / 250, i % 250 + 1, 1000 + i);
    }
    text += "allow udp dst port 53) -> Output;";
    let frames = last_frames();
    let expected = Expected::exact(&frames, |f| (0, f.to_vec()));
    Workload::new(text, frames, expected)
}

/// Packets from random sources to the port of the last rule.
pub fn last_frames() -> Frames {
    udp_frames(FRAMES, FRAME_LEN, |r, _| (random_source(r), (Ipv4Addr::new(198, 51, 100, 1), 53)))
}

/// Rules of mixed shapes, as ClassBench (Taylor, Turner 2007) makes them: prefixes of all lengths in a few networks,
/// exact ports and ranges, protocols. Specific rules stand first. Packets are made of rules, all alike.
pub fn mixed(n: usize) -> Workload {
    let rules = mixed_rules(n, 0xc1a5);
    let mut text = "out :: Output; f :: IPFilter(".to_owned();
    for rule in &rules {
        _ = write!(text, "{} {}, ", rule.output, rule.expr());
    }
    text += "3 all); Input -> CheckIPHeader(14) -> f;";
    for output in 0..OUTPUTS {
        _ = write!(text, " f [{output}] -> [{output}] out;");
    }
    let mut r = Random::new(0x7ac3);
    let frames = Frames::of((0..(4 * n).max(FRAMES)).map(|_| r.of(&rules).packet(&mut r)));
    let expected = Expected::exact(&frames, |f| {
        let first = rules.iter().find(|rule| rule.matches(f));
        (first.map_or(3, |rule| rule.output), f.to_vec())
    });
    Workload::new(text, frames, expected)
}

/// Two lists of `rules` mixed rules each, of which the last lets everything else through, and a router with 8 routes
/// behind them. `flows` flows; how often each has a packet, `popularity` says.
pub fn chain(rules: usize, flows: usize, popularity: Popularity) -> Workload {
    let lists = [0xc1a5, 0x1157].map(|seed| mixed_rules(rules, seed));
    let mut text = format!("out :: Output;\nrt :: StaticIPLookup({});\n", list(ROUTES.into_iter()));
    text += "Input -> CheckIPHeader(14)";
    for rules in &lists {
        text += " -> IPFilter(";
        for rule in rules {
            // All leave on one output, and still the lookup has to say which rule it was.
            _ = write!(text, "allow {}, ", rule.expr());
        }
        text += "allow all)";
    }
    text += " -> Strip(14) -> rt;\n";
    for output in 0..ETHERNET.len() {
        _ = writeln!(text, "rt [{output}] -> DecIPTTL -> {} -> [{output}] out;", encap(output));
    }
    let mut r = Random::new(0x7ac3);
    let all: Vec<Vec<u8>> = (0..flows).map(|i| r.of(&lists[i % 2]).packet(&mut r)).collect();
    let chosen = popularity.choose((2 * flows).max(MOST_FRAMES), flows);
    let frames = Frames::of(chosen.into_iter().map(|i| all[i as usize].clone()));
    let expected = Expected::exact(&frames, |f| {
        let output = output_for(u32::from_be_bytes([f[30], f[31], f[32], f[33]]));
        (output, routed(f, output))
    });
    Workload::new(text, frames, expected)
}

/// The output of the longest of the routes.
fn output_for(dst: u32) -> u32 {
    let fitting = ROUTES.iter().filter(|r| dst & mask(r.len) == r.addr);
    fitting.max_by_key(|r| r.len).map_or(0, |r| r.output)
}

/// Most frames of a chain, unless it has more flows.
const MOST_FRAMES: usize = 1 << 14;
const OUTPUTS: u32 = 4;

/// A rule: what a packet has to have, and where it leaves.
#[derive(Debug, Clone, Copy)]
struct Rule {
    src: Prefix,
    dst: Prefix,
    proto: Option<u8>,
    sport: Ports,
    dport: Ports,
    output: u32,
}

/// Address and length.
type Prefix = (u32, u32);
/// From and to, both included.
type Ports = (u16, u16);

const ANY: Ports = (0, u16::MAX);
const KNOWN: [u16; 12] = [20, 21, 22, 25, 53, 80, 110, 123, 143, 443, 993, 8080];

impl Rule {
    fn random(r: &mut Random, networks: &[u32]) -> Rule {
        let [src, dst] = [30, 10].map(|wild| {
            let len = match r.below(100) {
                x if x < wild => 0,
                0..50 => 8 + r.below(9) as u32,
                50..65 => 17 + r.below(7) as u32,
                65..80 => 24,
                80..88 => 25 + r.below(7) as u32,
                _ => 32,
            };
            ((r.of(networks) | r.below(1 << 16) as u32) & mask(len), len)
        });
        let proto = match r.below(20) {
            0..12 => Some(proto::TCP),
            12..17 => Some(proto::UDP),
            17 => Some(proto::ICMP),
            _ => None,
        };
        let [mut sport, mut dport] = [ANY; 2];
        if matches!(proto, Some(proto::TCP | proto::UDP)) {
            sport = match r.below(100) {
                0..85 => ANY,
                85..95 => exact(r.of(&KNOWN)),
                _ => (1024, u16::MAX),
            };
            dport = match r.below(100) {
                0..30 => ANY,
                30..65 => exact(r.of(&KNOWN)),
                65..75 => exact(1024 + r.below(64_000) as u16),
                75..90 => {
                    let low = r.below(60_000) as u16;
                    (low, low + 1 + r.below(5_000) as u16)
                }
                _ => (1024, u16::MAX),
            };
        }
        Rule { src, dst, proto, sport, dport, output: r.below(OUTPUTS.into()) as u32 }
    }

    /// How few packets match: bits that count.
    fn specificity(&self) -> u32 {
        let ports = |(low, high): Ports| 16 - (u32::from(high - low) + 1).ilog2();
        let proto = if self.proto.is_some() { 8 } else { 0 };
        self.src.1 + self.dst.1 + proto + ports(self.sport) + ports(self.dport)
    }

    /// The filter expression.
    fn expr(&self) -> String {
        let net = |side, (addr, len)| (len > 0).then(|| format!("{side} net {}/{len}", Ipv4Addr::from(addr)));
        let ports = |side, (low, high): Ports| match (low, high) {
            ANY => None,
            _ if low == high => Some(format!("{side} port {low}")),
            _ => Some(format!("{side} portrange {low}-{high}")),
        };
        let proto = self.proto.map(|p| format!("ip proto {p}"));
        let terms = [
            proto,
            net("src", self.src),
            net("dst", self.dst),
            ports("src", self.sport),
            ports("dst", self.dport),
        ];
        let terms: Vec<String> = terms.into_iter().flatten().collect();
        if terms.is_empty() { "all".into() } else { terms.join(" and ") }
    }

    fn matches(&self, f: &[u8]) -> bool {
        let within = |at: usize, (addr, len): Prefix| {
            u32::from_be_bytes([f[at], f[at + 1], f[at + 2], f[at + 3]]) & mask(len) == addr
        };
        let port =
            |at: usize, (low, high): Ports| (low..=high).contains(&u16::from_be_bytes([f[at], f[at + 1]]));
        self.proto.is_none_or(|p| f[23] == p)
            && within(26, self.src)
            && within(30, self.dst)
            && (self.sport == ANY || port(34, self.sport))
            && (self.dport == ANY || port(36, self.dport))
    }

    /// A packet that matches.
    fn packet(&self, r: &mut Random) -> Vec<u8> {
        let [src, dst] = [self.src, self.dst]
            .map(|(addr, len)| Ipv4Addr::from(addr | (r.below(1 << 32) as u32 & !mask(len))));
        let [sport, dport] =
            [self.sport, self.dport].map(|(low, high)| low + r.below(u64::from(high - low) + 1) as u16);
        let payload: Vec<u8> = (0..FRAME_LEN).map(|_| r.below(256) as u8).collect();
        match self.proto {
            Some(proto::TCP) => {
                let fields = TcpFields { seq: r.below(1 << 32) as u32, flags: 0x10, ..TcpFields::default() };
                tcp4((src, sport), (dst, dport), fields, &payload[..FRAME_LEN - 54])
            }
            Some(proto::ICMP) => icmp_echo(src, dst, sport, dport, &payload[..FRAME_LEN - 42]),
            _ => udp4((src, sport), (dst, dport), &payload[..FRAME_LEN - 42]),
        }
    }
}

/// Different rules, specific ones first.
fn mixed_rules(n: usize, seed: u64) -> Vec<Rule> {
    let mut r = Random::new(seed);
    let networks: Vec<u32> =
        (0..64).map(|_| (1 + r.below(222) as u32) << 24 | (r.below(256) as u32) << 16).collect();
    let mut known = HashSet::new();
    let mut rules = Vec::with_capacity(n);
    while rules.len() < n {
        let rule = Rule::random(&mut r, &networks);
        if known.insert(rule.expr()) {
            rules.push(rule);
        }
    }
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.specificity()));
    rules
}

fn exact(port: u16) -> Ports {
    (port, port)
}

fn mask(len: u32) -> u32 {
    u32::MAX.checked_shl(32 - len).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_many_shapes_and_all_of_them_can_match() {
        let rules = mixed_rules(1000, 0xc1a5);
        let mut lengths: Vec<u32> = rules.iter().map(|rule| rule.dst.1).collect();
        lengths.sort_unstable();
        lengths.dedup();
        assert!(lengths.len() > 15, "{lengths:?}");
        let ranges = rules.iter().filter(|rule| rule.dport.0 != rule.dport.1 && rule.dport != ANY).count();
        assert!((80..250).contains(&ranges), "{ranges}");
        let mut r = Random::new(1);
        assert!(rules.iter().all(|rule| rule.matches(&rule.packet(&mut r))));
    }
}
