//! Generated networks of elements: each run of packets through one lies in a way that the symbolic execution found, and
//! each way that was solved is what its packets do.

mod common;
mod net;

use std::collections::HashSet;
use std::sync::Arc;

use net::Net;
use weir_verify::testing::{Arrivals, Paths, assert_losses_are_only_losses};
use weir_verify::{Limits, Network, NodePort, Session, SymbolicInput};

/// Elements that networks are made of, and how many outputs each has.
const ELEMENTS: &[(&str, usize)] = &[
    ("CheckIPHeader", 2),
    ("MarkIPHeader", 1),
    ("IPFilter(allow udp dst port 53, deny tcp dst port 22, allow ip ttl > 1, deny all)", 2),
    ("IPFilter(deny ip frag, allow src net 10.0.0.0/8, allow icmp type echo, deny all)", 1),
    ("IPClassifier(udp dst port 53 or 80, src net 10.0.0.0/8, -)", 3),
    ("IPClassifier(tcp opt syn and not ack, ip hl 5 and dst host 10.0.0.7, -)", 3),
    ("Classifier(9/11, 9/06 33/02%02, -)", 3),
    ("DecIPTTL", 2),
    ("StaticIPLookup(10.0.0.0/24 0, 10.0.0.0/8 1, 10.0.0.7 2, 0/0 0)", 3),
    ("LinearIPLookup(10.0.0.0/31 10.0.0.9 0, 192.0.2.0/24 1)", 2),
    ("RadixIPLookup(10.0.0.0/9 0, 10.1.0.0/16 1, 10.0.0.0/8 1)", 2),
    ("HashSwitch(12, 8)", 2),
    ("RandomSwitch", 2),
    ("RoundRobinSwitch", 2),
    ("Tee", 2),
    ("Paint(3)", 1),
    ("CheckPaint(3)", 2),
    ("StoreIPAddress(10.0.0.7, src)", 1),
    ("StoreIPAddress(10.0.0.7, dst)", 1),
    ("FixIPSrc(10.0.0.1)", 1),
    ("SetIPDSCP(12)", 1),
    ("IPMirror", 1),
    ("ICMPPingResponder", 2),
    ("IPRewriter(pattern 192.0.2.1 1024-1031 - - 0 0)", 1),
    ("IPRewriter(pattern - - 10.0.0.7 80 0 0)", 1),
    ("IPAddrRewriter(pattern 192.0.2.1 - 0 0)", 1),
    ("ConnectionLimit(1, 5 s)", 2),
    ("ICMPError(10.0.0.1, timeexceeded)", 1),
    ("IPGWOptions(10.0.0.1)", 2),
    ("IPEncap(4, 192.0.2.1, 192.0.2.2)", 1),
    ("StripIPHeader", 1),
    ("Strip(2)", 1),
    ("Unstrip(1)", 1),
];

/// Networks that are made.
const NETWORKS: u64 = 400;
/// Networks with more paths are left out.
const MOST_WAYS: usize = 200;
/// Runs of a network, beside those that solutions lead to.
const RUNS: usize = 120;
/// Runs that are made of each solution by changing it.
const CHANGED: usize = 12;

