//! The path of a packet, as text: for `weir run --trace` and `weir trace`.

use std::fmt::Write;

use weir_protocol::{Event, TraceStep};

use crate::ui::Ui;

/// A trace event as text; other events give nothing. The packet that was asked for comes first, to its end, then copies of it
/// and what elements sent because of it, such as ARP requests. Where the path leads through several graphs, each has a
/// line of its own above its elements.
pub(crate) fn text(ui: Ui, event: &Event) -> String {
    let Event::Trace { from, summary, steps, .. } = event else { return String::new() };
    let mut out = String::new();
    _ = writeln!(out, "{} {}", ui.bold(summary), ui.dim(&format!("(from {from})")));
    let several = steps.windows(2).any(|pair| pair[0].graph != pair[1].graph);
    let name = |packet: u32, element: &str| match packet {
        0 => element.to_owned(),
        n => format!("[{n}] {element}"),
    };
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let elements = width(&mut steps.iter().map(|s| name(s.packet, &s.element).chars().count()));
    let classes = width(&mut steps.iter().map(|s| s.class.chars().count()));
    let mut graph = None;
    let mut steps: Vec<&TraceStep> = steps.iter().collect();
    steps.sort_by_key(|s| s.packet);
    for s in steps {
        if several && graph != Some(&s.graph) {
            _ = writeln!(out, "  {}", ui.dim(&format!("graph {}", s.graph)));
            graph = Some(&s.graph);
        }
        let indent = if several { "    " } else { "  " };
        let changes = s.changes.join(", ");
        let end = match &s.end {
            Some(end) if end.starts_with("dropped") => ui.bad(end),
            Some(end) => ui.good(end),
            None => String::new(),
        };
        let what = [changes, end].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; ");
        let element = name(s.packet, &s.element);
        if what.is_empty() {
            _ = writeln!(out, "{indent}{element:elements$}  {}", ui.dim(&format!(":: {}", s.class)));
        } else {
            let class = ui.dim(&format!(":: {:classes$}", s.class));
            _ = writeln!(out, "{indent}{element:elements$}  {class}  {what}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Color;

    #[test]
    fn the_graphs_of_a_way_are_told_apart_only_if_there_are_several() {
        let step = |packet, graph: &str, element: &str, end: Option<&str>| TraceStep {
            packet,
            graph: graph.into(),
            element: element.into(),
            class: "Null".into(),
            port: 0,
            changes: vec![],
            end: end.map(str::to_owned),
            bytes: String::new(),
        };
        let event =
            |steps| Event::Trace { from: "in".into(), bytes: String::new(), summary: "UDP".into(), steps };
        let ui = Ui::new(false, Color::Never);
        let one = event(vec![step(0, "a", "x", None), step(1, "a", "long", Some("sent to b"))]);
        assert_eq!(text(ui, &one), "UDP (from in)\n  x         :: Null\n  [1] long  :: Null  sent to b\n");
        let two = event(vec![step(0, "a", "x", None), step(0, "b", "y", Some("dropped: Denied"))]);
        assert_eq!(
            text(ui, &two),
            "UDP (from in)\n  graph a\n    x  :: Null\n  graph b\n    y  :: Null  dropped: Denied\n"
        );
        let steps = vec![
            step(0, "a", "arp", Some("waits in arp")),
            step(1, "a", "arp", Some("sent to b")),
            step(0, "a", "arp", Some("sent to b")),
        ];
        assert_eq!(
            text(ui, &event(steps)),
            "UDP (from in)\n  arp      :: Null  waits in arp\n  arp      :: Null  sent to b\n  [1] arp  :: Null  sent to b\n"
        );
    }
}
