use super::check_ip_header::AddressList;
use crate::fields::{ipv4, option};
use crate::prelude::*;

element! {
    /// Processes the options of IPv4 packets that every router processes: record route and timestamp (RFC 791
    /// section 3.1, RFC 1812 section 4.2.2.2).
    ///
    /// It belongs to the output side, since `MYADDR` is the address of the interface that packets leave by. The
    /// header checksum is computed anew if an option was changed. Packets with a wrong option leave on output 1 with
    /// the offset of the wrong byte in the parameter problem annotation, for `ICMPError`, or are dropped
    /// (`BadOption`). Source routes and options that are not known pass. Packets that end within their header are
    /// dropped (`Truncated`). The `net` mark has to stand on an IPv4 header.
    IPGWOptions: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> o :: IPGWOptions(10.0.0.1) -> Discard; o [1] -> ICMPError(10.0.0.1, parameterproblem) -> Discard;";
    params {
        /// The router's address on the interface that packets leave by.
        pos myaddr: Ipv4Addr,
        /// The router's other addresses, space-separated: timestamps may ask for any of them.
        pos otheraddrs: AddressList = AddressList(vec![]),
    }
    handlers {
        /// Number of packets with a wrong option.
        count drops,
    }
}

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;

/// Timestamps only.
const STAMPS: u128 = 0;
/// Addresses and timestamps.
const ADDRESSES: u128 = 1;
/// Timestamps of the addresses that are in the option already.
const PRESPECIFIED: u128 = 3;

/// Most bytes of options.
const MOST: u32 = 40;

fn program(e: &IPGWOptions, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        process(e, b, drops, 1);
        b.emit(0);
    });
}

/// Goes on with packets whose options are right; others leave on output `wrong`.
pub(super) fn process(e: &IPGWOptions, b: &mut Builder, drops: TableId, wrong: u32) {
    require_ip(b);
    let first = ipv4::VERSION_IHL.load(b);
    let unusual = b.ne(first, 0x45);
    b.when(unusual, |b| {
        let header = ip_header_len(b);
        let plain = b.le(header, 20);
        b.unless(plain, |b| options(e, b, drops, header, wrong));
    });
}

/// Goes through the options of a header of that length, and on if they are right.
fn options(e: &IPGWOptions, b: &mut Builder, drops: TableId, header: V, output: u32) {
    b.require(Layer::Net, header, Reason::TRUNCATED);
    // Where the next option is, whether something was changed, and the offset of a wrong byte.
    let first = b.constant(W32, 20_u32);
    let (no, none) = (b.constant(W1, 0_u8), b.constant(W32, 0_u32));
    let after = b.repeat(MOST, &[first, no, none], |b, round, vars| {
        let [at, changed, none] = [vars[0], vars[1], vars[2]];
        let end = b.ge(at, header);
        b.when(end, |b| round.leave(b, &[at, changed, none]));
        b.require(Layer::Net, at, Reason::TRUNCATED);
        b.set_mark(Layer::Cursor, Layer::Net, at);
        b.require(Layer::Cursor, 1, Reason::TRUNCATED);
        let kind = option::KIND.load(b);
        let next = b.add(at, 1);
        let skip = b.eq(kind, NO_OPERATION);
        b.when(skip, |b| round.next(b, &[next, changed, none]));
        let end = b.eq(kind, END);
        b.when(end, |b| round.leave(b, &[at, changed, none]));

        let wrong = |b: &mut Builder, byte: u32| {
            let at = b.add(at, byte);
            round.leave(b, &[at, changed, at]);
        };
        let left = b.sub(header, at);
        let alone = b.lt(left, 2);
        b.when(alone, |b| wrong(b, 1));
        b.require(Layer::Cursor, 2, Reason::TRUNCATED);
        let len = option::LENGTH.load(b);
        let len = b.resize(W32, len);
        let short = b.lt(len, 2);
        let long = b.gt(len, left);
        let bad = b.or(short, long);
        b.when(bad, |b| wrong(b, 1));
        let next = b.add(at, len);
        b.switch(kind, &[RECORD_ROUTE.into(), TIMESTAMP.into()], |b, case| {
            let least = match case {
                Some(0) => 3,
                Some(_) => 4,
                None => return round.next(b, &[next, changed, none]),
            };
            let short = b.lt(len, least);
            b.when(short, |b| wrong(b, 1));
            b.require(Layer::Cursor, least, Reason::TRUNCATED);
            let option = IpOption { at, len };
            if least == 3 {
                option.record_route(e, b, &wrong);
            } else {
                option.stamp(e, b, &wrong);
            }
            let yes = b.constant(W1, 1_u8);
            round.next(b, &[next, yes, none]);
        });
    });
    let [changed, wrong] = [after[1], after[2]];
    b.when(changed, |b| {
        b.require(Layer::Net, header, Reason::TRUNCATED);
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        ipv4::CHECKSUM.store_const(b, 0_u16);
        let sum = b.checksum(Layer::Net, 0, header);
        let field = b.not(sum);
        ipv4::CHECKSUM.store(b, field);
    });
    let right = b.eq(wrong, 0);
    b.unless(right, |b| {
        count(b, drops);
        let wrong = b.resize(W8, wrong);
        b.store_anno(anno::ICMP_PARAM_PROB, wrong);
        b.emit_or_drop(output, Reason::new("BadOption"));
    });
}

