use crate::prelude::*;
use crate::routes::routing;

routing! {
    /// Routes IPv4 packets by longest prefix, with a table that handlers can change.
    ///
    /// The address is the destination annotation. If the route has a gateway, the annotation becomes the gateway.
    /// Packets without a route are dropped (`NoRoute`). It is the same as `RadixIPLookup`: how a table is searched
    /// follows from its content.
    DirectIPLookup: Ipv4Prefix;
    example "Idle -> CheckIPHeader -> r :: DirectIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1); r [0] -> Discard; r [1] -> Discard;";
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, udp};

    #[test]
    fn routes_decide_and_can_change() {
        let mut e = Harness::new("DirectIPLookup", &["10.0.0.0/8 0", "10.1.2.3/32 10.0.0.9 1"], 1, 2);
        let port = |e: &mut Harness, dst| e.send_ip(0, &udp(([10, 0, 0, 1], 1), (dst, 2), b""))[0].out().0;
        assert_eq!((port(&mut e, [10, 1, 2, 4]), port(&mut e, [10, 1, 2, 3])), (0, 1));
        e.write("remove", "10.1.2.3/32").unwrap();
        e.write("ctrl", "add 10.1.0.0/16 1\nset 10.0.0.0/8 10.0.0.8 0").unwrap();
        assert_eq!((port(&mut e, [10, 1, 2, 4]), port(&mut e, [10, 2, 2, 3])), (1, 0));
        assert_eq!(e.read("table"), "10.0.0.0/8 10.0.0.8 0\n10.1.0.0/16 - 1\n");
        e.write("flush", "").unwrap();
        assert_eq!(e.send_ip(0, &udp(([10, 0, 0, 1], 1), ([10, 1, 2, 4], 2), b""))[0].reason(), "NoRoute");
    }
}
