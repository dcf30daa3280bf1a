//! Functions that move between nodes under traffic (Scylla paper, figure 10): three namespaces as machines, a NAT that goes from one to the next each second.

pub mod lab;
pub mod traffic;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::plots::lines::{Line, Lines};
use crate::stats::Spread;
use lab::{Lab, Moved};
use traffic::Received;

/// Flows of the stream, and its packets a second.
const FLOWS: usize = 500;
const RATE: u64 = 10_000;

/// Moves of a function with so many mappings.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Case {
    /// Flows whose mappings the NAT has.
    pub flows: usize,
    /// Moves.
    pub moves: usize,
    /// Moves that failed.
    pub failed: usize,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that did not come.
    pub lost: u64,
    /// Of these, those that tunnels between nodes lost: on a machine that is too slow for all of them.
    pub by_tunnels: u64,
    /// Packets for which there was no space to wait.
    pub dropped: u64,
    /// Packets that came after a later one of their flow.
    pub reordered: u64,
    /// Packets that came again.
    pub doubled: u64,
    /// Microseconds from the first request after which a packet may wait to the answer that the function goes on: the median and the 99th of a hundred.
    pub pause: [f64; 2],
    /// The longest time without a packet around each move, in microseconds, likewise.
    pub gap: [f64; 2],
    /// Microseconds that `weir migrate --plan` expected before the first move.
    pub expected: f64,
    /// Bytes of the state of the first move.
    pub bytes: u64,
    /// Megabits a second at the receiver, by seconds since the first move (figure 10).
    pub rate: Vec<(f64, f64)>,
}

/// Measures them.
pub fn measure(quick: bool, skipped: &mut Vec<String>) -> Vec<Case> {
    let mut all = Vec::new();
    let moves = if quick { 10 } else { 100 };
    let many = if quick { 10_000 } else { 100_000 };
    for (flows, moves) in [(FLOWS, moves), (many, moves / 2)] {
        match case(flows, moves) {
            Ok(case) => all.push(case),
            Err(e) => skipped.push(format!("migration: {flows} flows: {e:#}")),
        }
    }
    all
}

fn case(flows: usize, moves: usize) -> Result<Case> {
    let lab = Lab::new()?;
    let mut receiver = lab.traffic("h3", &["receive"])?;
    receiver.until_ready()?;
    if flows > FLOWS {
        lab.traffic("h1", &["fill", &(flows - FLOWS).to_string()])?.answer()?;
    }
    let sender = lab.traffic("h1", &["send", "10.2.0.3", &FLOWS.to_string(), &RATE.to_string()])?;
    std::thread::sleep(Duration::from_secs(2));
    let plan = lab.migrate("n2", true)?;
    let (mut done, mut failed, mut bytes) = (Vec::new(), 0, 0);
    for i in 0..moves {
        let begun = (Instant::now(), now());
        match lab.migrate(["n2", "n3", "n1"][i % 3], false) {
            Ok(moved) => {
                bytes = if bytes == 0 { moved.bytes } else { bytes };
                done.push((moved, begun.1, now()));
            }
            Err(e) => {
                eprintln!("migration: {e:#}");
                failed += 1;
            }
        }
        std::thread::sleep(Duration::from_secs(1).saturating_sub(begun.0.elapsed()));
    }
    std::thread::sleep(Duration::from_millis(500));
    let sent: u64 = sender.answer()?.trim().parse().context("how many were sent")?;
    std::thread::sleep(Duration::from_secs(1));
    let received: Received = serde_json::from_str(&receiver.answer()?).context("what was received")?;
    ensure!(!done.is_empty() && received.packets > 0, "nothing moved, or nothing came");
    Ok(said(flows, moves, failed, sent, (plan, bytes), &done, &received))
}

