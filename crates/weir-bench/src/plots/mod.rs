//! Results as pictures (SVG).

mod bars;
pub mod lines;

use std::path::Path;

use anyhow::Result;
use plotters::style::RGBColor;

use crate::peers::Peer;
use crate::results::{Results, Workload};
use crate::stats::Spread;
use bars::{Bar, Bars, Row};
use lines::{Line, Lines};

/// Colours that people with any colour vision can tell apart (Okabe, Ito 2008), then greys.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
];
const GREY: RGBColor = RGBColor(165, 165, 165);
const INK: RGBColor = RGBColor(40, 40, 40);

/// File names of the pictures with what they show; those for which a run has data are drawn.
pub const PLOTS: [(&str, &str); 7] = [
    (
        "totals.svg",
        "Total time for a packet, beside the best figure of other systems and what is to be reached",
    ),
    ("growth.svg", "Growth with the size of tables"),
    ("l2.svg", "L2 switching by number of MAC addresses"),
    ("chain.svg", "Chains of one to eight functions"),
    ("wifi.svg", "WiFi frames by length and number of stations"),
    ("sizes.svg", "The router with longer frames"),
    ("compile.svg", "From text to machine code by number of elements"),
];

/// The names of the pictures for which there is data.
pub fn available(results: &Results, peers: &[Peer]) -> Vec<(&'static str, &'static str)> {
    PLOTS.into_iter().filter(|(name, _)| picture(results, peers, name).is_some()).collect()
}

/// Draws all pictures for which there is data.
pub fn draw(results: &Results, peers: &[Peer], folder: &Path) -> Result<()> {
    for (name, title) in PLOTS {
        match picture(results, peers, name) {
            Some(Picture::Bars(bars)) => bars.draw(title, &folder.join(name))?,
            Some(Picture::Lines(lines)) => lines.draw(title, &folder.join(name))?,
            None => {}
        }
    }
    crate::migration::draw(&results.migration, folder)
}

enum Picture {
    Bars(Bars),
    Lines(Lines),
}

fn picture(results: &Results, peers: &[Peer], name: &str) -> Option<Picture> {
    let bars = |bars: Bars| (!bars.rows.is_empty()).then_some(Picture::Bars(bars));
    let lines = |lines: Lines| {
        let points = lines.lines.iter().map(|l| l.points.len()).max();
        (points? > 1).then_some(Picture::Lines(lines))
    };
    match name {
        "totals.svg" => bars(totals(results, peers)),
        "growth.svg" => lines(growth(results)),
        "l2.svg" => bars(l2(results)),
        "chain.svg" => lines(chain(results)),
        "wifi.svg" => bars(simple(results, "wifi")),
        "sizes.svg" => bars(simple(results, "sizes")),
        "compile.svg" => lines(compile(results)),
        _ => None,
    }
}

/// Weir, the best of the peers that were measured in turns with it, and what the catalogue quotes if none was.
fn totals(results: &Results, peers: &[Peer]) -> Bars {
    let mut rows = Vec::new();
    for w in &results.workloads {
        let mine = peers.iter().filter(|p| p.workload == w.name);
        let best = mine.min_by(|a, b| a.ns_per_packet.median.total_cmp(&b.ns_per_packet.median));
        let Some(total) = w.total() else { continue };
        let mut bars = vec![Bar::new(total, COLOURS[0])];
        if let Some(best) = best {
            bars.push(Bar::new(best.ns_per_packet, COLOURS[1]).note(&best.peer));
        } else if let Some((ns, who)) = &w.peer {
            bars.push(Bar::new(Spread { median: *ns, min: *ns, max: *ns }, GREY).note(who));
        }
        if bars.len() > 1 || w.target.is_some() {
            rows.push(Row { label: w.name.clone(), bars, mark: w.target });
        }
    }
    let mut legend = vec![("Weir, compiled (smallest–largest)", COLOURS[0])];
    legend.extend((!peers.is_empty()).then_some(("best peer, measured", COLOURS[1])));
    legend.push(("best peer, as quoted", GREY));
    let axis = "ns per packet (one core, memory to memory)";
    Bars { axis, rows, legend, mark: "to reach, at most" }
}

