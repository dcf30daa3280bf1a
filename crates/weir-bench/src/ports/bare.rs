//! Sockets alone: sending into a link behind which nobody listens, and receiving from one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use weir_io::interface::{self, Method};
use weir_io::{Poller, Port};
use weir_packet::Packet;

use super::forward::Forwarder;
use super::lab::Lab;
use super::load::{Pinned, blast, frame};
use super::{ENGINE, Effort, Figure, PPS};
use crate::stats::Spread;

const BATCH: usize = 32;

/// Sending and receiving by each method.
pub fn measure(effort: Effort, all: &mut Vec<Figure>, _: &mut Vec<String>) -> Result<()> {
    for (method, name) in [(Method::Packet, "AF_PACKET"), (Method::Xdp, "AF_XDP")] {
        let mut add = |what: &str, job: fn(Method, Duration) -> Result<f64>| {
            let rates: Result<Vec<f64>> = (0..effort.samples).map(|_| job(method, effort.time)).collect();
            let who = format!("{name} socket alone, {what}");
            all.push(Figure { what: PPS.into(), who, value: Spread::of(rates?), note: String::new() });
            anyhow::Ok(())
        };
        add("sending", send)?;
        add("receiving", receive)?;
    }
    Ok(())
}

fn lab() -> Result<Lab> {
    let lab = Lab::new()?;
    Forwarder::Wire.start(&lab)?;
    Ok(lab)
}

/// Millions of packets a second that a port sends.
fn send(method: Method, time: Duration) -> Result<f64> {
    let lab = lab()?;
    let options = interface::Options { method, ..Default::default() };
    let mut port = interface::open_in(&lab.netns("sender"), "eth0", &options)?;
    let _pinned = Pinned::here()?;
    let frame = frame(0);
    let (before, start) = (lab.received()?, Instant::now());
    let mut batch = Vec::with_capacity(BATCH);
    while start.elapsed() < time {
        while batch.len() < BATCH {
            batch.push(Packet::from_bytes(&frame)?);
        }
        port.send(&mut batch)?;
    }
    let (after, elapsed) = (lab.received()?, start.elapsed());
    Ok((after - before) as f64 / elapsed.as_secs_f64() / 1e6)
}

/// Millions of packets a second that a port receives, on a processor of its own.
fn receive(method: Method, time: Duration) -> Result<f64> {
    let lab = lab()?;
    let options = interface::Options { method, ..Default::default() };
    let mut port = interface::open_in(&lab.netns("sink"), "eth0", &options)?;
    let receiver = std::thread::spawn(move || {
        if std::thread::available_parallelism().is_ok_and(|n| n.get() > ENGINE) {
            let mut one = nix::sched::CpuSet::new();
            one.set(ENGINE)?;
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one)?;
        }
        count(&mut *port, time)
    });
    blast(&lab, time + time / 2)?;
    match receiver.join() {
        Ok(rate) => rate,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Receives for `time` from the first packet on.
fn count(port: &mut dyn Port, time: Duration) -> Result<f64> {
    let poller = Poller::new()?;
    if let Some(fd) = port.fd() {
        poller.add(0, fd)?;
    }
    let (mut out, mut ready) = (Vec::with_capacity(BATCH), Vec::new());
    poller.sleep(Some(Duration::from_secs(5)), &mut ready)?;
    let (mut n, start) = (0, Instant::now());
    while start.elapsed() < time {
        if port.receive(&mut out, BATCH)? == 0 {
            poller.sleep(Some(Duration::from_millis(10)), &mut ready)?;
        }
        n += out.len();
        Packet::free(&mut out);
    }
    ensure!(n > 0, "nothing was received");
    Ok(n as f64 / start.elapsed().as_secs_f64() / 1e6)
}
