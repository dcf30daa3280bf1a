//! Packets as hosts send them: the one definition of what `well-formed` means. docs/requirements.md says it to users.

use weir_ir::{Builder, Layer, Program, V, Width};
use weir_verify::checks::Framing;

/// Fewest hops that such a packet has left (RFC 1122 section 3.2.1.7 asks for as many as the Internet is wide; those who
/// send fewer want to know who is on the way).
const HOPS: u32 = 32;
/// Fewest bytes behind the header of an Ethernet frame: fewer are padded.
const LEAST: u32 = 46;
const ETHERNET: u32 = 14;
const TAG: u32 = 4;
const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;
const ARP: u128 = 0x0806;
const VLAN: u128 = 0x8100;
/// The header of IPv4 without options, and that of IPv6.
const HEADERS: [u32; 2] = [20, 40];
const TCP: u128 = 6;
const UDP: u128 = 17;
const ICMP: [u128; 2] = [1, 58];
const IPV4_FIRST: u8 = 0x45;

/// A program whose output 0 means that a packet is as hosts send it, and output 1 that it is not.
pub(crate) fn guard_of_hosts(framing: Framing) -> Program {
    let mut b = Builder::new("well-formed", 1, 2);
    b.input(0, |b| match framing {
        Framing::Ethernet => frame(b),
        Framing::Ip => {
            b.require_or(Layer::Net, 0, |b| b.set_mark(Layer::Net, Layer::Data, 0));
            b.require_or(Layer::Net, 1, other);
            let first = b.load(Width::W8, Layer::Net, 0);
            let version = b.shr(first, 4);
            b.switch(version, &[4, 6], |b, case| match case {
                Some(case) => packet(b, case == 0, false),
                None => other(b),
            });
        }
    });
    b.finish()
}

/// It is another one.
fn other(b: &mut Builder) {
    b.emit(1);
}

fn unless(b: &mut Builder, good: V) {
    b.unless(good, other);
}

fn when(b: &mut Builder, bad: V) {
    b.when(bad, other);
}

/// A frame with one tag at most. Ends.
fn frame(b: &mut Builder) {
    b.require_or(Layer::Data, ETHERNET, other);
    let source = b.load(Width::W8, Layer::Data, 6);
    let group = b.and(source, 1);
    let group = b.ne(group, 0);
    when(b, group);
    let kind = b.load(Width::W16, Layer::Data, 12);
    // Plain frames first: the first branch is the first that packets are looked for on.
    let plain = b.ne(kind, VLAN as u32);
    b.when(plain, |b| content(b, kind, ETHERNET));
    b.require_or(Layer::Data, ETHERNET + TAG, other);
    let kind = b.load(Width::W16, Layer::Data, ETHERNET + 2);
    content(b, kind, ETHERNET + TAG);
}

/// What stands at a position behind the kind of it. Ends.
fn content(b: &mut Builder, kind: V, at: u32) {
    b.switch(kind, &[IPV4, IPV6, ARP], |b, case| match case {
        Some(2) => arp(b, at),
        Some(case) => {
            b.require_or(Layer::Data, at + HEADERS[case], other);
            b.set_mark(Layer::Net, Layer::Data, at);
            packet(b, case == 0, true);
        }
        None => other(b),
    });
}

/// A question or an answer (RFC 826) about IPv4 addresses on Ethernet. Ends.
fn arp(b: &mut Builder, at: u32) {
    b.require_or(Layer::Data, at + 28, other);
    let fixed = b.load(Width::W64, Layer::Data, at);
    let kinds = b.shr(fixed, 16);
    let known = b.eq(kinds, 0x0001_0800_0604_u64);
    unless(b, known);
    let operation = b.load(Width::W16, Layer::Data, at + 6);
    let (above, below) = (b.ge(operation, 1), b.le(operation, 2));
    let known = b.and(above, below);
    unless(b, known);
    b.emit(0);
}

