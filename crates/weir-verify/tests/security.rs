//! The security rules on modules as tenants write them: table 2.1 of the paper, and ways to break the rules unseen.

mod net;

use net::Net;
use weir_verify::checks::{
    Allowed, Checker, Framing, Module, Prefix, Rule, Rules, Security, Stage, Start, Target, Verdict, secure,
};
use weir_verify::{Limits, SymbolicInput};

const OWN: [u8; 4] = [172, 100, 10, 1];
const CUSTOMER: [u8; 4] = [172, 16, 15, 133];

fn host(address: [u8; 4]) -> Prefix {
    Prefix { address: address.to_vec(), len: 32 }
}

/// The paper's rules for a third party, a customer, and the operator.
fn rules() -> [Rules; 3] {
    let customer = Rules {
        receive: Some(vec![host(OWN)]),
        send_from: Some(Allowed { prefixes: vec![host(OWN)], entered: true }),
        send_to: None,
    };
    let send_to = Some(Allowed { prefixes: vec![host(CUSTOMER)], entered: true });
    [Rules { send_to, ..customer.clone() }, customer, Rules::default()]
}

/// What comes of the check of a module between `in` and `out`, to which only what is addressed to it comes, for each
/// requester.
fn checked(text: &str, intercepts: bool) -> [Security; 3] {
    checked_with(text, intercepts).map(|(found, _)| found)
}

/// The same, and whether longer sequences of packets were not tried.
fn checked_with(text: &str, intercepts: bool) -> [(Security, bool); 3] {
    let text = format!(
        "{text}\nroute = IPFilter(allow dst host 172.100.10.1)\nfrom = CheckIPHeader\nfrom -> route -> in"
    );
    let n = Net::new(&text);
    let start = Start::new(n.port("from"), Framing::Ip, SymbolicInput::ip());
    rules().map(|rules| {
        let m = Module {
            inputs: vec![start.clone()],
            outputs: vec![Target::new(n.port("out"), Framing::Ip)],
            answers: vec![(n.port("out"), start.clone())],
            intercepts: if intercepts { vec![Prefix { address: vec![0; 4], len: 0 }] } else { Vec::new() },
            ..Module::default()
        };
        let mut c = Checker::new(&n.net, Limits::default());
        (secure(&mut c, &m, &rules), c.not_tried())
    })
}

/// What each requester is answers about such a module.
fn answers(text: &str, intercepts: bool) -> [Option<(Rule, Stage)>; 3] {
    checked(text, intercepts).map(|s| match s.verdict {
        Verdict::Holds(_) => None,
        Verdict::Violated(_) => s.broken,
        Verdict::Inconclusive(why) => panic!("{why}\n{text}"),
    })
}

const OK: [Option<(Rule, Stage)>; 3] = [None, None, None];

#[test]
fn a_forwarder_to_its_owner_is_safe_for_all() {
    let push = "in = CheckIPHeader
        f = IPFilter(allow udp port 1500)
        r = IPRewriter(pattern - - 172.16.15.133 - 0 0)
        q = queue
        out = sink
        in -> f -> r -> q -> out";
    assert_eq!(answers(push, false), OK);
}

#[test]
fn a_filter_that_answers_its_clients_is_safe_for_all() {
    let dns = "in = CheckIPHeader
        f = IPFilter(allow icmp type echo, deny all)
        p = ICMPPingResponder
        out = sink
        in -> f -> p -> out";
    assert_eq!(answers(dns, false), OK);
}

#[test]
fn it_is_told_where_longer_sequences_of_packets_were_not_tried() {
    let not_tried = |text: &str| checked_with(text, false).map(|(_, not_tried)| not_tried);
    let stateful = "in = CheckIPHeader
        f = IPFilter(allow udp port 1500)
        r = IPRewriter(pattern - - 172.16.15.133 - 0 0)
        out = sink
        in -> f -> r -> out";
    assert_eq!(not_tried(stateful), [true, true, false], "the operator's module may do anything");
    let stateless = "in = CheckIPHeader
        f = IPFilter(allow icmp type echo, deny all)
        p = ICMPPingResponder
        out = sink
        in -> f -> p -> out";
    assert_eq!(not_tried(stateless), [false; 3]);
}

#[test]
fn what_wants_the_traffic_of_others_is_for_the_operator() {
    let dpi = "in = CheckIPHeader\n out = sink\n in -> out";
    let third = Some((Rule::Addressing, Stage::Packet));
    assert_eq!(answers(dpi, true), [third, third, None]);
}

