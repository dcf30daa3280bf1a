use super::gtpu_encap::G_PDU;
use super::outer::{receive_udp, strip_to_cursor, take_id};
use crate::fields::{gtpu, gtpu_extension};
use crate::ip::checks::refuse;
use crate::prelude::*;

element! {
    /// Takes IP packets out of a GTP-U tunnel of a mobile network (3GPP TS 29.281).
    ///
    /// The `net` mark has to stand on the outer IPv4 header, as it does behind `CheckIPHeader`. The inner packet leaves
    /// without marks, its tunnel endpoint identifier in the aggregate annotation; sequence numbers and extension headers
    /// are passed over. Other packets leave on output 1, or are dropped: `NotUDP`, `NotGTPU` (another port), `NotGPDU`
    /// (echo and other messages of the protocol), `Fragment`, `BadVersion`, `BadLength`, `BadChecksum` (of UDP, unless
    /// it is 0), `BadExtension`, `UnknownExtension` (one that has to be understood), `WrongTEID`, `Truncated`.
    GTPUDecap: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> d :: GTPUDecap -> CheckIPHeader -> Discard; d [1] -> Discard;";
    params {
        /// The endpoint identifier that is accepted; left out, all are.
        pos teid: Option<u32> = None,
        /// The port that the tunnel has.
        key dport: u16 = 2152,
    }
    handlers {
        /// Number of packets that were refused.
        count drops,
    }
}

/// Most extension headers of a packet.
const MOST_EXTENSIONS: u32 = 8;

fn program(e: &GTPUDecap, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        receive_udp(b, drops, e.dport, 8, Reason::new("NotGTPU"));
        let flags = gtpu::FLAGS.load(b);
        let version = b.shr(flags, 4);
        // Version 1, and GTP, not GTP'.
        let other = b.ne(version, 3);
        b.when(other, refuse(drops, Reason::new("BadVersion")));
        let kind = gtpu::TYPE.load(b);
        let other = b.ne(kind, G_PDU);
        b.when(other, refuse(drops, Reason::new("NotGPDU")));
        let len = gtpu::LENGTH.load(b);
        let len = b.resize(W32, len);
        let all = b.rest(Layer::Transport);
        let behind = b.sub(all, 16);
        let wrong = b.ne(behind, len);
        b.when(wrong, refuse(drops, Reason::new("BadLength")));
        let teid = gtpu::TEID.load(b);
        take_id(b, drops, teid, e.teid, Reason::new("WrongTEID"));
        b.set_mark(Layer::Cursor, Layer::Transport, 16);
        // Sequence number, N-PDU number and type of the next extension header are there together.
        let optional = b.and(flags, 7);
        let none = b.eq(optional, 0);
        b.unless(none, |b| {
            b.require_or(Layer::Cursor, 4, refuse(drops, Reason::new("BadLength")));
            let next = gtpu_extension::NEXT_EXTENSION.load(b);
            let flag = b.and(flags, 4);
            let flagged = b.ne(flag, 0);
            let none = b.constant(W8, 0_u8);
            let next = b.select(flagged, next, none);
            b.set_mark(Layer::Cursor, Layer::Cursor, 4);
            extensions(b, drops, next);
        });
        strip_to_cursor(b, drops);
    });
}

/// Goes past the extension headers at `cursor`, the first of which has this type (section 5.2).
fn extensions(b: &mut Builder, drops: TableId, first: V) {
    let left = b.repeat(MOST_EXTENSIONS, &[first], |b, round, vars| {
        let kind = vars[0];
        let end = b.eq(kind, 0);
        b.when(end, |b| round.leave(b, &[kind]));
        // An endpoint has to understand types from 128 on; the PDU session container and the PDCP number of packets
        // are for radio nodes, and nothing here depends on them.
        b.switch(kind, &[0x85, 0xc0], |b, case| {
            if case.is_none() {
                let needed = b.ge(kind, 128);
                b.when(needed, refuse(drops, Reason::new("UnknownExtension")));
            }
        });
        b.require_or(Layer::Cursor, 4, refuse(drops, Reason::new("BadExtension")));
        let units = gtpu_extension::LENGTH.load(b);
        let units = b.resize(W32, units);
        let len = b.shl(units, 2);
        let empty = b.eq(len, 0);
        b.when(empty, refuse(drops, Reason::new("BadExtension")));
        // The type of the next one is the last byte.
        let last = b.sub(len, 4);
        b.require_or(Layer::Cursor, last, refuse(drops, Reason::new("BadExtension")));
        b.set_mark(Layer::Cursor, Layer::Cursor, last);
        b.require_or(Layer::Cursor, 4, refuse(drops, Reason::new("BadExtension")));
        let next = gtpu_extension::NEXT_EXTENSION.load(b);
        b.set_mark(Layer::Cursor, Layer::Cursor, 4);
        round.next(b, &[next]);
    });
    let more = b.ne(left[0], 0);
    b.when(more, refuse(drops, Reason::new("BadExtension")));
}

