//! Interfaces: the engine between two veth links, beside the kernel's own forwarding, Open vSwitch in user space, and bare
//! sockets.
//!
//! Three network namespaces stand in a row, joined by two links; who forwards is in the middle. The sender keeps to one
//! processor, the engine to another. The kernel forwards within the sender's system calls, so that its figures are those of
//! both together.

mod bare;
mod forward;
pub mod lab;
pub mod load;
pub mod memif;
mod tcp;

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::stats::Spread;
use forward::Forwarder;
use lab::Lab;

/// The processor that senders keep to.
const SENDER: usize = 0;
/// The processor that the engine keeps to, if there is a second.
const ENGINE: usize = 1;
/// How long a rate has to lose nothing before a soak.
const TRIAL: Duration = Duration::from_secs(10);

/// A measured value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// What is measured, and in which unit.
    pub what: String,
    /// Who forwards, or what is done.
    pub who: String,
    /// The figure, round by round.
    pub value: Spread,
    /// What belongs to it.
    pub note: String,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Rounds, whose median is given.
    pub samples: usize,
    /// How long packets are sent in a round.
    pub time: Duration,
    /// How long the soak takes; none if zero.
    pub soak: Duration,
}

/// Headings.
const PPS: &str = "64-byte packets, millions a second";
const LATENCY: &str = "one-way latency at 1,000 packets a second, microseconds";
const MEMIF: &str = "shared memory (memif), 64-byte packets, millions a second";
const TCP: &str = "iperf3 TCP, Gbit/s";
const SOAK: &str = "soak at 90 % of the no-loss rate: packets lost";

/// Measures everything; says in `skipped` what could not be.
pub fn measure(effort: Effort, skipped: &mut Vec<String>) -> Vec<Figure> {
    let mut all = Vec::new();
    type Step = fn(Effort, &mut Vec<Figure>, &mut Vec<String>) -> Result<()>;
    let steps: [(&str, Step); 5] = [
        ("shared memory", memif::measure),
        ("sockets alone", bare::measure),
        ("packets and latency", packets),
        ("TCP", tcp::measure),
        ("soak", soak),
    ];
    for (name, step) in steps {
        eprintln!("ports: {name}");
        if let Err(e) = step(effort, &mut all, skipped) {
            skipped.push(format!("ports, {name}: {e:#}"));
        }
    }
    all
}

fn packets(effort: Effort, all: &mut Vec<Figure>, skipped: &mut Vec<String>) -> Result<()> {
    for kind in Forwarder::ALL {
        let mut rates = Vec::new();
        let mut medians = Vec::new();
        let mut tails = Vec::new();
        let mut run = || {
            let lab = Lab::new()?;
            let _forwarder = kind.start(&lab)?;
            for _ in 0..effort.samples {
                rates.push(load::blast(&lab, effort.time)?);
                let (median, tail) = load::latency(&lab, effort.time)?;
                medians.push(median);
                tails.push(tail);
            }
            anyhow::Ok(())
        };
        if let Err(e) = run() {
            skipped.push(format!("ports, {}: {e:#}", kind.name()));
            continue;
        }
        let who = kind.name().to_owned();
        let figure = |what: &str, value, note| Figure { what: what.into(), who: who.clone(), value, note };
        all.push(figure(PPS, Spread::of(rates), String::new()));
        let note = format!("p99 {}", Spread::of(tails).show(1));
        all.push(figure(LATENCY, Spread::of(medians), note));
    }
    Ok(())
}

fn soak(effort: Effort, all: &mut Vec<Figure>, skipped: &mut Vec<String>) -> Result<()> {
    if effort.soak.is_zero() {
        return Ok(());
    }
    for kind in [Forwarder::Packet, Forwarder::Xdp] {
        let lab = Lab::new()?;
        let _forwarder = kind.start(&lab)?;
        let rate = load::no_loss_rate(&lab, effort.time, effort.soak.min(TRIAL))?;
        if rate == 0.0 {
            skipped.push(format!("soak, {}: every rate lost packets", kind.name()));
            continue;
        }
        let memory = resident();
        let load::Paced { sent, lost, pause } = load::paced(&lab, rate * 0.9, effort.soak)?;
        let note = format!(
            "of {sent} in {} s at {:.2} million a second; the sender itself stood still for up to {:.1} ms; resident memory {} \
             MB before and {} MB after",
            effort.soak.as_secs(),
            rate * 0.9 / 1e6,
            pause.as_secs_f64() * 1e3,
            memory,
            resident()
        );
        // A long time went into this: it is told before all is done.
        eprintln!("ports: soak, {}: {lost} lost {note}", kind.name());
        let value = Spread::of([lost as f64]);
        all.push(Figure { what: SOAK.into(), who: kind.name().into(), value, note });
    }
    Ok(())
}

/// Memory of this process in MB, in which the engine runs.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() / 1024
}

/// The section of the report; empty if nothing was measured.
pub fn markdown(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut out = "\n## Interfaces\n\nBetween two veth links, in network namespaces: the sender on one processor, the engine \
                   on another; the kernel forwards within the sender's system calls. Median (least–most) of the rounds. \
                   *Ratio* is the figure divided by the kernel's.\n"
        .to_owned();
    for what in [PPS, LATENCY, TCP, MEMIF, SOAK] {
        let of = || figures.iter().filter(|f| f.what == what);
        if of().next().is_none() {
            continue;
        }
        let kernel = of().find(|f| f.who.starts_with("kernel")).map(|f| f.value.median);
        _ = write!(
            out,
            "\n### {}\n\n| who | figure | ratio | beside it |\n|---|---:|---:|---|\n",
            capital(what)
        );
        for f in of() {
            let ratio = kernel.map_or(String::new(), |k| format!("{:.2}", f.value.median / k));
            _ = writeln!(out, "| {} | {} | {ratio} | {} |", f.who, f.value.show(3), f.note);
        }
    }
    out
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_under_their_headings() {
        assert_eq!(markdown(&[]), "");
        let figure = |what: &str, who: &str, n| Figure {
            what: what.into(),
            who: who.into(),
            value: Spread::of([n]),
            note: "x".into(),
        };
        let text =
            markdown(&[figure(PPS, "a", 1.0), figure(TCP, "a", 3.0), figure(PPS, "kernel bridge", 2.0)]);
        assert_eq!(text.matches("###").count(), 2);
        assert!(text.contains("### Iperf3 TCP, Gbit/s\n\n| who |"), "{text}");
        assert!(text.contains("| a | 1.000 (1.000–1.000) | 0.50 | x |\n| kernel bridge |"), "{text}");
    }

    #[test]
    fn packets_pass_each_forwarder() {
        for kind in [Forwarder::Wire, Forwarder::Packet, Forwarder::Xdp, Forwarder::Bridge] {
            let lab = Lab::new().unwrap();
            let _forwarder = kind.start(&lab).unwrap();
            let load::Paced { sent, lost, .. } =
                load::paced(&lab, 2000.0, Duration::from_millis(100)).unwrap();
            assert!(sent > 0 && lost < sent, "{}: {lost} of {sent}", kind.name());
        }
    }
}
