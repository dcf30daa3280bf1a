use std::net::Ipv4Addr;

use weir_net::checksum::{checksum, pseudo4};
use weir_packet::Checksum;

use crate::testing::{Harness, Outcome, ip_packet};

type End = ([u8; 4], u16);

const CLIENT: End = ([200, 200, 200, 200], 30);
const SERVER: End = ([2, 0, 0, 2], 21);
const OUTSIDE: End = ([1, 0, 0, 1], 1024);

/// A segment with its numbers, options and payload, and right checksums.
fn segment(src: End, dst: End, [seq, ack]: [u32; 2], options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut tcp = [src.1.to_be_bytes(), dst.1.to_be_bytes()].concat();
    tcp.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    tcp.extend([((20 + options.len()) as u8 / 4) << 4, 0x10, 1, 0, 0, 0, 0, 0]);
    tcp.extend([options, payload].concat());
    let addr = |e: End| Ipv4Addr::from(e.0);
    let sum = pseudo4(addr(src), addr(dst), 6, tcp.len() as u16).add_bytes(&tcp).finish();
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let [high, low] = (20 + tcp.len() as u16).to_be_bytes();
    let mut p = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, 6, 0, 0];
    p.extend([src.0, dst.0].concat());
    let sum = checksum(&p);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend(tcp);
    p
}

fn harness() -> Harness {
    let rewriter = ["pattern 1.0.0.1 1024-65535# - - 0 0"];
    Harness::graph(
        &[("ftp", "FTPPortMapper", &["rw", "rw", "0"], 1, 1), ("rw", "TCPRewriter", &rewriter, 1, 1)],
        &[((0, 0), (1, 0))],
    )
}

/// Sends a segment of the client, which leaves with these numbers and this payload.
fn client(h: &mut Harness, seq: u32, ack: u32, payload: &str, [to_seq, to_ack]: [u32; 2], to: &str) {
    let out = h.send_ip(0, &segment(CLIENT, SERVER, [seq, ack], &[], payload.as_bytes()));
    let want = segment(OUTSIDE, SERVER, [to_seq, to_ack], &[], to.as_bytes());
    assert_eq!(out[0].out().1, &want[..], "seq {seq} {payload:?}");
}

/// The same for the server.
fn server(h: &mut Harness, [seq, ack]: [u32; 2], options: &[u8], to: [u32; 2], to_options: &[u8]) {
    let out = h.send_ip(0, &segment(SERVER, OUTSIDE, [seq, ack], options, b""));
    assert_eq!(out[0].out().1, &segment(SERVER, CLIENT, to, to_options, b"")[..], "ack {ack}");
}

/// A selective acknowledgement of these edges, with one byte before it so that they stand at odd places.
fn sack(edges: &[u32]) -> Vec<u8> {
    let mut o = vec![1, 5, 2 + 4 * edges.len() as u8];
    o.extend(edges.iter().flat_map(|e| e.to_be_bytes()));
    o.push(0);
    o
}

const PORT: &str = "PORT 200,200,200,200,200,200\n";

#[test]
fn a_command_gets_the_new_address_and_numbers_shift() {
    let mut h = harness();
    client(&mut h, 0, 0, "x", [0, 0], "x");
    client(&mut h, 1, 0, PORT, [1, 0], "PORT 1,0,0,1,4,1\n");
    client(&mut h, 30, 0, "fubar\n", [18, 0], "fubar\n");
    for (ack, to) in [(0, 0), (1, 1), (18, 30), (24, 36)] {
        server(&mut h, [7, ack], &[], [7, to], &[]);
    }
    server(&mut h, [0, 0], &sack(&[1, 18]), [0, 0], &sack(&[1, 30]));
    let edges = [1, 10, 1, 18, 18, 20];
    server(&mut h, [0, 0], &sack(&edges), [0, 0], &sack(&[1, 10, 1, 30, 30, 32]));
    let aligned = [&[1, 1, 5, 10][..], &1_u32.to_be_bytes(), &18_u32.to_be_bytes()].concat();
    let shifted = [&[1, 1, 5, 10][..], &1_u32.to_be_bytes(), &30_u32.to_be_bytes()].concat();
    server(&mut h, [0, 0], &aligned, [0, 0], &shifted);

    // The server's data connection comes to the new port, and gets to the one of the command.
    let (data, new) = ((SERVER.0, 20), (OUTSIDE.0, 1025));
    let out = h.send_ip(0, &segment(data, new, [1, 0], &[], b"data"));
    let own = (CLIENT.0, 200 << 8 | 200);
    assert_eq!(out[0].out().1, &segment(data, own, [1, 0], &[], b"data")[..]);
}

