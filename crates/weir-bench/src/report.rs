//! Results as text for people.

use std::fmt::Write;

use crate::peers::{self, Peer};
use crate::plots;
use crate::results::{Compile, Results, Workload};
use crate::runner::Variant;
use crate::workload::catalog::{GROUPS, GROWTH};

const READING: &str = "\
## How to read it

One thread takes prepared frames from memory, copies each into a fresh packet, runs 32 packets as a batch, and drops
what leaves. Where the frames are more than the caches keep, it asks for those of the next batch in time. Frames have 64
bytes unless a workload says otherwise and are sent in a fixed order, again and again; payloads, addresses and order
come from fixed seeds. *Total* is all of that, from source to sink, with machine code of
the optimised graph. *Source to sink* is the same without a graph: what it costs to make and drop a packet. *Above* is
what remains when that is taken away. *At most* is what the total has to reach, and *best other* the best figure of
other systems that was measured on this kind of machine, as a quotation: pairs of one run stand under *Peers*, if there
are any.

*Uniform* packets go to all flows, prefixes or addresses alike; with *Zipf* popularity the one of rank R has a share
proportional to R to the power of -1.1. Workloads with many entries have as many frames, or more, so that tables and
frames do not stay in the caches.

Before anything is measured, each variant sends all frames twice, and each packet that leaves is compared byte by byte,
checksums included, with a frame that was computed independently. While it is measured, every packet has to leave.

A figure is the median of the samples, with the smallest and the largest in brackets. In each round every variant of
every workload of a group has its turn, so that noise hits all alike; *above* is taken within a round. Time is
processor time of the thread, so what other processes take away does not count, but what they do to caches and clock
speed does. If a spread is wide, or the least share of the processor far from 100 %, run it again.
";

const WAYS: &str = "\
*As linked* is the program of the graph before any pass, *optimised* the same after all passes. *Hand-written Rust* is
a loop that does the short router's job on the same packets: a lower bound, not a competitor, since it has no counters,
handlers, annotations or routes that can change.
";

const LIMITS: &str = "\
## What this does not show

- **Absolute figures mean nothing alone.** The machine is virtual, shared and noisy. Compare figures of one run.
- Of the workloads and references: devices, system calls, the engine's loop, queues, and several cores. There, packets
  come from memory and go nowhere; *Interfaces* is about the rest.
- Mixed sizes, fragments, IPv6, and packets that take infrequent paths (errors, drops, ICMP).
- New flows, expiry and changes of tables during traffic: all flows are known before time is taken.
- Latency. A batch of 32 is run at once; no packet's own time is taken.
- Buffers out of the cache: each batch reuses the same few.
";

