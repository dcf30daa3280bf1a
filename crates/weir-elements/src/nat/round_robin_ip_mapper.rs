use super::mapper;
use crate::prelude::*;

element! {
    /// Chooses among patterns for a rewriter, one after the other.
    ///
    /// Each argument is a pattern with its outputs as in `IPRewriter`, `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT` or
    /// `NAME FOUTPUT ROUTPUT`. A rewriter that has the element's name as an input specification makes the mapping of
    /// each new flow by the next pattern. Rewriters that name the same element take turns in it. If the pattern whose
    /// turn it is has no port or address left, the packet is dropped (`NoPort`, `NoAddress`). The element has no ports.
    RoundRobinIPMapper: "0/0", "a/a";
    example "servers :: RoundRobinIPMapper(- - 10.0.0.1 - 0 1, - - 10.0.0.2 - 0 1);
        Idle -> CheckIPHeader -> rw :: IPRewriter(servers, drop) -> Discard; Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// Patterns with outputs.
        rest patterns: Vec<String>,
    }
    check |e| mapper::round_robin(&e.patterns).map(|_| ());
}

fn program(_: &RoundRobinIPMapper, _: &mut Builder) {}
