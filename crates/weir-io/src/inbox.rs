//! What threads hand to a thread that sleeps in [`Poller::sleep`](crate::Poller::sleep): whoever sends also wakes it, so that neither is
//! forgotten, and it learns of the end of the last sender.

use std::sync::mpsc::{self, Receiver, SendError};

use crate::Waker;

/// Hands things over, and wakes the receiver.
#[derive(Debug)]
pub struct Sender<T> {
    // In this order: the receiver is woken after the channel has ended.
    sender: mpsc::Sender<T>,
    wake: WakeAtEnd,
}

#[derive(Debug, Clone)]
struct WakeAtEnd(Waker);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// An inbox of the thread that `waker` wakes. It looks into it, with `try_recv`, each time before it sleeps.
pub fn inbox<T>(waker: Waker) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (Sender { sender, wake: WakeAtEnd(waker) }, receiver)
}

impl<T> Sender<T> {
    /// Puts something into the inbox.
    ///
    /// # Errors
    /// If the receiver is gone.
    pub fn send(&self, what: T) -> Result<(), SendError<T>> {
        let sent = self.sender.send(what);
        self.wake.0.wake();
        sent
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { sender: self.sender.clone(), wake: self.wake.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TryRecvError;

    use crate::Poller;

    use super::*;

    #[test]
    fn the_receiver_is_woken_by_what_comes_and_by_the_end() {
        let poller = Poller::new().unwrap();
        let (sender, receiver) = inbox(poller.waker());
        let mut ready = Vec::new();
        let thread = std::thread::spawn(move || sender.clone().send(7).unwrap());
        let mut got = Vec::new();
        loop {
            match receiver.try_recv() {
                Ok(n) => got.push(n),
                Err(TryRecvError::Empty) => poller.sleep(None, &mut ready).unwrap(),
                Err(TryRecvError::Disconnected) => break,
            }
        }
        thread.join().unwrap();
        assert_eq!(got, [7]);
    }
}
