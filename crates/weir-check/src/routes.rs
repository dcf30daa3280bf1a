//! Routes of lookup elements: which of them can decide nothing.

use std::net::IpAddr;

/// Addresses of a prefix: whether they are of IPv4, the first, the last.
type Range = (bool, u128, u128);

/// Whether an element's arguments are routes, of which the longest that matches decides.
pub(crate) fn has_routes(class: &str) -> bool {
    let lookups = ["RadixIPLookup", "DirectIPLookup", "RangeIPLookup", "StaticIPLookup", "LinearIPLookup"];
    lookups.contains(&class) || class.ends_with("IP6Route") || class == "Router"
}

/// The routes whose addresses all have a longer route.
pub(crate) fn covered(args: &[String]) -> Vec<&str> {
    let routes: Vec<(Range, &str)> = args.iter().filter_map(|a| Some((range(a)?, a.trim()))).collect();
    let is_covered = |(v4, first, last): Range| {
        let inside =
            |(r, _): &&(Range, &str)| r.0 == v4 && r.1 >= first && r.2 <= last && (r.1, r.2) != (first, last);
        let mut parts: Vec<(u128, u128)> = routes.iter().filter(inside).map(|(r, _)| (r.1, r.2)).collect();
        parts.sort_unstable();
        // The first address that no part reaches so far.
        let mut next = first;
        for (from, to) in parts {
            if from > next {
                return false;
            }
            if to >= last {
                return true;
            }
            next = next.max(to + 1);
        }
        false
    };
    routes.iter().filter(|(r, _)| is_covered(*r)).map(|(_, text)| *text).collect()
}

fn range(arg: &str) -> Option<Range> {
    let prefix = arg.split_whitespace().next()?;
    let (addr, len) = prefix.split_once('/').unwrap_or((prefix, ""));
    let addr = if addr == "0" { "0.0.0.0" } else { addr };
    let (v4, addr, bits) = match addr.parse().ok()? {
        IpAddr::V4(a) => (true, u128::from(u32::from(a)), 32),
        IpAddr::V6(a) => (false, u128::from(a), 128),
    };
    let len: u32 = match len.parse::<std::net::Ipv4Addr>() {
        Ok(mask) => u32::from(mask).count_ones(),
        Err(_) if len.is_empty() => bits,
        Err(_) => len.parse().ok().filter(|n| *n <= bits)?,
    };
    let rest = u128::MAX.checked_shr(128 - (bits - len)).unwrap_or(0);
    Some((v4, addr & !rest, addr & !rest | rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(routes: &[&str]) -> Vec<String> {
        let args: Vec<String> = routes.iter().map(|r| (*r).to_owned()).collect();
        covered(&args).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_route_is_covered_if_longer_ones_have_all_its_addresses() {
        let halves = ["10.0.0.0/8 0", "10.0.0.0/9 1", "10.128.0.0/9 2", "0.0.0.0/0 3"];
        assert_eq!(found(&halves), ["10.0.0.0/8 0"]);
        assert!(found(&["10.0.0.0/8 0", "10.0.0.0/9 1", "10.192.0.0/10 2"]).is_empty());
        assert!(found(&["10.0.0.1/32 0", "10.0.0.1 1"]).is_empty(), "the same addresses cover nothing");
        assert_eq!(found(&["0/0 0", "0.0.0.0/128.0.0.0 1", "128.0.0.0/1 2"]), ["0/0 0"]);
        assert_eq!(found(&["::/0 0", "::/1 1", "8000::/1 2", "0.0.0.0/0 3"]), ["::/0 0"]);
    }
}
