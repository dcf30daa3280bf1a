//! Elements that choose among patterns for rewriters: finding them by name, and reading their arguments.

use weir_ir::Peers;

use super::pattern::{Choice, Mapper, Rule};
use crate::args::FromArg;

/// Points in ascending order, and the rule of each.
type Ring = Vec<(u32, u32)>;

/// The mapper element that a rewriter's input specification names.
pub(super) fn find(name: &str, peers: &Peers<'_>) -> Result<Mapper, String> {
    let Some(peer) = peers.named(name) else {
        return Err(format!(
            "unknown specification '{name}': write drop, pass, keep, pattern, or the name of a mapper element"
        ));
    };
    let name = peer.name.to_owned();
    match peer.class {
        "RoundRobinIPMapper" => {
            Ok(Mapper { name, rules: round_robin(peer.args)?, choice: Choice::RoundRobin })
        }
        "SourceIPHashMapper" => {
            let (rules, points) = source_hash(peer.args)?;
            Ok(Mapper { name, rules, choice: Choice::Ring(points) })
        }
        class => Err(format!(
            "element is not an IPMapper: '{name}' is of class {class}, not RoundRobinIPMapper or SourceIPHashMapper"
        )),
    }
}

/// The rules of a `RoundRobinIPMapper`.
pub(super) fn round_robin(args: &[String]) -> Result<Vec<Rule>, String> {
    if args.is_empty() {
        return Err("no patterns given".into());
    }
    args.iter().map(|a| Rule::parse(&a.split_whitespace().collect::<Vec<_>>())).collect()
}

/// The rules of a `SourceIPHashMapper`, and the points of its ring.
pub(super) fn source_hash(args: &[String]) -> Result<(Vec<Rule>, Ring), String> {
    let [ring, servers @ ..] = args else {
        return Err("no hash seed given: write NODES SEED, and a pattern for each server".into());
    };
    let ring: Vec<u32> =
        ring.split_whitespace().map(u32::from_arg).collect::<Result<_, _>>().unwrap_or_default();
    let &[nodes @ 1..=4096, seed] = &ring[..] else {
        return Err(
            "the first argument is NODES SEED: points of each server on the ring (1 to 4096), and a number"
                .into(),
        );
    };
    if servers.is_empty() {
        return Err("no patterns given".into());
    }
    let (mut rules, mut points) = (Vec::new(), Vec::new());
    for (i, server) in servers.iter().enumerate() {
        let words: Vec<&str> = server.split_whitespace().collect();
        let id = words.split_last().and_then(|(id, rule)| Some((u32::from_arg(id).ok()?, rule)));
        let Some((id, rule)) = id else {
            return Err(
                "bad server ID in pattern spec: write SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT ID".into()
            );
        };
        rules.push(Rule::parse(rule)?);
        // The points of a server depend on its number alone, so that the others keep theirs when it goes.
        points.extend((0..nodes).map(|node| (mix(u64::from(seed) << 32 | u64::from(id), node), i as u32)));
    }
    points.sort_unstable();
    Ok((rules, points))
}

/// A number that looks random (the finaliser of SplitMix64).
fn mix(seed: u64, node: u32) -> u32 {
    let v = seed.wrapping_add(u64::from(node).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let v = (v ^ (v >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let v = (v ^ (v >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((v ^ (v >> 31)) >> 32) as u32
}
