//! The stack against another one over a wire that loses packets, and against scripts of what a peer sends and has to get.

mod floods;
mod link;
mod script;

use std::net::{IpAddr, SocketAddr};

use weir_net::EtherAddr;
use weir_packet::Packet;

use super::*;

/// A host of the link 10.0.0.0/24 and fd00::/64.
fn config(host: u8) -> Config {
    Config {
        ether: EtherAddr([2, 0, 0, 0, 0, host]),
        addresses: vec![
            (IpAddr::from([10, 0, 0, host]), 24),
            (IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)]), 64),
        ],
        gateways: vec![],
        mtu: 1500,
        cuts: host % 2 == 1,
        buffer: 65_536,
        share: Share { member: 0, of: 1 },
    }
}

/// Frames as a link carries them: whole, with checksums, and cut into segments.
fn on_the_link(frames: &mut Vec<Packet>) -> Vec<Vec<u8>> {
    let mut frames = std::mem::take(frames);
    let mut i = 0;
    while i < frames.len() {
        weir_io::offload::finish(&mut frames, i).expect("what the stack leaves undone can be done");
        i += 1;
    }
    let frames: Vec<Vec<u8>> = frames.iter().map(|f| f.bytes().to_vec()).collect();
    assert!(frames.iter().all(|f| f.len() <= 1514), "no frame is longer than the link takes");
    frames
}

fn packet(frame: &[u8]) -> Packet {
    Packet::from_bytes(frame).expect("it is short")
}

/// An ARP answer for a host of the link, to another.
fn introduce(stack: &mut Stack, host: u8, now: Micros) {
    let (ether, own) = (stack.config.ether, [10, 0, 0, stack.config.ether.0[5]].into());
    let frame =
        weir_net::build::arp(1, (EtherAddr([2, 0, 0, 0, 0, host]), [10, 0, 0, host].into()), (ether, own));
    stack.input(packet(&frame), now);
    stack.poll(now).clear();
}

#[test]
fn an_echo_is_answered_and_so_are_questions_for_addresses() {
    let mut stack = Stack::new(config(1), 0);
    introduce(&mut stack, 2, 0);
    let mut frame = weir_net::build::icmp_echo([10, 0, 0, 2].into(), [10, 0, 0, 1].into(), 3, 4, b"hello");
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    stack.input(packet(&frame), 1);
    let sent = on_the_link(stack.poll(1));
    assert_eq!(sent.len(), 1);
    assert!(weir_net::describe(&sent[0]).contains("echo reply"), "{}", weir_net::describe(&sent[0]));
    assert!(sent[0].ends_with(b"hello"));

    let mut other = Stack::new(config(3), 0);
    other
        .connect(SocketAddr::from((IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]), 80)), Protocol::Tcp, 2)
        .expect("near");
    let question = on_the_link(other.poll(2));
    assert_eq!(question.len(), 1, "the SYN waits");
    stack.input(packet(&question[0]), 3);
    let answer = on_the_link(stack.poll(3));
    other.input(packet(&answer[0]), 4);
    let syn = on_the_link(other.poll(4));
    assert_eq!(syn[0][..6], [2, 0, 0, 0, 0, 1]);
}

#[test]
fn a_neighbour_that_does_not_answer_fails_the_connection() {
    let mut stack = Stack::new(config(1), 0);
    let to = SocketAddr::from(([10, 0, 0, 9], 80));
    let key = stack.connect(to, Protocol::Tcp, 0).expect("near");
    stack.own(key, Protocol::Tcp, 7, 0);
    let mut now = 0;
    let mut questions = 0;
    while let Some(next) = stack.next().filter(|&next| next < 10_000_000) {
        now = next.max(now + 1);
        questions += stack.poll(now).drain(..).filter(|f| f.bytes()[12..14] == [8, 6]).count();
        if let Some(Ready::Connection { owner: 7, .. }) = stack.ready() {
            break;
        }
    }
    assert_eq!(questions, 3);
    let error = stack.read(key, Protocol::Tcp, &mut [0; 9]).expect_err("it failed");
    assert_eq!(error.raw_os_error(), Some(Errno::EHOSTUNREACH as i32));
    assert!((2_900_000..4_000_000).contains(&now), "{now}");
}

#[test]
fn datagrams_find_their_socket_or_their_sender_hears_of_it() {
    let mut a = Stack::new(config(1), 0);
    let mut b = Stack::new(config(2), 0);
    let server = ServerId(0);
    b.listen(server, SocketAddr::from(([0, 0, 0, 0], 53)), Protocol::Udp).expect("free");
    let to_server = a.connect(SocketAddr::from(([10, 0, 0, 2], 53)), Protocol::Udp, 0).expect("near");
    let to_nobody = a.connect(SocketAddr::from(([10, 0, 0, 2], 54)), Protocol::Udp, 0).expect("near");
    a.send(to_server, b"question").expect("it fits");
    a.send(to_nobody, b"lost").expect("it fits");
    assert!(a.send(to_server, &[0; 1473]).is_err(), "longer than the link takes");
    let mut memory = [0; 100];
    for now in 1..9 {
        on_the_link(a.poll(now)).iter().for_each(|f| b.input(packet(f), now));
        if let Ok((n, from)) = b.receive_from(server, &mut memory) {
            assert_eq!(&memory[..n], b"question");
            b.send_from(server, from, b"answer").expect("it fits");
        }
        on_the_link(b.poll(now)).iter().for_each(|f| a.input(packet(f), now));
    }
    let n = a.read(to_server, Protocol::Udp, &mut memory).expect("the answer came");
    assert_eq!(&memory[..n], b"answer");
    let error = a.read(to_nobody, Protocol::Udp, &mut memory).expect_err("nobody is there");
    assert_eq!(error.raw_os_error(), Some(Errno::ECONNREFUSED as i32));
}
