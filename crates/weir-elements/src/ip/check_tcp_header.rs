use super::checks::{check_sum, refuse, whole_payload};
use crate::fields::tcp;
use crate::prelude::*;

element! {
    /// Checks the header length and the checksum of TCP packets over IPv4 (RFC 9293 section 3.1).
    ///
    /// The `net` mark has to stand on an IPv4 header; `transport` is set. Packets that are wrong leave on output 1, or
    /// are dropped: `NotTCP`, `BadHeader`, `BadLength`, `BadChecksum`, `Truncated`. Fragments are refused (`Fragment`),
    /// since the checksum is that of the whole packet. A checksum that the sender's kernel has not finished yet, or
    /// that hardware has verified, is taken as right.
    CheckTCPHeader: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> CheckTCPHeader -> Discard;";
    params {
        /// Kept for Click configurations: drop reasons are always shown.
        key verbose: bool = false,
        /// Kept for Click configurations: drop reasons are always counted in detail.
        key details: bool = false,
    }
    handlers {
        /// Number of packets that were refused.
        count drops,
    }
}

fn program(_: &CheckTCPHeader, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        let len = whole_payload(b, drops, proto::TCP, Reason::new("NotTCP"), 20);
        let offset = tcp::DATA_OFFSET.load(b);
        let words = b.shr(offset, 4);
        let bytes = b.shl(words, 2);
        let header = b.resize(W32, bytes);
        let short = b.lt(header, 20);
        b.when(short, refuse(drops, Reason::BAD_HEADER));
        let long = b.lt(len, header);
        b.when(long, refuse(drops, Reason::new("BadLength")));
        check_sum(b, drops, len, Some(proto::TCP));
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::checks::tests::{changed, common_faults, reason};
    use crate::testing::tcp;

    #[test]
    fn each_fault_has_its_own_reason() {
        let packet = tcp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), 2, 7, b"odd");
        common_faults("CheckTCPHeader", &packet, 36);
        assert_eq!(reason("CheckTCPHeader", &changed(&packet, 32, &[0x40])), "BadHeader");
        assert_eq!(reason("CheckTCPHeader", &changed(&packet, 32, &[0x60])), "BadLength");
    }

    #[test]
    fn the_pseudo_header_is_part_of_the_sum() {
        let packet = tcp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), 2, 7, b"");
        assert_eq!(reason("CheckTCPHeader", &changed(&packet, 15, &[2])), "BadChecksum");
    }
}
