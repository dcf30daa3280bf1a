use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};
use weir_net::Ipv4;
use weir_packet::{Checksum, Layer, Packet};

/// A packet with these options and so many bytes of payload.
fn packet(options: &[u8], payload: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..payload).map(|i| (i * 7 + i / 256) as u8).collect();
    let mut p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), &payload);
    p.splice(20..20, options.iter().copied());
    p[0] = 0x45 + (options.len() / 4) as u8;
    let total = p.len() as u16;
    p[2..4].copy_from_slice(&total.to_be_bytes());
    with_field(p, 0)
}

/// A packet with these flags and offset.
fn with_field(mut p: Vec<u8>, field: u16) -> Vec<u8> {
    p[6..8].copy_from_slice(&field.to_be_bytes());
    Ipv4::new(&mut p[..]).unwrap().fill_checksum();
    p
}

fn field(p: &[u8]) -> u16 {
    u16::from_be_bytes([p[6], p[7]])
}

/// The fragments of a packet, each a right one.
fn cut(mtu: usize, args: &[&str], p: Packet) -> Vec<Vec<u8>> {
    let mtu_text = mtu.to_string();
    let args: Vec<&str> = [&mtu_text[..]].into_iter().chain(args.iter().copied()).collect();
    let mut e = Harness::new("IPFragmenter", &args, 1, 2);
    let out = e.send_packet(0, p);
    let fragments: Vec<Vec<u8>> = out
        .iter()
        .map(Outcome::out)
        .map(|(port, bytes)| {
            assert_eq!(port, 0);
            bytes.to_vec()
        })
        .collect();
    for f in &fragments {
        let ip = Ipv4::new(&f[..]).unwrap();
        assert!(ip.checksum_ok());
        assert_eq!(usize::from(ip.total_len()), f.len());
        assert!(f.len() <= mtu, "{} > {mtu}", f.len());
    }
    if fragments.len() > 1 {
        assert_eq!(e.read("fragments"), fragments.len().to_string());
    }
    fragments
}

/// What a receiver makes of fragments of a packet whose offset was `base`.
fn body(fragments: &[Vec<u8>], base: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for f in fragments {
        assert_eq!(
            usize::from(field(f) & 0x1fff) * 8,
            base + body.len(),
            "each goes on where the last ended"
        );
        body.extend(&f[usize::from(f[0] & 15) * 4..]);
    }
    body
}

#[test]
fn the_parts_are_the_whole() {
    for (mtu, len) in [(68, 41), (68, 1400), (576, 549), (576, 1472), (1500, 8972), (1500, 65_507), (69, 100)]
    {
        let whole = packet(&[], len);
        let parts = cut(mtu, &[], ip_packet(&whole));
        assert_eq!(body(&parts, 0), whole[20..], "MTU {mtu}, {len} bytes");
        let each = (mtu - 20) / 8 * 8;
        assert_eq!(parts.len(), (len + 8).div_ceil(each));
        for (i, p) in parts.iter().enumerate() {
            assert_eq!(p[12..20], whole[12..20]);
            assert_eq!((p[1], p[4], p[5], p[8], p[9]), (whole[1], whole[4], whole[5], whole[8], whole[9]));
            assert_eq!(field(p) & 0xe000 == 0x2000, i + 1 < parts.len());
        }
    }
}

#[test]
fn what_fits_passes_unchanged() {
    for len in [0, 40, 548] {
        assert_eq!(cut(576, &[], ip_packet(&packet(&[], len))), [packet(&[], len)]);
    }
    let df = with_field(packet(&[], 548), 0x4000);
    assert_eq!(cut(576, &[], ip_packet(&df)), [df]);
    // Only the padding is too long.
    let padded = [packet(&[], 40), vec![0; 600]].concat();
    assert_eq!(cut(576, &[], ip_packet(&padded)), [packet(&[], 40)]);
    // What is no IP packet is nobody's business.
    let mut e = Harness::new("IPFragmenter", &["68"], 1, 2);
    assert_eq!(e.send(0, &[9; 100])[0].out(), (0, &[9; 100][..]));
}

