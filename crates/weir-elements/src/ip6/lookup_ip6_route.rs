use super::address::Ipv6Prefix;
use crate::prelude::*;
use crate::routes::routing;

routing! {
    /// Routes IPv6 packets by longest prefix, with a table that handlers can change.
    ///
    /// The address is the destination annotation. If the route has a gateway, the annotation becomes the gateway.
    /// Packets without a route are dropped (`NoRoute`).
    LookupIP6Route: Ipv6Prefix;
    example "Idle -> CheckIP6Header -> r :: LookupIP6Route(fd00:1::/64 0, ::/0 fd00:2::1 1); r [0] -> Discard; r [1] -> Discard;";
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::testing::{Harness, Outcome};

    fn routed(e: &mut Harness, dst: &str) -> Option<(u32, String)> {
        let mut p = Packet::from_bytes(b"x").unwrap();
        let dst: Ipv6Addr = dst.parse().unwrap();
        p.anno[..16].copy_from_slice(&dst.octets());
        match &e.send_packet(0, p)[0] {
            Outcome::Out(port, p) => {
                let next = <[u8; 16]>::try_from(&p.anno[..16]).unwrap();
                Some((*port, Ipv6Addr::from(next).to_string()))
            }
            Outcome::Drop(reason) => {
                assert_eq!(reason, "NoRoute");
                None
            }
        }
    }

    #[test]
    fn the_longest_prefix_decides_and_the_gateway_goes_into_the_annotation() {
        let args = ["fd00::/16 ::0 1", "fd00:1::/32 fd00::9 2", "fd00:1::5 0"];
        let mut e = Harness::new("LookupIP6Route", &args, 1, 3);
        assert_eq!(routed(&mut e, "fd00:2::1"), Some((1, "fd00:2::1".into())));
        assert_eq!(routed(&mut e, "fd00:1::6"), Some((2, "fd00::9".into())));
        assert_eq!(routed(&mut e, "fd00:1::5"), Some((0, "fd00:1::5".into())));
        assert_eq!(routed(&mut e, "fe00::1"), None);
        for (addr, found) in [("fd00:1::6", "2 fd00::9"), ("fd00::1", "1"), ("::1", "-1")] {
            assert_eq!(e.read(&format!("lookup {addr}")), found);
        }
        assert!(e.try_read("lookup here").unwrap_err().contains("'here' is not an IPv6 address"));
    }

    #[test]
    fn routes_can_be_changed_while_it_runs() {
        let mut e = Harness::new("LookupIP6Route", &["::/0 0"], 1, 2);
        e.write("add", "fd00::/8 1").unwrap();
        assert_eq!(routed(&mut e, "fd00::1").unwrap().0, 1);
        let error = e.write("add", "fd00::/8 0").unwrap_err();
        assert_eq!(error, "conflict with existing route 'fd00::/8 - 1'");
        assert!(e.write("ctrl", "remove fd00::/8\nset x").is_err());
        assert_eq!(e.read("table"), "::/0 - 0\nfd00::/8 - 1\n", "a text with a mistake changes nothing");
        let error = e.write("remove", "fd00::/8 fd00::1 1").unwrap_err();
        assert_eq!(error, "there is no route fd00::/8 fd00::1 1, but fd00::/8 - 1");
        e.write("ctrl", "remove fd00::/8 1\nset ::/0 fd00::1 1").unwrap();
        assert_eq!(e.read("table"), "::/0 fd00::1 1\n");
        assert!(e.write("remove", "fd00::/8").unwrap_err().contains("no route for fd00::/8"));
        e.write("flush", "").unwrap();
        assert_eq!((e.read("table"), routed(&mut e, "fd00::1")), (String::new(), None));
    }

    #[test]
    fn bad_routes_say_what_is_right() {
        let class = crate::class_named("LookupIP6Route").unwrap();
        let error = |route: &str| class.configure(&[route.to_owned()]).err().unwrap().join("; ");
        assert!(error("fd00::/8").contains("a route is PREFIX"));
        assert!(error("10.0.0.0/8 1").contains("'10.0.0.0/8' is not an IPv6 prefix"));
        assert!(error("::/0 65536").contains("65536 is too large"));
        assert_eq!(class.configure(&["::/0 fd00::1 3".into()]).unwrap().ports(), "1/4-");
    }
}
