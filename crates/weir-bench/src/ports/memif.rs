//! Shared memory between processes, beside testpmd over the same protocol (`net_memif`).

use std::path::Path;
use std::process::Command;
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use weir_io::memif::MemifPort;
use weir_io::{Poller, Port, PortError};
use weir_packet::Packet;

use super::load::frame;
use super::{ENGINE, Effort, Figure, MEMIF, SENDER};
use crate::references::process::{Folder, Running, need_root, program};
use crate::stats::Spread;

const BATCH: usize = 32;
/// The thread of testpmd that forwards; the main thread reads commands.
const WORKER: &str = "rte-worker-";

/// Each arrangement of two ends, of ours and of testpmd's.
pub fn measure(effort: Effort, all: &mut Vec<Figure>, skipped: &mut Vec<String>) -> Result<()> {
    type Job = fn(&Path, Duration) -> Result<f64>;
    let jobs: [(&str, Job); 6] = [
        ("testpmd, both ends in a thread", |socket, time| testpmd_alone(socket, time)),
        ("Weir, both ends in a thread", alone),
        ("testpmd to testpmd, two processes on a processor", |s, time| {
            testpmd_pair(s, time, [SENDER, SENDER])
        }),
        ("Weir to Weir, two processes on a processor", |s, time| pair(s, time, [SENDER, SENDER])),
        ("testpmd to testpmd, a processor each", |s, time| testpmd_pair(s, time, [SENDER, ENGINE])),
        ("Weir to Weir, a processor each", |s, time| pair(s, time, [SENDER, ENGINE])),
    ];
    for (who, job) in jobs {
        let folder = Folder::new("memif")?;
        let rates: Result<Vec<f64>> =
            (0..effort.samples).map(|_| job(&folder.file("m.sock"), effort.time)).collect();
        match rates {
            Ok(rates) => {
                let value = Spread::of(rates);
                let reference = all.last().filter(|f| f.what == MEMIF && f.who.starts_with("testpmd"));
                let note = reference
                    .map_or(String::new(), |f| format!("{:.2} of testpmd's", value.median / f.value.median));
                all.push(Figure { what: MEMIF.into(), who: who.into(), value, note });
            }
            Err(e) => skipped.push(format!("ports, memif, {who}: {e:#}")),
        }
    }
    Ok(())
}

fn pin(processor: usize) -> Result<()> {
    let mut one = CpuSet::new();
    one.set(processor)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &one)?)
}

fn open(socket: &Path, role: &str) -> Result<MemifPort> {
    Ok(MemifPort::open(&format!("memif:{}?role={role}", socket.display()).parse()?)?)
}