/// The whole report in Markdown.
pub fn markdown(results: &Results, peers: &[Peer]) -> String {
    let mut out = head(results);
    let held: Vec<&Workload> = results.workloads.iter().filter(|w| w.target.is_some()).collect();
    if !held.is_empty() {
        let reached = held.iter().filter(|w| w.reached() == Some(true)).count();
        _ = writeln!(out, "\nOf {} figures to reach, {reached} are reached.", held.len());
    }
    out = out + "\n" + READING + "\n" + WAYS;
    let plots = plots::available(results, peers);
    let plot = |out: &mut String, name: &str| {
        if let Some((file, title)) = plots.iter().find(|(file, _)| *file == name) {
            _ = writeln!(out, "\n![{title}](plots/{file})");
        }
    };
    plot(&mut out, "totals.svg");
    plot(&mut out, "growth.svg");
    for (group, title) in GROUPS.iter().chain([&GROWTH]) {
        let list: Vec<&Workload> = results.workloads.iter().filter(|w| w.group == *group).collect();
        if !list.is_empty() {
            _ = writeln!(out, "\n## {title}\n");
            table(&mut out, &list);
            if *group != GROWTH.0 {
                plot(&mut out, &format!("{group}.svg"));
            }
            variants(&mut out, &list);
            out.push('\n');
            let mut abouts: Vec<(&str, Vec<String>)> = Vec::new();
            for w in &list {
                let name = format!("**{}**", w.name);
                match abouts.iter_mut().find(|(about, _)| *about == w.about) {
                    Some((_, names)) => names.push(name),
                    None => abouts.push((&w.about, vec![name])),
                }
            }
            for (about, names) in abouts {
                _ = writeln!(out, "- {}: {about}", names.join(", "));
            }
        }
    }
    out += &crate::ports::markdown(&results.ports);
    out += &crate::functions::markdown(&results.functions);
    out += &crate::vnf::markdown(&results.vnf);
    out += &crate::migration::markdown(&results.migration);
    out += &crate::domain::markdown(&results.domain);
    out += &crate::apps::markdown(&results.apps);
    out += &crate::node::markdown(&results.node);
    out += &crate::requests::markdown(&results.requests);
    out += &crate::placement::markdown(results.placement.as_ref());
    if !results.references.is_empty() {
        references(&mut out, results);
    }
    out += &peers::markdown(peers);
    compile(&mut out, results);
    plot(&mut out, "compile.svg");
    if !results.nat_memory.is_empty() {
        out += "\n## Memory\n\nResident memory that a process with source NAT grows by, for each mapping (two \
                table entries: packets and replies), index and timers included.\n\n\
                | mappings | bytes each |\n|---:|---:|\n";
        for m in &results.nat_memory {
            _ = writeln!(out, "| {} | {:.0} |", m.mappings, m.bytes_each);
        }
    }
    out += &crate::verify::markdown(&results.verify);
    if !results.skipped.is_empty() {
        out += "\n## Not measured\n\n";
        results.skipped.iter().for_each(|s| _ = writeln!(out, "- {s}"));
    }
    out + "\n" + LIMITS
}

fn head(results: &Results) -> String {
    let m = &results.machine;
    let cut = results.most_entries.map_or(String::new(), |n| {
        format!(" A quick run: tables have at most {n} entries, whatever the names of workloads say.")
    });
    let flags = if m.rustflags.is_empty() { "none" } else { &m.rustflags };
    let later = results.later.iter().map(|(group, m)| {
        format!("| *{group}*, later by itself | commit {}, load before {}, {} |\n", m.commit, m.load, m.cpu)
    });
    format!(
        "# Benchmarks of the data plane\n\n\
         <!-- Made by `make bench`, which also writes results.json and plots; not to be edited. -->\n\n\
         Nanoseconds per packet, one core, memory to memory. Median of {} samples (smallest–largest), each of {} s or \
         more of the processor. The whole run took {:.1} minutes.{cut}\n\n\
         | | |\n|---|---|\n\
         | processor | {} ({} in this machine) |\n| kernel | {} |\n| compiler | {}, profile {}, RUSTFLAGS {flags} |\n\
         | commit (+: files changed since) | {} |\n| load before | {} |\n| least share of the processor | {:.0} % |\n{}",
        results.samples,
        results.sample_seconds,
        results.run_seconds / 60.0,
        m.cpu,
        m.cpus,
        m.kernel,
        m.rustc,
        m.profile,
        m.commit,
        m.load,
        results.least_share * 100.0,
        later.collect::<String>(),
    )
}

fn table(out: &mut String, list: &[&Workload]) {
    *out += "| workload | total | at most | reached | source to sink | above | best other |\n\
             |---|---:|---:|---|---:|---:|---:|\n";
    for w in list {
        let Some(total) = w.total() else {
            _ = writeln!(out, "| {} | not measured | | | | | |", w.name);
            continue;
        };
        let row = w.variant(Variant::JitOptimised);
        let bare = w.variant(Variant::SourceToSink).filter(|_| row.is_some());
        let reached = w.reached().map_or("", |r| if r { "yes" } else { "**no**" });
        _ = writeln!(
            out,
            "| {} | {} | {} | {reached} | {} | {} | {} |",
            w.name,
            total.show(1),
            w.target.map_or(String::new(), |t| format!("{t:.0}")),
            bare.map_or(String::new(), |r| format!("{:.1}", r.nanos.median)),
            row.map_or(String::new(), |r| r.above.show(1)),
            w.peer.as_ref().map_or(String::new(), |(ns, who)| format!("{ns} {who}")),
        );
    }
}

