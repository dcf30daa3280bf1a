use std::cmp::Reverse;

use weir_ir::program::Width;

use super::headers::{IPV4, bytes_at, net_of, original};
use super::{Checker, Evidence, Framing, Query, Search, THOROUGH};
use crate::explore::trace::Trace;
use crate::model::expr::{Exprs, Source, Symbol};

/// Most paths among which [`near_miss`] chooses, and most of them that it tries.
const PATHS: usize = 256;
const TRIED: usize = 32;

/// Where no packet arrives as [`can`](super::can) asks: what becomes of one that may have been meant. It matches FILTER at SRC, and is a
/// plain IPv4 packet, if there is one, and comes as near to DST as any that was found. It proves nothing. The checker is one
/// that nothing else was asked.
pub fn near_miss(c: &mut Checker<'_>, q: &Query) -> Option<Box<Evidence>> {
    let kinds = [(true, true), (true, false), (false, true), (false, false)];
    let mut paths = kinds.into_iter().map(|(matching, plain)| sent(c, q, matching, plain));
    let mut paths = paths.find(|w| !w.is_empty())?;
    let left = c.net.hops_to(q.to.iter().map(|t| t.place.node));
    let nearest = |s: &Trace| {
        let places = s.ends().iter().flat_map(|e| e.route.places());
        places.filter_map(|p| left.get(p.node as usize).copied().flatten()).min().unwrap_or(usize::MAX)
    };
    // All may pass the same switch: the one that goes on longest; of several, one of which less is assumed.
    let longest = |s: &Trace| s.ends().iter().map(|e| e.route.places().len()).max();
    paths.sort_by_cached_key(|s| (nearest(s), Reverse(longest(s)), s.conditions().len()));
    // An example is not worth the time of z3.
    c.unknown = THOROUGH;
    let found = paths.iter().take(TRIED).find_map(|trace| match c.search(trace, |_| true) {
        Search::Found(e) => Some(e),
        Search::Impossible | Search::Unknown => None,
    });
    // What was not looked at here has no part in the answer.
    c.doubt(false);
    found
}

/// Some paths of packets of SRC: of those that match FILTER there, of plain ones, or of any.
fn sent(c: &mut Checker<'_>, q: &Query, matching: bool, plain: bool) -> Vec<Trace> {
    let blank = c.session.blank();
    let mut paths = Vec::new();
    for start in &q.from {
        let left = PATHS.saturating_sub(paths.len());
        if left == 0 {
            break;
        }
        let mut traces = c.launch(&blank, start, Some((&q.sent, true)));
        if plain {
            traces = traces.iter().filter_map(|trace| plain_at(c, trace, start.framing)).collect();
        }
        if matching {
            traces = traces.into_iter().flat_map(|s| c.filtered(s, start.framing, &q.filter, true)).collect();
        }
        paths.extend(c.session.run_some(traces, left));
    }
    paths
}

/// A trace if its first packet is IPv4 without options, whole and as long as it says, with hops left; right behind an Ethernet
/// header if it has one.
fn plain_at(c: &mut Checker<'_>, trace: &Trace, framing: Framing) -> Option<Trace> {
    let get = original(c.session.exprs(), 0);
    let net = net_of(framing);
    let trace = c.plain(trace, net, IPV4, &get)?;
    let x = c.session.exprs();
    let source = x.source_id(Source::Input(0));
    let len = x.symbol(Width::W32, Symbol::Len(source));
    let field = |x: &mut Exprs, at: i64, n: i64| bytes_at(x, &get, at, n);
    let (total, fragment, ttl) = (field(x, net + 2, 2), field(x, net + 6, 2), field(x, net + 8, 1));
    let total = x.resize(Width::W32, total);
    let end = x.plus(total, net);
    let mut conditions = vec![x.equal(len, end), x.is(fragment, 0), x.is(ttl, 64)];
    if framing == Framing::Ethernet {
        let kind = field(x, 12, 2);
        conditions.push(x.is(kind, 0x0800));
    }
    conditions.into_iter().try_fold(trace, |trace, is| c.session.assume(trace, is))
}