/// Numbers that look random and are the same in each run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A network in the words of [`Net::new`], which begins with some elements: outputs lead to elements behind, to `out`, or
/// nowhere.
fn network(n: &mut Numbers, first: &[(&'static str, usize)]) -> String {
    let count = first.len() + 1 + n.below(5);
    let mut all = first.to_vec();
    all.extend((first.len()..count).map(|_| n.pick(ELEMENTS)));
    let mut text = "out = sink\n".to_owned();
    all.iter().enumerate().for_each(|(i, (what, _))| text += &format!("e{i} = {what}\n"));
    for (i, &(_, outputs)) in all.iter().enumerate() {
        for port in 0..outputs {
            // The first output leads on, so that most elements are reached.
            let to = if port == 0 { i + 1 } else { i + 1 + n.below(count - i + 1) };
            match to {
                to if to < count => text += &format!("e{i}:{port} -> e{to}\n"),
                to if to == count => text += &format!("e{i}:{port} -> out\n"),
                _ => {}
            }
        }
    }
    text
}

/// An IPv4 packet that the elements care about.
fn packet(n: &mut Numbers) -> Vec<u8> {
    let addresses: [[u8; 4]; 7] = [
        [10, 0, 0, 1],
        [10, 0, 0, 7],
        [10, 0, 9, 9],
        [10, 200, 0, 1],
        [192, 0, 2, 1],
        [198, 51, 100, 1],
        [255, 255, 255, 255],
    ];
    let words = n.pick(&[5, 5, 5, 5, 6, 8]);
    let payload = n.pick(&[0, 3, 8, 19, 20, 28]);
    let mut p = vec![0u8; words * 4 + payload];
    p.iter_mut().for_each(|b| *b = n.pick(&[0, 0, 1, 7, 0x45]));
    p[0] = 0x40 | words as u8;
    let len = p.len() as u16;
    p[2..4].copy_from_slice(&len.to_be_bytes());
    p[6..8].copy_from_slice(&n.pick(&[0u16, 0, 0, 0x4000, 0x2000, 1, 0x2001]).to_be_bytes());
    p[8] = n.pick(&[0, 1, 2, 64, 255]);
    p[9] = n.pick(&[1, 4, 6, 6, 17, 17, 47]);
    p[12..16].copy_from_slice(&n.pick(&addresses));
    p[16..20].copy_from_slice(&n.pick(&addresses));
    let top = words * 4;
    let ports = [22u16, 53, 80, 1024, 40_000];
    if p.len() >= top + 4 {
        p[top..top + 2].copy_from_slice(&n.pick(&ports).to_be_bytes());
        p[top + 2..top + 4].copy_from_slice(&n.pick(&ports).to_be_bytes());
    }
    if p.len() >= top + 20 {
        p[top + 12] = n.pick(&[0x50, 0x50, 0x60, 0]);
        p[top + 13] = n.pick(&[2, 0x10, 0x12, 1, 4]);
    }
    if n.below(6) > 0 {
        update(&mut p);
    }
    if n.below(5) == 0 {
        damage(n, &mut p);
    }
    p
}

/// Gives an IPv4 header the right checksum.
fn update(p: &mut [u8]) {
    let header = usize::from(p.first().map_or(0, |b| b & 15)) * 4;
    if header >= 20 && p.len() >= header {
        p[10..12].fill(0);
        let sum = !weir_ir::interp::checksum(&p[..header]);
        p[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Changes a byte, or cuts or lengthens.
fn damage(n: &mut Numbers, p: &mut Vec<u8>) {
    let at = n.below(p.len());
    match n.below(8) {
        0 => p.truncate(at),
        1 => p.push(n.next() as u8),
        2 if !p.is_empty() => p[at] = n.next() as u8,
        _ if !p.is_empty() => p[at] ^= 1 << n.below(8),
        _ => {}
    }
}

/// Counts of comparisons.
#[derive(Debug, Default)]
struct Count {
    networks: usize,
    paths: usize,
    runs: usize,
    solved: usize,
    open: usize,
}

impl Count {
    /// Compares packets that come in at these places, one after the other, in both directions. How many paths there are,
    /// if not too many.
    fn compare(
        &mut self,
        net: &Network,
        places: &[NodePort],
        n: &mut Numbers,
        make: impl Fn(&mut Numbers) -> Vec<u8>,
    ) -> Option<usize> {
        let limits = Limits { paths: MOST_WAYS, ..Limits::of_networks() };
        let paths = Paths::new(net, places, &SymbolicInput::ip(), limits);
        if paths.incomplete.is_some() || paths.len() > MOST_WAYS {
            return None;
        }
        self.networks += 1;
        self.paths += paths.len();
        let (solved, open) = paths.assert_replayed();
        self.solved += solved.len();
        self.open += open;
        let mut run = |list: &[Vec<u8>], n: &mut Numbers| {
            let randoms: Vec<u32> = (0..4).map(|_| n.below(4) as u32).collect();
            paths.assert_taken(list, &randoms);
            self.runs += 1;
        };
        for list in &solved {
            for _ in 0..CHANGED {
                let mut list = list.clone();
                let i = n.below(list.len());
                damage(n, &mut list[i]);
                if n.below(3) > 0 {
                    update(&mut list[i]);
                }
                run(&list, n);
            }
        }
        for _ in 0..RUNS {
            let mut list: Vec<Vec<u8>> = places.iter().map(|_| make(n)).collect();
            // The same again meets what the first left in tables.
            if let [first, .., last] = &mut list[..]
                && n.below(2) == 0
            {
                last.clone_from(first);
            }
            run(&list, n);
        }
        Some(paths.len())
    }
}

#[test]
fn runs_of_networks_are_ways_and_ways_are_runs() {
    let mut all = Count::default();
    for seed in 0..NETWORKS {
        let n = &mut Numbers(seed);
        let net = Net::new(&network(n, &ELEMENTS[..1]));
        let at = net.port("e0");
        let paths = all.compare(&net.net, &[at], n, packet);
        if paths.is_some_and(|w| w <= 12) {
            all.compare(&net.net, &[at, at], n, packet);
        }
    }
    println!("{all:?}");
    assert!(all.runs + all.solved >= 100_000, "{all:?}");
    // Most of the others are none, which takes z3 to say, or need a full table.
    assert!(all.open * 5 <= all.paths, "most paths are solved: {all:?}");
    assert!(all.networks as u64 >= NETWORKS / 4, "many networks have few enough paths: {all:?}");
}

#[test]
fn what_arrives_is_found_though_ways_that_others_stand_for_are_not_followed() {
    let limits = Limits { paths: MOST_WAYS, ..Limits::of_networks() };
    // Each of three draws goes one way or the other.
    let drawn = |i: u32, bit: u32| if i >> bit & 1 == 0 { 0 } else { u32::MAX };
    let draws: Vec<Vec<u32>> = (0..8).map(|i| (0..3).map(|bit| drawn(i, bit)).collect()).collect();
    let (mut networks, mut arrived, mut fewer) = (0, 0, 0);
    for seed in 0..NETWORKS {
        let n = &mut Numbers(seed + 1_000_000);
        let net = Net::new(&network(n, &[ELEMENTS[0], ("RandomSwitch", 2)]));
        let (at, watched) = (net.port("e0"), HashSet::from([net.port("out")]));
        let Some(found) = Arrivals::new(&net.net, at, &SymbolicInput::ip(), limits, watched.clone()) else {
            continue;
        };
        networks += 1;
        let mut session = Session::new(&net.net, limits);
        let traces = session.packet(&session.blank(), at, &SymbolicInput::ip()).into_iter().collect();
        let all = session.run(traces, &watched).arrivals.len();
        fewer += usize::from(found.len() < all && session.take_incomplete().is_none());
        for _ in 0..RUNS / 4 {
            arrived += found.assert_found(&packet(n), &draws);
        }
    }
    println!("{networks} networks, {fewer} with fewer paths, {arrived} arrivals");
    assert!(networks as u64 >= NETWORKS / 4, "many networks have few enough paths: {networks}");
    assert!(fewer >= 10 && arrived >= 1_000, "paths are left out ({fewer}), and packets arrive ({arrived})");
}

#[test]
fn ways_that_are_not_followed_where_nobody_looks_at_losses_are_only_losses() {
    let limits = Limits { paths: MOST_WAYS, ..Limits::of_networks() };
    let (mut networks, mut all, mut less) = (0, 0, 0);
    for seed in 0..NETWORKS {
        let n = &mut Numbers(seed + 2_000_000);
        let net = Net::new(&network(n, &ELEMENTS[..1]));
        let (at, watched) = (net.port("e0"), HashSet::from([net.port("out")]));
        let one = assert_losses_are_only_losses(&net.net, &[at], &watched, limits);
        let two = one.filter(|(paths, _)| *paths <= 12);
        let two = two.and_then(|_| assert_losses_are_only_losses(&net.net, &[at, at], &watched, limits));
        for (paths, left_out) in one.into_iter().chain(two) {
            (networks, all, less) = (networks + 1, all + paths, less + left_out);
        }
    }
    println!("{networks} networks, {less} of {all} paths are not followed");
    assert!(networks as u64 >= NETWORKS / 4, "many networks have few enough paths: {networks}");
    assert!(less * 10 >= all, "paths are left out: {less} of {all}");
}

#[test]
fn programs_with_declared_tables_do_what_their_ways_say() {
    let few = |n: &mut Numbers| -> Vec<u8> {
        let len = n.below(16);
        (0..len).map(|_| n.pick(&[0, 1, 2, 3, 4, 9, 0x0a, 0x2a, 0xff])).collect()
    };
    let mut all = Count::default();
    for (seed, (_, program)) in (0..).zip(common::all()) {
        let mut net = Network::new();
        let node = net.add_program("p", &Arc::new(program), 0);
        net.finish();
        let (n, at) = (&mut Numbers(seed), NodePort { node, port: 0 });
        for packets in 1..=3 {
            if all.compare(&net, &vec![at; packets], n, few).is_none_or(|paths| paths > 12) {
                break;
            }
        }
    }
    println!("{all:?}");
    assert!(all.runs + all.solved >= 5_000, "{all:?}");
}
