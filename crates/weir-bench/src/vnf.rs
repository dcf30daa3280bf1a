//! Functions that end connections: B of the chain A, B, C (libVNF paper, figure 2) with the library, beside a server that is written by
//! hand in C for epoll. B has a processor of its own; A and C share another. For each request B opens a connection to C.

mod balancer;
mod state;

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use weir_vnf::{Buffer, Connection, Core, Error, Function, Protocol, Vnf};

use crate::functions::Figure;
use crate::references::process::{Folder, run};
use crate::stats::Spread;

const LEN: usize = 32;
/// Requests that are under way at once.
const CONNECTIONS: usize = 32;
/// Connections that only exist.
const IDLE: usize = 5_000;

/// What the figures are called.
const RATE: &str = "requests a second";
const LATE: &str = "99 % answered within, µs";
const COST: &str = "requests per second of B's processor";
const WHATS: [&str; 3] = [RATE, LATE, COST];

/// Programs for B, the first of which the others are held against.
const KINDS: [&str; 4] =
    ["epoll, in C", "weir-vnf, in Rust", "weir-vnf, in C", "weir-vnf, in Rust, and 5,000 idle connections"];

/// Measures them.
pub fn measure(samples: usize, time: Duration, skipped: &mut Vec<String>) -> Vec<Figure> {
    let mut all = Vec::new();
    if let Err(error) = subjects(samples, time, &mut all, skipped) {
        skipped.push(format!("vnf: {error:#}"));
    }
    match state::measure(samples, time) {
        Ok(figures) => all.extend(figures),
        Err(error) => skipped.push(format!("vnf: {error:#}")),
    }
    all
}

/// B with the library, and one loop: this program starts itself so.
pub fn serve(ports: &[u16]) -> Result<()> {
    let [port, c] = ports else { anyhow::bail!("two ports") };
    Ok(example::serve(*port, *c, 1)?)
}

#[expect(dead_code, reason = "its main function is that of the example")]
#[path = "../../../examples/vnf/b.rs"]
mod example;

/// A program for B or C.
struct Server(Child);

