//! Many peers, and bad ones.

use smoltcp::wire::{TcpControl, TcpRepr, TcpSeqNumber};

use super::*;

fn segment(port: u16, control: TcpControl, seq: i32, ack: Option<i32>, payload: &[u8]) -> Packet {
    let repr = TcpRepr {
        src_port: port,
        dst_port: 80,
        control,
        seq_number: TcpSeqNumber(seq),
        ack_number: ack.map(TcpSeqNumber),
        window_len: 60_000,
        window_scale: None,
        max_seg_size: (control == TcpControl::Syn).then_some(1460),
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload,
    };
    let (peer, own) = (IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 1]));
    let mut packet = wire::segment(peer, own, &repr).expect("it is short");
    wire::address(&mut packet, EtherAddr([2, 0, 0, 0, 0, 1]), EtherAddr([2, 0, 0, 0, 0, 2]));
    packet
}

/// The sequence number of the only segment that was sent.
fn answered(stack: &mut Stack, now: Micros) -> u32 {
    let sent = std::mem::take(stack.poll(now));
    assert_eq!(sent.len(), 1);
    weir_net::Tcp::new(&sent[0].bytes()[34..]).expect("TCP").seq()
}

fn server() -> Stack {
    let mut stack = Stack::new(config(1), 0);
    introduce(&mut stack, 2, 0);
    stack.listen(ServerId(0), SocketAddr::from(([10, 0, 0, 1], 80)), Protocol::Tcp).expect("free");
    stack
}

/// Makes a connection; its key, and the next sequence number of the server.
fn connect(stack: &mut Stack, port: u16, now: Micros) -> (Key, u32) {
    stack.input(segment(port, TcpControl::Syn, 99, None, b""), now);
    let seq = answered(stack, now).wrapping_add(1);
    stack.input(segment(port, TcpControl::None, 100, Some(seq as i32), b""), now);
    assert_eq!(stack.ready(), Some(Ready::Server(ServerId(0))));
    let (key, peer) = stack.accept(ServerId(0)).expect("it is made");
    assert_eq!(peer.port(), port);
    (key, seq)
}

#[test]
fn in_a_flood_of_syns_others_connect() {
    let mut stack = server();
    for port in 1000..30_000 {
        stack.input(segment(port, TcpControl::Syn, 7, None, b""), 1);
        stack.poll(1).clear();
    }
    assert_eq!(stack.tcp.sizes(), (0, 1024, 0));
    let (key, seq) = connect(&mut stack, 40_000, 2);
    stack.own(key, Protocol::Tcp, 0, 2);
    stack.input(segment(40_000, TcpControl::Psh, 100, Some(seq as i32), b"hello"), 3);
    let mut memory = [0; 9];
    assert_eq!(stack.read(key, Protocol::Tcp, &mut memory).expect("it came"), 5);
    stack.write(key, b"you too").expect("it is open");
    let sent = std::mem::take(stack.poll(3));
    assert!(sent[0].bytes().ends_with(b"you too"));
    // All that was kept goes by itself.
    stack.close(key, Protocol::Tcp);
    stack.input(segment(40_000, TcpControl::Rst, 105, None, b""), 4);
    let mut now = 4;
    while stack.ready().is_some() {}
    while let Some(next) = stack.next() {
        now = next.max(now);
        stack.poll(now).clear();
    }
    assert_eq!(stack.tcp.sizes(), (0, 0, 0));
}

#[test]
fn connections_that_do_nothing_cost_a_segment_nothing() {
    let mut stack = server();
    let keys: Vec<(Key, u32)> = (0..3000).map(|n| connect(&mut stack, 1000 + n, 1)).collect();
    stack.poll(2).clear();
    assert!(stack.tcp.is_quiet(), "none of them is to be looked at");
    let (key, seq) = keys[1500];
    stack.own(key, Protocol::Tcp, 5, 3);
    stack.input(segment(2500, TcpControl::Psh, 100, Some(seq as i32), b"hello"), 3);
    assert_eq!(stack.tcp.stirred(), 1, "one is looked at: that which the segment is for");
    assert_eq!(stack.ready(), Some(Ready::Connection { owner: 5, readable: true, writable: false }));
    assert_eq!(stack.ready(), None);
}

#[test]
fn connections_that_we_end_are_remembered_by_a_few_numbers_and_their_ports_used_again() {
    let mut stack = Stack::new(config(1), 0);
    introduce(&mut stack, 2, 0);
    let to = SocketAddr::from(([10, 0, 0, 2], 80));
    let mut now = 1;
    let mut last = std::collections::HashMap::new();
    // More than there are ports, within a minute.
    for _ in 0..40_000 {
        now += 1000;
        introduce(&mut stack, 2, now);
        let key = stack.connect(to, Protocol::Tcp, now).expect("a port is free, or free again");
        let sent = std::mem::take(stack.poll(now));
        // Beside it may be a question of ARP.
        let syn = sent.iter().rfind(|p| p.bytes()[12..14] == [8, 0]);
        let syn = syn.map(|p| weir_net::Tcp::new(p.bytes()[34..].to_vec()).expect("TCP"));
        let syn = syn.expect("a SYN");
        assert_eq!(syn.flags(), 2);
        let (port, seq) = (syn.src_port(), syn.seq());
        if let Some(before) = last.insert(port, seq) {
            assert!(seq.wrapping_sub(before).cast_signed() > 1, "its numbers are behind those of before");
        }
        let back = |control, seq, ack: u32| {
            let repr = TcpRepr {
                src_port: 80,
                dst_port: port,
                control,
                seq_number: TcpSeqNumber(seq),
                ack_number: Some(TcpSeqNumber(ack as i32)),
                window_len: 60_000,
                window_scale: None,
                max_seg_size: None,
                sack_permitted: false,
                sack_ranges: [None; 3],
                timestamp: None,
                payload: b"",
            };
            let mut p = wire::segment([10, 0, 0, 2].into(), [10, 0, 0, 1].into(), &repr).expect("short");
            wire::address(&mut p, EtherAddr([2, 0, 0, 0, 0, 1]), EtherAddr([2, 0, 0, 0, 0, 2]));
            p
        };
        stack.input(back(TcpControl::Syn, 7, seq.wrapping_add(1)), now);
        stack.close(key, Protocol::Tcp);
        stack.poll(now).clear();
        stack.input(back(TcpControl::Fin, 8, seq.wrapping_add(2)), now);
        stack.poll(now).clear();
        while stack.ready().is_some() {}
    }
    let (connections, _, ended) = stack.tcp.sizes();
    assert_eq!(connections, 0);
    assert!(ended > 20_000);
}
