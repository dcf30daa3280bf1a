//! What is printed when the run is over.

use std::collections::BTreeMap;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use weir_elements::FromArg;
use weir_engine::Engine;

use super::{Args, GRAPH};
use crate::commands::profile;
use crate::ui::{Failure, Ui, table};

/// Prints handlers and figures, and finds the exit status.
pub(super) fn finish(args: &Args, ui: &Ui, engine: &mut Engine) -> Result<(), Failure> {
    let mut values = Vec::new();
    let mut errors = Vec::new();
    let mut several = args.handlers.len() > 1;
    for name in &args.handlers {
        match matching(engine, name) {
            Ok((names, pattern)) => {
                several |= pattern;
                for name in names {
                    match engine.read(GRAPH, &name) {
                        Ok(value) => values.push((name, value)),
                        Err(e) => errors.push(e),
                    }
                }
            }
            Err(e) => errors.push(e),
        }
    }
    let status = engine.status(GRAPH).map_err(Failure::refused)?;
    let value = serde_json::json!({
        "handlers": values.iter().cloned().collect::<BTreeMap<_, _>>(),
        "drops": status.drops,
        "devices": status.devices,
        "profile": args.profile.map(|_| profile::times(&status)),
    });
    let text = || {
        let mut out = String::new();
        for (handler, text) in &values {
            if several {
                out.push_str(&format!("{handler}:\n"));
            }
            out.push_str(text);
            if !text.is_empty() && !text.ends_with('\n') {
                out.push('\n');
            }
            if several {
                out.push('\n');
            }
        }
        if args.drops {
            let mut rows = vec![vec!["ELEMENT".to_owned(), "REASON".to_owned(), "PACKETS".to_owned()]];
            for (element, reasons) in &status.drops {
                rows.extend(reasons.iter().map(|(r, n)| vec![element.clone(), r.clone(), n.to_string()]));
            }
            out.push_str(&if rows.len() > 1 {
                table(&rows, &[2])
            } else {
                "no packet was dropped\n".to_owned()
            });
        }
        if args.profile.is_some() {
            out.push_str(&profile::text(&profile::times(&status)));
            let flows = status.flows.iter().map(|c| (&*c.table, c.entries, c.hits, c.misses));
            out.extend(profile::flows(flows));
        }
        out
    };
    let printed = text();
    if ui.json || !printed.is_empty() {
        ui.print(&value, || printed)?;
    }
    if let Some(handler) = &args.exit_handler {
        let value = engine.read(GRAPH, handler).map_err(Failure::refused)?;
        let value = value.trim();
        let code = match (value.parse::<i64>(), bool::from_arg(value)) {
            (Ok(n), _) => n as u8,
            (_, Ok(truth)) => u8::from(!truth),
            _ => return Err(Failure::refused("exit handler value should be integer")),
        };
        if errors.is_empty() && code != 0 {
            return Err(Failure::Exit(code));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::Refused(errors)) }
}

/// The handlers that a name stands for: one, or one of each element that a pattern or class fits. Also whether it is a
/// pattern or class.
fn matching(engine: &mut Engine, name: &str) -> Result<(Vec<String>, bool), String> {
    let Some((element, handler)) = name.split_once('.') else { return Ok((vec![name.to_owned()], false)) };
    let list = engine.read(GRAPH, "list")?;
    let elements: Vec<&str> = list.lines().skip(1).collect();
    if element.is_empty() || elements.contains(&element) {
        return Ok((vec![name.to_owned()], false));
    }
    let pattern = element.contains(['?', '*', '[']);
    let mut found = Vec::new();
    let mut any = false;
    for e in elements {
        let fits = match pattern {
            true => glob(element.as_bytes(), e.as_bytes()),
            false => engine.read(GRAPH, &format!("{e}.class")).is_ok_and(|class| class == element),
        };
        any |= fits;
        let full = format!("{e}.{handler}");
        if fits && engine.read(GRAPH, &full).is_ok() {
            found.push(full);
        }
    }
    match (any, pattern) {
        (true, _) => Ok((found, true)),
        (false, true) => Err(format!("no element matching '{element}'")),
        (false, false) => Err(format!("no element '{element}'; the handler 'list' names all elements")),
    }
}

/// Whether a text fits a pattern with `*`, `?` and `[a-z]`.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=text.len()).any(|i| glob(rest, text.get(i..).unwrap_or_default())),
        (Some((b'?', rest)), Some((_, after))) => glob(rest, after),
        (Some((b'[', rest)), Some((c, after))) => {
            let Some(end) = rest.iter().skip(1).position(|b| *b == b']').map(|i| i + 1) else { return false };
            let (set, rest) = rest.split_at(end);
            let (not, set) = match set {
                [b'^' | b'!', set @ ..] => (true, set),
                set => (false, set),
            };
            let single = set.contains(c);
            let range = set.windows(3).any(|w| w[1] == b'-' && (w[0]..=w[2]).contains(c));
            (single || range) != not && glob(rest.get(1..).unwrap_or_default(), after)
        }
        (Some((p, rest)), Some((c, after))) => p == c && glob(rest, after),
        _ => false,
    }
}

/// Processor time and time on the clock.
pub(super) struct Times {
    user: f64,
    system: f64,
    clock: Instant,
}

impl Times {
    /// As of now.
    pub(super) fn take() -> Times {
        let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        let usage = getrusage(UsageWho::RUSAGE_SELF);
        let (user, system) = usage.map_or((0.0, 0.0), |u| (seconds(u.user_time()), seconds(u.system_time())));
        Times { user, system, clock: Instant::now() }
    }

    /// What has passed since, as Click prints it.
    pub(super) fn passed(&self) -> String {
        let now = Times::take();
        let clock = now.clock.duration_since(self.clock).as_secs_f64();
        let (minutes, seconds) = ((clock / 60.0).floor(), clock % 60.0);
        format!("{:.3}u {:.3}s {minutes}:{seconds:05.2}", now.user - self.user, now.system - self.system)
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_fit_names() {
        let fits = |p: &str, t: &str| glob(p.as_bytes(), t.as_bytes());
        assert!(fits("c*", "c1") && fits("*", "") && fits("c?", "c1") && fits("c[0-9]*", "c12"));
        assert!(fits("[!x]1", "c1") && fits("a*b*c", "axxbyyc"));
        assert!(!fits("c", "c1") && !fits("c?", "c") && !fits("c[", "c[") && !fits("[^c]1", "c1"));
    }
}
