use super::gre_encap::{CHECKSUM, GRE, KEY, SEQUENCE};
use super::outer::{strip_to_cursor, take_id, take_other_end};
use crate::fields::gre;
use crate::ip::checks::{refuse, whole_payload};
use crate::prelude::*;

element! {
    /// Takes packets out of a GRE tunnel (RFC 2784, with key and sequence number of RFC 2890).
    ///
    /// The `net` mark has to stand on the outer IPv4 header, as it does behind `CheckIPHeader`. The inner packet leaves
    /// without marks, its key in the aggregate annotation (0 without), and with `ENDS` the tunnel's other end as well. Other
    /// packets leave on output 1, or are dropped:
    /// `NotGRE`, `Fragment`, `BadVersion`, `BadHeader` (flags that the RFCs do not know), `BadLength`, `BadChecksum`,
    /// `WrongProtocol`, `WrongKey`, `OutOfOrder`, `Truncated`.
    GREDecap: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> d :: GREDecap(KEY 42) -> CheckIPHeader -> Discard; d [1] -> Discard;";
    params {
        /// Type of what the tunnel carries: 0x0800 is IPv4, 0x86dd IPv6, 0x6558 Ethernet. Others are refused.
        pos ethertype: u16 = 0x0800 => "0x0800",
        /// The key that is accepted; left out, all are, and none.
        key key: Option<u32> = None,
        /// Whether packets are refused whose sequence number is not above that of the packet before.
        key sequence: bool = false,
        /// Whether the outer source address goes to the destination annotation, and to the paint annotation 1 if there is a
        /// key, else 0: what an answer needs.
        key ends: bool = false,
    }
    handlers {
        /// Number of packets that were refused.
        count drops,
    }
}

fn program(e: &GREDecap, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    let last = e.sequence.then(|| b.cell("last", W64, 0));
    b.input(0, |b| {
        let len = whole_payload(b, drops, GRE, Reason::new("NotGRE"), 4);
        let lead = b.distance(Layer::Data, Layer::Transport);
        let total = b.add(lead, len);
        b.trim(total);
        b.require_or(Layer::Transport, 4, refuse(drops, Reason::TRUNCATED));
        let first = gre::FLAGS.load(b);
        let version = b.and(first, 7);
        let other = b.ne(version, 0);
        b.when(other, refuse(drops, Reason::new("BadVersion")));
        // Bits 1, 4 and 5 belong to RFC 1701, whose routing is not done here (RFC 2784 section 2.3).
        let unknown = b.and(first, 0x4c00);
        let unknown = b.ne(unknown, 0);
        b.when(unknown, refuse(drops, Reason::BAD_HEADER));
        let protocol = gre::PROTOCOL.load(b);
        let other = b.ne(protocol, e.ethertype);
        b.when(other, refuse(drops, Reason::new("WrongProtocol")));
        let has = |b: &mut Builder, flag: u16| {
            let bit = b.and(first, flag);
            b.ne(bit, 0)
        };
        b.set_mark(Layer::Cursor, Layer::Transport, 4);
        let summed = has(b, CHECKSUM);
        b.when(summed, |b| {
            field(b, drops);
            let all = b.rest(Layer::Transport);
            b.require_or(Layer::Transport, all, refuse(drops, Reason::TRUNCATED));
            let sum = b.checksum(Layer::Transport, 0, all);
            let wrong = b.ne(sum, 0xffff);
            b.when(wrong, refuse(drops, Reason::BAD_CHECKSUM));
        });
        let keyed = has(b, KEY);
        let key = b.choose(keyed, field_or_zero, |b| b.constant(W32, 0_u32));
        if e.key.is_some() {
            b.unless(keyed, refuse(drops, Reason::new("WrongKey")));
        }
        take_id(b, drops, key, e.key, Reason::new("WrongKey"));
        if e.ends {
            take_other_end(b);
            let keyed = b.resize(W8, keyed);
            b.store_anno(anno::PAINT, keyed);
        }
        b.when(keyed, |b| field(b, drops));
        let numbered = has(b, SEQUENCE);
        b.when(numbered, |b| {
            b.require_or(Layer::Cursor, 4, refuse(drops, Reason::new("BadLength")));
            let number = b.load(W32, Layer::Cursor, 0);
            if let Some(last) = last {
                in_order(b, drops, last, number);
            }
            b.set_mark(Layer::Cursor, Layer::Cursor, 4);
        });
        strip_to_cursor(b, drops);
    });
}

/// Moves the cursor past a field of four bytes.
fn field(b: &mut Builder, drops: TableId) {
    b.require_or(Layer::Cursor, 4, refuse(drops, Reason::new("BadLength")));
    b.set_mark(Layer::Cursor, Layer::Cursor, 4);
}

/// The four bytes at the cursor, or 0 if they are not there.
fn field_or_zero(b: &mut Builder) -> V {
    b.choose_has(Layer::Cursor, 4, |b| b.load(W32, Layer::Cursor, 0), |b| b.constant(W32, 0_u32))
}

