//! Routers with large tables.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use weir_table::{KeyMatch, Row};

use super::frames::{Frames, Popularity, Random, random_source, udp};
use super::router::{ETHERNET, Route, routed, text};
use super::{Expected, FRAME_LEN, FRAMES, Workload};

/// Most frames: enough that the entries they need do not fit into the second-level cache.
const MOST_FRAMES: usize = 1 << 18;

/// Most routes in the text of the graph.
const MOST_IN_TEXT: usize = 100_000;

/// A short router with `n` random prefixes and a default route. Each destination is an address of one of the
/// prefixes; how often, `popularity` says.
pub fn router(n: usize, popularity: Popularity) -> Workload {
    let mut routes = prefixes(n);
    let mut r = Random::new(0xd057);
    let count = (4 * n).clamp(FRAMES, MOST_FRAMES);
    let mut frames = Frames::with_capacity(count, FRAME_LEN);
    for i in popularity.choose(count, n) {
        let route = routes[i as usize];
        let dst = route.addr | (r.below(1 << 32) as u32 & !mask(route.len));
        let src = random_source(&mut r);
        frames.push(&udp(&mut r, src, (Ipv4Addr::from(dst), 9), FRAME_LEN));
    }
    let table: HashMap<(u32, u32), u32> = routes.iter().map(|r| ((r.addr, r.len), r.output)).collect();
    let expected = Expected::exact(&frames, |f| {
        let dst = u32::from_be_bytes([f[30], f[31], f[32], f[33]]);
        let output = (0..=32).rev().find_map(|len| table.get(&(dst & mask(len), len)).copied());
        let output = output.unwrap_or(3);
        (output, routed(f, output))
    });
    let default = Route { addr: 0, len: 0, output: 3 };
    let more = routes.split_off(routes.len().min(MOST_IN_TEXT));
    let text = text("RadixIPLookup", routes.into_iter().chain([default]));
    Workload { routes: more.iter().map(row).collect(), ..Workload::new(text, frames, expected) }
}

/// A route as a row: gateway (none) and output.
fn row(route: &Route) -> Row {
    let key = vec![KeyMatch::Prefix(route.addr.into(), route.len)];
    Row { key, value: vec![0, route.output.into()], priority: 0, ttl: None }
}

/// Different random prefixes: 60 % of /24, 34 % from /16 to /23, 5 % longer, 1 % from /8 to /15, much as in the
/// tables of Internet routers.
fn prefixes(n: usize) -> Vec<Route> {
    let mut r = Random::new(0x1f6);
    let mut known = HashMap::new();
    let mut routes = Vec::with_capacity(n);
    while routes.len() < n {
        let len = match r.below(100) {
            0..60 => 24,
            60..94 => 16 + r.below(8) as u32,
            94..99 => 25 + r.below(8) as u32,
            _ => 8 + r.below(8) as u32,
        };
        let addr = r.below(1 << 32) as u32 & mask(len);
        if known.insert((addr, len), ()).is_none() {
            routes.push(Route { addr, len, output: (routes.len() % ETHERNET.len()) as u32 });
        }
    }
    routes
}

fn mask(len: u32) -> u32 {
    u32::MAX.checked_shl(32 - len).unwrap_or(0)
}
