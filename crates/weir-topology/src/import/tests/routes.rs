//! Routing tables.

use crate::import::*;

fn routes(table: &RoutingTable) -> Vec<String> {
    let hop = |h: &ImportedHop| {
        let via = h.via.map(|v| format!(" via {v}")).unwrap_or_default();
        let dev = h.dev.as_ref().map(|d| format!(" dev {d}")).unwrap_or_default();
        format!("{via}{dev}")
    };
    let route = |r: &ImportedRoute| match &r.action {
        ImportedAction::Forward(hops) => format!("{}{}", r.prefix, hops.iter().map(hop).collect::<String>()),
        action => format!("{} {action:?}", r.prefix),
    };
    table.routes.iter().map(route).collect()
}

#[test]
fn ip_json_route_is_read() {
    let table = ip_json_route(include_str!("../../../tests/data/import/route.json")).unwrap();
    assert_eq!(
        routes(&table),
        [
            "0.0.0.0/0 via 192.0.2.1 dev wan",
            "192.0.2.0/24 dev wan",
            "10.0.0.0/16 dev lan",
            "10.0.0.1 Local",
            "10.1.0.0/16 via 10.0.0.2 dev lan via 192.0.2.9 dev wan",
            "10.9.0.0/16 Blackhole",
            "10.8.0.0/16 Unreachable",
            "198.51.100.0/24 via fe80::2 dev lan",
            "2001:db8::/64 dev lan",
            "::/0 via 2001:db8::1 dev lan",
        ]
    );
    assert_eq!(table.interfaces(), ["wan", "lan"]);
    let addresses: Vec<String> = table.addresses.iter().map(|(d, a)| format!("{d} {a}")).collect();
    assert_eq!(addresses, ["wan 192.0.2.2", "lan 10.0.0.1"]);
    let notes: Vec<String> = table.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "line 2: route to 0.0.0.0/0: its metric is 200; the route with metric 0 is in use",
            "line 6: route to 10.0.255.255: routes of this type are about frames for everybody on the link",
            "line 14: route to fe80::/64: link-local routes hold for one interface each",
        ]
    );
    let better = r#"[{"dst":"10.0.0.0/8","dev":"a","metric":5},{"dst":"10.0.0.0/8","dev":"b","metric":1}]"#;
    assert_eq!(routes(&ip_json_route(better).unwrap()), ["10.0.0.0/8 dev b"]);
}

#[test]
fn mistakes_in_ip_json_route_are_told() {
    for (text, message) in [
        ("{}", "routes (line 1, column 1): found a map; expected a list of routes"),
        ("[", "document (line 1, column 1): not JSON: EOF while parsing a list"),
        (
            r#"[{"dev":"a"}]"#,
            "routes[0] (line 1, column 2): the field \"dst\" is missing; add \"dst\": a prefix or default",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","dev":"a","encap":"mpls"}]"#,
            "routes[0].encap (line 1, column 40): unknown field \"encap\"; known here: dst, type, gateway, via, dev, nexthops, flags, \
             table, prefsrc, metric, scope, protocol, pref, metrics, mtu, advmss, hoplimit, expires, cache, nhid, age, ipid, used, users, error",
        ),
        (
            r#"[{"dst":"10.0.0.1/8","dev":"a"}]"#,
            "routes[0].dst (line 1, column 9): 10.0.0.1/8 has bits set after the first 8; write 10.0.0.0/8 for the network or \
             10.0.0.1 for the one address",
        ),
        (
            r#"[{"dst":"10.0.0.0/8"}]"#,
            "routes[0] (line 1, column 2): the route to 10.0.0.0/8 has no next hop; give it a gateway, dev or nexthops",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","type":"nat"}]"#,
            "routes[0].type (line 1, column 29): routes of the type \"nat\" are not modelled; known here: unicast, local, broadcast, \
             multicast, anycast, blackhole, unreachable, prohibit, throw",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","dev":"a","table":"7"}]"#,
            "routes[0].table (line 1, column 40): the route is of the table \"7\"; rules that choose a table are not modelled: import the \
             table that is used, by \"ip route show table NAME\"",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","gateway":"x","flags":["up"]}]"#,
            "routes[0].flags[0] (line 1, column 45): the flag \"up\" is not known; known here: dead, linkdown, onlink, pervasive, offload, trap, \
             notify, unresolved, offload_failed, rt_offload, rt_trap, rt_notify, rt_offload_failed",
        ),
        (
            r#"[{"dst":"10.0.0.0/8","type":"local"},{"dst":"10.0.0.0/8","dev":"a"}]"#,
            "routes[1] (line 1, column 38): a second route to 10.0.0.0/8 with the same metric; keep one",
        ),
    ] {
        assert_eq!(ip_json_route(text).expect_err(text).to_string(), message, "{text}");
    }
}