/// Refuses a number that is not above the last one, in the arithmetic of sequence numbers (RFC 2890 section 2.2). The
/// cell has the last number and, above its 32 bits, whether there was one.
fn in_order(b: &mut Builder, drops: TableId, last: TableId, number: V) {
    let before = b.read_cell(last);
    let some = b.ne(before, 0);
    let last_number = b.resize(W32, before);
    let step = b.sub(number, last_number);
    let step = b.sub(step, 1);
    let back = b.ge(step, 0x7fff_ffff_u32);
    let back = b.and(back, some);
    b.when(back, refuse(drops, Reason::new("OutOfOrder")));
    let seen = b.resize(W64, number);
    let seen = b.or(seen, 1_u64 << 32);
    b.write_cell(last, seen);
}

#[cfg(test)]
mod tests {
    use super::super::outer::tests::{frame, inner, there_and_back};
    use crate::testing::{Harness, Outcome};
    use std::net::Ipv4Addr;
    use weir_net::build;

    #[test]
    fn packets_come_out_with_their_key() {
        for more in [&[][..], &["KEY 7"], &["SEQUENCE true"], &["KEY 7", "SEQUENCE true", "CHECKSUM true"]] {
            let args = [&["10.0.0.1", "10.0.1.1"][..], more].concat();
            let mut e = Harness::new("GREEncap", &args, 1, 1);
            let outer = there_and_back(&mut e, ("GREDecap", &[]), &inner(1));
            let out = Harness::new("GREDecap", &[], 1, 1).send_ip(0, &outer);
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            let key = if more.contains(&"KEY 7") { 7 } else { 0 };
            assert_eq!(p.anno[20..24], [0, 0, 0, key]);
        }
        let mut e = Harness::new("GREEncap", &["10.0.0.1", "10.0.1.1", "0x6558"], 1, 1);
        there_and_back(&mut e, ("GREDecap", &["0x6558"]), &frame(&inner(1)));
    }

    #[test]
    fn the_other_end_is_told_and_whether_there_is_a_key() {
        for (key, args) in [(&[][..], &["ENDS true"][..]), (&["KEY 0"], &["ENDS true"])] {
            let encap = [&["10.0.0.1", "10.0.1.1"][..], key].concat();
            let outer =
                there_and_back(&mut Harness::new("GREEncap", &encap, 1, 1), ("GREDecap", args), &inner(1));
            let out = Harness::new("GREDecap", args, 1, 1).send_ip(0, &outer);
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            assert_eq!((&p.anno[..4], usize::from(p.anno[16])), (&[10, 0, 0, 1][..], key.len()));
        }
    }

    /// What becomes of a GRE packet.
    fn message(e: &mut Harness, gre: &[u8]) -> Result<Vec<u8>, String> {
        let [a, b] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1)];
        match &e.send_ip(0, &build::ipv4(a, b, 47, gre))[0] {
            Outcome::Out(_, p) => Ok(p.bytes().to_vec()),
            Outcome::Drop(reason) => Err(reason.clone()),
        }
    }

    #[test]
    fn each_fault_has_its_own_reason() {
        let reason =
            |args: &[&str], gre: &[u8]| message(&mut Harness::new("GREDecap", args, 1, 1), gre).unwrap_err();
        assert_eq!(reason(&[], &[0, 1, 8, 0]), "BadVersion");
        for flags in [0x40, 0x08, 0x04] {
            assert_eq!(reason(&[], &[flags, 0, 8, 0, 0, 0, 0, 0]), "BadHeader");
        }
        assert_eq!(reason(&[], &[0, 0, 0x86, 0xdd]), "WrongProtocol");
        assert_eq!(reason(&[], &[0x80, 0, 8, 0, 0, 0, 0, 0]), "BadChecksum");
        assert_eq!(reason(&["KEY 7"], &[0x20, 0, 8, 0, 0, 0, 0, 8]), "WrongKey");
        assert_eq!(reason(&["KEY 0"], &[0, 0, 8, 0]), "WrongKey", "no key is not a key of 0");
        for flags in [0x80, 0x20, 0x10] {
            assert_eq!(reason(&[], &[flags, 0, 8, 0, 0, 0, 0]), "BadLength");
        }
        assert_eq!(reason(&[], &[0, 0, 8]), "BadLength");
        let errors = crate::class_named("GREDecap").unwrap().configure(&["KEY ANNO".into()]).err().unwrap();
        assert!(errors[0].contains("KEY: 'ANNO' is not a number"), "{errors:?}");
    }

    #[test]
    fn packets_out_of_order_are_refused_on_request() {
        let mut e = Harness::new("GREDecap", &["SEQUENCE true"], 1, 1);
        let mut send = |n: u32| message(&mut e, &[&[0x10, 0, 8, 0][..], &n.to_be_bytes(), b"x"].concat());
        let late = Err("OutOfOrder".to_owned());
        let fine = Ok(b"x".to_vec());
        for (n, wanted) in [
            (5, &fine),
            (6, &fine),
            (6, &late),
            (5, &late),
            (9, &fine),
            (u32::MAX, &late),
            (0x7000_0000, &fine),
        ] {
            assert_eq!(send(n), *wanted, "{n}");
        }
        assert_eq!(send(0xe000_0000), fine);
        assert_eq!(send(2), fine, "numbers wrap");
    }
}
