//! `weir top`.

mod lines;
mod rates;
mod screen;
mod sections;
mod state;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap_complete::engine::ArgValueCandidates;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll as poll_fds};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use weir_api::client::{ClientError, NodeClient};
use weir_elements::FromArg;
use weir_model::nearest::nearest;

use super::complete;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui};
use rates::{Rates, Reading, rates};
use sections::Order;
use state::{Effect, State};

/// How long the node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a key may wait.
const TICK: Duration = Duration::from_millis(50);
/// How long after a signal the program ends, whatever it does.
const LAST: Duration = Duration::from_millis(500);
/// The least time between readings.
const SHORTEST: Duration = Duration::from_millis(100);

/// Options of `weir top`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The graph to begin with; the first, if left out
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: Option<String>,
    /// Time between readings (as 2, 500ms)
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = Duration::from_arg)]
    interval: Duration,
    /// Print the rates of one interval, and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    if args.interval < SHORTEST {
        return Err(Failure::refused("--interval is too short: a node is asked every 100ms at most"));
    }
    let client = args.node.client_within(PATIENCE)?;
    let start = Instant::now();
    let first = read(&client, args.graph.as_deref(), start)?;
    if let (Some(graph), None) = (&args.graph, &first.status) {
        let hint = nearest(graph, first.graphs.iter().map(|g| g.id.as_str()));
        return Err(Failure::refused(format!("there is no graph '{graph}'{hint}")));
    }
    if ui.json || args.once || !io::stdout().is_terminal() {
        return print(args, *ui, &client, start, first);
    }
    live(args, client, start, first)
}

/// Asks the node about a graph, or about the first that it has.
fn read(client: &NodeClient, graph: Option<&str>, start: Instant) -> Result<Reading, ClientError> {
    let graphs = client.graphs()?;
    let graph = match graph {
        Some(id) => graphs.iter().find(|g| g.id == id),
        None => graphs.first(),
    };
    let status = graph.map(|g| client.status(&g.id)).transpose();
    let status = match status {
        // It was removed this moment, or only some of its functions may be seen.
        Err(ClientError::Problem(p)) if [403, 404].contains(&p.status) => None,
        other => other?,
    };
    // Tenants do not see what interfaces carry for all. They are not asked for again: each refusal is in the audit log.
    static DENIED: AtomicBool = AtomicBool::new(false);
    let devices = match DENIED.load(Ordering::Relaxed) {
        true => Vec::new(),
        false => match client.devices() {
            Err(ClientError::Problem(p)) if p.status == 403 => {
                DENIED.store(true, Ordering::Relaxed);
                Vec::new()
            }
            other => other?.devices,
        },
    };
    Ok(Reading { at: start.elapsed(), graphs, status, devices })
}

/// Without a screen: one interval after the other.
fn print(args: &Args, ui: Ui, client: &NodeClient, start: Instant, first: Reading) -> Result<(), Failure> {
    let mut before = first;
    loop {
        thread::sleep(args.interval);
        let now = read(client, args.graph.as_deref(), start)?;
        if let (Some(graph), None) = (&args.graph, &now.status) {
            return Err(Failure::refused(format!("graph {graph} is there no longer")));
        }
        let rates = rates(Some(&before), &now);
        let mut out = io::stdout().lock();
        if ui.json {
            serde_json::to_writer(&mut out, &rates).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            write!(out, "{}", text(&rates, ui))?;
        }
        out.flush()?;
        if args.once {
            return Ok(());
        }
        before = now;
    }
}

fn text(rates: &Rates, ui: Ui) -> String {
    let mut out = match (&rates.graph, rates.seconds) {
        (Some(graph), Some(seconds)) => format!("graph {}, over {seconds:.1} s\n", ui.bold(graph)),
        _ => "no graph\n".to_owned(),
    };
    for section in sections::sections(rates, Order::Rate, "") {
        let (titles, rows) = lines::lines(&section, usize::MAX, 0, usize::MAX);
        out.push_str(&format!("\n{}\n", ui.bold(&titles)));
        for row in rows {
            out.push_str(&if row.alarm { ui.bad(&row.text) } else { row.text });
            out.push('\n');
        }
    }
    out.push('\n');
    out
}

