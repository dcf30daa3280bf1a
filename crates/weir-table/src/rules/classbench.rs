//! Rule sets and keys for tests: like the access lists, firewalls and chains of ClassBench (Taylor and Turner
//! 2007), from a seed.

use crate::row::KeyMatch;

/// Source and destination address, protocol, source and destination port.
pub(crate) const FIVE_TUPLE: [u32; 5] = [32, 32, 8, 16, 16];

/// Pseudorandom numbers (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn wide(&mut self) -> u128 {
        u128::from(self.bits()) << 64 | u128::from(self.bits())
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.bits() >> 11) % n
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Which kind of ClassBench set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    /// Access list: destinations exact or long, few source ports.
    Acl,
    /// Firewall: many wild addresses, many port ranges.
    Firewall,
    /// IP chain: all shapes of address pairs.
    Chain,
}

/// Nested prefixes as sites have them: a few wide blocks, networks within, hosts within these.
fn addresses(r: &mut Random, count: usize) -> Vec<(u32, u32)> {
    let mut all: Vec<(u32, u32)> =
        (0..count / 40 + 3).map(|_| (r.bits() as u32, 8 + r.below(9) as u32)).collect();
    while all.len() < count {
        let (base, len) = all[r.below(all.len() as u64) as usize];
        if len == 32 {
            continue;
        }
        let longer = r.pick(&[16, 20, 22, 24, 24, 24, 26, 27, 28, 29, 30, 32, 32, 32, 32]);
        if longer > len {
            let keep = u32::MAX << (32 - len);
            all.push((base & keep | r.bits() as u32 & !keep, longer));
        }
    }
    all
}

/// `n` rules of five fields, most specific first as far as the random choice has it, without a rule for all keys.
pub(crate) fn rules(style: Style, n: usize, seed: u64) -> Vec<Vec<KeyMatch>> {
    let mut r = Random::new(seed);
    let (sources, targets) = (addresses(&mut r, n / 4 + 8), addresses(&mut r, n / 4 + 8));
    let wild = match style {
        Style::Acl => (10, 2),
        Style::Firewall => (35, 25),
        Style::Chain => (15, 12),
    };
    let ranges = [
        (0, 1023),
        (1024, 65535),
        (6000, 6063),
        (5900, 5910),
        (135, 139),
        (2001, 2999),
        (20, 21),
        (1, 65535),
    ];
    let services = [80, 443, 53, 25, 22, 110, 143, 123, 161, 389, 1521, 1433, 3306, 8080, 5060, 1723];
    let mut seen = std::collections::HashSet::new();
    let mut all = Vec::new();
    while all.len() < n {
        let address = |r: &mut Random, of: &[(u32, u32)], wild| {
            if r.below(100) < wild {
                return KeyMatch::ANY;
            }
            let (v, len) = r.pick(of);
            KeyMatch::Prefix((v & (u32::MAX << (32 - len))).into(), len)
        };
        let (src, dst) = (address(&mut r, &sources, wild.0), address(&mut r, &targets, wild.1));
        let proto = r.pick(&[Some(6), Some(6), Some(6), Some(17), Some(17), Some(1), None]);
        let port = |r: &mut Random, any: u64, exact: u64| {
            let dice = r.below(100);
            if dice < any {
                KeyMatch::ANY
            } else if dice < any + exact {
                let ephemeral = 1024 + r.below(8000);
                let port = if r.below(4) == 0 { ephemeral } else { r.pick(&services) };
                KeyMatch::Exact(port.into())
            } else {
                let (lo, hi) = r.pick(&ranges);
                KeyMatch::Range(lo, hi)
            }
        };
        let ported = matches!(proto, Some(6 | 17));
        let (sport, dport) = match style {
            _ if !ported => (KeyMatch::ANY, KeyMatch::ANY),
            Style::Acl => (KeyMatch::ANY, port(&mut r, 15, 60)),
            Style::Firewall => (port(&mut r, 70, 10), port(&mut r, 20, 45)),
            Style::Chain => (port(&mut r, 75, 15), port(&mut r, 30, 50)),
        };
        let key = vec![src, dst, proto.map_or(KeyMatch::ANY, KeyMatch::Exact), sport, dport];
        let unspecific = src == KeyMatch::ANY && dst == KeyMatch::ANY && dport == KeyMatch::ANY;
        if !unspecific && seen.insert(key.clone()) {
            all.push(key);
        }
    }
    // Specific rules first, with exceptions, as administrators write them.
    let wildness =
        |k: &[KeyMatch]| k.iter().filter(|m| matches!(m, KeyMatch::Mask(..) | KeyMatch::Range(..))).count();
    all.sort_by_cached_key(|k| wildness(k) as u64 * 2 + r.below(4));
    all
}

/// A key that the rule matches, at random otherwise; `None` if there is none.
pub(crate) fn key_of(r: &mut Random, widths: &[u32], rule: &[KeyMatch]) -> Option<Vec<u128>> {
    let field = |(m, bits): (&KeyMatch, &u32)| {
        let max = u128::MAX >> (128 - bits);
        let any = r.wide() & max;
        let v = match *m {
            KeyMatch::Exact(v) => v,
            KeyMatch::Mask(v, mask) => v & mask | any & !mask,
            KeyMatch::Prefix(v, len) => {
                let free = max.checked_shr(len).unwrap_or(0);
                v & !free | any & free
            }
            KeyMatch::Range(lo, hi) => {
                let hi = hi.min(max);
                let (from, span) = (lo, hi.checked_sub(lo)?);
                match r.below(4) {
                    0 => lo,
                    1 => hi,
                    _ => from + span.checked_add(1).map_or(any, |n| any % n),
                }
            }
        };
        (v <= max).then_some(v)
    };
    rule.iter().zip(widths).map(field).collect()
}