/// An option at the `cursor` mark.
struct IpOption {
    /// Its offset in the header.
    at: V,
    /// Its length: the bytes are within the header.
    len: V,
}

impl IpOption {
    fn record_route(&self, e: &IPGWOptions, b: &mut Builder, wrong: &impl Fn(&mut Builder, u32)) {
        let pointer = self.pointer(b);
        let early = b.lt(pointer, 4);
        b.when(early, |b| wrong(b, 2));
        let has_space = self.has_space(b, pointer, 4);
        b.if_else(
            has_space,
            |b| {
                self.advance(b, pointer, 4);
                let own = b.constant(W32, u32::from(e.myaddr));
                b.store(Layer::Cursor, 0, own);
            },
            |b| {
                // A route that is full passes; one that has space for a part of an address is wrong.
                let end = b.add(self.len, 1);
                let odd = b.ne(pointer, end);
                b.when(odd, |b| wrong(b, 2));
            },
        );
    }

    fn stamp(&self, e: &IPGWOptions, b: &mut Builder, wrong: &impl Fn(&mut Builder, u32)) {
        let pointer = self.pointer(b);
        let early = b.lt(pointer, 5);
        b.when(early, |b| wrong(b, 2));
        let overflow_and_flag = option::OVERFLOW_AND_FORM.load(b);
        let flag = b.and(overflow_and_flag, 15);
        let forms = [STAMPS, ADDRESSES, PRESPECIFIED];
        b.switch(flag, &forms, |b, case| {
            let Some(form) = case.map(|i| forms[i]) else { return wrong(b, 3) };
            let size = if form == STAMPS { 4 } else { 8 };
            let has_space = self.has_space(b, pointer, size);
            b.if_else(
                has_space,
                |b| match form {
                    STAMPS => {
                        self.advance(b, pointer, size);
                        let now = milliseconds(b);
                        b.store(Layer::Cursor, 0, now);
                    }
                    ADDRESSES => {
                        self.advance(b, pointer, size);
                        let own = b.constant(W32, u32::from(e.myaddr));
                        b.store(Layer::Cursor, 0, own);
                        let now = milliseconds(b);
                        b.store(Layer::Cursor, 4, now);
                    }
                    _ => self.stamp_own(e, b, pointer),
                },
                |b| {
                    let full = b.ge(overflow_and_flag, 0xf0);
                    b.when(full, |b| wrong(b, 3));
                    let more = b.add(overflow_and_flag, 0x10);
                    option::OVERFLOW_AND_FORM.store(b, more);
                },
            );
        });
    }

    /// Adds the time to the next address if it is one of the router's.
    fn stamp_own(&self, e: &IPGWOptions, b: &mut Builder, pointer: V) {
        self.go_to(b, pointer, 8);
        let addr = b.load(W32, Layer::Cursor, 0);
        let own: Vec<u128> =
            e.otheraddrs.0.iter().copied().chain([e.myaddr.into()]).map(u128::from).collect();
        b.switch(addr, &distinct(own), |b, case| {
            if case.is_some() {
                let now = milliseconds(b);
                b.store(Layer::Cursor, 4, now);
                b.require(Layer::Net, self.at, Reason::TRUNCATED);
                b.set_mark(Layer::Cursor, Layer::Net, self.at);
                b.require(Layer::Cursor, 3, Reason::TRUNCATED);
                self.set_pointer(b, pointer, 8);
            }
        });
    }

