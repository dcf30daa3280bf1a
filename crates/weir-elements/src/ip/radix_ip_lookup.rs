use crate::prelude::*;
use crate::routes::routing;

routing! {
    /// Routes IPv4 packets by longest prefix, with a table that handlers can change.
    ///
    /// The address is the destination annotation. If the route has a gateway, the annotation becomes the gateway.
    /// Packets without a route are dropped (`NoRoute`).
    RadixIPLookup: Ipv4Prefix;
    example "Idle -> CheckIPHeader -> r :: RadixIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1); r [0] -> Discard; r [1] -> Discard;";
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, udp};

    fn sent(e: &mut Harness, dst: [u8; 4]) -> Option<(u32, [u8; 4])> {
        match &e.send_ip(0, &udp(([10, 0, 0, 1], 1), (dst, 2), b""))[0] {
            Outcome::Out(port, p) => Some((*port, [p.anno[0], p.anno[1], p.anno[2], p.anno[3]])),
            Outcome::Drop(reason) => {
                assert_eq!(reason, "NoRoute");
                None
            }
        }
    }

    #[test]
    fn the_longest_prefix_decides_and_the_gateway_goes_into_the_annotation() {
        let args = ["10.0.0.0/8 1", "10.1.0.0/16 10.0.0.9 2", "10.1.2.3 0"];
        let mut e = Harness::new("RadixIPLookup", &args, 1, 3);
        assert_eq!(sent(&mut e, [10, 9, 9, 9]), Some((1, [10, 9, 9, 9])));
        assert_eq!(sent(&mut e, [10, 1, 9, 9]), Some((2, [10, 0, 0, 9])));
        assert_eq!(sent(&mut e, [10, 1, 2, 3]), Some((0, [10, 1, 2, 3])));
        assert_eq!(sent(&mut e, [11, 1, 2, 3]), None);
    }

    #[test]
    fn routes_can_be_changed_while_it_runs() {
        let mut e = Harness::new("RadixIPLookup", &["0/0 0"], 1, 2);
        e.write("add", "10.0.0.0/8 1").unwrap();
        assert_eq!(sent(&mut e, [10, 1, 1, 1]).unwrap().0, 1);
        assert!(
            e.write("add", "10.0.0.0/8 0")
                .unwrap_err()
                .contains("conflict with existing route '10.0.0.0/8 - 1'")
        );
        assert!(e.write("ctrl", "remove 10.0.0.0/8\nset x").is_err());
        assert_eq!(
            e.read("table"),
            "0.0.0.0/0 - 0\n10.0.0.0/8 - 1\n",
            "a control text with a mistake changes nothing"
        );
        e.write("ctrl", "remove 10.0.0.0/8\nset 0.0.0.0/0 1").unwrap();
        assert_eq!(e.read("table"), "0.0.0.0/0 - 1\n");
        e.write("flush", "").unwrap();
        assert_eq!((e.read("table"), sent(&mut e, [10, 1, 1, 1])), (String::new(), None));
    }

    #[test]
    fn a_route_is_removed_only_if_it_is_the_one_that_is_meant() {
        let mut e = Harness::new("RadixIPLookup", &["10/8 10.0.0.9 1", "11.0.0.0/255.0.0.0 0"], 1, 2);
        let error = e.write("remove", "10.0.0.0/8 10.0.0.8 1").unwrap_err();
        assert_eq!(error, "there is no route 10.0.0.0/8 10.0.0.8 1, but 10.0.0.0/8 10.0.0.9 1");
        assert!(e.write("remove", "10.0.0.0/8 1").is_err());
        e.write("remove", "10.0.0.0/8 10.0.0.9 1").unwrap();
        assert!(e.write("remove", "10.0.0.0/8").unwrap_err().contains("there is no route for 10.0.0.0/8"));
        e.write("remove", "11/8").unwrap();
        assert_eq!(e.read("table"), "");
    }

    #[test]
    fn an_address_can_be_looked_up() {
        let mut e = Harness::new("RadixIPLookup", &["10.0.0.0/8 1", "10.1.0.0/16 10.0.0.9 0"], 1, 2);
        for (addr, found) in [("10.1.2.3", "0 10.0.0.9"), ("10.2.2.3", "1"), ("11.0.0.1", "-1")] {
            assert_eq!(e.read(&format!("lookup {addr}")), found);
        }
        assert!(e.try_read("lookup here").unwrap_err().contains("'here' is not an IP address"));
    }

    #[test]
    fn bad_routes_say_what_is_right() {
        let class = crate::class_named("RadixIPLookup").unwrap();
        let errors = class.configure(&["10.0.0.0/8".into()]).err().unwrap();
        assert!(errors[0].contains("a route is PREFIX"), "{errors:?}");
        assert!(class.configure(&["10/8 65536".into()]).err().unwrap()[0].contains("65536 is too large"));
        let ports = |route: &str| class.configure(&[route.to_owned()]).unwrap().ports();
        assert_eq!((ports("10/8 0"), ports("10/8 10.0.0.1 3")), ("1/1-".into(), "1/4-".into()));
    }
}