#[test]
fn tables_of_frr_and_ios_are_read() {
    let table = show_ip_route(include_str!("../../../tests/data/import/frr.txt")).unwrap();
    assert_eq!(
        routes(&table),
        [
            "0.0.0.0/0 via 192.0.2.1 dev wan",
            "10.0.0.0/24 dev lan",
            "10.0.0.1 Local",
            "10.1.0.0/16 via 10.0.0.2 dev lan via 192.0.2.9 dev wan",
            "10.2.0.0/16 via 10.0.0.2 dev lan",
            "10.8.0.0/16 Unreachable",
            "10.9.0.0/16 Blackhole",
            "192.0.2.0/24 dev wan",
        ]
    );
    assert_eq!(table.addresses, [("lan".to_string(), "10.0.0.1".parse().unwrap())]);
    let table = show_ip_route(include_str!("../../../tests/data/import/cisco.txt")).unwrap();
    assert_eq!(
        routes(&table),
        [
            "0.0.0.0/0 via 192.0.2.1",
            "10.0.0.0/24 dev GigabitEthernet0/1",
            "10.0.0.1 Local",
            "10.1.0.0/16 via 10.0.0.2 dev GigabitEthernet0/1 via 10.0.0.3 dev GigabitEthernet0/1",
            "10.2.0.0/16 via 10.0.0.2 dev GigabitEthernet0/1",
            "10.3.0.0/16 Blackhole",
            "10.4.0.0/16 via 10.1.2.3",
            "172.16.5.0/24 via 10.0.0.2 dev GigabitEthernet0/1",
            "192.0.2.0/30 dev GigabitEthernet0/0.20",
            "192.0.2.2 Local",
        ]
    );
    assert_eq!(table.interfaces(), ["GigabitEthernet0/1", "GigabitEthernet0/0.20"]);
    let v6 = "C>* 2001:db8::/64 is directly connected, lan, 00:01:00\nB>* ::/0 [20/0] via fe80::1, lan, weight 1, 00:01:00\n";
    assert_eq!(routes(&show_ip_route(v6).unwrap()), ["2001:db8::/64 dev lan", "::/0 via fe80::1 dev lan"]);
    let v6 = "S   2001:DB8::/32 [1/0]\n     via FE80::1, GigabitEthernet0/0\n";
    assert_eq!(routes(&show_ip_route(v6).unwrap()), ["2001:db8::/32 via fe80::1 dev GigabitEthernet0/0"]);
}

