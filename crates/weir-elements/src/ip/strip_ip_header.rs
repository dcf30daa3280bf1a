use crate::prelude::*;

element! {
    /// Removes the IP header that the `net` mark stands on, and what stands in front of it.
    ///
    /// Its end is what the `transport` mark says. The marks stay, so that `UnstripIPHeader` can bring it back: behind
    /// an IP-in-IP header, `CheckIPHeader` marks the inner one. Packets without the mark are dropped (`Unmarked`).
    StripIPHeader: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> StripIPHeader -> CheckIPHeader -> Discard;";
}

fn program(_: &StripIPHeader, b: &mut Builder) {
    b.input(0, |b| {
        require_marked(b, Layer::Transport, 0);
        let lead = b.distance(Layer::Data, Layer::Transport);
        b.require(Layer::Data, lead, Reason::TRUNCATED);
        b.pull(lead);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, udp};
    use weir_packet::Layer;

    #[test]
    fn the_header_goes_and_its_mark_stays() {
        let p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        let out = Harness::new("StripIPHeader", &[], 1, 1).send_ip(0, &p);
        assert_eq!(out[0].out().1, &p[20..]);
        let Outcome::Out(0, stripped) = &out[0] else { unreachable!() };
        assert_eq!(stripped.layer(Layer::Net), Some(stripped.data() - 20));
    }

    #[test]
    fn packets_without_the_mark_are_dropped() {
        let mut e = Harness::new("StripIPHeader", &[], 1, 1);
        assert_eq!(e.send(0, &[0x45; 40])[0].reason(), "Unmarked");
        let p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"");
        for n in 0..20 {
            assert_eq!(e.send_ip(0, &p[..n])[0].reason(), "Unmarked");
        }
    }
}
