//! All workloads, by group, with the figures that they are held against.

use weir_elements::class_named;

use super::frames::Popularity::{self, Uniform, Zipf};
use super::{FRAME_LEN, Workload, chain, l2, lb, lpm, nat, router, rules, wifi};

/// Groups, in the order of the report: name (with which the names of workloads start) and title.
pub const GROUPS: [(&str, &str); 9] = [
    ("router", "IPv4 routers"),
    ("lpm", "Routers with large tables"),
    ("rules", "Rules"),
    ("nat", "Source NAT"),
    ("l2", "L2 switch"),
    ("chain", "Chains of light functions"),
    ("lb", "Load balancer"),
    ("wifi", "WiFi: duplicate filter and decapsulation"),
    ("sizes", "Router with longer frames"),
];

/// The group whose workloads only stand in curves of growth, beside those of other groups.
pub const GROWTH: (&str, &str) = ("growth", "Growth with table size");

/// A workload, not yet made.
pub struct Entry {
    /// Its name, which starts with that of its group.
    pub name: String,
    /// What it is, for people.
    pub about: String,
    /// Nanoseconds for a packet that it must not exceed.
    pub target: Option<f64>,
    /// The best figure of another system on this kind of machine: nanoseconds for a packet, and which system.
    pub peer: Option<(f64, &'static str)>,
    /// The curve it is a point of, and the number of entries of its table.
    pub curve: Option<(&'static str, usize)>,
    /// Whether interpreter and machine code of the program as linked are measured too.
    pub all_variants: bool,
    classes: &'static [&'static str],
    make: Box<dyn Fn(usize) -> Workload>,
}

impl Entry {
    fn new(name: String, about: &str, make: impl Fn(usize) -> Workload + 'static) -> Entry {
        Entry {
            name,
            about: about.to_owned(),
            target: None,
            peer: None,
            curve: None,
            all_variants: false,
            classes: &[],
            make: Box::new(make),
        }
    }

    fn held(self, target: Option<f64>, peer: Option<(f64, &'static str)>) -> Entry {
        Entry { target, peer, ..self }
    }

    fn on_curve(self, name: &'static str, entries: usize) -> Entry {
        Entry { curve: Some((name, entries)), ..self }
    }

    fn all_variants(self) -> Entry {
        Entry { all_variants: true, ..self }
    }

    fn needs(self, classes: &'static [&'static str]) -> Entry {
        Entry { classes, ..self }
    }

    /// The group.
    pub fn group(&self) -> &str {
        self.name.split('-').next().unwrap_or_default()
    }

    /// Classes that the element library lacks, without which the workload cannot be measured.
    pub fn missing(&self) -> Vec<&'static str> {
        self.classes.iter().copied().filter(|c| class_named(c).is_none()).collect()
    }

    /// Makes the workload, with tables of at most `most` entries.
    pub fn make(&self, most: usize) -> Workload {
        (self.make)(most)
    }
}

/// Whether a pattern means this name: the start of it, or all of it with `*` for any characters.
pub fn matches(name: &str, pattern: &str) -> bool {
    let Some((start, mut rest)) = pattern.split_once('*') else { return name.starts_with(pattern) };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    while let Some((part, more)) = rest.split_once('*') {
        let Some(at) = name.find(part) else { return false };
        (name, rest) = (&name[at + part.len()..], more);
    }
    name.ends_with(rest)
}

/// All workloads.
pub fn catalog() -> Vec<Entry> {
    let lists = [
        routers(),
        large_tables(),
        rule_lists(),
        source_nat(),
        switches(),
        chains(),
        load_balancers(),
        wifi_frames(),
        sizes(),
    ];
    lists.into_iter().flatten().chain(growth()).collect()
}

fn routers() -> Vec<Entry> {
    vec![
        Entry::new(
            "router-8".into(),
            "Strip → CheckIPHeader → StaticIPLookup (8 routes, 5 prefix lengths, even load) → DecIPTTL → EtherEncap \
             (4 outputs).",
            |_| router::short(FRAME_LEN),
        )
        .held(Some(12.0), Some((31.7, "VPP")))
        .all_variants(),
        Entry::new(
            "router-click".into(),
            "The standard IP router of Click behind its ARP queriers: Classifier → Paint → Strip → CheckIPHeader → \
             StaticIPLookup (9 routes) → DropBroadcasts → PaintTee → IPGWOptions → FixIPSrc → DecIPTTL → \
             IPFragmenter → EtherEncap (4 outputs), ICMPError for each exception.",
            |_| router::click(),
        )
        .held(Some(16.0), Some((44.0, "FastClick")))
        .needs(&["PaintTee", "IPGWOptions", "FixIPSrc", "IPFragmenter"])
        .all_variants(),
    ]
}