    /// Where the next entry goes; the first byte of the option is 1.
    fn pointer(&self, b: &mut Builder) -> V {
        let pointer = option::POINTER.load(b);
        b.resize(W32, pointer)
    }

    fn set_pointer(&self, b: &mut Builder, pointer: V, size: u32) {
        let after = b.add(pointer, size);
        let after = b.resize(W8, after);
        option::POINTER.store(b, after);
    }

    /// Whether an entry fits.
    fn has_space(&self, b: &mut Builder, pointer: V, size: u32) -> V {
        let last = b.add(pointer, size - 1);
        b.le(last, self.len)
    }

    /// Moves the pointer behind the next entry, and the cursor to the entry.
    fn advance(&self, b: &mut Builder, pointer: V, size: u32) {
        self.set_pointer(b, pointer, size);
        self.go_to(b, pointer, size);
    }

    /// Moves the cursor to the entry at `pointer`.
    fn go_to(&self, b: &mut Builder, pointer: V, size: u32) {
        let entry = b.add(self.at, pointer);
        let entry = b.sub(entry, 1);
        b.require(Layer::Net, entry, Reason::TRUNCATED);
        b.set_mark(Layer::Cursor, Layer::Net, entry);
        b.require(Layer::Cursor, size, Reason::TRUNCATED);
    }
}

fn distinct(mut list: Vec<u128>) -> Vec<u128> {
    list.sort_unstable();
    list.dedup();
    list
}

