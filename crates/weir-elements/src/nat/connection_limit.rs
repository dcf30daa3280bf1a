use crate::fields::{ipv4, ports, tcp};
use weir_net::Tcp;
use weir_packet::Checksum;
use weir_table::Sharing;

use super::mapping::nanos;
use crate::prelude::*;

element! {
    /// Limits the number of TCP connections to each server.
    ///
    /// A server is a destination address. IPv4 packets leave on output 0 unchanged, of both directions if both pass
    /// here. A SYN that would open one connection more than `MAX` to its server is answered: it becomes the RST that
    /// refuses it (RFC 9293 section 3.10.7.1), from the server's address to the client's, without data or options,
    /// and leaves on output 1. If output 1 is not connected, it is dropped (`Denied`).
    ///
    /// A connection counts from its SYN until no packet of it has passed for `TIMEOUT`, or for `DONE_TIMEOUT` after a
    /// FIN or RST. Connections that were open before are not known and pass. When `CAPACITY` connections are counted,
    /// further ones are dropped (`Full`).
    ///
    /// The `net` mark has to stand on a checked IPv4 header. What is not TCP passes, and so do fragments beyond the
    /// first; a TCP packet too short for its header is dropped (`Truncated`). The answer's destination annotation is
    /// the client, so that it can go back to the routing table.
    ConnectionLimit: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> limit :: ConnectionLimit(100) -> Discard; limit [1] -> Discard;";
    params {
        /// Most connections to one server.
        pos max: u32,
        /// Lifetime of connections without packets.
        pos timeout: Duration = Duration::from_secs(300) => "5 min",
        /// The same after a FIN or RST.
        key done_timeout: Duration = Duration::from_secs(10) => "10 s",
        /// Most connections to all servers.
        key capacity: u32 = 1 << 20 => "1048576",
    }
    handlers {
        /// Number of connections.
        read connections = |_, s| Ok(s.table("connections").len().to_string()),
        /// Most connections to one server.
        cell max: u32,
        /// Number of SYNs that were refused.
        count rejected,
        /// One line a server: its address and its number of connections.
        read servers = |_, s| Ok(servers(s)),
    }
}

struct Tables {
    connections: TableId,
    max: TableId,
    rejected: TableId,
}

fn program(e: &ConnectionLimit, b: &mut Builder) {
    let key = [("src", W32), ("sport", W16), ("dst", W32), ("dport", W16)];
    let value = [("server", W32), ("done", W1)];
    let decl = TableDecl::new("connections", Kind::Exact, &key, &value, e.capacity);
    let t = Tables {
        connections: b.table(decl.grouped_by("server").sharing(Sharing::Shared), vec![]),
        max: b.live("max", W32, e.max.into()),
        rejected: b.cell("rejected", W64, 0),
    };
    b.input(0, |b| {
        require_ip(b);
        let proto = ipv4::PROTOCOL.load(b);
        let other = b.ne(proto, proto::TCP);
        b.when(other, |b| b.emit(0));
        let fragment = ipv4::FRAGMENT.load(b);
        let offset = b.and(fragment, 0x1fff);
        let later = b.ne(offset, 0);
        b.when(later, |b| b.emit(0));
        let header_len = ip_header_len(b);
        b.require(Layer::Net, header_len, Reason::TRUNCATED);
        b.set_mark(Layer::Transport, Layer::Net, header_len);
        b.require(Layer::Transport, 20, Reason::TRUNCATED);
        let src = ipv4::SRC.load(b);
        let dst = ipv4::DST.load(b);
        let sport = ports::SRC.load(b);
        let dport = ports::DST.load(b);
        let flags = tcp::FLAGS.load(b);
        let deciding = b.and(flags, Tcp::FIN | Tcp::SYN | Tcp::RST | Tcp::ACK);
        let opens = b.eq(deciding, Tcp::SYN);

        let key = [src, sport, dst, dport];
        b.lookup(t.connections, &key, |b, c| go_on(b, e, c, flags, opens), |_| {});
        b.lookup(t.connections, &[dst, dport, src, sport], |b, c| go_on(b, e, c, flags, opens), |_| {});
        b.unless(opens, |b| b.emit(0));
        let count_now = b.group_count(t.connections, dst);
        let max = b.read_cell(t.max);
        let over = b.ge(count_now, max);
        b.when(over, |b| {
            count(b, t.rejected);
            if b.outputs() > 1 {
                refuse(b, header_len, [src, dst], [sport, dport]);
            } else {
                b.drop(Reason::DENIED);
            }
        });
        let c = b.insert(t.connections, &key, |b| b.drop(Reason::FULL));
        b.set(c, "server", dst);
        b.touch(c, nanos(e.timeout));
        b.emit(0);
    });
}

