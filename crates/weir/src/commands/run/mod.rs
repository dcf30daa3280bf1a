//! `weir run`: takes the options of Click's user-level driver, and more.

mod options;
mod report;
mod signals;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use weir_engine::{Engine, Stopped, Threads, TraceRequest, Until, bind_thread};
use weir_protocol::Event;

use super::{classes, profile, steps};
use crate::ui::{Failure, Ui};
pub(crate) use options::Args;
use signals::Signals;

/// Name of the one graph.
const GRAPH: &str = "run";
/// How long the engine runs before what it has to tell is shown.
const SLICE: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let config = args.config()?;
    let classes = Arc::new(classes());
    let reader = args.reader(&config);
    let plan = reader(&classes, &config.text).map_err(Failure::Config)?;
    if plan.graph.elements.is_empty() && !args.quit && args.warnings() && args.handlers.is_empty() {
        eprintln!("{}: configuration has no elements, exiting", config.landmark);
    }
    let empty = plan.graph.elements.is_empty();
    let mut engine = Engine::new(classes).context("cannot start the engine")?;
    if let Some(start) = args.simtime() {
        engine.simulate_time(start);
    }
    let threads = match args.affinity {
        Some(first) => {
            bind_thread(first).with_context(|| format!("cannot run on processor core {first}"))?;
            Threads::Cores((first + 1..first.saturating_add(args.threads)).collect())
        }
        None => Threads::Free,
    };
    engine.set_workers(args.threads, &threads).context("cannot start the workers")?;
    // A line is written at once, so that those of several programs that share the stream do not mix.
    engine.set_printer(Box::new(|line| _ = io::stderr().write_all(format!("{line}\n").as_bytes())));
    if args.allow_reconfigure {
        engine.allow_reconfigure(Box::new(reader));
    }
    engine.set_profile(args.profile.is_some());
    engine.install(GRAPH, plan, "").map_err(Failure::Config)?;
    if let Some(file) = &args.output {
        let text = engine.read(GRAPH, "flatconfig").map_err(Failure::refused)?;
        let written = match file.as_str() {
            "-" => std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()),
            file => std::fs::write(file, text),
        };
        written.with_context(|| format!("cannot write {file}"))?;
    }
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
        let request = TraceRequest { filter: filter.clone(), count: args.count, functions: Vec::new() };
        engine.trace(0, GRAPH, request, Box::new(print)).map_err(Failure::refused)?;
    }

    let before = report::Times::take();
    let mut failed = false;
    if !args.quit && !empty {
        let stopped = drive(args, &mut engine, &mut failed)?;
        if !matches!(stopped, Stopped::Requested) {
            engine.end();
        }
        ui.progress(match stopped {
            Stopped::Requested => "stopped by an element",
            Stopped::Flag => "stopped",
            Stopped::Deadline => "the time is over",
            Stopped::Exhausted => "nothing more to do",
        });
    }
    if args.time {
        println!("{}", before.passed());
    }
    report::finish(args, ui, &mut engine)?;
    if failed { Err(Failure::Exit(1)) } else { Ok(()) }
}

/// Runs until there is a reason to stop. `failed` becomes true if an element said that it cannot read its file on.
fn drive(args: &Args, engine: &mut Engine, failed: &mut bool) -> Result<Stopped, Failure> {
    let mut signals = Signals::new(engine.waker()).context("cannot catch signals")?;
    let every = args.profile.flatten().filter(|t| !t.is_zero());
    let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let start = engine.now();
    let mut next = every.map(|t| start.saturating_add(nanos(t)));
    let end = args.duration.map(|d| start.saturating_add(nanos(d)));
    loop {
        signals.listen(engine.signals()).context("cannot catch signals")?;
        let left = end.map_or(SLICE, |end| Duration::from_nanos(end.saturating_sub(engine.now())));
        let until = Until { deadline: Some(left.min(SLICE)), flag: Some(signals.any()), forever: false };
        let stopped = engine.run(&until).context("the engine stopped")?;
        for n in engine.take_notices() {
            if n.what.starts_with("device") {
                eprintln!("{}: {}", n.what, n.text);
            }
            *failed |= n.what == "input-failed";
        }
        if let (Some(every), Some(at)) = (every, next)
            && at <= engine.now()
        {
            next = Some(engine.now().saturating_add(nanos(every)));
            let times = profile::times(&engine.status(GRAPH).map_err(Failure::refused)?);
            eprintln!("{}", profile::text(&times));
        }
        match stopped {
            Stopped::Flag => {
                if signals.deliver(engine) {
                    return Ok(Stopped::Flag);
                }
            }
            // Scripts that wait for signals have more to do.
            Stopped::Exhausted if !engine.signals().is_empty() => {
                engine.sleep(Some(SLICE)).context("the engine stopped")?;
            }
            Stopped::Deadline if !left.is_zero() => {}
            Stopped::Requested => {
                // Scripts hear of signals that came before the end.
                signals.deliver(engine);
                return Ok(stopped);
            }
            stopped => return Ok(stopped),
        }
    }
}
