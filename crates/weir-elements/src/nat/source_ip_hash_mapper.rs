use super::mapper;
use crate::prelude::*;

element! {
    /// Chooses among patterns for a rewriter by the source address: the same source always gets the same pattern.
    ///
    /// The first argument is `NODES SEED`, each further one a pattern with its outputs as in `IPRewriter`, and the
    /// number of a server: `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT ID`. The choice is a consistent hash: every
    /// server has NODES points on a ring, whose places follow from SEED and ID, and a source belongs to the next point
    /// from its own place on. So most sources keep their server when another one comes or goes. The ring is not that
    /// of Click, which takes its points from the C library's random numbers. The element has no ports.
    SourceIPHashMapper: "0/0", "a/a";
    example "servers :: SourceIPHashMapper(5 0xbeef, - - 10.0.0.1 - 0 1 1, - - 10.0.0.2 - 0 1 2);
        Idle -> CheckIPHeader -> rw :: IPRewriter(servers, drop) -> Discard; Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// Nodes and seed, and the patterns with outputs and numbers.
        rest servers: Vec<String>,
    }
    check |e| mapper::source_hash(&e.servers).map(|_| ());
}

fn program(_: &SourceIPHashMapper, _: &mut Builder) {}