#[test]
fn changes_add_up_and_old_segments_keep_their_shift() {
    let mut h = harness();
    client(&mut h, 0, 0, "x", [0, 0], "x");
    client(&mut h, 1, 0, PORT, [1, 0], "PORT 1,0,0,1,4,1\n");
    client(&mut h, 36, 0, "PORT 200,200,200,200,200,201\n", [24, 0], "PORT 1,0,0,1,4,2\n");
    client(&mut h, 65, 0, "fobar\n", [41, 0], "fobar\n");
    client(&mut h, 30, 0, "fubar\n", [18, 0], "fubar\n");
    client(&mut h, 0, 0, "x", [0, 0], "x");
    server(&mut h, [0, 0], &sack(&[1, 45]), [0, 0], &sack(&[1, 69]));
    // The last command again shifts no further.
    client(&mut h, 36, 0, "PORT 200,200,200,200,200,201\n", [24, 0], "PORT 1,0,0,1,4,2\n");
    client(&mut h, 65, 0, "fobar\n", [41, 0], "fobar\n");
    // A gigabyte later the changes are past.
    client(&mut h, 1_100_000_000, 0, "1G", [1_099_999_976, 0], "1G");
    client(&mut h, 0, 0, "x", [0_u32.wrapping_sub(24), 0], "x");
    server(&mut h, [0, 0], &[], [0, 24], &[]);
}

#[test]
fn more_commands_than_are_kept_apart() {
    let mut h = harness();
    client(&mut h, 0, 0, "x", [0, 0], "x");
    let mut seq = 1;
    for n in 1..=9 {
        let to = format!("PORT 1,0,0,1,4,{n}\n");
        client(&mut h, seq, 0, &format!("PORT 200,200,200,200,200,20{n}\n"), [seq - 12 * (n - 1), 0], &to);
        seq += 29;
    }
    client(&mut h, seq, 0, "end", [seq - 108, 0], "end");
    server(&mut h, [0, seq - 108], &[], [0, seq], &[]);
}

#[test]
fn a_shorter_argument_grows_and_what_follows_moves() {
    let rewriter = ["pattern 100.100.100.100 30000-30000# - - 0 0"];
    let rewriter2 = ["pattern 100.100.100.100 30000-40000# - - 0 0"];
    for args in [&rewriter[..], &rewriter2[..]] {
        let mut h = Harness::graph(
            &[
                ("ftp", "FTPPortMapper", &["rw", "data", "0"], 1, 1),
                ("rw", "TCPRewriter", args, 1, 1),
                ("data", "IPRewriter", &rewriter2, 1, 1),
            ],
            &[((0, 0), (1, 0))],
        );
        let (src, out) = (([1, 0, 0, 3], 30), ([100, 100, 100, 100], 30000));
        h.send_ip(0, &segment(src, SERVER, [0, 0], &[], b"x"))[0].out();
        for (command, want) in [
            ("port   1,0,0,3,1,2\r\nNOOP\r\n", "port   100,100,100,100,117,48\r\nNOOP\r\n"),
            ("PORT 1,0,0,3,1,2\n", "PORT 100,100,100,100,117,48\n"),
        ] {
            let mut p = segment(src, SERVER, [1, 0], &[], command.as_bytes());
            p.extend([0; 9]);
            let sent = h.send_ip(0, &p);
            let want = segment(out, SERVER, [1, 0], &[], want.as_bytes());
            assert_eq!(sent[0].out().1, &want[..], "the padding of the frame is gone");
        }
    }
}

