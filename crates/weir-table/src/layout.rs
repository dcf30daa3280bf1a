//! Where the parts of a row are: what compiled code and the table itself agree on.
//!
//! A row is, from its start: the key as 64-bit words (exact tables only), the value fields, and the entry's own
//! three words: when it expires, when its timer fires, and its link. All numbers are naturally aligned. A row of more
//! than half a cache line takes a whole one.
//!
//! Rows of exact tables are about packets. So their keys, and their values of 16 and 32 bits, are in the byte order of
//! the network: addresses and ports go between packet and row as they are, several at a time. All other numbers are in
//! the machine's byte order, above all the 64 bits of counters and times.

use crate::decl::{Kind, TableDecl, Width};

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// Place of a key field, in network byte order, in the key's words. A field of 128 bits takes its word and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyField {
    /// Number of the word.
    pub word: usize,
    /// Lowest bit in it.
    pub shift: u32,
    /// Size.
    pub width: Width,
}

/// The layout of a table's rows. Offsets are in bytes from the start of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Place of each key field.
    pub key: Vec<KeyField>,
    /// Number of 64-bit words of a key.
    pub key_words: usize,
    /// Offset of each value field.
    pub value: Vec<usize>,
    /// For each value field whether it is in [network byte order](network_order).
    pub network: Vec<bool>,
    /// Offset of the time of expiry, 64 bits; [`NEVER`] is never.
    pub expires: usize,
    /// Offset of the time at which the entry's timer fires, 64 bits; 0 is not at all.
    pub armed: usize,
    /// Offset of the link, 64 bits; [`NO_ENTRY`] for a slot without an entry.
    pub link: usize,
    /// Distance of two rows.
    pub stride: usize,
}

/// The time of expiry of an entry that stays, as it stands in its row: later than all others, so that one comparison
/// says whether an entry goes no later than at some time. No time is 0.
pub const NEVER: u64 = u64::MAX;
/// The link of a slot without an entry.
pub const NO_ENTRY: u64 = 0;
/// The link of an entry that is linked to no other.
pub(crate) const NO_LINK: u64 = 1;

/// The link to another entry as a number.
pub(crate) const fn link_word(table: u32, slot: u32) -> u64 {
    ((table as u64) << 32 | slot as u64) + 2
}

impl Layout {
    /// The layout for a declaration.
    pub fn of(decl: &TableDecl) -> Layout {
        let (key, key_words) = key_layout(decl.key.iter().map(|f| f.width));
        let mut at = if decl.kind == Kind::Exact { 8 * key_words } else { 0 };
        let mut value = vec![0; decl.value.len()];
        let is_network = |w| decl.kind == Kind::Exact && matches!(w, Width::W16 | Width::W32);
        let network = decl.value.iter().map(|f| is_network(f.width)).collect();
        for i in by_size(decl.value.iter().map(|f| f.width)) {
            value[i] = at;
            at += decl.value[i].width.bytes() as usize;
        }
        let expires = at.next_multiple_of(8);
        let size = expires + 24;
        let stride = if size > LINE / 2 { size.next_multiple_of(LINE) } else { size };
        Layout { key, key_words, value, network, expires, armed: expires + 8, link: expires + 16, stride }
    }
}

/// A number of this width with its bytes reversed: from the machine's byte order (little-endian) to that of the
/// network, or back.
pub fn network_order(width: Width, v: u128) -> u128 {
    match width {
        Width::W1 | Width::W8 => v,
        Width::W16 => (v as u16).swap_bytes().into(),
        Width::W32 => (v as u32).swap_bytes().into(),
        Width::W64 => (v as u64).swap_bytes().into(),
        Width::W128 => v.swap_bytes(),
    }
}

/// Places fields into words, large ones first, so that none lies across two words.
fn key_layout(widths: impl Iterator<Item = Width> + Clone) -> (Vec<KeyField>, usize) {
    let all: Vec<Width> = widths.clone().collect();
    let mut fields = vec![KeyField { word: 0, shift: 0, width: Width::W1 }; all.len()];
    let mut at = 0;
    for i in by_size(widths) {
        let width = all[i];
        fields[i] = KeyField { word: at / 8, shift: 8 * (at % 8) as u32, width };
        at += width.bytes() as usize;
    }
    (fields, at.div_ceil(8))
}

/// Numbers of fields, largest field first.
fn by_size(widths: impl Iterator<Item = Width>) -> Vec<usize> {
    let mut order: Vec<(Width, usize)> = widths.zip(0..).collect();
    order.sort_by_key(|&(w, i)| (std::cmp::Reverse(w), i));
    order.into_iter().map(|(_, i)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_of_address_translation_takes_one_line() {
        use Width::{W1, W8, W16, W32};
        let key = [("proto", W8), ("src", W32), ("sport", W16), ("dst", W32), ("dport", W16)];
        let value = [
            ("src'", W32),
            ("sport'", W16),
            ("dst'", W32),
            ("dport'", W16),
            ("state", W8),
            ("output", W16),
            ("other", W16),
            ("input", W16),
            ("reply", W1),
        ];
        let l = Layout::of(&TableDecl::new("map", Kind::Exact, &key, &value, 8));
        assert_eq!((l.key_words, l.stride), (2, 64));
        let at = |i: usize| (l.key[i].word, l.key[i].shift);
        assert_eq!([at(1), at(3), at(2), at(4), at(0)], [(0, 0), (0, 32), (1, 0), (1, 16), (1, 32)]);
        assert_eq!((l.value[0], l.value[2], l.value[1]), (16, 20, 24));
        // Addresses and ports are as in a packet.
        assert!(l.network[..4].iter().all(|&n| n));
        assert!(!l.network[4] && !l.network[8]);
    }
}