/// What interpreter and others took, of the workloads where they were measured.
fn variants(out: &mut String, list: &[&Workload]) {
    let more: Vec<&&Workload> = list.iter().filter(|w| w.variants.len() > 2).collect();
    if more.is_empty() {
        return;
    }
    *out += "\n| workload | variant | total | above |\n|---|---|---:|---:|\n";
    for w in more {
        let others = w.variants.iter().filter(|r| {
            ![Variant::JitOptimised, Variant::SourceToSink].iter().any(|variant| r.variant == variant.name())
        });
        for r in others {
            _ = writeln!(out, "| {} | {} | {} | {} |", w.name, r.variant, r.nanos.show(1), r.above.show(1));
        }
    }
}

fn references(out: &mut String, results: &Results) {
    *out += "\n## Other programs in the same run\n\nAs Debian packages them, on this machine, each charged the \
             processor time of the thread that moves packets. dpdk-testpmd and Open vSwitch take packets from memory \
             (null ports give empty packets of 64 bytes, pcap ports copies of the workload's frames) and drop what \
             leaves; for the kernel see what veth alone takes, which is in all its figures.\n\n\
             | program | job | ns/packet | Weir | workload |\n|---|---|---:|---:|---|\n";
    for r in &results.references {
        let name = r.workload.as_deref().unwrap_or_default();
        let weir = results.workloads.iter().find(|w| w.name == name).and_then(Workload::total);
        let weir = weir.map_or(String::new(), |total| format!("{:.1}", total.median));
        _ = writeln!(out, "| {} | {} | {} | {weir} | {name} |", r.program, r.job, r.nanos.show(1));
    }
}