/// An IP packet with its header at `net`, in a frame or with nothing around it. Ends.
fn packet(b: &mut Builder, v4: bool, framed: bool) {
    let header = HEADERS[usize::from(!v4)];
    b.require_or(Layer::Net, header, other);
    let first = b.load(Width::W8, Layer::Net, 0);
    let known = if v4 {
        b.eq(first, IPV4_FIRST)
    } else {
        let version = b.shr(first, 4);
        b.eq(version, 6)
    };
    unless(b, known);
    let length = b.load(Width::W16, Layer::Net, if v4 { 2 } else { 4 });
    let length = b.resize(Width::W32, length);
    let payload = if v4 {
        let short = b.lt(length, header);
        when(b, short);
        b.sub(length, header)
    } else {
        length
    };
    fits(b, payload, header, framed);
    let hops = b.load(Width::W8, Layer::Net, if v4 { 8 } else { 7 });
    let few = b.lt(hops, HOPS);
    when(b, few);
    if v4 {
        let sum = b.checksum(Layer::Net, 0, header);
        let wrong = b.ne(sum, 0xffff);
        when(b, wrong);
        addresses4(b);
        let proto = b.load(Width::W8, Layer::Net, 9);
        fragment(b, payload);
        transport(b, proto, payload, true);
    } else {
        addresses6(b);
        let proto = b.load(Width::W8, Layer::Net, 6);
        transport(b, proto, payload, false);
    }
}

/// The packet fills what it is in, but for what frames are padded with.
fn fits(b: &mut Builder, payload: V, header: u32, framed: bool) {
    let whole = b.add(payload, header);
    let rest = b.rest(Layer::Net);
    let cut = b.lt(rest, whole);
    when(b, cut);
    let more = b.ne(rest, whole);
    if !framed {
        return when(b, more);
    }
    b.when(more, |b| {
        let long = b.gt(rest, LEAST);
        when(b, long);
    });
}

/// A source that is one host's own (RFC 1122 section 3.2.1.3), and a destination beyond itself.
fn addresses4(b: &mut Builder) {
    let [src, dst] = [12, 16].map(|at| b.load(Width::W8, Layer::Net, at));
    for first in [src, dst] {
        for own in [0, 127] {
            let is = b.eq(first, own);
            when(b, is);
        }
    }
    let group = b.ge(src, 224);
    when(b, group);
}

/// The same of IPv6 (RFC 4291 sections 2.5.2, 2.5.3 and 2.7).
fn addresses6(b: &mut Builder) {
    for at in [8, 24] {
        let address = b.load(Width::W128, Layer::Net, at);
        let own = b.lt(address, 2);
        when(b, own);
    }
    let first = b.load(Width::W8, Layer::Net, 8);
    let group = b.eq(first, 0xff);
    when(b, group);
}

/// A fragment (RFC 791) has data, of whole units but in the last, within the longest packet: with it the packet is as hosts
/// send it.
fn fragment(b: &mut Builder, payload: V) {
    let word = b.load(Width::W16, Layer::Net, 6);
    let reserved = b.and(word, 0x8000);
    let reserved = b.ne(reserved, 0);
    when(b, reserved);
    let part = b.and(word, 0x3fff);
    let part = b.ne(part, 0);
    b.when(part, |b| {
        let none = b.eq(payload, 0);
        when(b, none);
        let more = b.and(word, 0x2000);
        let more = b.ne(more, 0);
        b.when(more, |b| {
            let odd = b.and(payload, 7);
            let odd = b.ne(odd, 0);
            when(b, odd);
        });
        let offset = b.and(word, 0x1fff);
        let offset = b.resize(Width::W32, offset);
        let offset = b.shl(offset, 3);
        let end = b.add(offset, payload);
        let beyond = b.gt(end, u32::from(u16::MAX) - HEADERS[0]);
        when(b, beyond);
        b.emit(0);
    });
}

