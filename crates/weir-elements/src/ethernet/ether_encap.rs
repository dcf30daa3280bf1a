use crate::prelude::*;

element! {
    /// Puts an Ethernet header in front of packets, and marks it. Packets that have no space for one are dropped
    /// (`NoSpace`).
    ///
    /// For IP packets whose next hop has to be asked for, `ARPQuerier` is the better choice.
    EtherEncap: "1/1", "a/a";
    example "Idle -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Discard;";
    params {
        /// Type of what the packet carries (0x0800 is IPv4).
        pos ethertype: u16,
        /// Source address.
        pos src: EtherAddr,
        /// Destination address.
        pos dst: EtherAddr,
    }
    handlers {
        /// Type of what the packet carries.
        read ethertype = |_, s| Ok(u16::show(s.cell("back") & 0xffff)),
        /// Changes the type.
        write ethertype = |_, s, v| {
            let ethertype = u16::from_arg(v.trim())?;
            s.set_cell("back", s.cell("back") >> 16 << 16 | ethertype.bits());
            Ok(())
        },
        /// Source address.
        read src = |_, s| Ok(EtherAddr::show(s.cell("back") >> 16)),
        /// Changes the source address.
        write src = |_, s, v| {
            let src = EtherAddr::from_arg(v.trim())?.bits();
            s.set_cell("back", src << 16 | s.cell("back") & 0xffff);
            s.set_cell("front", s.cell("front") >> 16 << 16 | src >> 32);
            Ok(())
        },
        /// Destination address.
        read dst = |_, s| Ok(EtherAddr::show(s.cell("front") >> 16)),
        /// Changes the destination address.
        write dst = |_, s, v| {
            let dst = EtherAddr::from_arg(v.trim())?.bits();
            s.set_cell("front", dst << 16 | s.cell("front") & 0xffff);
            Ok(())
        },
    }
}

fn program(e: &EtherEncap, b: &mut Builder) {
    // The header's first and last eight bytes; both have the first two bytes of the source.
    let front = b.live("front", W64, e.dst.bits() << 16 | e.src.bits() >> 32);
    let back = b.live("back", W64, e.src.bits() << 16 | u128::from(e.ethertype));
    b.input(0, |b| {
        let [front, back] = [front, back].map(|cell| b.read_cell(cell));
        push_ether_words(b, front, back);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_net::build;
    use weir_packet::Layer;

    const ARGS: [&str; 3] = ["0x0800", "02:00:00:00:00:01", "02:00:00:00:00:02"];

    #[test]
    fn the_header_is_in_front_and_marked() {
        let out = Harness::new("EtherEncap", &ARGS, 1, 1).send(0, b"payload");
        let frame = build::ethernet(build::DST_ETHER, build::SRC_ETHER, 0x0800, b"payload");
        assert_eq!(out[0].out(), (0, &frame[..]));
        let Outcome::Out(_, p) = &out[0] else { unreachable!() };
        assert_eq!(p.from_layer(Layer::Mac), frame);
    }

    #[test]
    fn the_fields_can_change() {
        let mut e = Harness::new("EtherEncap", &ARGS, 1, 1);
        e.write("dst", "ff:ff:ff:ff:ff:ff").unwrap();
        e.write("src", "0a:0b:0c:0d:0e:0f").unwrap();
        e.write("ethertype", "0x0806").unwrap();
        assert_eq!(e.read("src"), "0a:0b:0c:0d:0e:0f");
        assert_eq!(
            e.send(0, b"")[0].out().1,
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 10, 11, 12, 13, 14, 15, 8, 6]
        );
        assert!(e.write("dst", "10.0.0.1").unwrap_err().contains("Ethernet address"));
    }

    #[test]
    fn all_arguments_are_needed() {
        let class = crate::class_named("EtherEncap").unwrap();
        let errors = class.configure(&["0x10000".into(), "1:2:3".into()]).err().unwrap().join("\n");
        for part in ["ETHERTYPE: 0x10000 is too large", "SRC: '1:2:3'", "missing mandatory DST"] {
            assert!(errors.contains(part), "{errors}");
        }
    }
}
