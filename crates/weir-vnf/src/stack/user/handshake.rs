//! Connections that are not made yet. Nothing but [`HalfOpen`] is kept of them: that many are answered again if the answer is lost. Of
//! the rest nothing is kept at all: what has to be known of them is in the sequence number that they are answered with (SYN cookies,
//! RFC 4987 3.6), so that a flood of SYNs takes neither memory nor the place of others.

use std::collections::HashMap;
use std::hash::BuildHasher;

use smoltcp::wire::TcpRepr;

use super::wheel::{Micros, Wheel};
use super::{Port, Tuple};

/// Connections of which it is kept that they are half open.
const MOST: usize = 1024;
/// How often a SYN is answered: after 1, 2, and 4 seconds again.
const ANSWERS: u32 = 4;
const FIRST: Micros = 1_000_000;
/// A cookie holds for one to two of these.
const PERIOD: Micros = 60_000_000;

/// Sizes of segments that a cookie can name.
const SIZES: [u16; 8] = [536, 1200, 1220, 1300, 1400, 1440, 1460, 8960];

/// What a peer says in its SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Syn {
    /// Its first sequence number.
    pub(super) first: u32,
    pub(super) segment: u16,
    pub(super) scale: Option<u8>,
    pub(super) selective: bool,
    /// Its timestamp, if it wants to have them.
    pub(super) stamp: Option<u32>,
}

impl Syn {
    pub(super) fn of(segment: &TcpRepr<'_>) -> Self {
        Self {
            first: segment.seq_number.0 as u32,
            segment: segment.max_seg_size.filter(|&s| s != 0).unwrap_or(SIZES[0]),
            scale: segment.window_scale,
            selective: segment.sack_permitted,
            stamp: segment.timestamp.map(|t| t.tsval),
        }
    }
}

/// Connections that a SYN came of, and that were answered.
#[derive(Debug)]
pub(super) struct HalfOpen {
    secret: std::hash::RandomState,
    kept: HashMap<Tuple, Kept>,
    timers: Wheel<Tuple>,
    /// When one was not kept for the last time.
    full: Option<Micros>,
}

#[derive(Debug)]
struct Kept {
    syn: Syn,
    answer: u32,
    answers: u32,
    due: Micros,
}

/// What becomes of a segment to a server that is of no connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The handshake is over: the peer's SYN, and our first sequence number.
    Made(Syn, u32),
    /// It makes no sense: a reset says so.
    Reset,
    Ignore,
}

impl HalfOpen {
    pub(super) fn new(now: Micros) -> Self {
        Self {
            secret: std::hash::RandomState::new(),
            kept: HashMap::new(),
            timers: Wheel::new(now),
            full: None,
        }
    }

    /// A SYN came: the sequence number to answer it with.
    pub(super) fn syn(&mut self, tuple: Tuple, syn: Syn, now: Micros) -> u32 {
        if let Some(kept) = self.kept.get_mut(&tuple)
            && kept.syn.first == syn.first
        {
            return kept.answer;
        }
        let answer = self.cookie(tuple, syn, now / PERIOD);
        if self.kept.len() < MOST || self.kept.contains_key(&tuple) {
            let due = now + FIRST;
            self.kept.insert(tuple, Kept { syn, answer, answers: 1, due });
            self.timers.add(due, tuple);
        } else {
            self.full = Some(now);
        }
        answer
    }

