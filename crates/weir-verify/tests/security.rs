//! The security rules on modules as tenants write them: table 2.1 of the paper, and ways to break the rules unseen.

mod net;

use net::Net;
use weir_verify::checks::{
    Allowed, Checker, Framing, Module, Prefix, Rule, Rules, Stage, Start, Target, Verdict, secure,
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

/// What each requester is told about a module between `in` and `out`, to which only what is addressed to it comes.
fn told(text: &str, intercepts: bool) -> [Option<(Rule, Stage)>; 3] {
    let text = format!(
        "{text}\nroute = IPFilter(allow dst host 172.100.10.1)\nfrom = CheckIPHeader\nfrom -> route -> in"
    );
    let n = Net::new(&text);
    let start = Start { place: n.port("from"), framing: Framing::Ip, input: SymbolicInput::ip() };
    rules().map(|rules| {
        let m = Module {
            inputs: vec![start.clone()],
            outputs: vec![Target { place: n.port("out"), framing: Framing::Ip }],
            answers: vec![(n.port("out"), start.clone())],
            intercepts: if intercepts { vec![Prefix { address: vec![0; 4], len: 0 }] } else { Vec::new() },
            ..Module::default()
        };
        let mut c = Checker::new(&n.net, Limits::default());
        let s = secure(&mut c, &m, &rules);
        match s.verdict {
            Verdict::Holds(_) => None,
            Verdict::Violated(_) => s.broken,
            Verdict::Inconclusive(why) => panic!("{rules:?}: {why}\n{text}"),
        }
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
    assert_eq!(told(push, false), OK);
}

#[test]
fn a_filter_that_answers_its_clients_is_safe_for_all() {
    let dns = "in = CheckIPHeader
        f = IPFilter(allow icmp type echo, deny all)
        p = ICMPPingResponder
        out = sink
        in -> f -> p -> out";
    assert_eq!(told(dns, false), OK);
}

#[test]
fn what_wants_the_traffic_of_others_is_for_the_operator() {
    let dpi = "in = CheckIPHeader\n out = sink\n in -> out";
    let third = Some((Rule::Addressing, Stage::Packet));
    assert_eq!(told(dpi, true), [third, third, None]);
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
    assert_eq!(told(proxy, false), [third, None, None]);
}

#[test]
fn a_spoofed_source_is_found_wherever_it_is_written() {
    let spoof = "in = CheckIPHeader
        s = StoreIPAddress(8.8.8.8, src)
        out = sink
        in -> s -> out";
    let broken = Some((Rule::Source, Stage::Packet));
    assert_eq!(told(spoof, false)[..2], [broken, broken]);
    // Only packets (here: without options) whose time to live runs out are answered, from an address that is somebody else's.
    let subtle = "in = CheckIPHeader
        f = IPFilter(allow ip hl 5)
        r = IPRewriter(pattern - - 172.16.15.133 - 0 0)
        d = DecIPTTL
        e = ICMPError(8.8.8.8, timeexceeded)
        out = sink
        in -> f -> d -> r -> out
        d:1 -> e -> out";
    assert_eq!(told(subtle, false)[1], broken);
    assert_eq!(told(&subtle.replace("8.8.8.8", "172.100.10.1"), false)[1], None);
}

#[test]
fn a_tunnel_whose_inner_packets_are_free_is_found() {
    let tunnel = "in = CheckIPHeader
        f = IPFilter(allow ip proto 4, deny all)
        s = StripIPHeader
        c = CheckIPHeader
        out = sink
        in -> f -> s -> c -> out";
    assert_eq!(told(tunnel, false)[1], Some((Rule::Source, Stage::Packet)));
}
