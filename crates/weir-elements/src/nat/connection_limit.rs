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

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

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
        max: b.cell("max", W32, e.max.into()),
        rejected: b.cell("rejected", W64, 0),
    };
    b.input(0, |b| {
        require_ip(b);
        let proto = b.load(W8, Layer::Net, 9);
        let other = b.ne(proto, proto::TCP);
        b.when(other, |b| b.emit(0));
        let fragment = b.load(W16, Layer::Net, 6);
        let offset = b.and(fragment, 0x1fff);
        let later = b.ne(offset, 0);
        b.when(later, |b| b.emit(0));
        let header_len = ip_header_len(b);
        b.require(Layer::Net, header_len, Reason::TRUNCATED);
        b.set_mark(Layer::Transport, Layer::Net, header_len);
        b.require(Layer::Transport, 20, Reason::TRUNCATED);
        let src = b.load(W32, Layer::Net, 12);
        let dst = b.load(W32, Layer::Net, 16);
        let sport = b.load(W16, Layer::Transport, 0);
        let dport = b.load(W16, Layer::Transport, 2);
        let flags = b.load(W8, Layer::Transport, 13);
        let deciding = b.and(flags, FIN | SYN | RST | ACK);
        let opens = b.eq(deciding, SYN);

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
    let ending = b.and(flags, FIN | RST);
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
    let seq = b.load(W32, Layer::Transport, 4);
    let ack = b.add(seq, 1);
    b.store(Layer::Transport, 0, dport);
    b.store(Layer::Transport, 2, sport);
    b.store_const(W32, Layer::Transport, 4, 0_u32);
    b.store(Layer::Transport, 8, ack);
    // A header of five words, RST and ACK; window, checksum and urgent pointer 0.
    b.store_const(W16, Layer::Transport, 12, 0x5000 | u16::from(RST | ACK));
    b.store_const(W16, Layer::Transport, 14, 0_u16);
    b.store_const(W32, Layer::Transport, 16, 0_u32);
    let mut sum = b.checksum(Layer::Transport, 0, 20);
    for addr in [src, dst] {
        for half in halves(b, addr) {
            sum = b.sum16(sum, half);
        }
    }
    let sum = b.sum16(sum, u16::from(proto::TCP) + 20);
    let field = b.not(sum);
    b.store(Layer::Transport, 16, field);

    let len = b.add(header_len, 20);
    let len16 = b.resize(W16, len);
    b.store(Layer::Net, 2, len16);
    // No fragment; a fresh time to live.
    b.store_const(W16, Layer::Net, 6, 0_u16);
    b.store_const(W8, Layer::Net, 8, 64_u8);
    b.store(Layer::Net, 12, dst);
    b.store(Layer::Net, 16, src);
    b.store_const(W16, Layer::Net, 10, 0_u16);
    let sum = b.checksum(Layer::Net, 0, header_len);
    let field = b.not(sum);
    b.store(Layer::Net, 10, field);

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
    all.iter().map(|&server| format!("{} {}\n", Ipv4Addr::from(server as u32), table.group_count(server))).collect()
}
