//! `weir trace`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap_complete::engine::ArgValueCandidates;
use weir_api::watch::TraceRequest;
use weir_elements::FromArg;
use weir_protocol::{Event, TraceStep};

use super::live::{Ended, follow};
use super::remote::NodeArgs;
use super::{complete, steps};
use crate::ui::{Failure, Ui};

/// Options of `weir trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// Which packets, in the filter language (as 'udp port 53'), as they enter the graph; all, if left out
    #[arg(short = 'm', long = "match", value_name = "FILTER", default_value = "")]
    filter: String,
    /// How many packets, at most 10000
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// End after this time (as 10, 500ms, 2min)
    #[arg(long = "for", value_name = "TIME", value_parser = Duration::from_arg)]
    duration: Option<Duration>,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let request = TraceRequest { filter: args.filter.clone(), count: args.count };
    let events = args.node.client()?.trace(&args.graph, &request)?;
    ui.progress("waiting for packets; Ctrl-C ends");
    let mut ends = Ends::default();
    let mut overrun = None;
    let ended = follow(events, args.duration, |event| {
        match &event {
            Event::Trace { steps, .. } => {
                ends.add(steps);
                ui.print(&event, || steps::text(*ui, &event))?;
            }
            Event::Notice { text, .. } => overrun = Some(text.clone()),
            _ => {}
        }
        Ok(())
    })?;
    ui.note(&ends.text());
    match overrun {
        Some(text) => Err(Failure::refused(text)),
        None if ended == Ended::Complete && ends.packets == 0 => {
            Err(Failure::refused(format!("the trace ended: graph {} was removed", args.graph)))
        }
        None => Ok(()),
    }
}

/// How packets ended, counted.
#[derive(Debug, Default)]
struct Ends {
    packets: usize,
    ends: BTreeMap<String, usize>,
}

impl Ends {
    fn add(&mut self, steps: &[TraceStep]) {
        self.packets += 1;
        // A packet may wait on its path; how it ended stands in its last step.
        let last: BTreeMap<u32, &TraceStep> = steps.iter().map(|s| (s.packet, s)).collect();
        for end in last.into_values().filter_map(|s| s.end.as_ref()) {
            *self.ends.entry(end.clone()).or_default() += 1;
        }
    }

    fn text(&self) -> String {
        let packets = match self.packets {
            0 => return "no packet was followed".to_owned(),
            1 => "1 packet was followed".to_owned(),
            n => format!("{n} packets were followed"),
        };
        let mut ends: Vec<_> = self.ends.iter().collect();
        ends.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let list: Vec<String> = ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
        if list.is_empty() { packets } else { format!("{packets}: {}", list.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_ends_the_most_frequent_first() {
        let step = |packet, end: Option<&str>| TraceStep {
            packet,
            graph: "g".into(),
            element: "e".into(),
            class: "Null".into(),
            port: 0,
            changes: vec![],
            end: end.map(str::to_owned),
            bytes: String::new(),
        };
        let mut ends = Ends::default();
        assert_eq!(ends.text(), "no packet was followed");
        ends.add(&[step(0, None), step(0, Some("waits in q")), step(0, Some("dropped: Denied"))]);
        assert_eq!(ends.text(), "1 packet was followed: 1 dropped: Denied");
        ends.add(&[step(0, Some("sent to b")), step(1, Some("sent to b"))]);
        assert_eq!(ends.text(), "2 packets were followed: 2 sent to b, 1 dropped: Denied");
    }
}