#[test]
fn mistakes_in_show_ip_route_are_told() {
    for (text, message) in [
        (
            "hello world",
            "routing table (line 1, column 1): \"hello world\" is not a route; lines are as \"show ip route\" prints them, such as \
             \"S>* 10.0.0.0/8 [1/0] via 192.0.2.1, eth0\"",
        ),
        (
            "S 10.0.0.0/8 [1/0] by 10.0.0.1",
            "routing table (line 1, column 1): \"by 10.0.0.1\" is not understood; write \"via ADDRESS, INTERFACE\", \"is directly \
             connected, INTERFACE\" or \"unreachable (blackhole)\"",
        ),
        (
            "S>* 10.0.0.0/8 [1/0] via 10.0.0.1, eth0, label 16, weight 1, 00:00:01",
            "routing table (line 1, column 1): \"label\" in \"via 10.0.0.1, eth0, label 16, weight 1, 00:00:01\" is not understood; tunnels, \
             labels and routes into other VRFs are not modelled",
        ),
        (
            "S>* 10.0.0.0/8 [1/0] is directly connected, red (vrf red), 00:00:01",
            "routing table (line 1, column 1): \"red\" in \"is directly connected, red (vrf red), 00:00:01\" is not understood; tunnels, \
             labels and routes into other VRFs are not modelled",
        ),
        (
            "B 10.0.0.0/8 [200/0] via 10.0.0.1 (red), 00:00:01",
            "routing table (line 1, column 1): \"red\" in \"via 10.0.0.1 (red), 00:00:01\" is not understood; tunnels, labels and \
             routes into other VRFs are not modelled",
        ),
        (
            "S 10.0.0.0 255.0.255.0 [1/0] via 10.0.0.1, inside",
            "routing table (line 1, column 1): 255.0.255.0 is not a mask of a prefix; it is one such as 255.255.255.0",
        ),
        (
            "C>* 10.0.0.0/8 is directly connected, a\nC>* 10.0.0.0/8 is directly connected, b",
            "routing table (line 2, column 1): a second route to 10.0.0.0/8 in use; line 1 is one",
        ),
        (
            "S>  10.0.0.0/8 [1/0] via 10.0.0.1 inactive",
            "routing table (line 1, column 1): the route to 10.0.0.0/8 has no next hop in use; its next hops stand behind it, or below",
        ),
        (
            "S 10.0.0.0 [1/0] via 1.1.1.1",
            "routing table (line 1, column 1): the route to 10.0.0.0 has no prefix length; write its length, such as 10.0.0.0/8",
        ),
        (
            "  via 10.0.0.1, a",
            "routing table (line 1, column 1): \"via 10.0.0.1, a\" belongs to no route; a line with its destination stands before it",
        ),
        (
            "VRF red:\nC>* 10.0.0.0/8 is directly connected, a\n\nVRF blue:\n",
            "routing table (line 4, column 1): another routing table begins: \"VRF blue:\"; import the table of one VRF",
        ),
        (
            "C>* 10.0.0.0/8 is directly connected, a\n\nVRF blue:\n",
            "routing table (line 3, column 1): another routing table begins: \"VRF blue:\"; import the table of one VRF",
        ),
    ] {
        assert_eq!(show_ip_route(text).expect_err(text).to_string(), message, "{text}");
    }
}

/// What a table's text and its routes in short have to be.
fn reads(text: &str, expected: &[&str]) {
    let table = show_ip_route(text).unwrap_or_else(|e| panic!("{text}\n{e}"));
    assert_eq!(routes(&table), expected, "{text}");
}

#[test]
fn one_table_of_a_vrf_may_have_its_heading() {
    let body = "C>* 10.0.0.0/24 is directly connected, eth0, 00:01:00\n";
    for heading in [
        "VRF blue:",
        "IPv4 unicast VRF blue:",
        "VRF blue table 10:",
        "table 10:",
        "VRF: blue",
        "Routing Table: blue",
    ] {
        reads(&format!("{heading}\n{body}"), &["10.0.0.0/24 dev eth0"]);
    }
    let both = "IPv4 unicast VRF default:\nC>* 10.0.0.0/24 is directly connected, a\n\nIPv6 unicast VRF default:\n\
                C>* 2001:db8::/64 is directly connected, a\n";
    reads(both, &["10.0.0.0/24 dev a", "2001:db8::/64 dev a"]);
    let ios = "PE1#sh ip route vrf blue\nRouting Table: blue\nCodes: L - local, C - connected\n\n\
               10.0.0.0/8 is variably subnetted, 2 subnets, 2 masks\nC 10.0.0.0/24 is directly connected, Gi2\n\
               L 10.0.0.1/32 is directly connected, Gi2\n";
    reads(ios, &["10.0.0.0/24 dev Gi2", "10.0.0.1 Local"]);
}

#[test]
fn leaked_routes_leave_by_the_interface_of_the_other_vrf() {
    reads(
        "S>* 10.1.0.0/16 [1/0] via 10.0.0.2, eth0 (vrf red) onlink, weight 1, 00:01:00\n\
         C>* 10.0.0.0/24 is directly connected, eth0 (vrf default), 00:01:00\n",
        &["10.1.0.0/16 via 10.0.0.2 dev eth0", "10.0.0.0/24 dev eth0"],
    );
    reads(
        "O E2+    40.1.1.0/24 [110/20] via 10.1.1.2 (red), 00:04:20, Ethernet0/0\n",
        &["40.1.1.0/24 via 10.1.1.2 dev Ethernet0/0"],
    );
}