#[test]
fn what_is_no_command_passes() {
    let mut h = harness();
    client(&mut h, 0, 0, "x", [0, 0], "x");
    for text in [
        "",
        "PORT",
        "PORT ",
        "PORT 1,2,3,4,5,6",
        "PORT 1,2,3,4,5\r\n",
        "PORT 1,2,3,4,5,256\r\n",
        "PORT 1,2,3,4,5,6,7\r\n",
        "PORT 1,2,3,4,5,6 \r\n",
        "PORTS 1,2,3,4,5,6\r\n",
        "EPRT |1|1.2.3.4|5|\r\n",
        "PASV\r\n",
        "PORT                                                  1,2,3,4,5,6\r\n",
    ] {
        client(&mut h, 1, 0, text, [1, 0], text);
    }
    assert_eq!(
        harness().send_ip(0, &segment(CLIENT, SERVER, [1, 0], &[], PORT.as_bytes()))[0].out().1,
        &segment(OUTSIDE, SERVER, [1, 0], &[], PORT.as_bytes())[..],
        "a connection without a mapping"
    );
    let whole = segment(CLIENT, SERVER, [1, 0], &[], PORT.as_bytes());
    for n in 0..whole.len() {
        assert_eq!(h.send_ip(0, &whole[..n]).len(), 1);
    }
}

#[test]
fn a_partial_checksum_stays_partial() {
    let mut h = harness();
    client(&mut h, 0, 0, "x", [0, 0], "x");
    let mut bytes = segment(CLIENT, SERVER, [1, 0], &[], PORT.as_bytes());
    let pseudo = |p: &[u8], src: End| {
        let sum = pseudo4(src.0.into(), SERVER.0.into(), 6, (p.len() - 20) as u16).fold();
        sum.to_be_bytes()
    };
    let sum = pseudo(&bytes, CLIENT);
    bytes[36..38].copy_from_slice(&sum);
    let mut p = ip_packet(&bytes);
    p.csum = Checksum::Partial as u8;
    let out = h.send_packet(0, p);
    let Outcome::Out(_, p) = &out[0] else { panic!("{out:?}") };
    let mut want = segment(OUTSIDE, SERVER, [1, 0], &[], b"PORT 1,0,0,1,4,1\n");
    let sum = pseudo(&want, OUTSIDE);
    want[36..38].copy_from_slice(&sum);
    assert_eq!(p.bytes(), want);
}

#[test]
fn bad_arguments_are_explained() {
    let args = |list: &[&str]| -> Vec<String> { list.iter().map(|a| (*a).to_owned()).collect() };
    let (specs, none) = (args(&["drop"]), args(&[]));
    let peer = |name, class, args| weir_ir::Peer { name, class, args };
    let all =
        [peer("u", "UDPRewriter", &specs[..]), peer("a", "IPAddrRewriter", &specs), peer("i", "Idle", &none)];
    let errors = |list: &[&str]| {
        let mut e = crate::class_named("FTPPortMapper").unwrap().configure(&args(list)).unwrap();
        e.resolve(&weir_ir::Peers::new(&all, "e")).unwrap_err().join("\n")
    };
    let e = errors(&["u", "none", "0"]);
    assert!(e.contains("CONTROL_REWRITER: a UDPRewriter does not shift"), "{e}");
    assert!(e.contains("DATA_REWRITER: 'none' is not an IP rewriter: there is no element"), "{e}");
    assert!(errors(&["a", "u", "0"]).contains("'a' does not rewrite ports"));
    assert!(errors(&["i", "u", "1"]).contains("it is of class Idle"));
    assert!(errors(&["i", "u", "1"]).contains("DATA_REWRITER_INPUT out of range: u has 1 inputs"));
}