    /// Something else came.
    pub(super) fn segment(&mut self, tuple: Tuple, segment: &TcpRepr<'_>, now: Micros) -> Step {
        use smoltcp::wire::TcpControl::{Rst, Syn as SynBit};
        let seq = segment.seq_number.0 as u32;
        if segment.control == Rst {
            if self.kept.get(&tuple).is_some_and(|k| seq == k.syn.first.wrapping_add(1)) {
                self.kept.remove(&tuple);
            }
            return Step::Ignore;
        }
        let Some(answer) = segment.ack_number.filter(|_| segment.control != SynBit) else {
            return if segment.ack_number.is_some() { Step::Reset } else { Step::Ignore };
        };
        let answer = (answer.0 as u32).wrapping_sub(1);
        if let Some(kept) = self.kept.get(&tuple) {
            if kept.answer != answer {
                return Step::Reset;
            }
            let syn = kept.syn;
            self.kept.remove(&tuple);
            return Step::Made(syn, answer);
        }
        // Cookies count only while there are more half-open connections than are kept: else they could be guessed at any time.
        if self.full.is_none_or(|full| now >= full + 2 * PERIOD) {
            return Step::Reset;
        }
        let first = seq.wrapping_sub(1);
        let stamp = segment.timestamp.map(|t| t.tsval);
        let [size, rest] = [answer as usize & 7, answer as usize & 0xff];
        let scale = (rest >> 4) as u8;
        let syn = Syn {
            first,
            segment: SIZES[size],
            scale: (scale < 15).then_some(scale),
            selective: rest & 8 != 0,
            stamp,
        };
        let period = now / PERIOD;
        let valid = [period, period.saturating_sub(1)].map(|p| self.cookie(tuple, syn, p)).contains(&answer);
        if valid { Step::Made(syn, answer) } else { Step::Reset }
    }

    /// 24 bits that only we can know, and 8 that say what is in the SYN.
    fn cookie(&self, tuple: Tuple, syn: Syn, period: u64) -> u32 {
        let size = SIZES.iter().rposition(|&s| s <= syn.segment).unwrap_or(0) as u32;
        let scale = syn.scale.map_or(15, |s| u32::from(s.min(14)));
        let low = scale << 4 | u32::from(syn.selective) << 3 | size;
        let hash = self.secret.hash_one((tuple, syn.first, period, low));
        (hash as u32) << 8 | low
    }

    /// The first sequence number of a connection that we open (RFC 6528).
    pub(super) fn first_number(&self, tuple: Tuple, now: Micros) -> u32 {
        (self.secret.hash_one(tuple) as u32).wrapping_add((now / 4) as u32)
    }

    /// A number that nobody can foresee.
    pub(super) fn random(&self, of: u64) -> u64 {
        self.secret.hash_one(of)
    }

    pub(super) fn next(&self) -> Option<Micros> {
        self.timers.next()
    }

    /// Whom to answer again.
    pub(super) fn poll(&mut self, now: Micros) -> Vec<(Tuple, Syn, u32)> {
        let mut again = Vec::new();
        let mut later = Vec::new();
        let kept = &mut self.kept;
        self.timers.advance(now, |tuple| {
            let Some(half) = kept.get_mut(&tuple).filter(|k| k.due <= now) else { return };
            if half.answers >= ANSWERS {
                kept.remove(&tuple);
                return;
            }
            half.due = now + (FIRST << half.answers);
            half.answers += 1;
            later.push((half.due, tuple));
            again.push((tuple, half.syn, half.answer));
        });
        for (due, tuple) in later {
            self.timers.add(due, tuple);
        }
        again
    }

    /// How many are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }
}

/// How long a connection that we closed first is remembered, so that late segments of it are no other's (RFC 9293 3.3.2: TIME-WAIT).
const WAIT: Micros = 60_000_000;
/// How long at least, if its addresses are wanted for another.
const REUSE: Micros = 1_000_000;
/// Connections that are remembered at most.
const WAITING: usize = 65_536;

/// Connections in TIME-WAIT: a few numbers each.
#[derive(Debug)]
pub(super) struct TimeWait {
    known: HashMap<Tuple, Ended>,
    /// In the order of their time.
    order: std::collections::VecDeque<(Micros, Tuple)>,
}

/// The next sequence numbers of both directions of a connection that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) ours: u32,
    pub(super) theirs: u32,
    pub(super) until: Micros,
}

