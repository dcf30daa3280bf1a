//! Packets from the sender to the sink: as many as go, at a pace, or one by one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use weir_io::Port;
use weir_io::af_packet::{AfPacketPort, Options};
use weir_net::{EtherAddr, build};
use weir_packet::Packet;

use super::SENDER;
use super::lab::{Lab, SINK};

const BATCH: usize = 32;
/// How long packets may be on their way after the last was sent.
const ON_THE_WAY: Duration = Duration::from_millis(50);
/// Packets a second below which no rate is looked for.
const LEAST: f64 = 1000.0;
/// By what a rate is multiplied that lost packets.
const LOWER: f64 = 0.8;

/// A frame of 64 bytes with its checksum, of a flow that `number` chooses.
pub fn frame(number: u16) -> Vec<u8> {
    let at = |host| std::net::Ipv4Addr::new(10, 0, 0, host);
    let mut frame = build::udp4((at(1), 1024 + number % 64), (at(2), 9), &[0; 18]);
    frame[..6].copy_from_slice(&SINK.0);
    frame[6..12].copy_from_slice(&EtherAddr([2, 0, 0, 0, 1, 1]).0);
    frame
}

/// The thread keeps to the sender's processor until this is dropped.
pub struct Pinned(Option<CpuSet>);

impl Pinned {
    /// Binds the thread.
    pub fn here() -> Result<Pinned> {
        let me = Pid::from_raw(0);
        let before = sched_getaffinity(me)?;
        let mut one = CpuSet::new();
        one.set(SENDER)?;
        sched_setaffinity(me, &one)?;
        Ok(Pinned(Some(before)))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            _ = sched_setaffinity(Pid::from_raw(0), &before);
        }
    }
}

fn sender(lab: &Lab) -> Result<AfPacketPort> {
    let options = Options { bypass_qdisc: true, promiscuous: false, ..Options::default() };
    Ok(AfPacketPort::open_in(&lab.netns("sender"), "eth0", &options)?)
}

/// Sends as fast as possible; millions of packets a second that came to the sink.
pub fn blast(lab: &Lab, time: Duration) -> Result<f64> {
    let _pinned = Pinned::here()?;
    let mut port = sender(lab)?;
    let frames: Vec<Vec<u8>> = (0..64).map(frame).collect();
    let mut run = |time: Duration| {
        let (before, start) = (lab.received()?, Instant::now());
        let mut batch = Vec::with_capacity(BATCH);
        while start.elapsed() < time {
            for frame in &frames {
                batch.push(Packet::from_bytes(frame)?);
                if batch.len() == BATCH {
                    port.send(&mut batch)?;
                }
            }
        }
        let (after, elapsed) = (lab.received()?, start.elapsed());
        anyhow::Ok((after - before) as f64 / elapsed.as_secs_f64() / 1e6)
    };
    run(time / 4)?;
    let rate = run(time)?;
    ensure!(rate > 0.0, "no packet came through");
    Ok(rate)
}

/// The result of sending at a pace.
#[derive(Debug, Clone, Copy)]
pub struct Paced {
    /// Packets sent.
    pub sent: u64,
    /// Packets that did not come.
    pub lost: u64,
    /// The longest time for which the sender itself stood still: the machine did something else.
    pub pause: Duration,
}

/// Sends `rate` packets a second.
pub fn paced(lab: &Lab, rate: f64, time: Duration) -> Result<Paced> {
    let _pinned = Pinned::here()?;
    let mut port = sender(lab)?;
    let frames: Vec<Vec<u8>> = (0..64).map(frame).collect();
    let (before, start) = (lab.received()?, Instant::now());
    let (mut sent, mut next, mut batch) = (0, 0, Vec::with_capacity(BATCH));
    let (mut now, mut pause) = (Duration::ZERO, Duration::ZERO);
    while now < time {
        let before = std::mem::replace(&mut now, start.elapsed());
        pause = pause.max(now - before);
        let due = (now.as_secs_f64() * rate) as u64;
        if due <= sent {
            // Sleeping is too coarse for this, and the processor is this thread's.
            std::hint::spin_loop();
            continue;
        }
        for _ in sent..due.min(sent + BATCH as u64) {
            batch.push(Packet::from_bytes(&frames[next])?);
            next = (next + 1) % frames.len();
        }
        sent += port.send(&mut batch)? as u64;
    }
    std::thread::sleep(ON_THE_WAY);
    let received = lab.received()? - before;
    Ok(Paced { sent, lost: sent.saturating_sub(received), pause })
}

/// A rate at which no packet was lost in a whole trial, in packets a second: what short rounds of `time` find, lowered until
/// a `trial` passes.
pub fn no_loss_rate(lab: &Lab, time: Duration, trial: Duration) -> Result<f64> {
    let (mut good, mut bad) = (0.0, blast(lab, time)? * 1.5e6);
    for _ in 0..8 {
        let rate = f64::midpoint(good, bad);
        if paced(lab, rate, time)?.lost == 0 { good = rate } else { bad = rate }
    }
    while good >= LEAST {
        let found = paced(lab, good, trial)?;
        eprintln!("ports: trial at {:.3} million a second: {found:?}", good / 1e6);
        if found.lost == 0 {
            return Ok(good);
        }
        good *= LOWER;
    }
    Ok(0.0)
}

/// Median and 99th percentile of the time from before a packet is sent until it is received, in microseconds.
pub fn latency(lab: &Lab, time: Duration) -> Result<(f64, f64)> {
    let _pinned = Pinned::here()?;
    let mut port = sender(lab)?;
    let mut sink = AfPacketPort::open_in(&lab.netns("sink"), "eth0", &Options::default())?;
    let frame = frame(0);
    let (mut times, mut out) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    let mut lost = 0;
    while begin.elapsed() < time.max(Duration::from_millis(200)) {
        let start = Instant::now();
        port.send(&mut vec![Packet::from_bytes(&frame)?])?;
        loop {
            sink.receive(&mut out, BATCH)?;
            let came = out.drain(..).any(|p| p.bytes() == frame);
            let waited = start.elapsed();
            if came {
                times.push(waited.as_nanos() as f64 / 1000.0);
                break;
            }
            if waited > ON_THE_WAY {
                lost += 1;
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(1).saturating_sub(start.elapsed()));
    }
    ensure!(times.len() > 9 * lost, "{lost} packets were lost, {} came", times.len());
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    Ok((at(0.5), at(0.99)))
}