const ROUTES: &str = "routes, uniform";

fn route_table(group: &str, n: usize, popularity: Popularity) -> Entry {
    let (suffix, how) = match popularity {
        Uniform => ("uniform", "all alike"),
        Zipf => ("zipf", "with Zipf popularity"),
    };
    let about = format!(
        "As router-8 with RadixIPLookup, random prefixes and a default route; packets go to the prefixes {how}."
    );
    let name = if group == "lpm" { format!("lpm-{n}-{suffix}") } else { format!("{group}-lpm-{n}") };
    let entry = Entry::new(name, &about, move |most| lpm::router(n.min(most), popularity));
    if popularity == Uniform { entry.on_curve(ROUTES, n) } else { entry }
}

fn large_tables() -> Vec<Entry> {
    vec![
        route_table("lpm", 100_000, Uniform).held(Some(30.0), Some((53.0, "BESS"))),
        route_table("lpm", 100_000, Zipf).held(Some(20.0), Some((47.0, "BESS"))),
    ]
}

fn last_rule(group: &str, n: usize) -> Entry {
    let about =
        "CheckIPHeader → IPFilter: the last rule matches, each before it names a source address and a port.";
    let name = if group == "rules" { format!("rules-last-{n}") } else { format!("{group}-rules-{n}") };
    Entry::new(name, about, move |most| rules::last(n.min(most))).on_curve("rules, the last matches", n)
}

fn rule_lists() -> Vec<Entry> {
    let held =
        [(10, 12.0, (18.0, "BESS")), (100, 16.0, (45.0, "BESS")), (1000, 24.0, (60.0, "Open vSwitch"))];
    let last = held.map(|(n, target, peer)| {
        let entry = last_rule("rules", n).held(Some(target), Some(peer));
        if n == 10 { entry.all_variants() } else { entry }
    });
    let mixed = [10, 100, 1000, 10_000].map(|n| {
        let about = "CheckIPHeader → IPFilter: rules of mixed shapes (prefixes, ports, ranges, protocols), 4 outputs; \
                     at least 4 packets for each rule.";
        Entry::new(format!("rules-mixed-{n}"), about, move |most| rules::mixed(n.min(most)))
            .on_curve("rules of mixed shapes", n)
    });
    let chains = [(1000, Zipf), (100_000, Uniform)].map(|(flows, popularity)| {
        let how = if popularity == Zipf { "zipf" } else { "uniform" };
        let about = "CheckIPHeader → IPFilter → IPFilter (1,000 rules of mixed shapes each) → StaticIPLookup (8 routes) → \
                     DecIPTTL → EtherEncap (4 outputs): so many flows.";
        Entry::new(format!("rules-chain-{flows}-{how}"), about, move |most| {
            rules::chain(most.min(1000), flows.min(10 * most), popularity)
        })
    });
    last.into_iter().chain(mixed).chain(chains).collect()
}

fn flows(group: &str, n: usize, popularity: Popularity) -> Entry {
    let suffix = if popularity == Zipf { "-zipf" } else { "" };
    let name = if group == "nat" { format!("nat-{n}{suffix}") } else { format!("{group}-nat-{n}") };
    let how = if popularity == Zipf { "with Zipf popularity" } else { "all alike" };
    let about =
        format!("CheckIPHeader → IPRewriter: UDP flows, all in the table before the measurement, {how}.");
    let entry = Entry::new(name, &about, move |most| nat::source_nat(n.min(most), popularity));
    if popularity == Uniform { entry.on_curve("NAT flows, uniform", n) } else { entry }
}

fn source_nat() -> Vec<Entry> {
    vec![
        flows("nat", 1, Uniform).held(Some(13.0), Some((19.0, "BESS"))).all_variants(),
        flows("nat", 1000, Uniform).held(Some(15.0), Some((24.0, "BESS"))),
        flows("nat", 1000, Zipf),
        flows("nat", 100_000, Uniform).held(Some(38.0), Some((186.0, "VPP"))),
        flows("nat", 100_000, Zipf),
        flows("nat", 1_000_000, Uniform).held(Some(70.0), Some((254.0, "VPP"))),
        flows("nat", 1_000_000, Zipf),
    ]
}

fn stations(group: &str, n: usize) -> Entry {
    let name = if group == "l2" { format!("l2-{n}") } else { format!("{group}-l2-{n}") };
    let about = "EtherSwitch with two ports: one station sends to so many others, all alike.";
    Entry::new(name, about, move |most| l2::switch(n.min(most)))
        .needs(&["EtherSwitch"])
        .on_curve("MAC addresses, uniform", n)
}

