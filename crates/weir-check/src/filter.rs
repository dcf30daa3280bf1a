//! Filter expressions as programs that ask a packet.

use weir_elements::filter::{RuleList, View};
use weir_filter::{Expr, PacketView};
use weir_ir::{Builder, Layer, Program, Width};
use weir_verify::checks::Framing;

/// A program whose output 0 means that a packet matches, and output 1 that it does not.
///
/// Ethernet frames are read as [`PacketView::ethernet`] reads them. IP packets are read from their `net` mark, or if there is
/// none from their first byte, as [`PacketView::ip_at`] does; one whose fixed header is cut short has no fields. Of their
/// Ethernet addresses nothing is known, so filters that ask for them ([`Expr::needs_ethernet_bytes`]) must not be asked.
pub fn guard(expr: &Expr, framing: Framing) -> Program {
    let mut b = Builder::new("filter", 1, 2);
    if framing == Framing::Ethernet {
        let frames = plan(&mut b, expr, View::Ethernet, "frames");
        b.input(0, |b| ask(b, &frames));
        return b.finish();
    }
    let plans = [plan(&mut b, expr, View::Ip, "v4"), plan(&mut b, expr, View::Ip6, "v6")];
    b.input(0, |b| {
        b.require_or(Layer::Net, 0, |b| b.set_mark(Layer::Net, Layer::Data, 0));
        ask_ip(b, &plans, expr);
    });
    b.finish()
}

/// As [`guard`], for packets where they begin: those that are not well formed do not match either.
pub(crate) fn guard_of_sent(expr: &Expr) -> Program {
    let mut b = Builder::new("filter", 1, 2);
    let plans = [plan(&mut b, expr, View::Ip, "v4"), plan(&mut b, expr, View::Ip6, "v6")];
    b.input(0, |b| {
        well_formed(b, |b| b.emit(1));
        ask_ip(b, &plans, expr);
    });
    b.finish()
}

/// Goes on if the packet is a whole IP packet, as who sends IP packets makes them: a version that there is, a header that
/// is there, and the length that the header gives. Otherwise `bad` has to end.
pub(crate) fn well_formed(b: &mut Builder, bad: impl Fn(&mut Builder)) {
    b.require_or(Layer::Net, 1, &bad);
    let first = b.load(Width::W8, Layer::Net, 0);
    let version = b.shr(first, 4);
    b.switch(version, &[4, 6], |b, case| {
        let rest = b.rest(Layer::Net);
        let length = match case {
            Some(0) => {
                b.require_or(Layer::Net, 20, &bad);
                let words = b.and(first, 0x0f);
                let short = b.lt(words, 5);
                b.when(short, &bad);
                let bytes = b.shl(words, 2);
                let bytes = b.resize(Width::W32, bytes);
                let cut = b.lt(rest, bytes);
                b.when(cut, &bad);
                let total = b.load(Width::W16, Layer::Net, 2);
                b.resize(Width::W32, total)
            }
            Some(_) => {
                b.require_or(Layer::Net, 40, &bad);
                let payload = b.load(Width::W16, Layer::Net, 4);
                let payload = b.resize(Width::W32, payload);
                b.add(payload, 40)
            }
            None => return bad(b),
        };
        let other = b.ne(length, rest);
        b.when(other, &bad);
    });
}

fn ask_ip(b: &mut Builder, [v4, v6]: &[RuleList; 2], expr: &Expr) {
    b.require_or(Layer::Net, 1, |b| cut(b, expr, &[]));
    let first = b.load(Width::W8, Layer::Net, 0);
    let version = b.shr(first, 4);
    b.switch(version, &[4, 6], |b, case| match case {
        Some(0) => {
            b.require_or(Layer::Net, 20, |b| cut(b, expr, &[0x40]));
            ask(b, v4);
        }
        Some(_) => {
            b.require_or(Layer::Net, 40, |b| cut(b, expr, &[0x60]));
            ask(b, v6);
        }
        None => cut(b, expr, &[]),
    });
}

fn plan(b: &mut Builder, expr: &Expr, view: View, name: &str) -> RuleList {
    let mut plan = RuleList::new(view, [(expr, 0)]);
    plan.declare(b, name);
    plan
}

fn ask(b: &mut Builder, plan: &RuleList) {
    plan.run(b, |b, _, _, _| b.emit(0));
    if !b.ended() {
        b.emit(1);
    }
}