#[test]
fn fragments_of_fragments_keep_their_place() {
    for (given, last_more) in [(0x2007, true), (0x0007, false)] {
        let whole = with_field(packet(&[], 1000), given);
        let parts = cut(576, &[], ip_packet(&whole));
        assert_eq!(body(&parts, 56), whole[20..]);
        assert_eq!(field(parts.last().unwrap()) & 0x2000 != 0, last_more);
    }
    let beyond = with_field(packet(&[], 1000), 0x1fff);
    let mut e = Harness::new("IPFragmenter", &["576"], 1, 2);
    assert_eq!(e.send_ip(0, &beyond)[0].reason(), "BadLength");
}

#[test]
fn packets_that_must_not_be_cut_leave_on_output_1() {
    let df = with_field(packet(&[], 1000), 0x4000);
    let mut two = Harness::new("IPFragmenter", &["576"], 1, 2);
    assert_eq!(two.send_ip(0, &df)[0].out(), (1, &df[..]));
    assert_eq!((two.read("drops"), two.read("fragments")), ("1".into(), "0".into()));
    let mut one = Harness::new("IPFragmenter", &["576"], 1, 1);
    assert_eq!(one.send_ip(0, &df)[0].reason(), "NeedsFragments");

    let parts = cut(576, &["HONOR_DF false"], ip_packet(&df));
    assert_eq!(body(&parts, 0), df[20..]);
    assert!(parts.iter().all(|p| field(p) & 0x4000 == 0 && p[4..6] == parts[0][4..6]));
    assert_ne!(parts[0][4..6], df[4..6]);
}

#[test]
fn options_are_copied_if_they_say_so() {
    let cases: [(&[u8], &[u8]); 9] = [
        (&[148, 4, 0, 0], &[148, 4, 0, 0]),
        (&[7, 7, 4, 1, 2, 3, 4, 0], &[]),
        (&[1, 7, 3, 4, 131, 7, 4, 9, 8, 7, 6, 0], &[131, 7, 4, 9, 8, 7, 6, 0]),
        (&[1, 148, 4, 0, 0, 7, 3, 4, 130, 3, 5, 0], &[148, 4, 0, 0, 130, 3, 5, 0]),
        (&[130, 40], &[]),
        (&[1; 40], &[]),
        (&[0, 148, 4, 0], &[]),
        (&[1, 1, 1, 148], &[]),
        (&[148, 1, 4, 0], &[]),
    ];
    for (options, copied) in cases {
        let mut options = options.to_vec();
        let mut copied = copied.to_vec();
        if options == [130, 40] {
            options.extend((2..40).map(|i| i as u8));
            copied.clone_from(&options);
        }
        let whole = packet(&options, 500);
        for mtu in [68, 100, 300] {
            let parts = cut(mtu, &[], ip_packet(&whole));
            assert_eq!(body(&parts, 0), whole[20 + options.len()..], "{options:?}, MTU {mtu}");
            assert_eq!(parts[0][20..20 + options.len()], options);
            for p in &parts[1..] {
                assert_eq!(p[20..usize::from(p[0] & 15) * 4], copied, "{options:?}, MTU {mtu}");
            }
        }
    }
}

#[test]
fn marks_and_annotations_are_those_of_a_packet() {
    let whole = packet(&[], 1000);
    let mut p = Packet::from_bytes(&[&[0xee; 14][..], &whole].concat()).unwrap();
    let start = p.data();
    p.set_layer(Layer::Mac, Some(start));
    p.set_layer(Layer::Net, Some(start + 14));
    p.set_layer(Layer::Transport, Some(start + 34));
    p.anno.fill(7);
    let out = Harness::new("IPFragmenter", &["576"], 1, 1).send_packet(0, p);
    for (i, o) in out.iter().enumerate() {
        let Outcome::Out(0, p) = o else { panic!("{o:?}") };
        assert_eq!(p.anno, [7; 48]);
        assert_eq!(p.from_layer(Layer::Transport), &p.from_layer(Layer::Net)[20..]);
        assert_eq!(p.len() - p.from_layer(Layer::Net).len(), if i == 0 { 14 } else { 0 });
        assert_eq!(p.layer(Layer::Mac).is_some(), i == 0);
    }
    assert_eq!(out.len(), 2);
}

