//! `weir events`.

use std::io::Write;

use anyhow::Context;
use clap_complete::engine::ArgValueCandidates;
use weir_api::events::{Event, Kind};

use super::complete;
use super::live::{Ended, follow};
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui};

/// Options of `weir events`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Go on with what happens, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Only events of this graph
    #[arg(short, long, value_name = "GRAPH", add = ArgValueCandidates::new(complete::graphs))]
    graph: Option<String>,
    /// How many of the events that are kept, the newest
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    last: u32,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let client = args.node.client()?;
    let kept = client.kept_events(args.graph.as_deref(), args.last)?.events;
    if !args.follow {
        if kept.is_empty() {
            ui.note("no events");
        }
        return kept.iter().try_for_each(|e| show(e, *ui));
    }
    kept.iter().try_for_each(|e| show(e, *ui))?;
    // The number of the last event of all, so that none is missed or told twice.
    let newest = client.kept_events(None, 1)?.events.last().and_then(|e| e.id);
    let seen = kept.last().and_then(|e| e.id).or(newest);
    let ended = follow(client.events(seen)?, None, |event: Event| {
        let wanted = args.graph.is_none() || event.graph == args.graph;
        if wanted { show(&event, *ui) } else { Ok(()) }
    })?;
    match ended {
        Ended::Stopped => Ok(()),
        Ended::Complete => Err(Failure::refused("the node ended")),
    }
}

fn show(event: &Event, ui: Ui) -> Result<(), Failure> {
    let line = if ui.json {
        serde_json::to_string(event).context("cannot print the event")? + "\n"
    } else {
        text(event, ui)
    };
    std::io::stdout().write_all(line.as_bytes())?;
    Ok(())
}

fn text(event: &Event, ui: Ui) -> String {
    let kind = format!("{:13}", event.kind.name());
    let kind = match event.kind {
        Kind::Failed
        | Kind::FunctionDown
        | Kind::DeviceDown
        | Kind::EngineDown
        | Kind::ControllerDown
        | Kind::NodeOffline => ui.bad(&kind),
        Kind::Applied
        | Kind::Recovered
        | Kind::FunctionUp
        | Kind::DeviceUp
        | Kind::EngineUp
        | Kind::ControllerUp
        | Kind::NodeOnline => ui.good(&kind),
        Kind::Alarm => ui.bold(&kind),
        _ => kind,
    };
    let node = event.node.as_ref().map_or(String::new(), |n| format!("{n} "));
    let graph = event.graph.as_ref().map_or(String::new(), |g| format!("{}: ", ui.bold(g)));
    // One line for each event, whatever an element printed.
    let text = event.text.trim_end().replace('\n', "\n    ");
    format!("{} {kind} {node}{graph}{text}\n", ui.dim(&time(event.time)))
}

/// Milliseconds since the epoch as date and time of UTC (days to dates: Howard Hinnant, "chrono-compatible low-level date
/// algorithms").
pub(super) fn time(milliseconds: u64) -> String {
    let (days, second) = (milliseconds / 86_400_000, milliseconds / 1000 % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Color;

    #[test]
    fn an_event_is_a_line_with_its_time() {
        let event = Event {
            node: None,
            id: Some(7),
            time: 1_709_210_096_789,
            kind: Kind::Failed,
            graph: Some("fw".into()),
            tenant: None,
            text: "no interface eth9".into(),
            report: None,
            alarm: None,
        };
        let line = text(&event, Ui::new(false, Color::Never));
        assert_eq!(line, "2024-02-29 12:34:56Z failed        fw: no interface eth9\n");
        assert_eq!(time(0), "1970-01-01 00:00:00Z");
        assert_eq!(time(4_102_444_799_999), "2099-12-31 23:59:59Z");
        assert_eq!(time(951_782_400_000), "2000-02-29 00:00:00Z");
    }
}
