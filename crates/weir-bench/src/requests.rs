//! Processing for anybody who asks (CHANGE paper, sections 2.4 and 2.5): graphs that their first packet starts, and that are suspended with their state. Times
//! are those at the hosts on both sides, beside a packet through a graph that runs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use weir_api::functions::{GraphLife, GraphLifeChange};
use weir_io::interface::{Method, Options};
use weir_io::{Port, PortSpec};
use weir_net::build::{self, tag_vlan};
use weir_packet::Packet;

use crate::node::{Figure, Node, document};
use crate::stats::Spread;

/// Graphs that are started at once, as in figure 2.7.
const AT_ONCE: usize = 100;
/// How long a packet is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Measures everything; says in `skipped` what could not be.
pub fn measure(quick: bool, samples: usize, skipped: &mut Vec<String>) -> Vec<Figure> {
    let mut all = Vec::new();
    if let Err(e) = on_demand(if quick { 200 } else { 1000 }, samples, &mut all) {
        skipped.push(format!("requests: {e:#}"));
    }
    all
}

/// The hosts on both sides.
struct Hosts {
    sender: Box<dyn Port>,
    sink: Box<dyn Port>,
}

impl Hosts {
    fn new(node: &Node) -> Result<Hosts> {
        let port = |place: &str| {
            let spec = PortSpec::Interface {
                name: "eth0".into(),
                options: Options { method: Method::Packet, ..Options::default() },
            };
            spec.open_in(&node.lab.netns(place)).map_err(|e| anyhow!("{e}"))
        };
        Ok(Hosts { sender: port("sender")?, sink: port("sink")? })
    }

    /// Sends a packet on each of these VLANs at once, and gives the milliseconds until each has come out.
    fn pass(&mut self, vlans: &[usize]) -> Result<Vec<f64>> {
        let frame = |vlan: &usize| {
            let mut frame =
                build::udp4(([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), *vlan as u16), &[7; 18]);
            tag_vlan(&mut frame, *vlan as u16);
            Packet::from_bytes(&frame).map_err(|_| anyhow!("a frame is too long"))
        };
        let mut batch = vlans.iter().map(frame).collect::<Result<Vec<_>>>()?;
        let begun = Instant::now();
        while !batch.is_empty() {
            self.sender.send(&mut batch).map_err(|e| anyhow!("{e}"))?;
            self.sender.flush().map_err(|e| anyhow!("{e}"))?;
        }
        let (mut times, mut came) = (Vec::new(), Vec::new());
        while times.len() < vlans.len() {
            let waited = begun.elapsed();
            ensure!(waited < PATIENCE, "{} of {} packets came", times.len(), vlans.len());
            self.sink.receive(&mut came, 64).map_err(|e| anyhow!("{e}"))?;
            let ours = came.drain(..).filter(|p| p.bytes().ends_with(&[7; 18])).count();
            times.extend(std::iter::repeat_n(begun.elapsed().as_secs_f64() * 1e3, ours));
        }
        Ok(times)
    }
}

fn on_demand(most: usize, samples: usize, all: &mut Vec<Figure>) -> Result<()> {
    let mut add = |what: String, values: Vec<f64>| all.push(Figure { what, value: Spread::of(values) });
    let node = Node::start()?;
    // What the first graph makes, all share.
    node.client.put("t4000", &document(4000, ""))?;
    let mut hosts = Hosts::new(&node)?;
    hosts.pass(&[4000])?;
    let before = node.engine_memory()?;
    for n in 1..=most {
        node.client.put(&format!("t{n}"), &document(n, "start: first-packet"))?;
    }
    let idle = (node.engine_memory()? - before) / most as f64 / 1024.0;
    add(format!("memory of one of {most} idle graphs in the data plane, KB"), vec![idle]);
    let times = |hosts: &mut Hosts, vlans: Vec<usize>| -> Result<Vec<f64>> {
        vlans.into_iter().map(|n| Ok(hosts.pass(&[n])?[0])).collect()
    };
    let singles = 4 * samples;
    let through = times(&mut hosts, vec![4000; singles])?;
    add("a packet through a graph that runs, ms".into(), through);
    let first = times(&mut hosts, (1..=singles).collect())?;
    add(format!("the first packet, which starts its graph, with {most} registered, ms"), first);
    let second = times(&mut hosts, (1..=singles).collect())?;
    add("the second packet, ms".into(), second);
    let at_once: Vec<usize> = (singles + 1..=singles + AT_ONCE).collect();
    let came = hosts.pass(&at_once)?;
    let last = came.last().copied().context("no packet came")?;
    add(format!("{AT_ONCE} first packets at once, each of another graph, ms"), came);
    add("  the last of them, ms".into(), vec![last]);
    let running = (node.engine_memory()? - before) / (singles + AT_ONCE) as f64 / 1024.0;
    add("memory of a graph that runs, KB".into(), vec![running]);
    let suspended = GraphLifeChange { state: GraphLife::Suspended, anew: false };
    let mut suspends = Vec::new();
    for n in 1..=singles {
        let begun = Instant::now();
        node.client.set_graph_life(&format!("t{n}"), &suspended)?;
        suspends.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    add("a graph suspended, with its state on disk, ms".into(), suspends);
    let resumed = times(&mut hosts, (1..=singles).collect())?;
    add("a packet that resumes it with its state, ms".into(), resumed);
    Ok(())
}

/// The part of the report.
pub fn markdown(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut out = "\n## Processing for anybody who asks\n\nGraphs of a firewall that their first packet starts (CHANGE paper, figures 2.7 and 2.9: 50 ms, with 100 at once \
                   100 ms; suspended and resumed in about 100 ms). A packet's time is that from one host to the other.\n\n| | |\n|---|---|\n"
        .to_owned();
    for f in figures {
        out += &format!("| {} | {} |\n", f.what, f.value.show(2));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_its_row() {
        let figure = Figure { what: "x, ms".into(), value: Spread::of([7.0]) };
        assert!(markdown(&[figure]).ends_with("| x, ms | 7.00 (7.00–7.00) |\n"));
        assert_eq!(markdown(&[]), "");
    }
}