fn said(
    flows: usize,
    moves: usize,
    failed: usize,
    sent: u64,
    (plan, bytes): (Moved, u64),
    done: &[(Moved, u64, u64)],
    received: &Received,
) -> Case {
    let pauses = done.iter().map(|(m, ..)| m.pause_micros as f64).collect();
    // Around each move.
    let gap = |(_, from, to): &(Moved, u64, u64)| {
        let within = received.gaps.iter().filter(|(at, _)| (*from..*to + 200_000_000).contains(at));
        within.map(|(_, gap)| *gap as f64 / 1e3).fold(0.0, f64::max)
    };
    let first = done.first().map_or(0, |d| d.1) / 10_000_000;
    // A frame of 64 bytes of payload has 106 on the wire of the host.
    let rate = |(slot, packets): &(u64, u64)| {
        let seconds = (*slot as f64 - first as f64) / 100.0;
        (-1.0..20.0).contains(&seconds).then(|| (seconds, *packets as f64 * 100.0 * 106.0 * 8.0 / 1e6))
    };
    Case {
        flows,
        moves,
        failed,
        sent,
        lost: sent.saturating_sub(received.packets - received.doubled),
        by_tunnels: done.iter().map(|(m, ..)| m.missing).sum(),
        dropped: done.iter().map(|(m, ..)| m.dropped).sum(),
        reordered: received.reordered,
        doubled: received.doubled,
        pause: percentiles(pauses),
        gap: percentiles(done.iter().map(gap).collect()),
        expected: plan.pause_micros as f64,
        bytes,
        rate: received.by_time.iter().filter_map(rate).collect(),
    }
}

/// The median and the 99th of a hundred.
fn percentiles(mut all: Vec<f64>) -> [f64; 2] {
    all.sort_by(f64::total_cmp);
    let at = |share: usize| {
        all.get((all.len() * share / 100).min(all.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    };
    [at(50), at(99)]
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64)
}

/// Figure 10: what arrives while the function moves each second.
pub fn draw(cases: &[Case], folder: &Path) -> Result<()> {
    if cases.is_empty() {
        return Ok(());
    }
    let line = |c: &Case| Line {
        name: format!("NAT with {} flows", c.flows),
        points: c.rate.iter().filter(|(t, _)| *t >= 0.0).map(|&(t, r)| (t, Spread::of([r]))).collect(),
    };
    let lines = Lines {
        x: "seconds",
        y: "Mb/s at the receiver",
        log: false,
        lines: cases.iter().map(line).collect(),
    };
    lines.draw(
        "A NAT moves to another node each second (Scylla paper, figure 10)",
        &folder.join("migration.svg"),
    )
}

/// The part of the report.
pub fn markdown(cases: &[Case]) -> String {
    if cases.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "\n## Functions that move between nodes\n\nThree namespaces as machines on this one; a NAT goes to another node each second, while {RATE} packets a second of {FLOWS} flows pass it. Pause: from the first request \
         after which a packet may wait until the function goes on, as `weir migrate` says it; gap: the longest time without a packet around a move, as the receiver sees it. OpenNF (SIGCOMM 2014, figure 10) has 100 to 250 ms for 500 flows; the Scylla paper \
         shows a dip of 25 to 30 Mb/s (figure 10).\n\n| flows | moves | failed | sent | lost | of these by tunnels | dropped while waiting | reordered | doubled | pause, ms, median | 99 % | gap, ms, median | 99 % | expected, ms | state, bytes |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for c in cases {
        let ms = |micros: f64| format!("{:.1}", micros / 1e3);
        let cells = [
            c.flows.to_string(),
            c.moves.to_string(),
            c.failed.to_string(),
            c.sent.to_string(),
            c.lost.to_string(),
            c.by_tunnels.to_string(),
            c.dropped.to_string(),
            c.reordered.to_string(),
            c.doubled.to_string(),
            ms(c.pause[0]),
            ms(c.pause[1]),
            ms(c.gap[0]),
            ms(c.gap[1]),
            ms(c.expected),
            c.bytes.to_string(),
        ];
        out += &format!("| {} |\n", cells.join(" | "));
    }
    if let [few, .., many] = cases {
        out += &format!(
            "\nWith {} flows the median pause is {:.1} times that with {}.\n\n![Figure 10](plots/migration.svg)\n",
            many.flows,
            many.pause[0] / few.pause[0],
            few.flows
        );
    }
    out
}
