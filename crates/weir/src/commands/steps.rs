//! The way of a packet, as text: for `weir run --trace` and `weir trace`.

use std::fmt::Write;

use weir_engine::protocol::Event;

use crate::ui::Ui;

/// A trace event as text; other events give nothing.
pub(crate) fn text(ui: Ui, event: &Event) -> String {
    let Event::Trace { from, summary, steps, .. } = event else { return String::new() };
    let mut out = String::new();
    _ = writeln!(out, "{} {}", ui.bold(summary), ui.dim(&format!("(from {from})")));
    let width = steps.iter().map(|s| s.element.chars().count()).max().unwrap_or(0);
    for s in steps {
        let branch = if s.packet == 0 { String::new() } else { format!("[{}] ", s.packet) };
        let changes = s.changes.join(", ");
        let end = match &s.end {
            Some(end) if end.starts_with("dropped") => ui.bad(end),
            Some(end) => ui.good(end),
            None => String::new(),
        };
        let what = [changes, end].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; ");
        let head = format!("  {branch}{:width$}  {}", s.element, ui.dim(&format!(":: {}", s.class)));
        _ = writeln!(out, "{}", format!("{head}  {what}").trim_end());
    }
    out
}