impl TimeWait {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new(), order: std::collections::VecDeque::new() }
    }

    pub(super) fn add(&mut self, tuple: Tuple, ours: u32, theirs: u32, now: Micros) {
        self.poll(now);
        while self.order.len() >= WAITING {
            self.pop();
        }
        let until = now + WAIT;
        self.known.insert(tuple, Ended { ours, theirs, until });
        self.order.push_back((until, tuple));
    }

    fn pop(&mut self) {
        if let Some((until, tuple)) = self.order.pop_front()
            && self.known.get(&tuple).is_some_and(|e| e.until == until)
        {
            self.known.remove(&tuple);
        }
    }

    pub(super) fn poll(&mut self, now: Micros) {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.pop();
        }
    }

    pub(super) fn get(&self, tuple: &Tuple) -> Option<Ended> {
        self.known.get(tuple).copied()
    }

    /// A new connection of the same addresses begins.
    pub(super) fn remove(&mut self, tuple: &Tuple) {
        self.known.remove(tuple);
    }

    /// Whether a connection may be opened with these addresses, and the sequence number behind which it has to begin.
    pub(super) fn may_open(&self, tuple: &Tuple, now: Micros) -> Port {
        match self.known.get(tuple) {
            None => Port::Free,
            Some(ended) if ended.until + REUSE <= now + WAIT => Port::Behind(ended.ours),
            Some(_) => Port::Taken,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(port: u16) -> Tuple {
        Tuple { local: ([10, 0, 0, 1], 80).into(), remote: ([10, 0, 0, 2], port).into() }
    }

    fn ack(number: u32, seq: u32) -> TcpRepr<'static> {
        TcpRepr {
            src_port: 1,
            dst_port: 80,
            control: smoltcp::wire::TcpControl::None,
            seq_number: smoltcp::wire::TcpSeqNumber(seq as i32),
            ack_number: Some(smoltcp::wire::TcpSeqNumber(number as i32)),
            window_len: 1000,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        }
    }

    const SYN: Syn = Syn { first: 7, segment: 1460, scale: Some(7), selective: true, stamp: None };

    #[test]
    fn of_a_flood_only_so_many_are_kept_and_the_rest_may_connect_all_the_same() {
        let mut half = HalfOpen::new(0);
        let answers: Vec<u32> = (0..60_000).map(|port| half.syn(tuple(port), SYN, 5)).collect();
        assert_eq!(half.kept(), MOST);
        for port in [0, 1023, 1024, 59_999] {
            let step = half.segment(tuple(port), &ack(answers[usize::from(port)].wrapping_add(1), 8), 9);
            assert_eq!(step, Step::Made(SYN, answers[usize::from(port)]), "{port}");
        }
        let late = ack(answers[30_000].wrapping_add(1), 8);
        assert_eq!(half.segment(tuple(30_000), &late, 3 * PERIOD), Step::Reset, "too late");
        let wrong = ack(answers[30_000].wrapping_add(1 + 256), 8);
        assert_eq!(half.segment(tuple(30_000), &wrong, 9), Step::Reset, "not the number that was sent");
        assert_eq!(half.segment(tuple(1), &late, 9), Step::Reset, "another's number");
    }

    #[test]
    fn without_a_flood_no_number_that_was_not_sent_lately_is_taken() {
        let mut half = HalfOpen::new(0);
        let cookie = half.cookie(tuple(1), SYN, 0);
        assert_eq!(half.segment(tuple(1), &ack(cookie.wrapping_add(1), 8), 9), Step::Reset);
    }

    #[test]
    fn a_syn_is_answered_four_times_and_forgotten() {
        let mut half = HalfOpen::new(0);
        let answer = half.syn(tuple(1), SYN, 0);
        let mut answers = Vec::new();
        while let Some(next) = half.next() {
            answers.extend(half.poll(next).into_iter().map(|(_, syn, a)| (next / 1_000_000, syn, a)));
        }
        assert_eq!(answers, [(1, SYN, answer), (3, SYN, answer), (7, SYN, answer)]);
        assert_eq!(half.kept(), 0);
    }
}
