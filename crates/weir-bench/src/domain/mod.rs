//! Many nodes and their controller: how long whoever applies a graph waits, what tunnels between nodes carry beside those of others, and what a controller of a hundred nodes
//! takes.

mod fleet;
mod tunnels;

use std::fmt::Write;
use std::time::Instant;

use anyhow::Result;

use crate::functions::Figure;
use crate::migration::lab::Lab;
use crate::stats::Spread;

/// Between the hosts at n1 and n3, with a firewall at n2.
const OVER_NODES: &str = "
id: over
name: over nodes
SFs:
  - {id: fw, name: firewall, node: n2, ports: [{id: inside}, {id: outside}]}
saps:
  - {id: a, type: interface, node: n1, interface: {if-name: lan}}
  - {id: b, type: interface, node: n3, interface: {if-name: lan}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:a'}, actions: {output_to_port: 'sf:fw:inside'}}
  - {id: b, priority: 1, match: {port_in: 'sf:fw:outside'}, actions: {output_to_port: 'sap:b'}}
  - {id: c, priority: 1, match: {port_in: 'sap:b'}, actions: {output_to_port: 'sf:fw:outside'}}
  - {id: d, priority: 1, match: {port_in: 'sf:fw:inside'}, actions: {output_to_port: 'sap:a'}}
";

/// Measures everything; says in `skipped` what could not be.
pub fn measure(samples: usize, quick: bool, skipped: &mut Vec<String>) -> Vec<Figure> {
    let mut all = Vec::new();
    for step in [applied, tunnels::measure, fleet::measure] {
        if let Err(e) = step(samples, quick, &mut all, skipped) {
            skipped.push(format!("domain: {e:#}"));
        }
    }
    all
}

fn figure(what: impl Into<String>, kind: &str, values: impl IntoIterator<Item = f64>) -> Figure {
    Figure { what: what.into(), kind: kind.to_owned(), value: Spread::of(values) }
}

/// A graph is applied, and one that is split over three nodes, with the program that users have.
fn applied(samples: usize, _: bool, all: &mut Vec<Figure>, _: &mut Vec<String>) -> Result<()> {
    let lab = Lab::joined("domain")?;
    let on_one = OVER_NODES
        .replace("id: over", "id: one")
        .replace("node: n2", "node: n1")
        .replace("node: n3, interface: {if-name: lan}", "node: n1, interface: {if-name: m0}");
    for (what, id, document) in
        [("on one node", "one", on_one.as_str()), ("over three nodes", "over", OVER_NODES)]
    {
        // What is done once for all, as images that are read.
        lab.apply(id, document)?;
        let file = lab.file(&format!("{id}.yaml"));
        let (mut new, mut changed, mut planned) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..samples.max(5) {
            let timed = |arguments: &[&str]| {
                let start = Instant::now();
                lab.weir("control", arguments)?;
                anyhow::Ok(start.elapsed().as_secs_f64() * 1e3)
            };
            std::fs::write(&file, document.replace("name: over nodes", &format!("name: change {i}")))?;
            planned.push(timed(&["plan", &file])?);
            changed.push(timed(&["apply", &file])?);
            timed(&["delete", id])?;
            new.push(timed(&["apply", &file])?);
        }
        lab.weir("control", &["delete", id])?;
        all.push(figure(format!("a graph with a firewall, {what}, applied, ms"), "", new));
        all.push(figure(format!("the same changed, {what}, ms"), "", changed));
        all.push(figure(format!("the change planned, {what}, ms"), "", planned));
    }
    Ok(())
}

/// The part of the report; nothing if there is none.
pub fn markdown(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut out = "\n## Many nodes\n\nThree namespaces as machines on this one, joined by a bridge; times are those of `weir` as a user waits for it. The hundred nodes are simulated (their \
                   interface, and no data plane), the controller is the program that is released.\n\n| | |\n|---|---:|\n"
        .to_owned();
    for f in figures.iter().filter(|f| f.kind.is_empty()) {
        _ = writeln!(out, "| {} | {} |", f.what, f.value.show(1));
    }
    let mut kinds: Vec<&str> = Vec::new();
    let mut rows: Vec<&str> = Vec::new();
    for f in figures.iter().filter(|f| !f.kind.is_empty()) {
        let new = |list: &mut Vec<&str>, text| list.iter().all(|t| *t != text);
        if new(&mut kinds, f.kind.as_str()) {
            kinds.push(&f.kind);
        }
        if new(&mut rows, f.what.as_str()) {
            rows.push(&f.what);
        }
    }
    if kinds.is_empty() {
        return out;
    }
    out += "\nA host at each of two nodes, and a tunnel between the nodes: TCP by iperf3 with one stream, and the time of a ping there and back. All processes share the processors of this \
            machine. With `kernel` the nodes are a bridge with VXLAN, or nothing but a bridge; with wireguard-go they route.\n\n|  |";
    rows.iter().for_each(|r| _ = write!(out, " {r} |"));
    out += "\n|---|";
    rows.iter().for_each(|_| out += "---:|");
    out.push('\n');
    for kind in kinds {
        _ = write!(out, "| {kind} |");
        for row in &rows {
            let found = figures.iter().find(|f| f.what == *row && f.kind == kind);
            _ = write!(out, " {} |", found.map_or("–".to_owned(), |f| f.value.show(2)));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_stand_below_each_other() {
        assert_eq!(markdown(&[]), "");
        let figures = [
            figure("applied, ms", "", [3.0]),
            figure("TCP, Gbit/s", "VXLAN", [2.0]),
            figure("ping, us", "VXLAN", [50.0]),
            figure("ping, us", "kernel VXLAN", [40.0]),
        ];
        let text = markdown(&figures);
        assert!(text.contains("| applied, ms | 3.0"), "{text}");
        assert!(text.contains("|  | TCP, Gbit/s | ping, us |\n|---|---:|---:|\n| VXLAN | 2.00"), "{text}");
        assert!(text.contains("| kernel VXLAN | – | 40.00"), "{text}");
    }
}