#[test]
fn flags_of_frr_and_sonic_are_read() {
    reads(
        "C>*10.0.0.0/24 is directly connected, Ethernet0, 00:01:27\n\
         B>*10.1.0.0/16 [20/0] via 10.0.0.2, Ethernet0, 00:00:36\n\
         \x20 *                  via 10.0.0.3, Ethernet0, 00:00:36\n\
         S>q10.2.0.0/16 [1/0] via 10.0.0.2, Ethernet0\n\
         \x20 *               via 10.0.0.3, Ethernet0\n\
         C *fe80::/64 is directly connected, Ethernet0\n\
         C>*fe80::/64 is directly connected, Ethernet4\n\
         C>*fc00::/64 is directly connected, Ethernet4\n",
        &[
            "10.0.0.0/24 dev Ethernet0",
            "10.1.0.0/16 via 10.0.0.2 dev Ethernet0 via 10.0.0.3 dev Ethernet0",
            "10.2.0.0/16 via 10.0.0.3 dev Ethernet0",
            "fc00::/64 dev Ethernet4",
        ],
    );
    // What the kernel has is used where FRR selected nothing: of two routes, the selected one.
    reads(
        "K * 0.0.0.0/0 [0/202] via 192.0.2.1, eth0, 00:06:40\nK>* 0.0.0.0/0 [0/0] via 192.0.2.9, eth4, 00:06:40\n\
         K * 10.0.0.0/8 [0/0] via 192.0.2.1, eth0 linkdown, 00:06:40\nS   10.1.0.0/16 [1/0] via 10.9.9.9 inactive\n",
        &["0.0.0.0/0 via 192.0.2.9 dev eth4", "10.0.0.0/8 via 192.0.2.1 dev eth0"],
    );
    reads(
        "O[1]>* 10.0.0.0/8 [110/2] (12) via 10.9.0.1, eth0, rmapsrc 10.9.0.2, label implicit-null, weight 1, backup 0,1, 00:01:00\n\
         \x20 b                        via 10.9.0.3, eth1, weight 1\n",
        &["10.0.0.0/8 via 10.9.0.1 dev eth0"],
    );
    let table = show_ip_route(
        "S   10.1.0.0/16 [1/0] via 10.9.9.9, eth7 inactive\nC>* 10.0.0.0/8 is directly connected, eth0\n",
    );
    assert_eq!(table.unwrap().interfaces(), ["eth0", "eth7"], "an interface that is down may be linked");
}

#[test]
fn tables_of_ios_and_asa_are_read() {
    reads(
        "Gateway of last resort is 203.0.113.1 to network 0.0.0.0\n\n\
         S*       0.0.0.0 0.0.0.0 [1/0] via 203.0.113.1, outside\n\
         O E2     10.10.0.0 255.255.0.0\n           [110/11] via 10.255.0.1, 3w1d, inside\n\
         C        10.255.0.0 255.255.255.248\n           is directly connected, inside\n\
         L        10.255.0.4 255.255.255.255 is directly connected, inside\n",
        &[
            "0.0.0.0/0 via 203.0.113.1 dev outside",
            "10.10.0.0/16 via 10.255.0.1 dev inside",
            "10.255.0.0/29 dev inside",
            "10.255.0.4 Local",
        ],
    );
    reads(
        "C9k#show ip route\n      172.20.0.0/16 is variably subnetted, 3 subnets, 2 masks\n\
         i*L2  0.0.0.0/0 [115/10] via 172.20.190.110, 5w6d, Te1/1/4\n                [115/10] via 172.20.190.101, 5w6d, Te1/1/3\n\
         i L2     172.20.2.32/27\n           [115/5565] via 172.20.190.110, 5w6d, Te1/1/4\n\
         l        172.20.199.24/32 [10/1] via 172.20.199.24, 20:11:13, Vlan1036\n\
         S   +    172.21.0.0/16 [1/0] via 172.20.190.110\nC9k#\n",
        &[
            "0.0.0.0/0 via 172.20.190.110 dev Te1/1/4 via 172.20.190.101 dev Te1/1/3",
            "172.20.2.32/27 via 172.20.190.110 dev Te1/1/4",
            "172.20.199.24 via 172.20.199.24 dev Vlan1036",
            "172.21.0.0/16 via 172.20.190.110",
        ],
    );
    reads(
        "IPv6 Routing Table - default - 4 entries\nCodes: C - Connected, L - Local\n\
         C   2001:DB8::/64 [0/0]\n     via GigabitEthernet0/0, directly connected\n\
         L   2001:DB8::1/128 [0/0]\n     via GigabitEthernet0/0, receive\n\
         L   FF00::/8 [0/0]\n     via Null0, receive\n",
        &["2001:db8::/64 dev GigabitEthernet0/0", "2001:db8::1 Local", "ff00::/8 Local"],
    );
    // A subnet's length is said for its network alone.
    let text = "     10.0.0.0/24 is subnetted, 1 subnets\nS       172.16.1.0 [1/0] via 10.0.0.1\n";
    assert!(
        show_ip_route(text).unwrap_err().to_string().contains("the route to 172.16.1.0 has no prefix length")
    );
}

