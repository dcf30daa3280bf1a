//! Two hosts and a link that loses, doubles, delays and damages frames.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use proptest::prelude::*;

use super::*;

/// A program that sends some bytes on one connection, and reads all that comes.
struct Program {
    stack: Stack,
    key: Option<Key>,
    to_send: VecDeque<u8>,
    received: Vec<u8>,
    ended: bool,
    error: Option<io::Error>,
}

impl Program {
    fn new(host: u8, bytes: usize, now: Micros) -> Self {
        let to_send = (0..bytes).map(|i| (i % 251) as u8 ^ host).collect();
        let stack = Stack::new(config(host), now);
        Self { stack, key: None, to_send, received: Vec::new(), ended: false, error: None }
    }

    /// Does what can be done; whether the connection was closed.
    fn work(&mut self, now: Micros) {
        while self.stack.ready().is_some() {}
        if self.key.is_none() && !self.ended {
            self.key = self.stack.accept(ServerId(0)).map(|(key, _)| key);
            if let Some(key) = self.key {
                self.stack.own(key, Protocol::Tcp, 0, now);
            }
        }
        let Some(key) = self.key else { return };
        let mut memory = [0; 2000];
        loop {
            match self.stack.read(key, Protocol::Tcp, &mut memory) {
                Ok(0) => break self.ended = true,
                Ok(n) => self.received.extend(&memory[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => break self.error = Some(error),
            }
        }
        while self.stack.is_connected(key) && !self.to_send.is_empty() {
            let n = self.to_send.len().min(2000);
            let part: Vec<u8> = self.to_send.iter().take(n).copied().collect();
            match self.stack.write(key, &part) {
                Ok(n) => drop(self.to_send.drain(..n)),
                Err(_) => break,
            }
        }
        if self.error.is_some() || (self.ended && self.to_send.is_empty()) {
            self.stack.close(key, Protocol::Tcp);
            (self.key, self.ended) = (None, true);
        }
    }
}

#[derive(Debug, Clone)]
struct Link {
    /// Of a thousand frames, in turn: lost, doubled, late, damaged.
    bad: [u16; 4],
    seed: u64,
}

/// Has two programs talk: how many bytes each sends, and whether the first closes its side behind its own.
fn talk(link: &Link, bytes: [usize; 2], v6: bool) -> [Program; 2] {
    let mut random = link.seed | 1;
    let mut roll = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 20) as u16 % 1000
    };
    let mut now = 5_000_000;
    let mut hosts = [Program::new(1, bytes[0], now), Program::new(2, bytes[1], now)];
    let address = if v6 { IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 2]) } else { [10, 0, 0, 2].into() };
    let to = SocketAddr::new(address, 80);
    hosts[1].stack.listen(ServerId(0), to, Protocol::Tcp).expect("the port is free");
    let key = hosts[0].stack.connect(to, Protocol::Tcp, now).expect("it is near");
    hosts[0].stack.own(key, Protocol::Tcp, 0, now);
    hosts[0].key = Some(key);
    // When a frame arrives, its number, and whose it is.
    type Frame = (Micros, u64, usize, Vec<u8>);
    let mut wire: BinaryHeap<Reverse<Frame>> = BinaryHeap::new();
    let mut number = 0;
    // The first to have sent all closes, since none waits for the other's end.
    let mut first_closed = false;
    for _ in 0..2_000_000 {
        for (n, host) in hosts.iter_mut().enumerate() {
            host.work(now);
            if n == 0 && host.to_send.is_empty() && host.received.len() == bytes[1] && !first_closed {
                first_closed = true;
                if let Some(key) = host.key.take() {
                    host.stack.close(key, Protocol::Tcp);
                    host.ended = true;
                }
            }
            for frame in on_the_link(host.stack.poll(now)) {
                let [lost, doubled, late, damaged] = link.bad.map(|b| roll() < b);
                let delay = 100 + if late { u64::from(roll()) * 10 } else { 0 };
                let mut bytes = frame;
                if damaged {
                    let at = usize::from(roll()) * bytes.len() / 1000;
                    bytes[at] ^= 1 << (roll() % 8);
                }
                for copy in 0..u64::from(!lost) + u64::from(doubled) {
                    number += 1;
                    wire.push(Reverse((now + delay + copy * 700, number, 1 - n, bytes.clone())));
                }
            }
        }
        let next = wire.peek().map(|Reverse((at, ..))| *at);
        let next = [next, hosts[0].stack.next(), hosts[1].stack.next()].into_iter().flatten().min();
        let Some(next) = next.filter(|&next| next < 3_600_000_000) else { break };
        now = next.max(now);
        while wire.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, host, frame))) = wire.pop() else { break };
            hosts[host].stack.input(packet(&frame), now);
        }
    }
    hosts
}

