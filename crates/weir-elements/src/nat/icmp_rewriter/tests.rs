use weir_net::checksum::checksum;

use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};

const ROUTER: [u8; 4] = [19, 19, 19, 19];
const SERVER: [u8; 4] = [10, 0, 0, 8];
const CLIENT: [u8; 4] = [18, 26, 4, 44];

/// An error of the router about a packet, of which it holds the first bytes.
fn error(kind: u8, to: [u8; 4], about: &[u8]) -> Vec<u8> {
    let len = (28 + about.len() as u16).to_be_bytes();
    let mut p = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, 1, 0, 0];
    p.extend([ROUTER, to].concat());
    p.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    p.extend(about);
    let sum = checksum(&p[20..]);
    p[22..24].copy_from_slice(&sum.to_be_bytes());
    let sum = checksum(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p
}

fn ping(src: [u8; 4], dst: [u8; 4], id: u8) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 30, 0, 0, 0, 0, 64, 1, 0, 0];
    p.extend([src, dst].concat());
    p.extend([8, 0, 0, 0, 0, id, 0, 7, 1, 2]);
    let sum = checksum(&p[20..]);
    p[22..24].copy_from_slice(&sum.to_be_bytes());
    let sum = checksum(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p
}

fn harness(maps: &str, class: &str, spec: &str, more: &[&str]) -> Harness {
    let own = [&[maps][..], more].concat();
    let specs = [&[spec][..], more].concat();
    Harness::graph(&[("ie", "ICMPRewriter", &own, 1, 2), ("rw", class, &specs, 1, 1)], &[])
}

/// What leaves the rewriter.
fn rewritten(h: &mut Harness, packet: &[u8]) -> Vec<u8> {
    h.send_to(1, 0, ip_packet(packet))[0].out().1.to_vec()
}

fn source(p: &[u8]) -> [u8; 4] {
    [p[12], p[13], p[14], p[15]]
}

#[test]
fn errors_speak_of_the_packet_that_was_sent() {
    let client = (CLIENT, 20);
    let mut no_sum = udp(client, (SERVER, 80), b"abcdefgh");
    no_sum[26..28].copy_from_slice(&[0, 0]);
    let packets = [
        ("IPRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", tcp(client, (SERVER, 80), 2, 7, b"abc")),
        ("IPRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", udp(client, (SERVER, 80), b"abcdefgh")),
        ("IPRewriter", "pattern 21.0.0.1 1024-65535# 9.9.9.9 7 0 0", no_sum),
        ("TCPRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", tcp(client, (SERVER, 80), 2, 7, b"abc")),
        ("UDPRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", udp(client, (SERVER, 80), b"abc")),
        ("UDPRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", tcp(client, (SERVER, 80), 2, 7, b"abc")),
        ("IPAddrRewriter", "pattern 21.0.0.1-21.0.0.9# - 0 0", udp(client, (SERVER, 80), b"abc")),
        ("IPAddrRewriter", "pattern 21.0.0.1-21.0.0.9# - 0 0", ping(CLIENT, SERVER, 3)),
        (
            "IPAddrPairRewriter",
            "pattern 21.0.0.1-21.0.0.9# 9.9.9.9 0 0",
            tcp(client, (SERVER, 80), 2, 7, b"abc"),
        ),
        ("ICMPPingRewriter", "pattern 21.0.0.1 - 100-200# 0 0", ping(CLIENT, SERVER, 3)),
        (
            "IPEndpointRewriter",
            "pattern 21.0.0.1 1024-65535# - - 0 0",
            tcp(client, (SERVER, 80), 2, 7, b"abc"),
        ),
        ("IPEndpointRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", udp(client, (SERVER, 80), b"abc")),
        ("IPEndpointRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", ping(CLIENT, SERVER, 3)),
    ];
    for (class, spec, packet) in packets {
        let mut h = harness("rw", class, spec, &[]);
        let sent = rewritten(&mut h, &packet);
        assert_ne!(sent, packet);
        for kind in [3, 4, 5, 11, 12] {
            let out = h.send_ip(0, &error(kind, source(&sent), &sent));
            assert_eq!(out[0].out(), (0, &error(kind, CLIENT, &packet)[..]), "{class} {packet:02x?}");
            let Outcome::Out(_, p) = &out[0] else { panic!("{out:?}") };
            assert_eq!(p.anno[..4], CLIENT);
        }
        // Routers may send back eight bytes of the transport header only (RFC 792).
        let out = h.send_ip(0, &error(11, source(&sent), &sent[..28]));
        let want = error(11, CLIENT, &packet[..28]);
        assert_eq!(out[0].out(), (0, &want[..]), "{class}");
        // On its way inwards, the error is about the rewritten reply.
        for n in 0..sent.len() + 28 {
            let whole = error(11, source(&sent), &sent);
            assert_eq!(h.send_ip(0, &whole[..n]).len(), 1, "{class}: {n} bytes");
        }
    }
}