/// Waits until a port has its peer.
fn connect(port: &mut MemifPort) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(10);
    while port.is_up() != Some(true) {
        ensure!(Instant::now() < end, "no peer came");
        let _ = port.receive(&mut Vec::new(), 1);
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Fills a batch.
fn fill(batch: &mut Vec<Packet>, frame: &[u8]) -> Result<()> {
    while batch.len() < BATCH {
        batch.push(Packet::from_bytes(frame)?);
    }
    Ok(())
}

/// Millions of packets a second that a thread sends by one end and receives by the other.
fn alone(socket: &Path, time: Duration) -> Result<f64> {
    let job = || {
        pin(SENDER)?;
        let (mut to, mut from) = (open(socket, "master")?, open(socket, "slave")?);
        connect(&mut to)?;
        connect(&mut from)?;
        let (frame, mut batch, mut out) = (frame(0), Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut run = |time: Duration| {
            let (mut n, start) = (0, Instant::now());
            while start.elapsed() < time {
                for _ in 0..16 {
                    fill(&mut batch, &frame)?;
                    from.send(&mut batch)?;
                    n += to.receive(&mut out, BATCH)?;
                    Packet::free(&mut out);
                }
            }
            anyhow::Ok(n as f64 / start.elapsed().as_secs_f64() / 1e6)
        };
        run(time / 4)?;
        run(time)
    };
    in_thread(job)
}

/// Runs something in a thread of its own, whose processor may be chosen.
fn in_thread<T: Send>(job: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let done = std::thread::scope(|scope| scope.spawn(job).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Millions of packets a second that go to another process.
fn pair(socket: &Path, time: Duration, [sender, receiver]: [usize; 2]) -> Result<f64> {
    in_thread(|| {
        // The other process keeps to the processor of who starts it.
        pin(receiver)?;
        let mut sink = Command::new(std::env::current_exe()?);
        let _sink = Running::start(sink.arg("--memif-sink").arg(socket))?;
        pin(sender)?;
        let mut port = open(socket, "slave")?;
        connect(&mut port)?;
        let (frame, mut batch) = (frame(0), Vec::with_capacity(BATCH));
        let mut run = |time: Duration| {
            let (before, start) = (port.stats().tx_packets, Instant::now());
            while start.elapsed() < time {
                for _ in 0..16 {
                    fill(&mut batch, &frame)?;
                    port.send(&mut batch)?;
                    if !batch.is_empty() {
                        yield_now();
                    }
                }
            }
            // What is still in the ring is too little to matter.
            let sent = port.stats().tx_packets - before;
            anyhow::Ok(sent as f64 / start.elapsed().as_secs_f64() / 1e6)
        };
        run(time / 4)?;
        run(time)
    })
}

/// The other process: takes packets until its peer is gone.
pub fn sink(socket: &Path) -> Result<()> {
    let mut port = open(socket, "master")?;
    connect(&mut port)?;
    let poller = Poller::new()?;
    poller.add(0, port.fd().context("it has a descriptor")?)?;
    let (mut out, mut ready) = (Vec::with_capacity(BATCH), Vec::new());
    loop {
        match port.receive(&mut out, BATCH) {
            Ok(BATCH) => {}
            Ok(_) => poller.sleep(None, &mut ready)?,
            Err(PortError::NoPeer { .. }) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        Packet::free(&mut out);
    }
}

/// A testpmd with these devices on a processor.
fn testpmd(devices: &[String], processor: usize, more: &[&str]) -> Result<Running> {
    need_root()?;
    let program = program("dpdk-testpmd", "dpdk-dev")?;
    let mut command = Command::new("stdbuf");
    command.arg("-oL").arg(program).args(["--no-huge", "-m", "128", "--no-pci", "--no-telemetry"]);
    command.arg(format!("--lcores=0@{processor},1@{processor}"));
    let name = devices.join(" ").bytes().fold(processor, |h, b| h.wrapping_mul(31) ^ usize::from(b));
    command.arg(format!("--file-prefix=weir-bench-{}-{name:x}", std::process::id()));
    devices.iter().for_each(|device| _ = command.args(["--vdev", device]));
    command.args(["--", "-i", "--nb-cores=1", "--total-num-mbufs=8192"]);
    command.args(["--disable-link-check", "--no-flush-rx"]).args(more);
    Running::start(&mut command)
}

fn device(number: u32, role: &str, socket: &Path) -> String {
    format!("net_memif{number},role={role},socket-abstract=no,socket={}", socket.display())
}

fn start(testpmd: &mut Running, command: &str) -> Result<()> {
    testpmd.say(command)?;
    testpmd.hear("that it forwards", |line| line.contains("packet forwarding - ports=").then_some(()))
}

/// Stops forwarding; gives what stands behind a word in the sums.
fn stop(testpmd: &mut Running, word: &str) -> Result<u64> {
    testpmd.say("stop")?;
    testpmd.hear("statistics", |line| line.contains("Accumulated forward statistics").then_some(()))?;
    testpmd.hear("how many packets there were", |line| {
        let (_, behind) = line.split_once(word)?;
        behind.split_whitespace().next()?.parse().ok()
    })
}

/// Millions of packets a second that a thread of testpmd takes from one end and gives to the other.
fn testpmd_alone(socket: &Path, time: Duration) -> Result<f64> {
    let devices = [device(0, "server", socket), device(1, "client", socket)];
    let mut testpmd = testpmd(&devices, SENDER, &["--forward-mode=io"])?;
    sleep(Duration::from_millis(500));
    let (mut all, mut taken) = (0, Duration::ZERO);
    for time in [time / 4, time] {
        let before = testpmd.thread_time(WORKER).unwrap_or_default();
        // 256 packets go round in each direction.
        start(&mut testpmd, "start tx_first 8")?;
        sleep(time);
        all = stop(&mut testpmd, "TX-packets:")?;
        taken = testpmd.thread_time(WORKER)? - before;
    }
    ensure!(all > 0, "no packet went round");
    Ok(all as f64 / taken.as_secs_f64() / 1e6)
}

/// Millions of packets a second that go from one testpmd to another.
fn testpmd_pair(socket: &Path, time: Duration, [sender, receiver]: [usize; 2]) -> Result<f64> {
    let mut to = testpmd(&[device(0, "server", socket)], receiver, &["--forward-mode=rxonly"])?;
    start(&mut to, "start")?;
    let mut from = testpmd(&[device(0, "client", socket)], sender, &["--forward-mode=txonly"])?;
    start(&mut from, "start")?;
    sleep(time / 4);
    stop(&mut to, "RX-packets:")?;
    start(&mut to, "start")?;
    let begin = Instant::now();
    sleep(time);
    let (received, elapsed) = (stop(&mut to, "RX-packets:")?, begin.elapsed());
    ensure!(received > 0, "no packet came");
    Ok(received as f64 / elapsed.as_secs_f64() / 1e6)
}