#[test]
fn a_checksum_that_was_left_to_the_device_is_finished() {
    let udp_packet = packet(&[], 1000);
    let tcp_packet = tcp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), 16, 9, &[3; 1000]);
    for (whole, at) in [(udp_packet, 26), (tcp_packet, 36)] {
        // What a kernel writes: the sum of the pseudo header, not inverted.
        let mut partial = whole.clone();
        let len = (whole.len() - 20) as u16;
        let words = [0x0a00, 1, 0x0a00, 0x0101, u16::from(whole[9]), len];
        let sum = words.iter().fold(0_u32, |s, &w| s + u32::from(w));
        let sum = (sum & 0xffff) + (sum >> 16);
        partial[at..at + 2].copy_from_slice(&(sum as u16).to_be_bytes());
        let mut p = ip_packet(&partial);
        p.csum = Checksum::Partial as u8;
        p.csum_start = p.data() + 20;
        p.csum_offset = (at - 20) as u16;
        let mut e = Harness::new("IPFragmenter", &["576"], 1, 1);
        let out = e.send_packet(0, p);
        let parts: Vec<_> = out.iter().map(|o| o.out().1.to_vec()).collect();
        assert_eq!(body(&parts, 0), whole[20..]);
        assert!(out.iter().all(|o| matches!(o, Outcome::Out(_, p) if p.csum == Checksum::Unknown as u8)));
    }
}

#[test]
fn wrong_headers_end_somewhere() {
    let mut e = Harness::new("IPFragmenter", &["68"], 1, 2);
    let whole = packet(&[148, 4, 0, 0], 100);
    for n in 0..whole.len() {
        let out = e.send_ip(0, &whole[..n]);
        assert_eq!(matches!(&out[0], Outcome::Drop(r) if r == "Truncated"), n > 68, "{n}");
    }
    for (at, byte, reason) in [(0, 0x44, "BadHeader"), (3, 3, "BadLength"), (2, 0xff, "Truncated")] {
        let mut p = whole.clone();
        (p[2], p[at]) = (0, byte);
        assert_eq!(e.send_ip(0, &p)[0].reason(), reason);
    }
    // More fragments than a run may start.
    let mut long = vec![130, 40];
    long.resize(40, 0);
    let huge = packet(&long, 65_000);
    assert_eq!(e.send_ip(0, &huge)[0].out(), (1, &huge[..]));
}

#[test]
fn the_mtu_is_bounded() {
    let errors = crate::class_named("IPFragmenter").unwrap().configure(&["27".into()]).err().unwrap();
    assert!(errors[0].contains("MTU: 27 is too short; at least 28"), "{errors:?}");
}

#[test]
fn a_header_that_leaves_no_room_is_not_cut() {
    let plain = packet(&[], 100);
    let fragments = cut(28, &[], ip_packet(&plain));
    assert_eq!((fragments.len(), body(&fragments, 0)), (14, plain[20..].to_vec()));
    // A header of 24 bytes and 8 bytes: options are in all fragments.
    let router_alert = packet(&[0x94, 4, 0, 0], 100);
    assert_eq!(body(&cut(32, &[], ip_packet(&router_alert)), 0), router_alert[24..]);
    let mut e = Harness::new("IPFragmenter", &["31"], 1, 2);
    assert_eq!(e.send_ip(0, &router_alert)[0].out(), (1, &router_alert[..]));
}

#[test]
fn what_a_device_segments_passes_whole_if_the_segments_fit() {
    for (whole, payload, header) in [
        (with_field(tcp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), 16, 9, &[3; 9000]), 0x4000), 536, 40),
        (with_field(packet(&[], 9000), 0x4000), 548, 28),
    ] {
        let send = |mtu: usize| {
            let mut p = ip_packet(&whole);
            (p.gso, p.gso_size) = (if header == 40 { 1 } else { 3 }, payload);
            let mut e = Harness::new("IPFragmenter", &[&mtu.to_string()], 1, 2);
            e.send_packet(0, p)
        };
        let fits = usize::from(payload) + header;
        let out = send(fits);
        assert!(matches!(&out[..], [Outcome::Out(0, p)] if p.bytes() == whole && p.gso_size == payload));
        assert!(matches!(&send(fits - 1)[..], [Outcome::Out(1, p)] if p.bytes() == whole));
    }
    let mut p = ip_packet(&packet(&[], 3000));
    (p.gso, p.gso_size) = (3, 1000);
    let mut e = Harness::new("IPFragmenter", &["576"], 1, 1);
    let out = e.send_packet(0, p);
    assert!(out.len() > 4 && out.iter().all(|o| matches!(o, Outcome::Out(0, p) if p.gso_size == 0)));
}