#[test]
fn what_a_terminal_leaves_in_a_table_is_passed_over() {
    reads(
        "R1>en\nR1#show ip route\nCodes: C - connected, S - static\n --More-- \n       D - EIGRP, O - OSPF\n\n\
         C 10.0.0.0/24 is directly connected, a\n --More-- \r          \rS 10.1.0.0/16 [1/0] via 10.0.0.2\n<--- More --->\n\
         S 10.2.0.0/16 [1/0] via 10.0.0.2\nR1#\nR1# exit\n",
        &["10.0.0.0/24 dev a", "10.1.0.0/16 via 10.0.0.2", "10.2.0.0/16 via 10.0.0.2"],
    );
}

#[test]
fn ip_route_says_the_same_as_text_and_as_json() {
    let text = "root@gw:~# ip route; ip -6 route\n\
        default via 192.0.2.1 dev wan proto static \n\
        default via 192.0.2.5 dev wan proto dhcp src 192.0.2.2 metric 200 \n\
        192.0.2.0/24 dev wan proto kernel scope link src 192.0.2.2 linkdown \n\
        10.0.0.0/16 dev lan proto kernel scope link src 10.0.0.1 \n\
        local 10.0.0.1 dev lan table local proto kernel scope host src 10.0.0.1 \n\
        broadcast 10.0.255.255 dev lan table local proto kernel scope link src 10.0.0.1 \n\
        10.1.0.0/16 nhid 12 proto bgp metric 20 \n\
        \tnexthop via 10.0.0.2 dev lan weight 1 \n\
        \tnexthop via 192.0.2.9 dev wan weight 1 \n\
        \tnexthop via 192.0.2.10 dev wan weight 1 dead linkdown \n\
        blackhole 10.9.0.0/16 \n\
        unreachable 10.8.0.0/16 metric 1 mtu lock 1400 error -113 \n\
        198.51.100.0/24 via inet6 fe80::2 dev lan onlink \n\
        fe80::/64 dev lan proto kernel metric 256 pref medium\n\
        2001:db8::/64 dev lan proto kernel metric 256 expires 1799sec pref medium\n\
        default via 2001:db8::1 dev lan proto ra metric 1024 expires 1799sec hoplimit 64 pref medium\n\
        root@gw:~#\n";
    let (text, json) = (
        ip_route(text).unwrap(),
        ip_json_route(include_str!("../../../tests/data/import/route.json")).unwrap(),
    );
    assert_eq!(routes(&text), routes(&json));
    assert_eq!((text.interfaces(), &text.addresses), (json.interfaces(), &json.addresses));
    let reasons =
        |t: &RoutingTable| t.notes.iter().map(|n| format!("{}: {}", n.text, n.reason)).collect::<Vec<_>>();
    assert_eq!(reasons(&text), reasons(&json));
}

