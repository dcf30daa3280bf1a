//! Which graphs have had no packets for long enough: pure, with the time as input.

use std::collections::BTreeMap;
use std::time::Duration;

/// Packets that came for graphs.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Packets, and how many of them wait.
    graphs: BTreeMap<String, (u64, u64)>,
}

impl Came {
    /// Adds what LSI-0 says of its access points: a link, packets, and how many wait.
    pub(super) fn add(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(link), Some(packets), Some(waiting)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let graph = link.split('/').next().unwrap_or_default();
            let of = self.graphs.entry(graph.to_owned()).or_default();
            of.0 += packets.parse().unwrap_or(0);
            of.1 += waiting.parse().unwrap_or(0);
        }
    }

    /// The graphs for which packets wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &String> {
        self.graphs.iter().filter(|(_, (_, waiting))| *waiting > 0).map(|(id, _)| id)
    }
}

/// How long graphs have had no packets.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// What had come when something came last, and when that was.
    since: BTreeMap<String, (u64, Duration)>,
}

impl Idle {
    /// The graphs of those with a limit, in seconds, that have had no packets for so long.
    pub(super) fn due(&mut self, limits: BTreeMap<&str, u32>, came: &Came, now: Duration) -> Vec<String> {
        self.since.retain(|id, _| limits.contains_key(id.as_str()));
        let mut due = Vec::new();
        for (id, limit) in limits {
            let Some((packets, _)) = came.graphs.get(id) else { continue };
            let since = self.since.entry(id.to_owned()).or_insert((*packets, now));
            if since.0 != *packets {
                *since = (*packets, now);
            }
            if now.saturating_sub(since.1) >= Duration::from_secs(limit.into()) {
                // If it goes on for another reason, its time begins anew.
                since.1 = now;
                due.push(id.to_owned());
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_no_packets_for_its_time_is_due_once() {
        let mut idle = Idle::default();
        let mut at = |second: u64, text: &str| {
            let mut came = Came::default();
            came.add(text);
            let limits = BTreeMap::from([("a", 3), ("b", 10)]);
            idle.due(limits, &came, Duration::from_secs(second))
        };
        assert!(at(0, "a/in 5 0\nb/in 0 0\na/other 1 0\n").is_empty());
        assert!(at(2, "a/in 5 0\nb/in 0 0\na/other 1 0\n").is_empty());
        assert!(at(3, "a/in 5 0\nb/in 0 0\na/other 2 0\n").is_empty(), "a packet at either access point");
        assert!(at(5, "a/in 5 0\nb/in 0 0\na/other 2 0\n").is_empty());
        assert_eq!(at(6, "a/in 5 0\nb/in 0 0\na/other 2 0\n"), ["a"]);
        assert!(at(7, "a/in 5 0\nb/in 0 0\na/other 2 0\n").is_empty());
        assert_eq!(at(10, "a/in 5 0\nb/in 0 0\na/other 2 0\n"), ["a", "b"]);
        assert!(at(60, "").is_empty(), "nothing is known of them");
    }

    #[test]
    fn who_has_packets_waiting_is_known() {
        let mut came = Came::default();
        came.add("a/in 5 0\nb/in 1 1\nnonsense\n");
        assert_eq!(came.waiting().collect::<Vec<_>>(), ["b"]);
    }
}