/// The answer for a packet of which no more than these bytes and its length count.
fn cut(b: &mut Builder, expr: &Expr, bytes: &[u8]) {
    match known(expr, &PacketView::ip(bytes)) {
        Expr::True => b.emit(0),
        Expr::False => b.emit(1),
        of_length => {
            let matches = RuleList::new(View::Ip, [(&of_length, 0)]).matches(b);
            b.when(matches, |b| b.emit(0));
            b.emit(1);
        }
    }
}

/// The expression with the answers for a packet in it; only what is about the length is left.
fn known(expr: &Expr, packet: &PacketView<'_>) -> Expr {
    match expr {
        Expr::And(arms) => Expr::and(arms.iter().map(|a| known(a, packet))),
        Expr::Or(arms) => Expr::or(arms.iter().map(|a| known(a, packet))),
        Expr::Not(arm) => known(arm, packet).not(),
        Expr::Compare(c) if c.layers().is_empty() => expr.clone(),
        test if test.matches(packet) => Expr::True,
        _ => Expr::False,
    }
}

#[cfg(test)]
mod tests {
    use weir_ir::{Outcome, outcomes};
    use weir_net::build;
    use weir_packet::Packet;
    use weir_table::TableSet;

    use super::*;

    fn says(expr: &str, framing: Framing, bytes: &[u8], net: Option<u32>) -> bool {
        let program = guard(&Expr::parse(expr).unwrap(), framing);
        weir_ir::check(&program).unwrap();
        let mut tables = TableSet::new(program.tables.iter().map(|t| &t.decl)).unwrap();
        for (i, t) in program.tables.iter().enumerate() {
            t.rows.iter().for_each(|r| _ = tables.table_mut(i as u32).insert_row(r, 0).unwrap());
        }
        let mut packet = Packet::from_bytes(bytes).unwrap();
        packet.set_layer(Layer::Net, net.map(|n| packet.data() + n));
        let ended = outcomes(&program, &mut tables, 0, packet);
        let [Outcome::Exit(port, _)] = ended[..] else { panic!("{ended:?}") };
        port == 0
    }

    #[test]
    fn frames_and_packets_are_asked_as_the_language_says() {
        let (a, b) = (([10, 0, 0, 1].into(), 5), ([10, 0, 0, 2].into(), 53));
        let mut tagged = build::udp4(a, b, b"x");
        build::tag_vlan(&mut tagged, 7);
        let frames = [
            build::udp4(a, b, b"x"),
            tagged,
            build::tcp4(a, b, build::TcpFields::default(), b""),
            vec![1; 20],
        ];
        let filters = [
            "udp dst port 53",
            "not udp",
            "src net 10.0.0.0/8 and not tcp",
            "ip6",
            "ip",
            "ip proto 17 or ip6 proto 6",
        ];
        for text in filters {
            let expr = Expr::parse(text).unwrap();
            for frame in &frames {
                assert_eq!(
                    says(text, Framing::Ethernet, frame, None),
                    expr.matches(&PacketView::ethernet(frame)),
                    "{text}"
                );
                for n in 0..frame.len() - 14 {
                    let packet = &frame[14..14 + n];
                    let got = says(text, Framing::Ip, packet, Some(0));
                    if n == 0 || n >= 28 {
                        assert_eq!(
                            got,
                            expr.matches(&PacketView::ip(packet)),
                            "{text}, {n} bytes of {packet:02x?}"
                        );
                    }
                    assert_eq!(
                        says(text, Framing::Ip, packet, None),
                        got,
                        "{text}, {n} bytes without a mark"
                    );
                }
            }
        }
    }

    /// What follows where an Ethernet header would be is not read as one.
    #[test]
    fn packets_without_an_ethernet_header_have_neither_tags_nor_arp() {
        let (a, b) = (([129, 0, 0, 1].into(), 5), ([8, 6, 0, 2].into(), 53));
        for packet in [&build::udp4(a, b, b"")[14..], &build::udp4(b, a, b"")[14..]] {
            for text in ["vlan", "vlan 7", "arp", "arp host 8.6.0.2", "vlan and udp", "ether proto 0x8100"] {
                assert!(!says(text, Framing::Ip, packet, Some(0)), "{text}");
                assert!(says(&format!("udp and not ({text})"), Framing::Ip, packet, Some(0)), "{text}");
            }
        }
    }
}
