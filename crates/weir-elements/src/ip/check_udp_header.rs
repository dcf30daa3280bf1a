use super::checks::{check_sum, refuse, whole_payload};
use crate::fields::udp;
use crate::prelude::*;

element! {
    /// Checks the length and the checksum of UDP packets over IPv4 (RFC 768).
    ///
    /// The `net` mark has to stand on an IPv4 header; `transport` is set. Packets that are wrong leave on output 1, or
    /// are dropped: `NotUDP`, `BadHeader`, `BadLength`, `BadChecksum`, `Truncated`. Fragments are refused (`Fragment`),
    /// since the checksum is that of the whole packet. A checksum of 0 means that there is none; one that the
    /// sender's kernel has not finished yet, or that hardware has verified, is taken as right.
    CheckUDPHeader: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> CheckUDPHeader -> Discard;";
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

fn program(_: &CheckUDPHeader, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        let payload = whole_payload(b, drops, proto::UDP, Reason::new("NotUDP"), 8);
        let len = udp::LENGTH.load(b);
        let len = b.resize(W32, len);
        let short = b.lt(len, 8);
        b.when(short, refuse(drops, Reason::new("BadLength")));
        let long = b.lt(payload, len);
        b.when(long, refuse(drops, Reason::new("BadLength")));
        let field = udp::CHECKSUM.load(b);
        let summed = b.ne(field, 0);
        b.when(summed, |b| {
            b.require_or(Layer::Transport, len, refuse(drops, Reason::new("BadLength")));
            check_sum(b, drops, len, Some(proto::UDP));
        });
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::checks::tests::{changed, common_faults, reason};
    use crate::testing::{Harness, udp};

    fn packet() -> Vec<u8> {
        udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"odd")
    }

    #[test]
    fn each_fault_has_its_own_reason() {
        common_faults("CheckUDPHeader", &packet(), 26);
        assert_eq!(reason("CheckUDPHeader", &changed(&packet(), 24, &[0, 7])), "BadLength");
        assert_eq!(reason("CheckUDPHeader", &changed(&packet(), 24, &[0, 12])), "BadLength");
        assert_eq!(reason("CheckUDPHeader", &changed(&packet(), 15, &[2])), "BadChecksum");
    }

    #[test]
    fn no_checksum_is_a_right_one() {
        let p = changed(&packet(), 26, &[0, 0]);
        assert_eq!(Harness::new("CheckUDPHeader", &[], 1, 1).send_ip(0, &p)[0].out(), (0, &p[..]));
    }
}