/// A packet of a known connection: keeps it alive and goes on.
fn go_on(b: &mut Builder, e: &ConnectionLimit, c: E, flags: V, opens: V) {
    let ending = b.and(flags, Tcp::FIN | Tcp::RST);
    let ending = b.ne(ending, 0);
    let done = b.get(c, "done");
    let done = b.or(done, ending);
    // The ports may be used again for another connection before this one is forgotten.
    let open = b.not(opens);
    let done = b.and(done, open);
    b.set(c, "done", done);
    let (short, long) = (b.constant(W64, nanos(e.done_timeout)), b.constant(W64, nanos(e.timeout)));
    let timeout = b.select(done, short, long);
    b.touch(c, timeout);
    b.emit(0);
}

/// Turns a SYN into the RST that answers it, and sends that to output 1.
fn refuse(b: &mut Builder, header_len: V, [src, dst]: [V; 2], [sport, dport]: [V; 2]) {
    let seq = tcp::SEQ.load(b);
    let ack = b.add(seq, 1);
    ports::SRC.store(b, dport);
    ports::DST.store(b, sport);
    tcp::SEQ.store_const(b, 0_u32);
    tcp::ACK.store(b, ack);
    // A header of five words, RST and ACK; window, checksum and urgent pointer 0.
    b.store_const(W16, Layer::Transport, 12, 0x5000 | u16::from(Tcp::RST | Tcp::ACK));
    tcp::WINDOW.store_const(b, 0_u16);
    b.store_const(W32, Layer::Transport, 16, 0_u32);
    let mut sum = b.checksum(Layer::Transport, 0, 20);
    for addr in [src, dst] {
        for half in halves(b, addr) {
            sum = b.sum16(sum, half);
        }
    }
    let sum = b.sum16(sum, u16::from(proto::TCP) + 20);
    let field = b.not(sum);
    tcp::CHECKSUM.store(b, field);

    let len = b.add(header_len, 20);
    let len16 = b.resize(W16, len);
    ipv4::LENGTH.store(b, len16);
    // No fragment; a fresh time to live.
    ipv4::FRAGMENT.store_const(b, 0_u16);
    ipv4::TTL.store_const(b, 64_u8);
    ipv4::SRC.store(b, dst);
    ipv4::DST.store(b, src);
    ipv4::CHECKSUM.store_const(b, 0_u16);
    let sum = b.checksum(Layer::Net, 0, header_len);
    let field = b.not(sum);
    ipv4::CHECKSUM.store(b, field);

    b.store_anno(anno::DST_IP, src);
    let complete = b.constant(W8, Checksum::Unknown as u8);
    b.store_meta(MetaField::Checksum, complete);
    let lead = b.distance(Layer::Data, Layer::Net);
    let total = b.add(lead, len);
    b.trim(total);
    // The headers are still there: say so for what follows.
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    b.require(Layer::Transport, 20, Reason::TRUNCATED);
    b.emit(1);
}