#[cfg(test)]
mod tests {
    use super::super::outer::tests::{inner, there_and_back};
    use crate::testing::{Harness, Outcome, udp};

    #[test]
    fn packets_come_out_with_their_identifier() {
        for more in [&[][..], &["SEQUENCE true"], &["QFI 9"], &["SEQUENCE true", "QFI 63", "CHECKSUM false"]]
        {
            let args = [&["10.0.0.1", "10.0.1.1", "0x12345678"][..], more].concat();
            let mut e = Harness::new("GTPUEncap", &args, 1, 1);
            let outer = there_and_back(&mut e, ("GTPUDecap", &["0x12345678"]), &inner(1));
            let out = Harness::new("GTPUDecap", &[], 1, 1).send_ip(0, &outer);
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            assert_eq!(p.anno[20..24], [0x12, 0x34, 0x56, 0x78]);
        }
    }

    /// What becomes of a GTP message.
    fn message(args: &[&str], gtp: &[u8]) -> Result<Vec<u8>, String> {
        let outer = udp(([10, 0, 0, 1], 2152), ([10, 0, 1, 1], 2152), gtp);
        match &Harness::new("GTPUDecap", args, 1, 1).send_ip(0, &outer)[0] {
            Outcome::Out(_, p) => Ok(p.bytes().to_vec()),
            Outcome::Drop(reason) => Err(reason.clone()),
        }
    }

    #[test]
    fn extension_headers_are_passed_over() {
        // A service class indicator of four bytes, a PDU session container of eight, then the packet.
        let gtp = [0x34, 255, 0, 17, 0, 0, 0, 7, 0, 0, 0, 0x20, 1, 0, 0, 0x85, 2, 0, 9, 0, 0, 0, 0, 0, b'x'];
        assert_eq!(message(&[], &gtp), Ok(b"x".to_vec()));
        let wrong = |at: usize, to: u8| {
            let mut gtp = gtp;
            gtp[at] = to;
            message(&["7"], &gtp).unwrap_err()
        };
        assert_eq!(wrong(15, 0x84), "UnknownExtension");
        assert_eq!(wrong(16, 0), "BadExtension");
        assert_eq!(wrong(16, 3), "BadExtension");
        assert_eq!(wrong(12, 255), "BadExtension");
        let endless: Vec<u8> = [0x34, 255, 0, 40, 0, 0, 0, 7, 0, 0, 0, 0x20]
            .into_iter()
            .chain([1, 0, 0, 0x20].repeat(9))
            .collect();
        assert_eq!(message(&[], &endless), Err("BadExtension".to_owned()));
    }

    #[test]
    fn each_fault_has_its_own_reason() {
        let gtp = [0x30, 255, 0, 1, 0, 0, 0, 7, b'x'];
        let wrong = |at: usize, to: u8| {
            let mut gtp = gtp;
            gtp[at] = to;
            message(&["7"], &gtp).unwrap_err()
        };
        assert_eq!(wrong(0, 0x50), "BadVersion");
        assert_eq!(wrong(0, 0x20), "BadVersion");
        assert_eq!(wrong(0, 0x32), "BadLength");
        assert_eq!(wrong(1, 1), "NotGPDU");
        assert_eq!(wrong(3, 2), "BadLength");
        assert_eq!(wrong(7, 8), "WrongTEID");
        assert_eq!(message(&["DPORT 9"], &gtp), Err("NotGTPU".to_owned()));
        assert_eq!(message(&[], &gtp[..7]), Err("BadLength".to_owned()));
        let errors = crate::class_named("GTPUDecap").unwrap().configure(&["x".into()]).err().unwrap();
        assert!(errors[0].contains("TEID: 'x' is not a number"), "{errors:?}");
    }
}