fn compile(out: &mut String, results: &Results) {
    let head = "| | until a first packet | passes | machine code | looking ahead | linked | optimised |\n\
                |---|---:|---:|---:|---:|---:|---:|\n";
    let line = |out: &mut String, name: &str, c: &Compile| {
        let [a, b] = [c.linked_size, c.optimised_size].map(|(blocks, ops)| format!("{blocks}/{ops}"));
        let [f, o, j, l] = [c.until_first_packet, c.optimise, c.jit, c.ahead].map(|s| s.show(0));
        _ = writeln!(out, "| {name} | {f} | {o} | {j} | {l} | {a} | {b} |");
    };
    let about = "Microseconds from text until a first packet is through, by the interpreter (parse, configure, \
                 check, link, make tables), for all passes, for machine code of the result, and for the code that \
                 fetches ahead of lookups in large tables, which follows when packets run by the machine code \
                 already: several builds, the first with cold caches. Then blocks and operations of the program as \
                 linked and after all passes.";
    if !results.compile.is_empty() {
        _ = write!(out, "\n## Compile time by number of elements\n\n{about}\n\n{head}");
        for g in &results.compile {
            line(out, &format!("{} elements", g.elements), &g.steps);
        }
        if let Some(g) = results.compile.iter().find(|g| g.elements == 20) {
            let ms = g.until_compiled.median / 1e3;
            let reached = if ms <= 10.0 { "reached" } else { "**not reached**" };
            _ = writeln!(
                out,
                "\nPasses and machine code of 20 elements take {ms:.1} ms; at most 10 ms: {reached}."
            );
        }
    }
    // The graphs of the other groups are much like these.
    let listed = results.workloads.iter().filter(|w| !["chain", "sizes", GROWTH.0].contains(&&*w.group));
    let built: Vec<(&Workload, &Compile)> = listed.filter_map(|w| Some((w, w.compile.as_ref()?))).collect();
    if !built.is_empty() {
        _ = write!(out, "\n## Compile time of the workloads\n\n{head}");
        built.iter().for_each(|(w, c)| line(out, &w.name, c));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::machine::Machine;
    use crate::results::{GraphTimes, Row};
    use crate::stats::Spread;

    fn spread(median: f64) -> Spread {
        Spread { median, min: median - 1.0, max: median + 1.0 }
    }

    fn workload(name: &str, nanos: f64) -> Workload {
        let row = |variant: Variant, nanos| Row {
            variant: variant.name().into(),
            nanos: spread(nanos),
            above: spread(nanos - 5.0),
        };
        Workload {
            name: name.into(),
            group: "nat".into(),
            about: "A test.".into(),
            target: Some(15.0),
            peer: Some((24.0, "BESS".into())),
            curve: Some(("flows".into(), nanos as usize)),
            variants: vec![row(Variant::SourceToSink, 5.0), row(Variant::JitOptimised, nanos)],
            compile: None,
        }
    }

    fn results() -> Results {
        let steps = Compile {
            until_first_packet: spread(100.0),
            optimise: spread(2_000.0),
            jit: spread(9_000.0),
            ahead: spread(9_000.0),
            linked_size: (3, 4),
            optimised_size: (2, 2),
        };
        Results {
            machine: Machine::this(),
            samples: 5,
            sample_seconds: 0.2,
            most_entries: None,
            least_share: 1.0,
            run_seconds: 60.0,
            workloads: vec![workload("nat-1", 14.0), workload("nat-1000", 16.0)],
            compile: vec![GraphTimes { elements: 20, steps, until_compiled: spread(11_000.0) }],
            nat_memory: vec![],
            verify: vec![],
            functions: vec![],
            vnf: vec![],
            migration: vec![],
            domain: vec![],
            apps: vec![],
            node: vec![],
            requests: vec![],
            placement: None,
            references: vec![],
            ports: vec![],
            skipped: vec!["other: is not installed".into()],
            later: BTreeMap::new(),
        }
    }

    #[test]
    fn what_is_measured_later_takes_its_place() {
        let figure = |value| crate::functions::Figure {
            what: "deploy 1, s".into(),
            kind: "click".into(),
            value: spread(value),
        };
        let part = |functions| Results {
            workloads: vec![workload("nat-1", 11.0)],
            compile: vec![],
            functions,
            ..results()
        };
        let mut all = results();
        all.skipped.push("functions: there was no room".into());
        let all = all.with(part(vec![figure(0.5)]));
        let groups: Vec<&str> = all.later.keys().map(String::as_str).collect();
        assert_eq!(groups, ["functions", "nat-1"]);
        assert!(!all.skipped.iter().any(|s| s.starts_with("functions")), "{:?}", all.skipped);
        let text = markdown(&all, &[]);
        for line in
            ["| nat-1 | 11.0", "| nat-1000 | 16.0", "| *functions*, later by itself | commit ", "deploy 1, s"]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!((all.workloads.len(), all.compile.len()), (2, 1));
    }

    #[test]
    fn figures_are_held_against_what_is_to_be_reached() {
        let text = markdown(&results(), &[]);
        for line in [
            "| nat-1 | 14.0 (13.0–15.0) | 15 | yes | 5.0 | 9.0 (8.0–10.0) | 24 BESS |",
            "| nat-1000 | 16.0 (15.0–17.0) | 15 | **no** | 5.0 | 11.0 (10.0–12.0) | 24 BESS |",
            "Of 2 figures to reach, 1 are reached.",
            "Passes and machine code of 20 elements take 11.0 ms; at most 10 ms: **not reached**.",
            "- **nat-1**, **nat-1000**: A test.",
            "- other: is not installed",
            "![Growth with the size of tables](plots/growth.svg)",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("l2.svg") && !text.contains("## Peers"));
    }

    #[test]
    fn results_are_read_back_and_drawn() {
        let json = serde_json::to_string(&results()).unwrap();
        let back: Results = serde_json::from_str(&json).unwrap();
        assert_eq!(markdown(&back, &[]), markdown(&results(), &[]));
        let folder = std::env::temp_dir().join(format!("weir-plots-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        plots::draw(&back, &[], &folder).unwrap();
        let mut drawn: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
        drawn.sort();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(drawn, ["growth.svg", "totals.svg"]);
    }
}
