//! `weir run`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_elements::FromArg;
use weir_engine::protocol::Event;
use weir_engine::{Engine, Plan, Stopped, Until};
use weir_io::interface::Method;

use super::config::ConfigArgs;
use super::profile;
use super::{classes, steps};
use crate::ui::{Failure, Ui, table};

/// Name of the one graph.
const GRAPH: &str = "run";
/// How long the engine runs before what elements print is shown.
const SLICE: Duration = Duration::from_millis(200);

/// Options of `weir run`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Read this handler at the end and print it (may be repeated)
    #[arg(short = 'h', long = "handler", value_name = "ELEMENT.HANDLER")]
    handlers: Vec<String>,
    /// Write this handler at the start (may be repeated)
    #[arg(short, long = "write", value_name = "ELEMENT.HANDLER=VALUE")]
    writes: Vec<String>,
    /// How packets pass between interfaces and this process, if an element does not say: auto, packet or xdp
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    io: Method,
    /// Load the configuration, write and read handlers, and stop
    #[arg(short, long)]
    quit: bool,
    /// Stop after this time (as 10, 500ms, 2min)
    #[arg(long = "for", value_name = "TIME", value_parser = Duration::from_arg)]
    duration: Option<Duration>,
    /// Follow packets that match this filter (all, if it is empty) and print their way
    #[arg(long, value_name = "FILTER", num_args = 0..=1, default_missing_value = "")]
    trace: Option<String>,
    /// How many packets --trace follows
    #[arg(long, value_name = "N", default_value_t = 10)]
    count: u32,
    /// At the end, print why packets were dropped
    #[arg(short, long)]
    drops: bool,
    /// Print where the time goes, element by element, at the end and every TIME
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = Duration::from_arg)]
    profile: Option<Option<Duration>>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let (text, name) = args.config.click()?;
    let classes = Arc::new(classes());
    let plan = Plan::new(&classes, &text, &name).map_err(|e| Failure::Refused(e.0))?;
    let mut engine = Engine::new(classes).context("cannot start the engine")?;
    engine.set_method(args.io);
    engine.set_profile(args.profile.is_some());
    engine.install(GRAPH, plan, "").map_err(|e| Failure::Refused(e.0))?;
    for w in &args.writes {
        let (handler, value) = w.split_once('=').unwrap_or((w, ""));
        engine.write(GRAPH, handler, value).map_err(Failure::refused)?;
    }
    if let Some(filter) = &args.trace {
        let ui = *ui;
        let print = move |event: Event| {
            if let Event::Trace { .. } = event {
                _ = ui.print(&event, || steps::text(ui, &event));
            }
            true
        };
        engine.trace(0, GRAPH, filter, args.count, Box::new(print)).map_err(Failure::refused)?;
    }

    if !args.quit {
        let flag = Arc::new(AtomicBool::new(false));
        let (set, waker) = (flag.clone(), engine.waker());
        ctrlc::set_handler(move || {
            set.store(true, Ordering::Relaxed);
            waker.wake();
        })
        .context("cannot catch signals")?;
        let every = args.profile.flatten().filter(|t| !t.is_zero());
        let mut next = every.map(|t| Instant::now() + t);
        let end = args.duration.map(|d| Instant::now() + d);
        let stopped = loop {
            // In slices, so that what elements print appears while they run.
            let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()));
            let until = Until { deadline: Some(left.min(SLICE)), flag: Some(flag.clone()), forever: false };
            let stopped = engine.run(&until).context("the engine stopped")?;
            notices(&mut engine);
            if let (Some(every), Some(at)) = (every, next)
                && at <= Instant::now()
            {
                next = Some(Instant::now() + every);
                let times = profile::times(&engine.status(GRAPH).map_err(Failure::refused)?);
                eprintln!("{}", profile::text(&times));
            }
            if stopped != Stopped::Deadline || left.is_zero() {
                break stopped;
            }
        };
        ui.progress(match stopped {
            Stopped::Requested => "stopped by an element",
            Stopped::Flag => "stopped",
            Stopped::Deadline => "the time is over",
            Stopped::Exhausted => "nothing more to do",
        });
    }
    finish(args, ui, &mut engine)
}

fn finish(args: &Args, ui: &Ui, engine: &mut Engine) -> Result<(), Failure> {
    let mut values = Vec::new();
    for h in &args.handlers {
        values.push((h.clone(), engine.read(GRAPH, h).map_err(Failure::refused)?));
    }
    let status = engine.status(GRAPH).map_err(Failure::refused)?;
    let value = serde_json::json!({
        "handlers": values.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "drops": status.drops,
        "devices": status.devices,
        "profile": args.profile.map(|_| profile::times(&status)),
    });
    if ui.json || !values.is_empty() || args.drops || args.profile.is_some() {
        ui.print(&value, || {
            let mut out = String::new();
            for (handler, text) in &values {
                if values.len() > 1 {
                    out.push_str(&format!("{handler}:\n"));
                }
                out.push_str(text.trim_end_matches('\n'));
                out.push('\n');
            }
            if args.drops {
                let mut rows = vec![vec!["ELEMENT".to_owned(), "REASON".to_owned(), "PACKETS".to_owned()]];
                for (element, reasons) in &status.drops {
                    rows.extend(reasons.iter().map(|(r, n)| vec![element.clone(), r.clone(), n.to_string()]));
                }
                out.push_str(&if rows.len() > 1 {
                    table(&rows, &[2])
                } else {
                    "no packet was dropped\n".to_owned()
                });
            }
            if args.profile.is_some() {
                out.push_str(&profile::text(&profile::times(&status)));
                let flows = status.flows.iter().map(|c| (&*c.table, c.entries, c.hits, c.misses));
                out.extend(profile::flows(flows));
            }
            out
        })?;
    }
    Ok(())
}

fn notices(engine: &mut Engine) {
    for n in engine.take_notices() {
        if n.what == "print" {
            eprintln!("{}", n.text);
        } else if n.what.starts_with("device") {
            eprintln!("{}: {}", n.what, n.text);
        }
    }
}
