use super::crc32::{crc, swapped, table};
use crate::prelude::*;

element! {
    /// Appends a CRC of four bytes to packets, as Click does: of all bytes, with the polynomial of Ethernet, highest bit
    /// first, in the byte order of x86.
    ///
    /// `CheckCRC32` checks and removes it. Packets without space for it are dropped (`NoSpace`).
    SetCRC32: "1/1", "a/a";
    example "Idle -> SetCRC32 -> CheckCRC32 -> Discard;";
}

fn program(_: &SetCRC32, b: &mut Builder) {
    let table = table(b);
    b.input(0, |b| {
        let len = b.len();
        let crc = crc(b, table, len);
        let crc = swapped(b, crc);
        b.put(4_u32);
        b.require(Layer::Cursor, 4, Reason::TRUNCATED);
        b.store(Layer::Cursor, 0, crc);
        b.clear_mark(Layer::Cursor);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn the_sum_is_that_of_click() {
        let mut e = Harness::new("SetCRC32", &[], 1, 1);
        // CRC-32/MPEG-2 of the catalogue of parametrised CRC algorithms: its check value is 0x0376e6e7.
        let out = e.send(0, b"123456789");
        assert_eq!(out[0].out().1, b"123456789\xe7\xe6\x76\x03");
        assert_eq!(e.send(0, b"")[0].out().1, [0xff; 4]);
    }
}