#[test]
fn routes_whose_interface_is_down_are_not_in_use() {
    let text = "default via 192.0.2.1 dev a\n10.0.0.0/8 via 192.0.2.9 dev b dead linkdown\n10.0.0.0/8 via 192.0.2.1 dev a metric 5\n\
                172.16.0.0/12 dev c scope link src 172.16.0.1 dead linkdown\n";
    let json = r#"[{"dst":"default","gateway":"192.0.2.1","dev":"a"},
        {"dst":"10.0.0.0/8","gateway":"192.0.2.9","dev":"b","flags":["dead","linkdown"]},
        {"dst":"10.0.0.0/8","gateway":"192.0.2.1","dev":"a","metric":5},
        {"dst":"172.16.0.0/12","dev":"c","prefsrc":"172.16.0.1","flags":["dead","linkdown"]}]"#;
    for table in [ip_route(text).unwrap(), ip_json_route(json).unwrap()] {
        assert_eq!(routes(&table), ["0.0.0.0/0 via 192.0.2.1 dev a", "10.0.0.0/8 via 192.0.2.1 dev a"]);
        // They may have links nevertheless, and the router keeps its addresses.
        assert_eq!(table.interfaces(), ["a", "c", "b"]);
        assert_eq!(table.addresses, [("c".to_string(), "172.16.0.1".parse().unwrap())]);
        let lines: Vec<_> = table.notes.iter().map(|n| (n.line, n.reason.as_str())).collect();
        let reason = "its interface is down, so it is not in use";
        assert_eq!(lines, [(2, reason), (4, reason)]);
    }
}

#[test]
fn a_throw_route_means_that_there_is_no_route() {
    let text = "default via 192.0.2.1 dev a\nthrow 198.20.0.0/16\n";
    let table = ip_route(text).unwrap();
    assert_eq!(routes(&table), ["0.0.0.0/0 via 192.0.2.1 dev a", "198.20.0.0/16 Unreachable"]);
    assert_eq!(table.notes.len(), 1);
    let json = r#"[{"dst":"198.20.0.0/16","type":"throw","flags":[]}]"#;
    assert_eq!(routes(&ip_json_route(json).unwrap()), ["198.20.0.0/16 Unreachable"]);
}

#[test]
fn the_family_of_a_default_route_is_that_of_its_gateway() {
    let table = |text: &str| routes(&ip_route(text).unwrap());
    assert_eq!(table("default via inet6 fe80::1 dev a\n"), ["0.0.0.0/0 via fe80::1 dev a"]);
    assert_eq!(
        table("default proto ra metric 9\n\tnexthop via fe80::1 dev a weight 1\n"),
        ["::/0 via fe80::1 dev a"]
    );
    assert_eq!(table("default dev wg0 metric 1024 pref medium\n"), ["::/0 dev wg0"]);
    let json = r#"[{"dst":"default","via":{"family":"inet6","host":"fe80::1"},"dev":"a"}]"#;
    assert_eq!(routes(&ip_json_route(json).unwrap()), ["0.0.0.0/0 via fe80::1 dev a"]);
}

#[test]
fn mistakes_in_ip_route_are_told() {
    for (text, message) in [
        (
            "hello",
            "routes (line 1, column 1): \"hello\" is not a route; lines are as \"ip route\" prints them, such as \"10.0.0.0/8 via 192.0.2.1 \
             dev eth0\"",
        ),
        (
            "10.0.0.0/8 encap mpls 16 via 10.0.0.1 dev a",
            "routes (line 1, column 1): \"encap\" in a route is not understood; tunnels, routes by source or type of service, and labels \
             are not modelled",
        ),
        (
            "10.0.0.0/8 dev a table 7",
            "routes (line 1, column 1): the route is of the table \"7\"; rules that choose a table are not modelled: import the table that \
             is used, by \"ip route show table NAME\"",
        ),
        (
            "10.0.0.0/8 via",
            "routes (line 1, column 1): something is missing after \"via\"; lines are as \"ip route\" prints them",
        ),
        (
            "10.0.0.0/8",
            "routes (line 1, column 1): the route to 10.0.0.0/8 has no next hop; give it a gateway, dev or nexthops",
        ),
        (
            "nexthop via 10.0.0.1 dev a",
            "routes (line 1, column 1): \"via 10.0.0.1 dev a\" belongs to no route; a line with its destination stands before it",
        ),
    ] {
        assert_eq!(ip_route(text).expect_err(text).to_string(), message, "{text}");
    }
}