impl Server {
    fn start(command: &mut Command, cpu: usize, port: u16) -> Result<Self> {
        // Its threads are where it is started.
        let server = on(cpu, || Ok(Self(command.spawn().with_context(|| format!("{command:?}"))?)))?;
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(begun.elapsed() < Duration::from_secs(10), "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Seconds of processors that it has used.
    fn seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // Of the time in the program and in the kernel, in hundredths of a second; see proc(5).
        let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<f64>().ok()).unwrap_or(f64::NAN);
        Ok((ticks(11) + ticks(12)) / 100.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does something while this thread is on a processor, the n-th that it may use.
fn on<T>(n: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let all = sched_getaffinity(Pid::from_raw(0))?;
    let usable: Vec<usize> = (0..CpuSet::count()).filter(|cpu| all.is_set(*cpu).unwrap_or(false)).collect();
    let mut one = CpuSet::new();
    one.set(usable[n % usable.len()])?;
    sched_setaffinity(Pid::from_raw(0), &one)?;
    let done = work();
    sched_setaffinity(Pid::from_raw(0), &all)?;
    done
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn compile(source: &str, more: &[PathBuf], folder: &Folder) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = folder.file(&source.replace(['/', '.'], "-"));
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O2", "-I"]).arg(root.join("include"));
    command.arg(root.join("examples/vnf").join(source)).args(more).args(["-lpthread", "-ldl", "-lm", "-o"]);
    run(command.arg(&program), "")?;
    Ok(program)
}

fn subjects(samples: usize, time: Duration, all: &mut Vec<Figure>, skipped: &mut Vec<String>) -> Result<()> {
    let folder = Folder::new("vnf")?;
    let epoll = compile("without/b.c", &[], &folder)?;
    let c = compile("without/c.c", &[], &folder)?;
    let this = std::env::current_exe()?;
    let library = this.with_file_name("libweirvnf.a");
    let in_c = if library.exists() {
        Some(compile("b.c", std::slice::from_ref(&library), &folder)?)
    } else {
        skipped.push("vnf: weir-vnf in C: build it before, with cargo build --release -p weir-vnf-c".into());
        None
    };
    let built = library.exists().then_some(&*library);
    match balancer::measure(samples, time, &folder, built) {
        Ok(figures) => all.extend(figures),
        Err(error) => skipped.push(format!("vnf: {error:#}")),
    }
    let c_port = free_port()?;
    let _c = Server::start(Command::new(c).arg(c_port.to_string()).env("WEIR_VNF_CORES", "1"), 1, c_port)?;
    let mut found: Vec<[Vec<f64>; 3]> = KINDS.iter().map(|_| Default::default()).collect();
    for _ in 0..samples {
        for (kind, found) in KINDS.iter().zip(&mut found) {
            let b_port = free_port()?;
            let ports = [b_port.to_string(), c_port.to_string()];
            let mut command = match *kind {
                "epoll, in C" => Command::new(&epoll),
                "weir-vnf, in C" => match &in_c {
                    Some(program) => Command::new(program),
                    None => continue,
                },
                _ => {
                    let mut command = Command::new(&this);
                    command.arg("--vnf-b");
                    command
                }
            };
            let b = Server::start(command.args(ports).env("WEIR_VNF_CORES", "1"), 0, b_port)?;
            let idle = if kind.contains("idle") { IDLE } else { 0 };
            let idle = (0..idle).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, b_port)));
            let idle = idle.collect::<Result<Vec<_>, _>>().context("idle connections")?;
            let sample = sample(&b, b_port, time).with_context(|| (*kind).to_owned())?;
            found.iter_mut().zip(sample).for_each(|(list, value)| list.push(value));
            drop(idle);
        }
    }
    for (kind, found) in KINDS.iter().zip(found) {
        for (what, values) in WHATS.iter().zip(found) {
            if !values.is_empty() {
                all.push(Figure { what: (*what).into(), kind: (*kind).into(), value: Spread::of(values) });
            }
        }
    }
    Ok(())
}

/// Asks B for so long; the figures in the order of [`WHATS`].
fn sample(b: &Server, port: u16, time: Duration) -> Result<[f64; 3]> {
    exchange(port, time, || b.seconds())
}

/// Asks the server at a port for so long, of which `seconds` says what its processor has worked.
fn exchange(port: u16, time: Duration, seconds: impl Fn() -> Result<f64>) -> Result<[f64; 3]> {
    let (sender, answers) = channel();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let runs = on(1, || {
        Ok(Vnf::new(1).start(move || A {
            to,
            begun: Instant::now(),
            asked: Vec::new(),
            answers: sender.clone(),
        })?)
    })?;
    let mut latencies = Vec::new();
    let mut take = |time: Duration| {
        let begun = Instant::now();
        latencies.clear();
        while begun.elapsed() < time {
            latencies.push(answers.recv_timeout(Duration::from_secs(10)).context("B does not answer")??);
        }
        Ok::<f64, anyhow::Error>(begun.elapsed().as_secs_f64())
    };
    take(time / 4)?;
    let before = seconds()?;
    let took = take(time)?;
    let used = seconds()? - before;
    runs.stop()?;
    let count = latencies.len() as f64;
    latencies.sort_unstable();
    let late = latencies[latencies.len() * 99 / 100];
    Ok([count / took, late.as_secs_f64() * 1e6, count / used])
}

/// A: sends the next request on a connection when the last is answered.
struct A {
    to: SocketAddr,
    begun: Instant,
    asked: Vec<(Connection, Instant)>,
    answers: Sender<Result<Duration>>,
}

