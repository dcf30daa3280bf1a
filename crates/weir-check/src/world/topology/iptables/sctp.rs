//! Protocols that have ports but are no TCP or UDP (DCCP, SCTP, UDP-Lite): which modules of the kernel there are says how their
//! connections are followed and translated. What may happen is modelled by programs that guess: such a packet gets the address
//! that the rules say and any ports, or is dropped; one that comes later may be of any connection. The protocol stays, and so
//! what holds of TCP, UDP and ICMP queries does not depend on it.

use weir_ir::{Builder, Layer, Program, Reason, V, Width};
use weir_topology::import::iptables::ConnState;

use super::STATE;
use super::chains::number;
use super::nat::{self, KNOWN, QUOTES};
use super::track::{self, ERRORS, ICMP};

/// DCCP, SCTP and UDP-Lite.
const PROTOCOLS: [u8; 3] = [33, 132, 136];

/// Why what becomes of such a packet is not known.
pub(super) const CAUSE: &str =
    "connections of SCTP, DCCP and UDP-Lite, whose translation is not modelled in full, may pass here";

/// Whether the packet is of such a protocol (1 bit).
pub(super) fn is_one(b: &mut Builder) -> V {
    let proto = b.load(Width::W8, Layer::Net, 9);
    track::one_of(b, proto, &PROTOCOLS)
}

/// Whether the packet is of such a protocol, or an ICMP error about one that is (1 bit). It has an IPv4 header without options.
fn concerns_one(b: &mut Builder) -> V {
    let one = is_one(b);
    track::mark_transport(b);
    let quotes = b.choose_has(
        Layer::Transport,
        28,
        |b| {
            let (proto, kind) = (b.load(Width::W8, Layer::Net, 9), b.load(Width::W8, Layer::Transport, 0));
            let quoted = b.load(Width::W8, Layer::Transport, 17);
            let (icmp, error) = (b.eq(proto, ICMP), track::one_of(b, kind, &ERRORS));
            let (quoted, error) = (track::one_of(b, quoted, &PROTOCOLS), b.and(icmp, error));
            b.and(quoted, error)
        },
        |b| b.constant(Width::W1, 0_u8),
    );
    b.clear_mark(Layer::Transport);
    b.or(one, quotes)
}

/// The packet comes in. One that may be of a connection that is not followed goes on by `known`, or as one that begins a
/// connection or is of none.
pub(super) fn arrive(b: &mut Builder, known: &dyn Fn(&mut Builder)) {
    let one = concerns_one(b);
    b.when(one, |b| {
        let is_known = random_bit(b);
        b.when(is_known, |b| known(b));
        let (good, state) = (random_bit(b), b.load_anno(Width::W8, STATE));
        let state = b.select(good, state, number(ConnState::Invalid));
        b.store_anno(STATE, state);
    });
}

/// What may become of a packet of a connection that is known: it goes to any address.
pub(super) fn known(name: &str) -> Program {
    guess(name, |b| {
        let (any, other) = (b.random(), b.random());
        nat::address(b, 16, any);
        let [first, second] = [random_bit(b), random_bit(b)];
        let states = [ConnState::Established, ConnState::Related, ConnState::New].map(number);
        let state = b.constant(Width::W8, states[0]);
        let state = b.select(first, state, states[1]);
        let state = b.select(second, state, states[2]);
        b.store_anno(STATE, state);
        let none = b.constant(Width::W16, 0_u16);
        let proto = b.load(Width::W8, Layer::Net, 9);
        let icmp = b.eq(proto, ICMP);
        b.if_else(
            icmp,
            |b| {
                // What it quotes is translated too, with the checksums.
                for at in [2, 18, 20, 24] {
                    any_word(b, at, 28);
                }
                nat::remember(b, QUOTES, other, none);
            },
            |b| {
                ports(b);
                nat::remember(b, KNOWN, other, none);
            },
        );
    })
}

/// What may become of a packet that begins a connection, beside its addresses.
pub(super) fn fresh(name: &str) -> Program {
    guess(name, ports)
}

fn guess(name: &str, change: impl FnOnce(&mut Builder)) -> Program {
    let mut b = Builder::new(name, 1, 1);
    b.input(0, |b| {
        let lost = random_bit(b);
        b.when(lost, |b| b.drop(Reason::new("NotTranslated")));
        track::mark_transport(b);
        change(b);
        b.clear_mark(Layer::Transport);
        b.emit(0);
    });
    b.finish()
}

/// Gives the packet any ports, and the checksums that these make.
fn ports(b: &mut Builder) {
    for (at, end) in [(0, 4), (4, 8), (8, 12)] {
        any_word(b, at, end);
    }
}

/// Writes any 32 bits at an offset of the transport header, if it has so many bytes.
fn any_word(b: &mut Builder, at: u32, end: u32) {
    b.if_has(
        Layer::Transport,
        end,
        |b| {
            let any = b.random();
            b.store(Layer::Transport, at, any);
        },
        |_| {},
    );
}

fn random_bit(b: &mut Builder) -> V {
    let random = b.random();
    let bit = b.and(random, 1);
    b.eq(bit, 0)
}
