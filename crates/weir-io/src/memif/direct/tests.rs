//! Both ends of a direct ring, and what one of them can do to the other.

use super::super::ring::{Descriptor, NEXT};
use super::*;

/// Both ends, and the memory as a liar sees it.
fn ends() -> (SendEnd, ReceiveEnd, DirectRing) {
    let mut ring = DirectRing::new(7).unwrap();
    let mut end = |sends| {
        let [(_, memory), (_, socket)] = ring.given(sends).unwrap();
        Order::of(7, sends, &memory.unwrap(), socket.unwrap()).unwrap()
    };
    let (Order::Send(tx), Order::Receive(mut rx)) = (end(true), end(false)) else { unreachable!() };
    rx.open();
    (tx, rx, ring)
}

fn liar(ring: &DirectRing) -> Ring {
    let memory = Arc::new(Memory::of_master(ring.memory.as_fd(), BYTES).unwrap());
    Ring::at(&memory, 0, 0, LOG2_SIZE).unwrap()
}

fn send(end: &mut SendEnd, bytes: &[u8]) -> bool {
    let mut free = end.tx.free().unwrap();
    let done = end.tx.put(bytes, &mut free).unwrap();
    end.tx.publish();
    done
}

/// What comes, asked as often as a port is until it looks for signals.
fn all(end: &mut ReceiveEnd) -> Vec<Packet> {
    let mut out = Vec::new();
    for _ in 0..2 * IN_VAIN {
        end.take(&mut out, 32).unwrap();
    }
    out
}

#[test]
fn what_was_sent_before_the_end_is_taken_and_counted() {
    let (mut tx, mut rx, ring) = ends();
    assert!(all(&mut rx).is_empty() && !rx.is_over() && !tx.is_alone());
    for n in 0..100 {
        assert!(send(&mut tx, &[n; 60]));
    }
    tx.sent(Traffic { packets: 100, bytes: 6000 });
    drop(tx);
    let mut out = Vec::new();
    rx.take(&mut out, 32).unwrap();
    assert!(out.len() == 32 && !rx.is_over(), "there is more");
    out.extend(all(&mut rx));
    assert!(rx.is_over());
    assert!(out.iter().map(|p| p.bytes()[0]).eq(0..100));
    let all = Traffic { packets: 100, bytes: 6000 };
    assert_eq!(ring.traffic(), (all, all));
}

#[test]
fn a_sender_learns_that_nobody_receives() {
    let (mut tx, rx, ring) = ends();
    assert!(send(&mut tx, &[1; 60]));
    drop(rx);
    assert!(tx.is_alone() && (0..IN_VAIN).any(|_| tx.is_found_alone()));
    tx.sent(Traffic { packets: 1, bytes: 60 });
    assert_eq!(ring.traffic().1, Traffic::default(), "it was not taken");
}

#[test]
fn a_sender_that_lies_harms_itself_alone() {
    let (tx, mut rx, ring) = ends();
    let liar = liar(&ring);
    // No packets, each in its own way, and one that is.
    let good = OWN.start;
    for (slot, (flags, region, len, offset)) in [
        (0, 1, 60, good),
        (0, 0, 60, BYTES as u32 - 59),
        (0, 0, u32::MAX, good),
        (0, 0, 3, good),
        (0, 0, 60, good),
        (NEXT, 0, 60, good),
    ]
    .into_iter()
    .enumerate()
    {
        liar.set_descriptor(slot as u16, Descriptor { flags, region, len, offset });
    }
    liar.set_head(6);
    let mut out = Vec::new();
    let malformed = (0..4).map(|_| rx.take(&mut out, 32).unwrap()).sum::<u64>();
    assert_eq!((malformed, out.len()), (5, 1));
    // A position that cannot be.
    liar.set_head(6 + (1 << LOG2_SIZE) + 1);
    assert!(matches!(rx.take(&mut out, 32), Err(Fault::Position { .. })));
    // As many signals as there is room for, and more.
    liar.set_head(6);
    let socket: Socket = tx.tx.fd().try_clone_to_owned().unwrap().into();
    while socket.send_with_flags(&[1; 64], libc::MSG_DONTWAIT).is_ok() {}
    assert!(all(&mut rx).is_empty() && !rx.is_over());
}

#[test]
fn a_receiver_that_lies_harms_itself_alone() {
    let (mut tx, rx, ring) = ends();
    let liar = liar(&ring);
    // It asks for signals, takes none, and would make others wait.
    liar.set_quiet(false);
    let flags = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty());
    nix::fcntl::fcntl(rx.rx.fd(), flags).unwrap();
    (0..10_000).for_each(|_| assert!(tx.tx.publish()));
    // A ring that is never emptied is full.
    while send(&mut tx, &[1; 60]) {}
    assert_eq!(tx.tx.free(), Ok(0));
    liar.set_tail(1);
    assert_eq!(tx.tx.free(), Ok(1));
    liar.set_tail(u16::MAX);
    assert!(matches!(tx.tx.free(), Err(Fault::Position { .. })));
    // What it says of where buffers are is not asked.
    liar.set_tail(2);
    liar.set_descriptor(0, Descriptor { flags: 0, region: 9, len: 9, offset: u32::MAX });
    assert!(send(&mut tx, &[1; 60]));
}

#[test]
fn counts_of_liars_do_not_wrap() {
    let most = Traffic { packets: u64::MAX, bytes: u64::MAX };
    assert_eq!(most.and(Traffic { packets: 1, bytes: 1 }), most);
}

#[test]
fn a_receiver_that_is_stopped_ends_whatever_the_sender_does() {
    // What is there when it is stopped is still taken.
    let (mut tx, mut rx, _ring) = ends();
    (0..10).for_each(|n| assert!(send(&mut tx, &[n; 60])));
    rx.stop();
    assert!(!rx.is_over());
    assert_eq!(all(&mut rx).len(), 10);
    assert!(rx.is_over() && !tx.is_alone());
    // A sender that does not stop, always ahead of it.
    let (mut tx, mut rx, _ring) = ends();
    rx.stop();
    let (mut out, mut n) = (Vec::new(), 0);
    while send(&mut tx, &[1; 60]) {}
    while !rx.is_over() && n < 10 * MOST {
        rx.take(&mut out, 32).unwrap();
        while send(&mut tx, &[1; 60]) {}
        n += 1;
    }
    assert_eq!(out.len() as u64, MOST);
    assert!(rx.take(&mut out, 32).is_ok() && out.len() as u64 == MOST);
    // One that sends what is no packet.
    let (_tx, mut rx, ring) = ends();
    rx.stop();
    let (liar, mut out, mut malformed) = (liar(&ring), Vec::new(), 0);
    for slot in 0..MOST as u16 {
        liar.set_descriptor(slot, Descriptor { flags: 0, region: 1, len: 60, offset: OWN.start });
    }
    for _ in 0..10_000 {
        liar.set_head((malformed as u16).wrapping_add(512));
        malformed += rx.take(&mut out, 32).unwrap();
        if rx.is_over() {
            break;
        }
    }
    assert!(rx.is_over() && out.is_empty() && malformed < 4 * MOST, "{malformed}");
}
