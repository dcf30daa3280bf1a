use super::checks::{check_sum, refuse, whole_payload};
use crate::fields::icmp;
use crate::prelude::*;

element! {
    /// Checks the length and the checksum of ICMP packets (RFC 792).
    ///
    /// The `net` mark has to stand on an IPv4 header; `transport` is set. Packets that are wrong leave on output 1, or
    /// are dropped: `NotICMP`, `BadHeader`, `BadLength`, `BadChecksum`, `Truncated`. An error has to carry an IP header
    /// and 8 bytes; timestamps and information messages have a fixed length. Fragments are refused (`Fragment`),
    /// since the checksum is that of the whole packet.
    CheckICMPHeader: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> CheckICMPHeader -> Discard;";
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

/// Length of the ICMP header.
const HEADER: u32 = 8;
/// Unreachable, source quench, redirect, time exceeded, parameter problem: at least an IP header and 8 bytes follow.
const ERRORS: [u128; 5] = [3, 4, 5, 11, 12];
/// Timestamp and its reply: three times follow.
const TIMESTAMPS: [u128; 2] = [13, 14];
/// Information request and its reply: nothing follows.
const INFORMATION: [u128; 2] = [15, 16];

fn program(_: &CheckICMPHeader, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        let len = whole_payload(b, drops, proto::ICMP, Reason::new("NotICMP"), HEADER);
        let kind = icmp::TYPE.load(b);
        let types = [&ERRORS[..], &TIMESTAMPS, &INFORMATION].concat();
        b.switch(kind, &types, |b, case| {
            let Some(kind) = case.map(|i| types[i]) else { return };
            let wrong = if ERRORS.contains(&kind) {
                b.lt(len, HEADER + 28)
            } else if TIMESTAMPS.contains(&kind) {
                b.ne(len, HEADER + 12)
            } else {
                b.ne(len, HEADER)
            };
            b.when(wrong, refuse(drops, Reason::new("BadLength")));
        });
        check_sum(b, drops, len, None);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::checks::tests::{common_faults, reason};
    use crate::testing::Harness;
    use weir_net::{build, checksum::checksum, proto};

    fn message(kind: u8, len: usize) -> Vec<u8> {
        let mut body = vec![0; len];
        body[0] = kind;
        let sum = checksum(&body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        build::ipv4([10, 0, 0, 1].into(), [10, 0, 1, 1].into(), proto::ICMP, &body)
    }

    #[test]
    fn each_fault_has_its_own_reason() {
        common_faults("CheckICMPHeader", &message(8, 11), 22);
    }

    #[test]
    fn each_type_has_its_length() {
        let mut e = Harness::new("CheckICMPHeader", &[], 1, 2);
        let mut ok = |kind, len| e.send_ip(0, &message(kind, len))[0].out().0 == 0;
        for error in [3, 4, 5, 11, 12] {
            assert!(ok(error, 36) && ok(error, 100) && !ok(error, 35), "type {error}");
        }
        for timestamp in [13, 14] {
            assert!(ok(timestamp, 20) && !ok(timestamp, 21) && !ok(timestamp, 19));
        }
        assert!(ok(15, 8) && !ok(16, 9) && ok(0, 8) && ok(0, 9) && ok(99, 8));
        assert_eq!(reason("CheckICMPHeader", &message(3, 35)), "BadLength");
    }
}