fn servers(s: &State<'_>) -> String {
    let table = s.table("connections");
    let mut all: Vec<u128> = table.rows().iter().filter_map(|(_, row)| row.value.first().copied()).collect();
    all.sort_unstable();
    all.dedup();
    all.iter()
        .map(|&server| format!("{} {}\n", Ipv4Addr::from(server as u32), table.group_count(server)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};
    use weir_net::checksum::{checksum, pseudo4};
    use weir_net::{Ipv4, build};

    const SECOND: u64 = 1_000_000_000;
    const SERVER: ([u8; 4], u16) = ([198, 51, 100, 1], 80);

    fn client(n: u16) -> ([u8; 4], u16) {
        ([10, 0, 0, 1], n)
    }

    fn syn(n: u16) -> Vec<u8> {
        tcp(client(n), SERVER, Tcp::SYN, 0xffff_ffff, b"")
    }

    fn harness(args: &[&str]) -> Harness {
        Harness::new("ConnectionLimit", args, 1, 2)
    }

    #[test]
    fn a_connection_beyond_the_limit_is_reset() {
        let mut h = harness(&["2"]);
        for n in [1, 2, 1] {
            assert_eq!(h.send_ip(0, &syn(n))[0].out(), (0, &syn(n)[..]));
        }
        let out = h.send_ip(0, &syn(3));
        let Outcome::Out(1, p) = &out[0] else { panic!("{out:?}") };
        let fields = build::TcpFields { flags: Tcp::RST | Tcp::ACK, seq: 0, ack: 0, window: 0 };
        let want =
            build::tcp4((SERVER.0.into(), SERVER.1), (client(3).0.into(), 3), fields, b"").split_off(14);
        assert_eq!(
            p.bytes(),
            want,
            "RST|ACK from the server; ack is seq + 1, which wraps; checksums are right"
        );
        assert_eq!(p.anno[..4], client(3).0);
        assert_eq!((h.read("connections"), h.read("rejected")), ("2".into(), "1".into()));
        assert_eq!(h.read("servers"), "198.51.100.1 2\n");
        let other = tcp(client(3), ([198, 51, 100, 2], 80), Tcp::SYN, 0, b"");
        assert_eq!(h.send_ip(0, &other)[0].out().0, 0, "another server has its own limit");
        let out = Harness::new("ConnectionLimit", &["0"], 1, 1).send_ip(0, &syn(1));
        assert_eq!(out[0].reason(), "Denied");
    }

    #[test]
    fn the_answer_has_no_options_and_no_data() {
        // IP with 4 bytes of options, TCP with 4 bytes of options and 3 of data, its checksum left to the device.
        let mut segment = syn(1).split_off(20);
        segment[12] = 0x60;
        segment.extend([2, 4, 5, 0xb4, b'a', b'b', b'c']);
        let mut p = build::ipv4(client(1).0.into(), SERVER.0.into(), proto::TCP, &segment);
        p[0] = 0x46;
        p.splice(20..20, [1, 1, 1, 0]);
        let len = p.len() as u16;
        p[2..4].copy_from_slice(&len.to_be_bytes());
        let mut packet = ip_packet(&p);
        packet.csum = Checksum::Partial as u8;
        let out = harness(&["0"]).send_packet(0, packet);
        let Outcome::Out(1, p) = &out[0] else { panic!("{out:?}") };
        let ip = Ipv4::new(p.bytes()).unwrap();
        assert!(ip.checksum_ok());
        assert_eq!((p.len(), ip.total_len()), (44, 44));
        let segment = &p.bytes()[24..];
        assert_eq!(
            pseudo4(SERVER.0.into(), client(1).0.into(), proto::TCP, 20).add_bytes(segment).finish(),
            0
        );
        assert_eq!(segment[12..14], [0x50, Tcp::RST | Tcp::ACK]);
        assert_eq!(p.csum, Checksum::Unknown as u8);
        assert_eq!(checksum(&p.bytes()[..24]), 0);
    }

    #[test]
    fn what_lies_before_the_ip_header_stays() {
        let mut frame = vec![7; 14];
        frame.extend(syn(1));
        let mut p = weir_packet::Packet::from_bytes(&frame).unwrap();
        let net = p.data() + 14;
        p.set_layer(Layer::Net, Some(net));
        let out = harness(&["0"]).send_packet(0, p);
        let (port, bytes) = out[0].out();
        assert_eq!((port, bytes.len(), &bytes[..14]), (1, 54, &[7; 14][..]));
    }

    #[test]
    fn connections_expire_and_free_their_entries() {
        let mut h = harness(&["1", "TIMEOUT 100", "DONE_TIMEOUT 5"]);
        let back = |flags| tcp(SERVER, client(1), flags, 0, b"");
        h.send_ip(0, &syn(1))[0].out();
        h.now += 60 * SECOND;
        h.expire();
        assert_eq!(h.send_ip(0, &back(Tcp::ACK))[0].out().0, 0, "packets of both directions keep it alive");
        h.now += 60 * SECOND;
        h.expire();
        assert_eq!((h.send_ip(0, &syn(2))[0].out().0, h.read("connections")), (1, "1".into()));
        h.now += 42 * SECOND;
        h.expire();
        assert_eq!((h.read("connections"), h.read("servers")), ("0".into(), String::new()));
        assert_eq!(h.send_ip(0, &syn(2))[0].out().0, 0);
        for flags in [Tcp::FIN | Tcp::ACK, Tcp::RST] {
            let end = tcp(client(2), SERVER, flags, 0, b"");
            assert_eq!(h.send_ip(0, &end)[0].out(), (0, &end[..]));
            h.now += 3 * SECOND;
            h.expire();
            assert_eq!(h.read("connections"), "1");
        }
        h.now += 3 * SECOND;
        h.expire();
        assert_eq!(h.read("connections"), "0");
    }

    #[test]
    fn a_new_connection_with_the_ports_of_an_old_one_lives_on() {
        let mut h = harness(&["1", "TIMEOUT 100", "DONE_TIMEOUT 5"]);
        h.send_ip(0, &syn(1));
        h.send_ip(0, &tcp(client(1), SERVER, Tcp::RST, 0, b""));
        assert_eq!(h.send_ip(0, &syn(1))[0].out().0, 0);
        h.now += 50 * SECOND;
        h.expire();
        assert_eq!(h.read("connections"), "1");
    }

    #[test]
    fn other_packets_pass() {
        let mut h = harness(&["0"]);
        let mut fragment = syn(1);
        fragment[7] = 1;
        for p in [
            udp(client(1), SERVER, b"x"),
            tcp(client(1), SERVER, Tcp::ACK, 0, b"x"),
            tcp(client(1), SERVER, Tcp::SYN | Tcp::ACK, 0, b"x"),
            fragment,
        ] {
            assert_eq!(h.send_ip(0, &p)[0].out(), (0, &p[..]));
        }
        assert_eq!(h.read("connections"), "0");
    }

    #[test]
    fn the_limit_changes_while_it_runs_and_the_table_has_its_own() {
        let mut h = harness(&["1", "CAPACITY 2"]);
        h.send_ip(0, &syn(1));
        h.write("max", "9").unwrap();
        assert_eq!((h.read("max"), h.send_ip(0, &syn(2))[0].out().0), ("9".into(), 0));
        assert_eq!(h.send_ip(0, &syn(3))[0].reason(), "Full");
        assert!(h.write("max", "many").unwrap_err().contains("'many' is not a number"));
        let errors = crate::class_named("ConnectionLimit").unwrap().configure(&[]).err().unwrap();
        assert_eq!(errors, ["missing mandatory MAX argument (number)"]);
    }

    #[test]
    fn every_prefix_of_a_packet_ends_somewhere() {
        for n in 0..=40 {
            let out = harness(&["0"]).send_ip(0, &syn(1)[..n]);
            match n {
                40 => assert_eq!(out[0].out().0, 1),
                _ => assert_eq!(out[0].reason(), "Truncated"),
            }
        }
    }
}
