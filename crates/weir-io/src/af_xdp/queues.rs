//! Which queues of an interface a port serves.

use std::fmt::Write;
use std::os::fd::OwnedFd;

use crate::af_packet::sys;
use crate::interface::Share;

/// The numbers of queues of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// To receive from.
    pub rx: u32,
    /// To send by.
    pub tx: u32,
}

impl Counts {
    /// Those of an interface; one of each if its driver does not say.
    pub fn of(socket: &OwnedFd, name: &str) -> Counts {
        // struct ethtool_channels: command, four maxima, then receive, send, other and combined channels.
        const ETHTOOL_GCHANNELS: u32 = 0x3c;
        let asked = sys::ethtool(socket, name, [ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0]);
        let [rx, tx] = asked.map_or([1, 1], |c| [c[5], c[6]].map(|n| n.saturating_add(c[8]).max(1)));
        Counts { rx, tx }
    }
}

/// The queues of one port.
#[derive(Debug, PartialEq, Eq)]
pub struct Queues {
    /// Their numbers. At least one; the first is also the one to send by.
    pub own: Vec<u32>,
    /// Whether other ports have the rest.
    pub shared: bool,
    /// Which they are, for people.
    pub text: String,
}

impl Queues {
    /// One queue, whatever others do.
    pub fn one(queue: u32) -> Queues {
        Queues { own: vec![queue], shared: false, text: format!("queue {queue}") }
    }

    /// The queues of a port that is alone, or of one that shares: they are dealt round, if each port gets one to receive
    /// from and one to send by. Otherwise the first has all, and the others none.
    pub fn of(counts: Counts, share: Option<Share>) -> Option<Queues> {
        let all: Vec<u32> = (0..counts.rx).collect();
        let Some(Share { member, of, .. }) = share.filter(|s| s.of > 1) else {
            let text = format!("{} {}", if all.len() == 1 { "queue" } else { "queues" }, list(&all));
            return Some(Queues { own: all, shared: false, text });
        };
        if counts.rx.min(counts.tx) < of {
            let text = format!(
                "{} {} for {of} workers",
                if all.len() == 1 { "queue" } else { "queues" },
                list(&all)
            );
            return (member == 0).then_some(Queues { own: all, shared: false, text });
        }
        let dealt = |member: u32| -> Vec<u32> { (member..counts.rx).step_by(of as usize).collect() };
        let mut text = String::from("queues");
        for member in 0..of {
            // Writing to a string does not fail.
            let _ = write!(text, "{} {}", if member == 0 { "" } else { " |" }, list(&dealt(member)));
        }
        let _ = write!(text, " for {of} workers");
        (member < of).then(|| Queues { own: dealt(member), shared: true, text })
    }
}

/// Numbers in a row, long ones shortened.
fn list(queues: &[u32]) -> String {
    let numbers = |part: &[u32]| part.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    match queues {
        [first, second, .., last] if queues.len() > 6 => format!("{first} {second} … {last}"),
        few => numbers(few),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rx: u32, tx: u32, member: u32, of: u32) -> Option<Queues> {
        Queues::of(Counts { rx, tx }, Some(Share { group: 0, member, of }))
    }

    #[test]
    fn a_port_that_is_alone_has_all_queues() {
        let queues = Queues::of(Counts { rx: 4, tx: 1 }, None).unwrap();
        assert_eq!((queues.own, queues.shared), (vec![0, 1, 2, 3], false));
        assert_eq!(queues.text, "queues 0 1 2 3");
        assert_eq!(Queues::of(Counts { rx: 1, tx: 1 }, None).unwrap().text, "queue 0");
        assert_eq!(Queues::of(Counts { rx: 16, tx: 16 }, None).unwrap().text, "queues 0 1 … 15");
    }

    #[test]
    fn queues_are_dealt_round_and_each_goes_to_one_port() {
        for (rx, ports) in [(2, 2), (4, 2), (5, 3), (8, 3)] {
            let dealt: Vec<Queues> = (0..ports).map(|member| of(rx, rx, member, ports).unwrap()).collect();
            let mut all: Vec<u32> = dealt.iter().flat_map(|q| q.own.clone()).collect();
            all.sort_unstable();
            assert_eq!(all, (0..rx).collect::<Vec<_>>());
            // The first of each exists for sending too.
            assert!(dealt.iter().zip(0..).all(|(q, member)| q.shared && q.own[0] == member));
        }
        assert_eq!(of(4, 4, 1, 2).unwrap().text, "queues 0 2 | 1 3 for 2 workers");
    }

    #[test]
    fn too_few_queues_all_go_to_the_first_port() {
        for (rx, tx) in [(1, 1), (2, 2), (4, 1), (1, 4)] {
            let first = of(rx, tx, 0, 3).unwrap();
            assert_eq!((first.own.len() as u32, first.shared), (rx, false));
            assert_eq!(of(rx, tx, 1, 3), None);
        }
        assert_eq!(of(1, 1, 0, 2).unwrap().text, "queue 0 for 2 workers");
    }
}