#[test]
fn a_proxy_to_anywhere_is_for_customers() {
    // Without options: mappings of packets with options are more histories than are tried.
    let proxy = "in = CheckIPHeader
        f = IPFilter(allow ip hl 5)
        r = IPRewriter(pattern 172.100.10.1 1024-65535 93.184.216.34 80 0 1, drop)
        out = sink
        in -> f -> r:0 -> out";
    let third = Some((Rule::Destination, Stage::Packet));
    assert_eq!(answers(proxy, false), [third, None, None]);
}

#[test]
fn a_spoofed_source_is_found_wherever_it_is_written() {
    let spoof = "in = CheckIPHeader
        s = StoreIPAddress(8.8.8.8, src)
        out = sink
        in -> s -> out";
    let broken = Some((Rule::Source, Stage::Packet));
    assert_eq!(answers(spoof, false)[..2], [broken, broken]);
}

#[test]
fn what_only_answers_show_is_found_for_udp_too() {
    let proxy = "in = CheckIPHeader
        f = IPFilter(allow udp and ip hl 5, deny all)
        side = IPClassifier(src host 172.16.15.133, -)
        r = IPRewriter(pattern 172.100.10.1 1024-65535 172.16.15.133 53 0 1, drop)
        back = StoreIPAddress(8.8.8.8, src)
        out = sink
        in -> f -> side
        side:1 -> r:0 -> out
        side:0 -> r:1
        r:1 -> back -> out";
    let broken = Some((Rule::Source, Stage::Packet));
    assert_eq!(answers(proxy, false)[..2], [broken, broken]);
    assert_eq!(answers(&proxy.replace("8.8.8.8", "172.100.10.1"), false), OK);
}

/// What may run, by who asks for it: third party, client, operator. `?` is what runs behind an enforcer.
const TABLE: &[(&str, &str, &str)] = &[
    ("DPI", "nny", "intercepts in = CheckIPHeader; in -> out"),
    (
        "NAT",
        "nny",
        "intercepts in = CheckIPHeader; r = IPRewriter(pattern 172.100.10.1 1024-65535 - - 0 0); in -> r -> out",
    ),
    ("transcoder", "nny", "intercepts in = opaque"),
    (
        "implicit proxy",
        "nny",
        "intercepts in = CheckIPHeader; r = IPRewriter(pattern - - 93.184.216.34 3128 0 0); in -> r -> out",
    ),
    (
        "explicit proxy",
        "nyy",
        "in = IPFilter(allow tcp and ip hl 5); r = IPRewriter(pattern 172.100.10.1 1024-65535 93.184.216.34 80 0 0); in -> r -> out",
    ),
    (
        "sendmail",
        "nyy",
        "in = IPFilter(allow tcp dst port 25); s = StoreIPAddress(172.100.10.1, src); d = StoreIPAddress(93.184.216.34, dst); in -> s -> d -> out",
    ),
    (
        "rate limiter",
        "yyy",
        "in = RatedSplitter(1000); d = StoreIPAddress(172.16.15.133, dst); in -> d -> out",
    ),
    (
        "firewall",
        "yyy",
        "in = IPFilter(allow tcp dst port 80); d = StoreIPAddress(172.16.15.133, dst); in -> d -> out",
    ),
    (
        "IDS",
        "yyy",
        "in = Tee; d = StoreIPAddress(172.16.15.133, dst); log = Counter; in:0 -> d -> out; in:1 -> log",
    ),
    (
        "IPS",
        "yyy",
        "in = IPClassifier(tcp opt syn and not ack, -); d = StoreIPAddress(172.16.15.133, dst); in:1 -> d -> out",
    ),
    (
        "scrubber",
        "yyy",
        "in = CheckIPHeader; f = IPFilter(deny ip frag, allow all); d = StoreIPAddress(172.16.15.133, dst); in -> f -> d -> out",
    ),
    ("tunnel", "yyy", "in = IPEncap(4, 172.100.10.1, 172.16.15.133); in -> out"),
    (
        "multicast",
        "yyy",
        "in = Tee; a = StoreIPAddress(172.16.15.133, dst); b = IPMirror; in:0 -> a -> out; in:1 -> b -> out",
    ),
    ("CDN", "??y", "in = opaque"),
    ("DNS server", "??y", "in = opaque"),
];

#[test]
fn the_functions_of_the_papers_table() {
    for (name, wanted, text) in TABLE {
        let (intercepts, text) = match text.strip_prefix("intercepts ") {
            Some(rest) => (true, rest),
            None => (false, *text),
        };
        let text = format!("out = sink\n{}", text.replace("; ", "\n"));
        let may = checked(&text, intercepts).map(|s| match s.verdict {
            Verdict::Holds(_) => 'y',
            Verdict::Violated(_) => 'n',
            Verdict::Inconclusive(_) => '?',
        });
        assert_eq!(may.iter().collect::<String>(), *wanted, "{name}");
    }
}
