//! The checksum that `SetCRC32` appends and `CheckCRC32` checks.

use crate::prelude::*;

/// The generator polynomial of Ethernet and others (IEEE 802.3 section 3.2.9), highest bit first.
const POLYNOMIAL: u32 = 0x04c1_1db7;

/// Longest packet.
const LONGEST: u32 = weir_packet::MAX_LEN as u32;

/// Declares the table of remainders of all bytes.
pub(super) fn table(b: &mut Builder) -> TableId {
    let decl = TableDecl::new("remainders", Kind::Array, &[("byte", W32)], &[("remainder", W32)], 256);
    b.table(
        decl.configured(),
        (0..256).map(|byte| Row::exact(&[byte.into()], &[remainder(byte).into()])).collect(),
    )
}

fn remainder(byte: u32) -> u32 {
    (0..8).fold(byte << 24, |crc, _| if crc >> 31 == 1 { crc << 1 ^ POLYNOMIAL } else { crc << 1 })
}

/// The CRC of the first `len` bytes of the packet, as Click computes it: from all ones, highest bit first, not
/// inverted. The `cursor` mark moves behind them.
pub(super) fn crc(b: &mut Builder, table: TableId, len: V) -> V {
    b.set_mark(Layer::Cursor, Layer::Data, 0);
    let ones = b.constant(W32, u32::MAX);
    let after = b.repeat(LONGEST + 1, &[len, ones], |b, round, vars| {
        let [left, crc] = [vars[0], vars[1]];
        let done = b.eq(left, 0);
        b.when(done, |b| round.leave(b, &[left, crc]));
        b.require(Layer::Cursor, 1, Reason::TRUNCATED);
        let byte = b.load(W8, Layer::Cursor, 0);
        b.set_mark(Layer::Cursor, Layer::Cursor, 1);
        let byte = b.resize(W32, byte);
        let high = b.shr(crc, 24);
        let index = b.xor(high, byte);
        // The index is below 256, so it is always found.
        let entry = b.find(table, &[index], |b| b.drop(Reason::NO_MATCH));
        let remainder = b.get(entry, "remainder");
        let crc = b.shl(crc, 8);
        let crc = b.xor(crc, remainder);
        let left = b.sub(left, 1);
        round.next(b, &[left, crc]);
    });
    after[1]
}

/// The value with its bytes in reverse: Click writes the sum in the order of x86.
pub(super) fn swapped(b: &mut Builder, v: V) -> V {
    let bytes = [(24, 0xff_u32), (8, 0xff00)];
    let mut out = b.constant(W32, 0_u32);
    for (shift, low) in bytes {
        let up = b.and(v, low);
        let up = b.shl(up, shift);
        let down = b.shr(v, shift);
        let down = b.and(down, low);
        out = b.or(out, up);
        out = b.or(out, down);
    }
    out
}
