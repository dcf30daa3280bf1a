//! Programs that make packets be as they come in by an entry, whatever they were on the network in front of it.

use weir_ir::{Builder, Layer, Program, Reason, Width};
use weir_packet::ANNO_LEN;
use weir_packet::entry::{Entry, Marks};

/// The program of an entry: `also` does more to packets before they leave by output 0.
pub(crate) fn deliver(name: &str, entry: &Entry, also: impl Fn(&mut Builder)) -> Program {
    let mut b = Builder::new(name, 1, 1);
    b.input(0, |b| {
        b.clear_mark(Layer::Cursor);
        match entry.marks {
            Marks::None => {
                [Layer::Mac, Layer::Net, Layer::Transport].into_iter().for_each(|l| b.clear_mark(l));
            }
            Marks::Frame => {
                b.set_mark(Layer::Mac, Layer::Data, 0);
                b.clear_mark(Layer::Net);
                b.clear_mark(Layer::Transport);
            }
            Marks::Headers => {
                b.clear_mark(Layer::Mac);
                b.set_mark(Layer::Net, Layer::Data, 0);
                mark_transport(b);
            }
        }
        if !entry.annotated {
            let zero = b.constant(Width::W64, 0_u64);
            (0..ANNO_LEN as u32).step_by(8).for_each(|at| b.store_anno(at, zero));
        }
        also(b);
        b.emit(0);
    });
    b.finish()
}

/// Marks the transport header as ports do ([`weir_net::Headers::of_ip`]); packets that these do not take do not come in.
/// Behind IPv6 extension headers, whose number is not known, the mark stays where it was.
fn mark_transport(b: &mut Builder) {
    let bad = |b: &mut Builder| b.drop(Reason::BAD_HEADER);
    b.require_or(Layer::Net, 1, bad);
    let first = b.load(Width::W8, Layer::Net, 0);
    let version = b.shr(first, 4);
    b.switch(version, &[4, 6], |b, case| match case {
        Some(0) => {
            b.require_or(Layer::Net, 20, bad);
            let words = b.and(first, 0x0f);
            let short = b.lt(words, 5);
            b.when(short, bad);
            let header = b.shl(words, 2);
            let header = b.resize(Width::W32, header);
            b.require_or(Layer::Net, header, bad);
            let total = b.load(Width::W16, Layer::Net, 2);
            let total = b.resize(Width::W32, total);
            let short = b.lt(total, header);
            b.when(short, bad);
            let fragment = b.load(Width::W16, Layer::Net, 6);
            let offset = b.and(fragment, 0x1fff);
            let first = b.eq(offset, 0);
            b.if_else(
                first,
                |b| b.set_mark(Layer::Transport, Layer::Net, header),
                |b| b.clear_mark(Layer::Transport),
            );
        }
        Some(_) => {
            b.require_or(Layer::Net, 40, bad);
            let next = b.load(Width::W8, Layer::Net, 6);
            b.switch(next, &[0, 43, 44, 51, 60], |b, extension| match extension {
                // The shortest of them has 8 bytes.
                Some(_) => b.require_or(Layer::Net, 48, bad),
                None => b.set_mark(Layer::Transport, Layer::Net, 40),
            });
        }
        None => bad(b),
    });
}

/// Writes the destination of an IPv4 packet where elements look for the next hop.
pub(super) fn annotate_destination(b: &mut Builder) {
    b.if_has(
        Layer::Net,
        20,
        |b| {
            let zero = b.constant(Width::W64, 0_u64);
            (0..ANNO_LEN as u32).step_by(8).for_each(|at| b.store_anno(at, zero));
            let dst = b.load(Width::W32, Layer::Net, 16);
            b.store_anno(0, dst);
        },
        |_| {},
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_ir::{Outcome, outcomes};
    use weir_net::Headers;
    use weir_packet::{Packet, entry};
    use weir_table::TableSet;

    use super::*;

    /// What a packet becomes, which a graph left with marks and annotations, where it comes in.
    fn delivered(entry: &Entry, bytes: &[u8]) -> Option<Packet> {
        let program = deliver("entry", entry, |_| {});
        weir_ir::check(&program).unwrap();
        let mut p = Packet::from_bytes(bytes).unwrap();
        let at = p.data() + bytes.len() as u32 / 2;
        Layer::ALL[1..].iter().for_each(|l| p.set_layer(*l, Some(at)));
        p.anno = [7; ANNO_LEN];
        match outcomes(&program, &mut TableSet::default(), 0, p).pop()? {
            Outcome::Exit(_, packet) => Some(packet),
            Outcome::Dropped(_) | Outcome::Orphaned => None,
        }
    }

    #[test]
    fn frames_come_in_with_their_first_byte_marked_and_nothing_else() {
        for entry in [&entry::DEVICE, &entry::TAP, &entry::SOCKET, &entry::LINK] {
            for len in [0, 14, 60, 9000] {
                let p = delivered(entry, &vec![3; len]).unwrap();
                assert_eq!(entry.admits(&p), Ok(()), "{}, {len} bytes", entry.name);
            }
        }
    }

    proptest! {
        #[test]
        fn ip_packets_are_marked_as_ports_mark_them(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
            six: bool,
            words in 4..8_u8,
            total in 0..90_u8,
            next in prop_oneof![Just(6), Just(17), Just(44), Just(0), any::<u8>()],
            fragment in prop_oneof![Just(0), Just(0x20), Just(1)],
        ) {
            for (at, b) in [(0, if six { 0x60 } else { 0x40 | words }), (2, 0), (3, total), (6, if six { next } else { fragment }), (7, 0)] {
                if let Some(place) = bytes.get_mut(at) {
                    *place = b;
                }
            }
            let found = delivered(&entry::TUN, &bytes);
            let extended = six && [0, 43, 44, 51, 60].contains(&next);
            match Headers::of_ip(&bytes, 0) {
                Some(h) => {
                    let p = found.expect("it comes in");
                    let transport = p.layer(Layer::Transport).map(|at| (at - p.data()) as usize);
                    prop_assert_eq!(p.layer(Layer::Net), Some(p.data()));
                    prop_assert!(p.layer(Layer::Mac).is_none() && p.anno == [0; ANNO_LEN]);
                    prop_assert!(extended || transport == h.transport);
                }
                None => prop_assert!(extended || found.is_none()),
            }
        }
    }
}
