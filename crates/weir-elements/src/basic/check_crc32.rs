use super::crc32::{crc, swapped, table};
use crate::prelude::*;

element! {
    /// Checks the CRC that `SetCRC32` appended, and removes it. Packets whose CRC is wrong (`BadChecksum`), or that have
    /// none (`Truncated`), are dropped.
    CheckCRC32: "1/1", "a/a";
    example "Idle -> CheckCRC32 -> Discard;";
    handlers {
        /// Number of packets that were dropped.
        count drops,
    }
}

fn program(_: &CheckCRC32, b: &mut Builder) {
    let table = table(b);
    let drops = b.cell("drops", W64, 0);
    let refuse = |reason: Reason| {
        move |b: &mut Builder| {
            count(b, drops);
            b.drop(reason);
        }
    };
    b.input(0, |b| {
        b.require_or(Layer::Data, 4, refuse(Reason::TRUNCATED));
        let all = b.len();
        let len = b.sub(all, 4);
        let crc = crc(b, table, len);
        b.require_or(Layer::Cursor, 4, refuse(Reason::TRUNCATED));
        let field = b.load(W32, Layer::Cursor, 0);
        let crc = swapped(b, crc);
        let wrong = b.ne(field, crc);
        b.when(wrong, refuse(Reason::BAD_CHECKSUM));
        b.clear_mark(Layer::Cursor);
        b.trim(len);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn right_sums_go_and_wrong_ones_are_dropped() {
        let mut set = Harness::new("SetCRC32", &[], 1, 1);
        let mut check = Harness::new("CheckCRC32", &[], 1, 1);
        for packet in [&b""[..], b"a", b"hello", &[0; 1500]] {
            let with = set.send(0, packet)[0].out().1.to_vec();
            assert_eq!(check.send(0, &with)[0].out().1, packet);
            for at in [0, with.len() / 2, with.len() - 1] {
                let mut wrong = with.clone();
                wrong[at] ^= 1;
                assert_eq!(check.send(0, &wrong)[0].reason(), "BadChecksum");
            }
        }
        for n in 0..=3 {
            assert_eq!(check.send(0, &[0xff; 3][..n])[0].reason(), "Truncated");
        }
        assert_eq!(check.read("drops"), "16");
    }
}