#[test]
fn an_error_from_inside_is_about_the_reply() {
    let mut h = harness("rw", "IPRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", &[]);
    rewritten(&mut h, &udp((CLIENT, 20), (SERVER, 80), b"abc"));
    let reply = udp((SERVER, 80), ([21, 0, 0, 1], 1024), b"abcd");
    let inside = rewritten(&mut h, &reply);
    assert_eq!(inside, udp((SERVER, 80), (CLIENT, 20), b"abcd"));
    let out = h.send_ip(0, &error(3, SERVER, &inside));
    assert_eq!(out[0].out(), (0, &error(3, SERVER, &reply)[..]));
}

#[test]
fn the_output_may_follow_that_of_the_mapping() {
    let specs = ["pattern 21.0.0.1 1024-65535# - - 0 1", "drop"];
    let mut h =
        Harness::graph(&[("ie", "ICMPRewriter", &["rw:1"], 1, 3), ("rw", "IPRewriter", &specs, 2, 2)], &[]);
    let sent = rewritten(&mut h, &udp((CLIENT, 20), (SERVER, 80), b"abc"));
    assert_eq!(
        h.send_ip(0, &error(3, source(&sent), &sent))[0].out().0,
        2,
        "errors go where replies go, plus 1"
    );
}

#[test]
fn errors_get_the_annotation_of_replies() {
    let mut h = harness("rw", "IPRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", &["REPLY_ANNO PAINT"]);
    let mut p = ip_packet(&udp((CLIENT, 20), (SERVER, 80), b"abc"));
    p.anno[16] = 2;
    let sent = h.send_to(1, 0, p)[0].out().1.to_vec();
    let out = h.send_ip(0, &error(11, source(&sent), &sent));
    let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
    assert_eq!(p.anno[16], 2);
}

#[test]
fn what_is_no_error_about_a_known_packet_leaves_on_output_1() {
    let mut h = harness("rw", "IPRewriter", "pattern 21.0.0.1 1024-65535# - - 0 0", &[]);
    let about = udp((CLIENT, 20), (SERVER, 80), b"abc");
    let mut six = about.clone();
    six[0] = 0x65;
    let mut later = about.clone();
    later[7] = 1;
    for p in [
        error(3, CLIENT, &about),
        error(0, CLIENT, &about),
        error(3, CLIENT, &about[..19]),
        error(3, CLIENT, &six),
        error(3, CLIENT, &later),
    ] {
        assert_eq!(h.send_ip(0, &p)[0].out(), (1, &p[..]));
    }
    assert_eq!(h.send_ip(0, &about)[0].reason(), "NotRewritable");
    let mut h =
        Harness::graph(&[("ie", "ICMPRewriter", &["rw"], 1, 1), ("rw", "IPRewriter", &["drop"], 1, 1)], &[]);
    assert_eq!(h.send_ip(0, &error(3, CLIENT, &about))[0].reason(), "NoMatch");
    assert_eq!(h.send_ip(0, &error(3, CLIENT, &about[..19]))[0].reason(), "Truncated");
}

#[test]
fn bad_arguments_are_explained() {
    let class = crate::class_named("ICMPRewriter").unwrap();
    let error = |maps: &str| class.configure(&[maps.to_owned()]).err().unwrap().join("\n");
    assert!(error("rw:x").contains("rw:x not an IP rewriter"));
    let mut e = class.configure(&["rw".to_owned()]).unwrap();
    let errors = e.resolve(&weir_ir::Peers::new(&[], "e")).unwrap_err();
    assert!(errors[0].contains("'rw' is not an IP rewriter: there is no element"), "{errors:?}");
    // The rewriter reports what is wrong with it.
    let args =
        ["pattern 192.0.2.1 1024-65535 - - 0 1", "drop", "FORWARD \"tcp 80 192.0.2.1\""].map(str::to_owned);
    let all = [weir_ir::Peer { name: "rw", class: "IPEndpointRewriter", args: &args }];
    let class = crate::class_named("IPEndpointRewriter").unwrap();
    let own = class.configure(&args).and_then(|mut rw| rw.resolve(&weir_ir::Peers::new(&all, "rw")));
    assert!(own.is_err_and(|errors| errors[0].contains("the outer address itself")));
    assert_eq!(e.resolve(&weir_ir::Peers::new(&all, "e")), Ok(()));
}