/// The screen.
fn live(args: &Args, client: NodeClient, start: Instant, first: Reading) -> Result<(), Failure> {
    let (wanted, graphs) = channel();
    let (answers, readings) = channel();
    let (graph, interval) = (first.status.as_ref().map(|s| s.id.clone()), args.interval);
    thread::spawn(move || poll(&client, graph, interval, start, &graphs, &answers));
    let stop = end_on_signals().context("cannot catch signals")?;
    let keys = Keys::open().context("cannot use the terminal")?;

    let mut state = State::new(&args.node.label());
    state.update(Ok(first));
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let result = interact(&mut terminal, &mut state, &keys, &wanted, &readings, &stop);
    ratatui::restore();
    Ok(result.context("the terminal failed")?)
}

/// A flag that is set by the signals that end a program. It ends a little later even if it does not look at the flag:
/// who reads from a terminal that goes away meanwhile may not come back.
fn end_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let flag = stop.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            flag.store(true, Ordering::Relaxed);
            thread::sleep(LAST);
            ratatui::restore();
            std::process::exit(128 + signal);
        }
    })?;
    Ok(stop)
}

/// The terminal that keys come from: standard input or, if that is none, the one that the program belongs to.
struct Keys(Option<OwnedFd>);

impl Keys {
    fn open() -> io::Result<Keys> {
        let own = io::stdin().is_terminal();
        Ok(Keys(if own { None } else { Some(File::open("/dev/tty")?.into()) }))
    }

    /// Waits for a key, or some time. `false` if the terminal is gone.
    fn wait(&self) -> io::Result<bool> {
        let stdin = io::stdin();
        let fd: BorrowedFd<'_> = self.0.as_ref().map_or(stdin.as_fd(), AsFd::as_fd);
        let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
        let tick = PollTimeout::try_from(TICK).unwrap_or(PollTimeout::ZERO);
        match poll_fds(&mut fds, tick) {
            // A signal came, such as that of another size.
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        Ok(!fds[0].revents().is_some_and(|r| r.intersects(gone)))
    }
}

fn interact(
    terminal: &mut ratatui::DefaultTerminal,
    state: &mut State,
    keys: &Keys,
    wanted: &Sender<String>,
    readings: &Receiver<Result<Reading, String>>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut stale = true;
    while !stop.load(Ordering::Relaxed) {
        if stale {
            terminal.draw(|frame| screen::draw(frame, state))?;
            stale = false;
        }
        if !keys.wait()? {
            return Ok(());
        }
        while event::poll(Duration::ZERO)? {
            stale = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                match state.key(key) {
                    Effect::Draw => {}
                    Effect::Quit => return Ok(()),
                    // An error only says that the thread ended.
                    Effect::Watch(graph) => _ = wanted.send(graph),
                }
            }
        }
        for reading in readings.try_iter() {
            state.update(reading);
            stale = true;
        }
    }
    Ok(())
}

/// Asks the node every interval, and at once when another graph is wanted, until nobody listens.
fn poll(
    client: &NodeClient,
    mut graph: Option<String>,
    interval: Duration,
    start: Instant,
    graphs: &Receiver<String>,
    answers: &Sender<Result<Reading, String>>,
) {
    let mut wait = interval;
    loop {
        match graphs.recv_timeout(wait) {
            Ok(wanted) => graph = Some(graphs.try_iter().last().unwrap_or(wanted)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let asked = Instant::now();
        let reading = read(client, graph.as_deref(), start).map_err(|e| e.to_string());
        if answers.send(reading).is_err() {
            return;
        }
        wait = interval.saturating_sub(asked.elapsed());
    }
}