/// Milliseconds since midnight UTC (32 bits).
fn milliseconds(b: &mut Builder) -> V {
    const DAY: u64 = 86_400_000_000_000;
    /// Inverse of 5⁶ modulo 2⁶⁴: a million is 2⁶ · 5⁶, so shift and product divide its multiples.
    const INVERSE: u64 = 0x790f_b656_68c2_6139;
    let now = b.now();
    let today = b.rem(now, DAY);
    let part = b.rem(today, 1_000_000_u32);
    let whole = b.sub(today, part);
    let whole = b.shr(whole, 6);
    let milliseconds = b.mul(whole, INVERSE);
    b.resize(W32, milliseconds)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, udp};
    use weir_net::Ipv4;

    const OWN: [u8; 4] = [10, 9, 8, 7];

    /// A packet with these options, padded with ends.
    fn packet(options: &[u8]) -> Vec<u8> {
        let mut p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"xy");
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        p.splice(20..20, options.iter().copied());
        p[0] = 0x45 + (options.len() / 4) as u8;
        p[3] += options.len() as u8;
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        p
    }

    fn element(outputs: u32) -> Harness {
        let mut e = Harness::new("IPGWOptions", &["10.9.8.7", "10.1.1.1 10.2.2.2"], 1, outputs);
        // The second day of the epoch, 01:02:03.004.
        e.now = (86_400 + 3723) * 1_000_000_000 + 4_999_999;
        e
    }
    const NOW: [u8; 4] = (3_723_004_u32).to_be_bytes();

    /// The options of a packet after it has passed.
    fn passed(options: &[u8]) -> Vec<u8> {
        let p = packet(options);
        let out = element(2).send_ip(0, &p);
        let (port, bytes) = out[0].out();
        assert_eq!(port, 0, "{options:?} are wrong");
        assert!(Ipv4::new(bytes).unwrap().checksum_ok());
        let end = p.len() - 10;
        assert_eq!((&bytes[12..20], &bytes[end..]), (&p[12..20], &p[end..]));
        bytes[20..20 + options.len()].to_vec()
    }

    /// The place of the wrong byte, in the options.
    fn problem(options: &[u8]) -> u8 {
        let out = element(2).send_ip(0, &packet(options));
        let Outcome::Out(1, p) = &out[0] else { panic!("{options:?} are right: {out:?}") };
        p.anno[crate::anno::ICMP_PARAM_PROB as usize] - 20
    }

    #[test]
    fn a_route_is_recorded() {
        let [a, b, c, d] = OWN;
        assert_eq!(passed(&[7, 11, 4, 0, 0, 0, 0, 1, 1, 1, 1]), [7, 11, 8, a, b, c, d, 1, 1, 1, 1]);
        assert_eq!(passed(&[1, 7, 7, 4, 9, 9, 9, 9]), [1, 7, 7, 8, a, b, c, d], "at an odd place");
        assert_eq!(passed(&[7, 7, 8, 9, 9, 9, 9]), [7, 7, 8, 9, 9, 9, 9], "a full route passes");
        assert_eq!(passed(&[7, 3, 4]), [7, 3, 4]);
        for (pointer, len) in [(0, 7), (1, 7), (3, 7), (5, 7), (7, 7), (9, 7), (255, 7), (4, 6)] {
            assert_eq!(problem(&[1, 7, len, pointer, 0, 0, 0, 0]), 3, "{pointer} {len}");
        }
        assert_eq!(problem(&[7, 2, 4, 0]), 1);
    }

    #[test]
    fn times_are_stamped() {
        let [a, b, c, d] = OWN;
        let [h, i, j, k] = NOW;
        assert_eq!(passed(&[68, 8, 5, 0, 0, 0, 0, 0]), [68, 8, 9, 0, h, i, j, k]);
        assert_eq!(
            passed(&[68, 12, 5, 0x31, 0, 0, 0, 0, 0, 0, 0, 0]),
            [68, 12, 13, 0x31, a, b, c, d, h, i, j, k]
        );
        for own in [OWN, [10, 1, 1, 1], [10, 2, 2, 2]] {
            let [a, b, c, d] = own;
            assert_eq!(
                passed(&[68, 12, 5, 3, a, b, c, d, 0, 0, 0, 0]),
                [68, 12, 13, 3, a, b, c, d, h, i, j, k]
            );
        }
        let other = [68, 12, 5, 3, 10, 3, 3, 3, 0, 0, 0, 0];
        assert_eq!(passed(&other), other);
        // Where there is no space, that is counted, up to 15.
        for flag in [0, 1, 3] {
            assert_eq!(passed(&[68, 4, 5, 0x20 + flag]), [68, 4, 5, 0x30 + flag]);
            assert_eq!(problem(&[68, 4, 5, 0xf0 + flag]), 3);
        }
        assert_eq!(passed(&[68, 11, 5, 1, 0, 0, 0, 0, 0, 0, 0])[3], 0x11);
        assert_eq!(problem(&[68, 8, 5, 2, 0, 0, 0, 0]), 3, "there is no form 2");
        for pointer in [0, 1, 4] {
            assert_eq!(problem(&[68, 8, pointer, 0, 0, 0, 0, 0]), 2);
        }
        assert_eq!(problem(&[68, 3, 5, 0]), 1);
    }

    #[test]
    fn other_options_pass_and_wrong_lengths_do_not() {
        let [a, b, c, d] = OWN;
        for options in [&[148, 4, 0, 0][..], &[131, 7, 4, 10, 0, 0, 9], &[1; 40], &[0, 7, 99, 0], &[200, 2]] {
            assert_eq!(passed(options), options);
        }
        assert_eq!(passed(&[148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0])[4..], [7, 7, 8, a, b, c, d, 0]);
        assert_eq!(problem(&[7, 0, 4, 0]), 1);
        assert_eq!(problem(&[1, 200, 1, 0]), 2);
        assert_eq!(problem(&[200, 5, 0, 0]), 1);
        assert_eq!(problem(&[1, 1, 1, 7]), 4);
        assert_eq!(problem(&[7, 7, 4, 0, 0, 0, 0, 68, 0]), 8, "a right option may stand in front");
    }

    #[test]
    fn wrong_packets_are_counted_and_dropped_without_output_1() {
        let mut e = element(1);
        assert_eq!(e.send_ip(0, &packet(&[7, 0, 0, 0]))[0].reason(), "BadOption");
        assert_eq!(e.read("drops"), "1");
        let whole = packet(&[7, 39, 4]);
        for n in 0..whole.len() {
            let out = e.send_ip(0, &whole[..n]);
            assert_eq!(matches!(&out[0], Outcome::Drop(r) if r == "Truncated"), n < 24, "{n}: {out:?}");
        }
    }

    #[test]
    fn the_other_addresses_are_one_argument() {
        let args = ["10.0.0.1".to_owned(), "10.0.0.2 10.0.0".to_owned()];
        let errors = crate::class_named("IPGWOptions").unwrap().configure(&args).err().unwrap();
        assert!(errors[0].contains("OTHERADDRS: '10.0.0' is not an IP address"), "{errors:?}");
    }
}
