//! Hand-over of packets from worker to worker: a ring for each pair, and a backlog in front of each ring.
//!
//! Nothing is lost when a ring is full: the sender keeps the rest, and takes no packets from devices and sources until
//! it is gone. A worker empties the rings that lead to it first, whatever else it has to do, so that two which wait for
//! each other go on.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_io::Waker;
use weir_packet::Packet;

/// Packets that a ring holds.
const RING: usize = 1024;
/// Packets that are collected before the receiver sees them, within one round.
const BATCH: usize = 64;

/// A packet in flight to another worker.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// Number of the graph and of its load or swap.
    pub graph: usize,
    pub generation: u64,
    /// The link of the graph on which it goes on.
    pub link: u32,
    pub packet: Packet,
}

/// One worker's ends of the rings.
#[derive(Debug)]
pub(crate) struct Exchange {
    me: usize,
    /// By worker; nothing for this one.
    out: Vec<Option<Out>>,
    inbound: Vec<Consumer<Parcel>>,
}

#[derive(Debug)]
struct Out {
    ring: Producer<Parcel>,
    backlog: VecDeque<Parcel>,
    waker: Waker,
}

impl Exchange {
    /// The ends for so many workers, which these wake.
    pub fn all(wakers: &[Waker]) -> Vec<Exchange> {
        let end = |me| Exchange { me, out: Vec::new(), inbound: Vec::new() };
        let mut all: Vec<Exchange> = (0..wakers.len()).map(end).collect();
        for from in 0..all.len() {
            for (to, waker) in wakers.iter().enumerate() {
                if from == to {
                    all[from].out.push(None);
                    continue;
                }
                let (ring, end) = RingBuffer::new(RING);
                all[from].out.push(Some(Out { ring, backlog: VecDeque::new(), waker: waker.clone() }));
                all[to].inbound.push(end);
            }
        }
        all
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.out.len()
    }

    /// Number of this worker.
    pub fn me(&self) -> usize {
        self.me
    }

    /// Hands a packet to another worker. One for this worker itself, or for none, is given back.
    pub fn send(&mut self, to: usize, parcel: Parcel) -> Result<(), Parcel> {
        let Some(Some(out)) = self.out.get_mut(to) else { return Err(parcel) };
        out.backlog.push_back(parcel);
        if out.backlog.len() >= BATCH {
            out.flush();
        }
        Ok(())
    }

    /// Lets the receivers see what was sent.
    pub fn flush(&mut self) {
        for out in self.out.iter_mut().flatten() {
            out.flush();
        }
    }

    /// Whether a receiver is full, so that nothing is to be added.
    pub fn is_blocked(&self) -> bool {
        self.out.iter().flatten().any(|o| o.backlog.len() >= BATCH)
    }

    /// Whether something sent waits for space.
    pub fn has_backlog(&self) -> bool {
        self.out.iter().flatten().any(|o| !o.backlog.is_empty())
    }

    /// Takes what others sent: at most a ring of each.
    pub fn receive(&mut self, mut take: impl FnMut(Parcel)) {
        for ring in &mut self.inbound {
            let n = ring.slots();
            if n > 0
                && let Ok(chunk) = ring.read_chunk(n)
            {
                chunk.into_iter().for_each(&mut take);
            }
        }
    }

    /// Whether others sent something.
    pub fn has_inbound(&self) -> bool {
        self.inbound.iter().any(|ring| ring.slots() > 0)
    }
}

impl Out {
    fn flush(&mut self) {
        let n = self.backlog.len().min(self.ring.slots());
        if n == 0 {
            return;
        }
        if let Ok(chunk) = self.ring.write_chunk_uninit(n) {
            chunk.fill_from_iter(self.backlog.drain(..n));
        }
        self.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use weir_io::Poller;

    use super::*;

    fn parcel(n: u32) -> Parcel {
        Parcel {
            graph: 0,
            generation: 1,
            link: n,
            packet: Packet::from_bytes(&[0; 60]).expect("it is short"),
        }
    }

    fn pollers() -> [Poller; 2] {
        [(); 2].map(|()| Poller::new().expect("descriptors are left"))
    }

    fn pair() -> Vec<Exchange> {
        Exchange::all(&pollers().each_ref().map(Poller::waker))
    }

    fn received(e: &mut Exchange) -> Vec<u32> {
        let mut out = Vec::new();
        e.receive(|p| out.push(p.link));
        out
    }

    #[test]
    fn nothing_is_lost_and_order_is_kept_when_the_ring_is_full() {
        let mut both = pair();
        let all = 3 * RING as u32;
        for n in 0..all {
            both[0].send(1, parcel(n)).expect("there is a second worker");
        }
        assert!(both[0].is_blocked());
        let mut got = Vec::new();
        while (got.len() as u32) < all {
            let before = got.len();
            got.extend(received(&mut both[1]));
            both[0].flush();
            assert!(got.len() > before, "each round brings some");
        }
        assert!(got.iter().copied().eq(0..all));
        assert!(!both[0].has_backlog());
    }

    #[test]
    fn a_worker_does_not_send_to_itself() {
        let mut both = pair();
        assert!(both[0].send(0, parcel(7)).is_err());
        assert!(both[0].send(2, parcel(7)).is_err());
    }

    #[test]
    fn who_gets_packets_does_not_sleep_before_it_looks() {
        let pollers = pollers();
        let mut both = Exchange::all(&pollers.each_ref().map(Poller::waker));
        both[0].send(1, parcel(1)).expect("there is a second worker");
        both[0].flush();
        assert!(pollers[1].is_woken() && !pollers[0].is_woken());
        assert_eq!(received(&mut both[1]), [1]);
    }
}