fn growth(results: &Results) -> Lines {
    let mut lines: Vec<Line> = Vec::new();
    for w in &results.workloads {
        let (Some((name, n)), Some(total)) = (&w.curve, w.total()) else { continue };
        let line = match lines.iter_mut().position(|l| l.name == *name) {
            Some(i) => &mut lines[i],
            None => {
                lines.push(Line { name: name.clone(), points: Vec::new() });
                let last = lines.len() - 1;
                &mut lines[last]
            }
        };
        line.points.push((*n as f64, total));
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Lines { x: "entries of the table", y: "ns per packet", log: true, lines }
}

/// As figure 21 of the paper on the COMPOSER orchestrator: packet rate.
fn l2(results: &Results) -> Bars {
    let rate = |s: Spread| Spread { median: 1e3 / s.median, min: 1e3 / s.max, max: 1e3 / s.min };
    let mut legend = vec![("Weir, compiled", COLOURS[0])];
    let programs = [("Open vSwitch", COLOURS[1]), ("Linux", COLOURS[2])];
    let names = [("Open vSwitch, user-space datapath", COLOURS[1]), ("Linux bridge on veth", COLOURS[2])];
    for ((program, _), name) in programs.iter().zip(names) {
        let mut l2 = results.references.iter().filter(|r| r.program.starts_with(program));
        legend.extend(l2.any(|r| r.workload.as_ref().is_some_and(|w| w.starts_with("l2-"))).then_some(name));
    }
    let rows = results.workloads.iter().filter(|w| w.group == "l2").filter_map(|w| {
        let mut bars = vec![Bar::new(rate(w.total()?), COLOURS[0])];
        for (program, colour) in programs {
            let mut other = results.references.iter().filter(|r| r.program.starts_with(program));
            let found = other.find(|r| r.workload.as_ref() == Some(&w.name));
            bars.extend(found.map(|r| Bar::new(rate(r.nanos), colour)));
        }
        Some(Row { label: format!("{} MAC", w.name.trim_start_matches("l2-")), bars, mark: None })
    });
    Bars { axis: "million packets per second (64 bytes, one core)", rows: rows.collect(), legend, mark: "" }
}

fn chain(results: &Results) -> Lines {
    let line = |name: &str, prefix: &str| {
        let found = results.workloads.iter().filter_map(|w| {
            let n: f64 = w.name.strip_prefix(prefix)?.parse().ok()?;
            Some((n, w.total()?))
        });
        Line { name: name.into(), points: found.collect() }
    };
    let lines = vec![line("Null", "chain-null-"), line("light elements", "chain-mixed-")];
    Lines { x: "elements (0: source to sink)", y: "ns per packet", log: false, lines }
}

fn simple(results: &Results, group: &str) -> Bars {
    let row = |w: &Workload| {
        let bare = w.variants.first()?.nanos;
        let bars = vec![Bar::new(w.total()?, COLOURS[0]), Bar::new(bare, GREY)];
        Some(Row { label: w.name.clone(), bars, mark: w.target })
    };
    let rows: Vec<Row> = results.workloads.iter().filter(|w| w.group == group).filter_map(row).collect();
    let mark = if rows.iter().any(|r| r.mark.is_some()) { "to reach, at most" } else { "" };
    let legend = vec![("Weir, compiled", COLOURS[0]), ("of which source to sink", GREY)];
    Bars { axis: "ns per packet", rows, legend, mark }
}

fn compile(results: &Results) -> Lines {
    let millis = |s: Spread| Spread { median: s.median / 1e3, min: s.min / 1e3, max: s.max / 1e3 };
    let line = |name: &str, step: fn(&crate::results::GraphTimes) -> Spread| Line {
        name: name.into(),
        points: results.compile.iter().map(|g| (g.elements as f64, millis(step(g)))).collect(),
    };
    let lines = vec![
        line("passes and machine code", |g| g.until_compiled),
        line("machine code", |g| g.steps.jit),
        line("passes", |g| g.steps.optimise),
        line("until a first packet is through", |g| g.steps.until_first_packet),
    ];
    Lines { x: "elements", y: "milliseconds", log: false, lines }
}
