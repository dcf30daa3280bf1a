//! Paired queues in memory, for tests, benches and links inside one process.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};
use weir_packet::Packet;

use crate::{Lost, Port, PortError, PortStats};

/// One end of a pair: what is sent on one end is received on the other.
///
/// Packets keep their metadata, unfinished checksums and large packets included.
#[derive(Debug)]
pub struct MemoryPort {
    name: String,
    rx: Arc<Queue>,
    tx: Arc<Queue>,
    stats: PortStats,
}

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    capacity: usize,
    /// Readable while the queue has packets, once someone asked for the descriptor.
    ready: EventFd,
}

#[derive(Debug, Default)]
struct State {
    packets: VecDeque<Packet>,
    watched: bool,
    closed: bool,
}

impl Queue {
    fn new(capacity: usize) -> io::Result<Arc<Queue>> {
        let ready = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Arc::new(Queue { state: Mutex::default(), capacity, ready }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics between related changes of the state, so it is whole even after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, state: &State) {
        if state.watched {
            // The counter cannot overflow: it is reset whenever the queue runs empty.
            let _ = self.ready.write(1);
        }
    }
}

impl MemoryPort {
    /// Two ends with queues of `capacity` packets in each direction.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn pair(names: [&str; 2], capacity: usize) -> Result<(MemoryPort, MemoryPort), PortError> {
        let queue = |name: &str| {
            Queue::new(capacity).map_err(|source| PortError::Os {
                name: name.to_owned(),
                action: "create an eventfd",
                source,
            })
        };
        let (a, b) = (queue(names[0])?, queue(names[1])?);
        let end = |name: &str, rx: &Arc<Queue>, tx: &Arc<Queue>| MemoryPort {
            name: name.to_owned(),
            rx: rx.clone(),
            tx: tx.clone(),
            stats: PortStats::default(),
        };
        Ok((end(names[0], &a, &b), end(names[1], &b, &a)))
    }
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        let mut state = self.rx.lock();
        let n = state.packets.len().min(max);
        if n == 0 {
            return Ok(0);
        }
        for mut p in state.packets.drain(..n) {
            self.stats.received(p.len());
            p.hand_over();
            out.push(p);
        }
        if state.packets.is_empty() && state.watched && !state.closed {
            // Resets the counter; it is zero already if the watch began after the packets came.
            let _ = self.rx.ready.read();
        }
        Ok(n)
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        let mut state = self.tx.lock();
        if state.closed {
            return Err(PortError::Closed { name: self.name.clone() });
        }
        let n = batch.len().min(self.tx.capacity.saturating_sub(state.packets.len()));
        let was_empty = state.packets.is_empty();
        for p in batch.drain(..n) {
            self.stats.sent(p.len());
            state.packets.push_back(p);
        }
        if was_empty && n > 0 {
            self.tx.signal(&state);
        }
        Ok(n)
    }

    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        let mut state = self.rx.lock();
        if !state.watched {
            state.watched = true;
            if !state.packets.is_empty() || state.closed {
                self.rx.signal(&state);
            }
        }
        drop(state);
        Some(self.rx.ready.as_fd())
    }

    fn ended(&self) -> bool {
        let state = self.rx.lock();
        state.closed && state.packets.is_empty()
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn lost(&self) -> Lost {
        self.stats.lost()
    }
}

impl Drop for MemoryPort {
    fn drop(&mut self) {
        for queue in [&self.rx, &self.tx] {
            let mut state = queue.lock();
            state.closed = true;
            queue.signal(&state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(n: u8) -> Vec<Packet> {
        (0..n).map(|i| Packet::from_bytes(&[i; 60]).unwrap()).collect()
    }

    #[test]
    fn a_full_queue_leaves_the_rest_in_the_batch() {
        let (mut a, mut b) = MemoryPort::pair(["a", "b"], 4).unwrap();
        let mut batch = packets(6);
        assert_eq!(a.send(&mut batch).unwrap(), 4);
        assert_eq!(batch.iter().map(|p| p.bytes()[0]).collect::<Vec<_>>(), [4, 5]);
        let mut out = Vec::new();
        assert_eq!(b.receive(&mut out, 2).unwrap(), 2);
        assert_eq!(a.send(&mut batch).unwrap(), 2);
        assert_eq!(b.receive(&mut out, 32).unwrap(), 4);
        assert_eq!(out.iter().map(|p| p.bytes()[0]).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_closed_end_is_seen_after_the_last_packet() {
        let (mut a, mut b) = MemoryPort::pair(["a", "b"], 4).unwrap();
        a.send(&mut packets(1)).unwrap();
        drop(a);
        assert!(!b.ended());
        assert_eq!(b.receive(&mut Vec::new(), 32).unwrap(), 1);
        assert!(b.ended());
        assert!(matches!(b.send(&mut packets(1)), Err(PortError::Closed { .. })));
    }
}
