//! Packets that are in functions which a graph does not run itself, and which of those that come out they are.
//!
//! A packet that comes out is taken for one that went in if its bytes are the same and no other that went in looks alike. That can be
//! said for sure; what a function changed, or made, cannot.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use weir_net::without_transport_checksum;
use weir_packet::Packet;

/// How long a packet may be in a function, in nanoseconds.
pub(super) const PATIENCE: u64 = 1_000_000_000;
/// Most packets that are remembered; of more, the earliest are forgotten.
const MAX_AWAY: usize = 8192;

/// A packet of a trace that went into a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Followed {
    pub trace: u64,
    /// Its number there.
    pub number: u32,
    /// The step of the function.
    pub step: usize,
}

/// The output of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// This one, as it went in.
    Same(Followed),
    /// One that went in and is not followed.
    Other,
    /// One of several that went in and look alike, among them this one.
    Alike(Followed),
    /// None that went in, in this form; this one is still inside.
    Changed(Followed),
    /// None that went in, in this form.
    Unknown,
}

#[derive(Debug)]
struct Gone {
    request: u64,
    function: String,
    digest: u64,
    followed: Option<Followed>,
    /// Others look the same.
    alike: bool,
    /// Something came out that may be what became of it.
    guessed: bool,
    since: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Away {
    gone: VecDeque<Gone>,
    state: RandomState,
}

impl Away {
    /// A packet goes into a function.
    pub fn goes(
        &mut self,
        request: u64,
        function: &str,
        packet: &Packet,
        followed: Option<Followed>,
        now: u64,
    ) {
        self.expire(now);
        if self.gone.len() >= MAX_AWAY {
            self.gone.pop_front();
        }
        let (function, digest) = (function.to_owned(), self.digest(packet));
        let (alike, guessed) = (false, false);
        self.gone.push_back(Gone { request, function, digest, followed, alike, guessed, since: now });
    }

    /// A packet comes out of a function.
    pub fn comes(&mut self, request: u64, function: &str, packet: &Packet, now: u64) -> Came {
        self.expire(now);
        let digest = self.digest(packet);
        let of_function = |g: &Gone| g.request == request && g.function == function;
        let like = |g: &Gone| of_function(g) && g.digest == digest;
        let places: Vec<usize> = (0..self.gone.len()).filter(|&i| like(&self.gone[i])).collect();
        match places[..] {
            [] => {
                let next =
                    self.gone.iter_mut().find(|g| of_function(g) && g.followed.is_some() && !g.guessed);
                next.and_then(|g| {
                    g.guessed = true;
                    g.followed
                })
                .map_or(Came::Unknown, Came::Changed)
            }
            [one] if !self.gone[one].alike => {
                let gone = self.gone.remove(one);
                gone.and_then(|g| g.followed).map_or(Came::Other, Came::Same)
            }
            _ => {
                places.iter().for_each(|&i| self.gone[i].alike = true);
                let next = places
                    .iter()
                    .copied()
                    .find(|&i| self.gone[i].followed.is_some() && !self.gone[i].guessed);
                let followed = next.and_then(|i| {
                    self.gone[i].guessed = true;
                    self.gone[i].followed
                });
                // Those that are followed stay until their trace ends.
                if let Some(&other) = places.iter().find(|&&i| self.gone[i].followed.is_none()) {
                    self.gone.remove(other);
                }
                followed.map_or(Came::Other, Came::Alike)
            }
        }
    }

    /// A packet was dropped: gives the step of the function that it was about to go into, if it was.
    pub fn stays(&mut self, trace: u64, number: u32) -> Option<usize> {
        let is = |g: &Gone| g.followed.is_some_and(|f| (f.trace, f.number) == (trace, number));
        let last = self.gone.iter().rposition(is);
        Some(self.gone.remove(last?)?.followed?.step)
    }

    /// The steps of a trace, which ends, whose packets are still inside, each with whether others look the same.
    pub fn end(&mut self, trace: u64) -> Vec<(usize, bool)> {
        let mut ended = Vec::new();
        self.gone.retain(|g| match g.followed {
            Some(f) if f.trace == trace => {
                ended.push((f.step, g.alike));
                false
            }
            _ => true,
        });
        ended
    }

    /// A request ends.
    pub fn forget(&mut self, request: u64) {
        self.gone.retain(|g| g.request != request);
    }

    fn expire(&mut self, now: u64) {
        // Traces end those that are followed.
        while self
            .gone
            .front()
            .is_some_and(|g| g.followed.is_none() && now.saturating_sub(g.since) >= PATIENCE)
        {
            self.gone.pop_front();
        }
    }

    fn digest(&self, packet: &Packet) -> u64 {
        self.state.hash_one(without_transport_checksum(packet.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &str) -> Packet {
        Packet::from_bytes(text.as_bytes()).unwrap()
    }

    fn followed(trace: u64) -> Option<Followed> {
        Some(Followed { trace, number: 0, step: 3 })
    }

    #[test]
    fn what_comes_out_as_it_went_in_is_the_same_and_only_once() {
        let mut away = Away::default();
        away.goes(1, "f", &packet("one"), followed(7), 0);
        away.goes(1, "f", &packet("two"), None, 0);
        assert_eq!(away.comes(1, "g", &packet("one"), 1), Came::Unknown, "another function");
        assert_eq!(away.comes(2, "f", &packet("one"), 1), Came::Unknown, "another trace");
        assert_eq!(away.comes(1, "f", &packet("two"), 1), Came::Other);
        assert_eq!(away.comes(1, "f", &packet("one"), 1), Came::Same(followed(7).unwrap()));
        assert_eq!(away.comes(1, "f", &packet("one"), 1), Came::Unknown);
        assert_eq!(away.end(7), []);
    }

    #[test]
    fn what_is_changed_or_looks_like_others_is_not_said_to_be_the_same() {
        let mut away = Away::default();
        away.goes(1, "f", &packet("one"), followed(7), 0);
        assert_eq!(away.comes(1, "f", &packet("1"), 1), Came::Changed(followed(7).unwrap()));
        assert_eq!(away.comes(1, "f", &packet("2"), 1), Came::Unknown, "one is enough");
        away.goes(1, "f", &packet("same"), None, 2);
        away.goes(1, "f", &packet("same"), followed(8), 2);
        assert_eq!(away.comes(1, "f", &packet("same"), 3), Came::Alike(followed(8).unwrap()));
        assert_eq!(away.comes(1, "f", &packet("same"), 3), Came::Other, "it was told of already");
        assert_eq!((away.end(7), away.end(8)), (vec![(3, false)], vec![(3, true)]));
    }

    #[test]
    fn what_stays_too_long_is_forgotten() {
        let mut away = Away::default();
        away.goes(1, "f", &packet("old"), None, 0);
        assert_eq!(away.comes(1, "f", &packet("old"), PATIENCE), Came::Unknown);
        for i in 0..2 * MAX_AWAY {
            away.goes(1, "f", &packet(&i.to_string()), None, PATIENCE);
        }
        assert_eq!(away.gone.len(), MAX_AWAY);
        away.goes(1, "f", &packet("x"), followed(1), PATIENCE);
        assert_eq!((away.stays(1, 0), away.stays(1, 0)), (Some(3), None));
        assert_eq!(away.end(1), []);
        away.forget(1);
        assert_eq!(away.gone.len(), 0);
    }
}