fn switches() -> Vec<Entry> {
    let all = [1, 10, 100, 1000, 100_000].map(|n| {
        let peer = if n == 1 { (18.0, "BESS") } else { (20.0, "BESS") };
        let held = n <= 1000;
        let entry = stations("l2", n).held(held.then_some(10.0), held.then_some(peer));
        if n == 1 { entry.all_variants() } else { entry }
    });
    all.into()
}

fn chains() -> Vec<Entry> {
    let null = (0..=8).map(|n| {
        let about = match n {
            0 => "Source to sink: packets are made and dropped.",
            _ => "So many Null.",
        };
        let entry = Entry::new(format!("chain-null-{n}"), about, move |_| chain::null(n));
        match n {
            0 => entry.held(Some(6.0), Some((9.2, "Click"))),
            1 => entry.all_variants(),
            8 => entry.held(Some(13.0), Some((27.6, "BESS"))),
            _ => entry,
        }
    });
    let mixed = (1..=8).map(|n| {
        let about =
            "The first of Counter → Paint → CheckPaint → EtherMirror → Strip → SetIPAddress → Unstrip → Null.";
        Entry::new(format!("chain-mixed-{n}"), about, move |_| chain::mixed(n))
    });
    let swaps = [
        Entry::new("chain-macswap".into(), "EtherMirror, as dpdk-testpmd in its mode macswap.", |_| {
            chain::macswap()
        }),
        Entry::new(
            "chain-5tswap".into(),
            "MarkIPHeader → IPMirror → EtherMirror, as dpdk-testpmd in its mode 5tswap.",
            |_| chain::five_tuple_swap(),
        ),
    ];
    null.chain(mixed).chain(swaps).collect()
}

fn load_balancers() -> Vec<Entry> {
    let about = "CheckIPHeader → FlowHashSwitch (8 back ends) → SetIPDst for each; 1,024 UDP flows.";
    vec![
        Entry::new("lb-8".into(), about, |_| lb::by_hash(8))
            .held(Some(14.0), Some((28.0, "XDP")))
            .needs(&["FlowHashSwitch", "SetIPDst"])
            .all_variants(),
    ]
}

fn wifi_frames() -> Vec<Entry> {
    let mut all = Vec::new();
    for len in [100, 1400] {
        for (name, stations, target, peer) in [("empty", 1, 14.0, 25.0), ("10000", 10_000, 25.0, 54.0)] {
            let about = "WifiDupeFilter → WifiDecap, frames of 100 or 1,400 bytes from 1 (empty) or 10,000 stations, all \
                         alike.";
            let entry = Entry::new(format!("wifi-{len}-{name}"), about, move |most| {
                wifi::wifi("WifiDupeFilter -> WifiDecap", len, stations.min(most))
            });
            let held = len == 100;
            all.push(entry.held(held.then_some(target), held.then_some((peer, "best peer"))));
        }
        let one = |name: &str, elements: &'static str, stations: usize| {
            let about = format!("{elements} alone, {stations} station(s).");
            Entry::new(format!("wifi-{name}-{len}"), &about, move |most| {
                wifi::wifi(elements, len, stations.min(most))
            })
        };
        all.push(one("dupe", "WifiDupeFilter", 10_000));
        all.push(one("decap", "WifiDecap", 1));
    }
    all.into_iter().map(|e| e.needs(&["WifiDupeFilter", "WifiDecap"])).collect()
}

fn sizes() -> Vec<Entry> {
    let all = [64, 512, 1500].map(|len| {
        Entry::new(format!("sizes-{len}"), "As router-8, frames of so many bytes.", move |_| {
            router::short(len)
        })
    });
    all.into()
}

fn growth() -> Vec<Entry> {
    let nat = [10, 100, 10_000].map(|n| flows("growth", n, Uniform));
    let lpm = [1, 10, 100, 1000, 10_000, 1_000_000].map(|n| route_table("growth", n, Uniform));
    let rules = [1, 10_000].map(|n| last_rule("growth", n));
    let l2 = [10_000, 1_000_000].map(|n| stations("growth", n));
    nat.into_iter().chain(lpm).chain(rules).chain(l2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_prefixes_or_globs() {
        for (pattern, wanted) in [
            ("nat", true),
            ("nat-1", true),
            ("*zipf", true),
            ("nat-*-zipf", true),
            ("n*0*f", true),
            ("", true),
            ("lpm", false),
            ("*-uniform", false),
            ("nat-*-zipf-*", false),
        ] {
            assert_eq!(matches("nat-1000-zipf", pattern), wanted, "{pattern}");
        }
    }

    #[test]
    fn names_are_different_and_start_with_a_group() {
        let mut names: Vec<String> = catalog().into_iter().map(|e| e.name).collect();
        assert!(names.iter().all(|n| {
            let group = n.split('-').next();
            GROUPS.iter().chain([&GROWTH]).any(|(name, _)| group == Some(name))
        }));
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