/// A whole header of TCP, UDP or ICMP, with lengths that fit; of other protocols nothing is asked. Ends.
fn transport(b: &mut Builder, proto: V, payload: V, v4: bool) {
    b.set_mark(Layer::Transport, Layer::Net, HEADERS[usize::from(!v4)]);
    b.switch(proto, &[TCP, UDP, ICMP[usize::from(!v4)]], |b, case| {
        let least = match case {
            Some(0) => 20,
            Some(_) => 8,
            None => return b.emit(0),
        };
        let short = b.lt(payload, least);
        when(b, short);
        b.require_or(Layer::Transport, least, other);
        match case {
            Some(0) => {
                let words = b.load(Width::W8, Layer::Transport, 12);
                let words = b.shr(words, 4);
                let short = b.lt(words, 5);
                when(b, short);
                let bytes = b.shl(words, 2);
                let bytes = b.resize(Width::W32, bytes);
                let cut = b.lt(payload, bytes);
                when(b, cut);
            }
            Some(1) => {
                let length = b.load(Width::W16, Layer::Transport, 4);
                let length = b.resize(Width::W32, length);
                let other_length = b.ne(length, payload);
                when(b, other_length);
            }
            _ => {}
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use weir_ir::{Outcome, outcomes};
    use weir_net::build;
    use weir_net::checksum::checksum;
    use weir_packet::Packet;
    use weir_table::TableSet;

    use super::*;

    fn is_of_hosts(bytes: &[u8], framing: Framing) -> bool {
        let program = guard_of_hosts(framing);
        weir_ir::check(&program).unwrap();
        let mut tables = TableSet::new(program.tables.iter().map(|t| &t.decl)).unwrap();
        let ended = outcomes(&program, &mut tables, 0, Packet::from_bytes(bytes).unwrap());
        let [Outcome::Exit(port, _)] = ended[..] else { panic!("{ended:?}") };
        port == 0
    }

    fn datagram() -> Vec<u8> {
        build::udp4(([10, 0, 0, 1].into(), 5), ([10, 0, 0, 2].into(), 53), b"four")
    }

    /// The datagram with other bytes from a position of its IP header on, and the checksum right all the same.
    fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut frame = datagram();
        frame[14 + at..14 + at + bytes.len()].copy_from_slice(bytes);
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..34]).to_be_bytes();
        frame[24..26].copy_from_slice(&sum);
        frame
    }

    #[test]
    fn a_datagram_is_as_hosts_send_it_with_or_without_a_tag_and_padding() {
        let frame = datagram();
        assert!(is_of_hosts(&frame, Framing::Ethernet) && is_of_hosts(&frame[14..], Framing::Ip));
        let padded = [&frame[..], &[0; 14]].concat();
        assert_eq!(padded.len(), 60);
        assert!(is_of_hosts(&padded, Framing::Ethernet) && !is_of_hosts(&padded[14..], Framing::Ip));
        assert!(!is_of_hosts(&[&padded[..], &[0]].concat(), Framing::Ethernet));
        let tag = [0x81, 0, 0, 7];
        let once = [&frame[..12], &tag, &frame[12..]].concat();
        let twice = [&frame[..12], &tag, &tag, &frame[12..]].concat();
        assert!(is_of_hosts(&once, Framing::Ethernet) && !is_of_hosts(&twice, Framing::Ethernet));
        assert!(!is_of_hosts(&[0x08, 0x06, 0], Framing::Ethernet));
    }

    #[test]
    fn what_no_host_sends_is_not() {
        assert!(is_of_hosts(&with(8, &[32]), Framing::Ethernet));
        let others: [(usize, &[u8]); 12] = [
            (0, &[0x55]),
            (0, &[0x44]),
            (2, &[0, 19]),
            (2, &[0, 33]),
            (6, &[0x80]),
            (6, &[0x20]),
            (8, &[31]),
            (12, &[0]),
            (12, &[224]),
            (16, &[127]),
            (24, &[0, 13]),
            (9, &[6]),
        ];
        for (at, bytes) in others {
            assert!(!is_of_hosts(&with(at, bytes), Framing::Ethernet), "{at}: {bytes:?}");
        }
        let mut wrong = datagram();
        wrong[24] ^= 1;
        assert!(!is_of_hosts(&wrong, Framing::Ethernet));
        // The first part of a longer datagram has whole units.
        let mut part = with(6, &[0x20, 0]);
        part[16..18].copy_from_slice(&[0, 28]);
        part.truncate(14 + 28);
        part[24..26].fill(0);
        let sum = checksum(&part[14..34]).to_be_bytes();
        part[24..26].copy_from_slice(&sum);
        assert!(is_of_hosts(&part, Framing::Ethernet));
    }
}
