use std::net::Ipv6Addr;

use crate::prelude::*;

element! {
    /// Sets the destination annotation, by which packets are routed, to an IPv6 address.
    SetIP6Address: "1/1", "a/a";
    example "Idle -> SetIP6Address(fd00::1) -> Discard;";
    params {
        /// The address.
        pos ipaddr: Ipv6Addr,
    }
    handlers {
        /// The address.
        cell addr: Ipv6Addr,
    }
}

fn program(e: &SetIP6Address, b: &mut Builder) {
    let addr = b.live("addr", W128, e.ipaddr.bits());
    b.input(0, |b| {
        let addr = b.read_cell(addr);
        b.store_anno(anno::DST_IP, addr);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    #[test]
    fn the_address_is_set_and_can_change() {
        let mut e = Harness::new("SetIP6Address", &["fd00::1"], 1, 1);
        let mut set = || match &e.send(0, b"")[0] {
            Outcome::Out(0, p) => (p.anno[0], p.anno[15], p.anno[16]),
            other => panic!("{other:?}"),
        };
        assert_eq!(set(), (0xfd, 1, 0));
        e.write("addr", "fe00::2").unwrap();
        assert_eq!(e.read("addr"), "fe00::2");
        let mut set = || match &e.send(0, b"")[0] {
            Outcome::Out(0, p) => (p.anno[0], p.anno[15]),
            other => panic!("{other:?}"),
        };
        assert_eq!(set(), (0xfe, 2));
        assert!(e.write("addr", "10.0.0.1").unwrap_err().contains("not an IPv6 address"));
    }
}