impl A {
    fn ask(&mut self, core: &mut Core<Self>, n: usize) {
        let connection = self.asked[n].0;
        self.asked[n].1 = Instant::now();
        // B fails if that does.
        let _ = core.send_bytes(connection, &[self.begun.elapsed().as_nanos() as u8; LEN]);
    }
}

impl Function for A {
    type Request = ();

    fn start(&mut self, core: &mut Core<Self>) {
        for n in 0..CONNECTIONS {
            if let Ok(connection) = core.connect(self.to, Protocol::Tcp) {
                self.asked.push((connection, Instant::now()));
                self.ask(core, n);
            }
        }
    }

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        if let Some(n) = self.asked.iter().position(|(c, _)| *c == connection) {
            let right = data.len() == LEN && data.iter().all(|byte| *byte == data[0]);
            let answer =
                if right { Ok(self.asked[n].1.elapsed()) } else { Err(anyhow::anyhow!("a wrong answer")) };
            let _ = self.answers.send(answer);
            self.ask(core, n);
        }
    }

    fn error(&mut self, _: &mut Core<Self>, _: Connection, error: &Error) {
        let _ = self.answers.send(Err(anyhow::anyhow!("B: {error}")));
    }
}

/// The part of the report.
pub fn markdown(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "\n## Functions that end connections\n\nB of the chain A, B, C (libVNF paper, figure 2), on a processor of its own: for each request of 32 bytes it opens a connection \
         to C, asks, and answers; {CONNECTIONS} requests are under way. A and C share another processor.\n\n| B is |"
    );
    WHATS.iter().for_each(|what| _ = write!(out, " {what} |"));
    out += "\n|---|---:|---:|---:|\n";
    for kind in KINDS {
        let find = |what: &str| figures.iter().find(|f| f.what == what && f.kind == kind);
        if find(RATE).is_some() {
            _ = write!(out, "| {kind} |");
            WHATS.iter().for_each(|what| {
                _ = write!(out, " {} |", find(what).map_or("–".to_owned(), |f| f.value.show(0)));
            });
            out.push('\n');
        }
    }
    let text = "State (figure 9): a server reads a value for each request, and does nothing else. Redis and who asks share the other processor.";
    out += &beside(figures, state::RATE, &state::KINDS, 0, text);
    let text = "A load balancer for TCP, on a processor of its own; clients and the replica share another.";
    out += &beside(figures, balancer::RATE, &balancer::KINDS, 1, text);
    out
}

/// A table of kinds of one figure, each beside the first.
fn beside(figures: &[Figure], what: &str, kinds: &[&str], digits: usize, text: &str) -> String {
    let find = |kind: &str| figures.iter().find(|f| f.what == what && f.kind == kind);
    let Some(first) = find(kinds[0]) else { return String::new() };
    let mut out = format!("\n{text}\n\n| | {what} | beside the first |\n|---|---:|---:|\n");
    for figure in kinds.iter().filter_map(|kind| find(kind)) {
        let ratio = figure.value.median / first.value.median;
        _ = writeln!(out, "| {} | {} | {ratio:.2} |", figure.kind, figure.value.show(digits));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_for_b_has_its_row() {
        let figure = |what: &str, kind: &str| Figure {
            what: what.into(),
            kind: kind.into(),
            value: Spread::of([7.0]),
        };
        let text = markdown(&[figure(RATE, KINDS[0]), figure(COST, KINDS[0]), figure(RATE, KINDS[1])]);
        assert!(
            text.contains(
                "\n| epoll, in C | 7 (7–7) | – | 7 (7–7) |\n| weir-vnf, in Rust | 7 (7–7) | – | – |\n"
            ),
            "{text}"
        );
        let text = markdown(&[figure(state::RATE, state::KINDS[0]), figure(state::RATE, state::KINDS[1])]);
        assert!(text.ends_with("\n| local | 7 (7–7) | 1.00 |\n| remote | 7 (7–7) | 1.00 |\n"), "{text}");
        assert_eq!(markdown(&[]), "");
    }
}