fn right(from: u8, bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(i, &b)| b == (i % 251) as u8 ^ from)
}

#[test]
fn a_good_link_carries_much_both_ways_and_all_ends() {
    for v6 in [false, true] {
        let hosts = talk(&Link { bad: [0; 4], seed: 1 }, [3_000_000, 1_000_000], v6);
        assert_eq!([hosts[0].received.len(), hosts[1].received.len()], [1_000_000, 3_000_000]);
        assert!(right(2, &hosts[0].received) && right(1, &hosts[1].received));
        for host in hosts {
            let (connections, half_open, _) = host.stack.tcp.sizes();
            assert_eq!((connections, half_open), (0, 0));
            let counters = host.stack.counters();
            assert_eq!((counters.malformed, counters.checksum, counters.no_port), (0, 0, 0), "{counters:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the link does: what arrives is right and in order; and as long as it does not damage frames so that their checksum is
    /// right again, all of it arrives.
    #[test]
    fn a_bad_link_loses_nothing(
        bad in prop::array::uniform4(0u16..80),
        seed in any::<u64>(),
        bytes in prop::array::uniform2(0usize..200_000),
        v6 in any::<bool>(),
    ) {
        let hosts = talk(&Link { bad, seed }, bytes, v6);
        // Three questions for the other's address in a row, or their answers, may get lost.
        let unreachable = |e: &io::Error| e.raw_os_error() == Some(Errno::EHOSTUNREACH as i32);
        prop_assume!(!hosts[0].error.as_ref().is_some_and(unreachable));
        prop_assert!(right(2, &hosts[0].received) && right(1, &hosts[1].received));
        prop_assert_eq!(
            [hosts[0].received.len(), hosts[1].received.len()], [bytes[1], bytes[0]],
            "errors: {:?} {:?}, {:#?} {:#?}", hosts[0].error, hosts[1].error, hosts[0].stack.counters(), hosts[1].stack.counters()
        );
        for host in hosts {
            let (connections, half_open, _) = host.stack.tcp.sizes();
            prop_assert_eq!((connections, half_open), (0, 0), "nothing is left of it");
        }
    }

    /// No bytes have the stack panic, or leave something behind.
    #[test]
    fn any_frames_are_borne(frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..90), any::<u16>()), 0..60)) {
        let mut stack = Stack::new(config(1), 0);
        stack.listen(ServerId(0), SocketAddr::from(([0, 0, 0, 0], 80)), Protocol::Tcp).expect("free");
        for (n, (tail, kind)) in frames.iter().enumerate() {
            // Mostly frames that are for it.
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            frame.extend([[8, 0], [0x86, 0xdd], [8, 6], [1, 1]][usize::from(kind % 4)]);
            frame.extend(tail);
            if kind & 4 != 0 && frame.len() > 40 {
                let len = (frame.len() - 14) as u8;
                frame[14..18].copy_from_slice(&[0x45, 0, 0, len]);
                frame[23] = 6;
                frame[30..34].copy_from_slice(&[10, 0, 0, 1]);
                frame[24..26].fill(0);
                let sum = weir_net::checksum::checksum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
                frame[36..38].copy_from_slice(&[0, 80]);
            }
            let mut packet = packet(&frame);
            packet.csum = (kind & 8 != 0).into();
            stack.input(packet, n as u64 * 1000);
            stack.poll(n as u64 * 1000).clear();
        }
        prop_assert!(stack.tcp.sizes().0 <= frames.len());
    }
}
