//! What of a graph is measured.

use weir_measure::{Metric, Mistake, Monitoring, Of, Parts, Trigger};

use crate::doc::{At, Kind, Reader, did_you_mean};
use crate::error::quote;
use crate::graph::{Function, Sap};

/// Reads a text, or the same as a map. What is measured must be in the graph; unless `lost`: some of that could not be read.
pub(super) fn monitoring(
    r: &mut Reader,
    at: &At<'_>,
    (functions, saps): (&[Function], &[Sap]),
    lost: bool,
) -> Option<Monitoring> {
    let monitoring = match at.node.kind {
        Kind::Map(_) => map(r, at)?,
        _ => text(r, at)?,
    };
    if !lost {
        for m in monitoring.measurements() {
            if let Err((message, help)) = is_there(&m.metric, functions, saps) {
                r.error(at, format!("measurement {}: {message}", quote(&m.name)), help);
            }
        }
    }
    Some(monitoring)
}

fn text(r: &mut Reader, at: &At<'_>) -> Option<Monitoring> {
    let text = r.text(at, "a text in the MEASURE language, or a map with measurements, zones and actions")?;
    match Monitoring::parse(text) {
        Ok(monitoring) => Some(monitoring),
        Err(mistakes) => {
            for Mistake { line, column, message, help } in mistakes.list() {
                r.error(at, format!("line {line}, column {column} of it: {message}"), help);
            }
            None
        }
    }
}

/// Reports what is wrong at `at`.
fn say(r: &mut Reader, at: &At<'_>, result: Result<(), Vec<Mistake>>) {
    for m in result.err().into_iter().flatten() {
        let message = if m.column > 0 { format!("column {}: {}", m.column, m.message) } else { m.message };
        r.error(at, message, m.help);
    }
}

fn map(r: &mut Reader, at: &At<'_>) -> Option<Monitoring> {
    let before = r.count();
    let f = r.fields(at, &["measurements", "zones", "actions"])?;
    let mut parts = Parts::default();
    if let Some(at) = f.get("measurements")
        && let Some(all) = r.map(&at, "a map from names to measurements")
    {
        for (name, node) in all.entries {
            let at = at.key(name, node);
            let Some(m) = r.map(&at, "a map with a metric and its parameters") else { continue };
            let metric = m.need(r, "metric", "what is measured").and_then(|at| r.text(&at, "a metric"));
            let mut parameters = Vec::new();
            for (name, node) in m.entries.iter().filter(|(name, _)| name != "metric") {
                if let Some(value) = r.text(&at.key(name, node), "a value") {
                    parameters.push((name.clone(), value.to_owned()));
                }
            }
            if let Some(metric) = metric {
                let added = parts.measurement(name, metric, &parameters);
                say(r, &at, added);
            }
        }
    }
    if let Some(at) = f.get("zones")
        && let Some(all) = r.map(&at, "a map from names to zones")
    {
        for (name, node) in all.entries {
            let at = at.key(name, node);
            let (when, hold) = match node.kind {
                Kind::Map(_) => {
                    let Some(z) = r.fields(&at, &["when", "for"]) else { continue };
                    let when = z.need(r, "when", "a condition").and_then(|at| r.text(&at, "a condition"));
                    (when, z.get("for").and_then(|at| r.text(&at, "a time such as 500 ms")))
                }
                _ => (r.text(&at, "a condition, or a map with when and for"), None),
            };
            if let Some(when) = when {
                let added = parts.zone(name, when, hold);
                say(r, &at, added);
            }
        }
    }
    if let Some(at) = f.get("actions") {
        let items = r.items(&at, "actions", weir_measure::MAX_ACTIONS).unwrap_or_default();
        for (i, node) in items.iter().enumerate() {
            let at = at.index(i, node);
            let Some(a) = r.fields(&at, &["on", "topic", "message"]) else { continue };
            let on = a.need(r, "on", "zones, as in calm -> busy").and_then(|at| r.text(&at, "zones"));
            let topic = a.need(r, "topic", "a topic").and_then(|at| r.text(&at, "a topic"));
            let message = a.need(r, "message", "what is said").and_then(|at| r.text(&at, "what is said"));
            let (Some(on), Some(topic), Some(message)) = (on, topic, message) else { continue };
            let added =
                on.parse::<Trigger>().map_err(|e| vec![e]).and_then(|on| parts.action(on, topic, message));
            say(r, &at, added);
        }
    }
    if r.count() > before {
        return None;
    }
    match parts.finish() {
        Ok(monitoring) => Some(monitoring),
        Err(e) => {
            say(r, at, Err(vec![e]));
            None
        }
    }
}

/// Whether what is measured is in the graph; otherwise what is wrong, and what would be right.
fn is_there(metric: &Metric, functions: &[Function], saps: &[Sap]) -> Result<(), (String, String)> {
    let function = |id: &str| {
        let found = functions.iter().find(|f| f.id.as_str() == id);
        found.ok_or_else(|| {
            let known: Vec<&str> = functions.iter().take(20).map(|f| f.id.as_str()).collect();
            (format!("the graph has no function {}", quote(id)), did_you_mean(id, &known))
        })
    };
    let (Metric::Rate(_, of) | Metric::Packets(_, of) | Metric::OverloadRisk(_, of, _)) = metric else {
        let (Metric::Cpu(id) | Metric::Memory(id) | Metric::Handler(id, _)) = metric else { return Ok(()) };
        return function(id).map(drop);
    };
    match of {
        Of::Function(id) => function(id).map(drop),
        Of::Port(id, port) => {
            let f = function(id)?;
            let there = f.ports.iter().any(|p| p.id.as_str() == port);
            let known: Vec<&str> = f.ports.iter().take(20).map(|p| p.id.as_str()).collect();
            let none = || {
                (format!("function {} has no port {}", quote(id), quote(port)), did_you_mean(port, &known))
            };
            there.then_some(()).ok_or_else(none)
        }
        Of::Sap(id) => {
            let there = saps.iter().any(|s| s.id.as_str() == id);
            let known: Vec<&str> = saps.iter().take(20).map(|s| s.id.as_str()).collect();
            let none = || (format!("the graph has no access point {}", quote(id)), did_you_mean(id, &known));
            there.then_some(()).ok_or_else(none)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::ServiceGraph;

    const GRAPH: &str = "id: g
name: g
saps: [{id: lan, type: host-stack}]
SFs: [{id: fw, name: firewall, ports: [in]}]
";

    #[test]
    fn a_text_and_a_map_say_the_same() {
        let text = format!(
            "{GRAPH}monitoring: |
  measurements {{ m1 = rate.rx(sap = lan, every = \"100 ms\"); m2 = cpu(function = fw); }}
  zones {{
    calm = (AVG(val = m1, max_age = \"1 second\") < 1000);
    busy = (AVG(val = m1, max_age = \"1 second\") > 2000) for \"200 ms\";
  }}
  actions {{ calm->busy = Publish(topic = \"alarms\", message = \"busy\"); }}
"
        );
        let map = format!(
            "{GRAPH}monitoring:
  measurements:
    m1: {{metric: rate.rx, sap: lan, every: 100 ms}}
    m2: {{metric: cpu, function: fw}}
  zones:
    calm: AVG(val = m1, max_age = \"1 second\") < 1000
    busy: {{when: 'AVG(val = m1, max_age = \"1 second\") > 2000', for: 200 ms}}
  actions:
    - {{on: calm -> busy, topic: alarms, message: busy}}
"
        );
        let [text, map] = [text, map].map(|t| ServiceGraph::parse(&t).unwrap_or_else(|e| panic!("{e}")));
        assert_eq!(text, map);
        // As nodes keep it.
        assert_eq!(ServiceGraph::from_json(&text.to_json().to_string()).unwrap(), text);
    }

    #[test]
    fn all_that_is_wrong_is_said_where_it_is() {
        let said = |monitoring: &str| {
            let errors = ServiceGraph::parse(&format!("{GRAPH}monitoring:{monitoring}")).unwrap_err();
            errors.errors().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let text = said(
            " |\n  measurements {\n    a = cpuu(function = fw);\n    b = rate.rx(sap = wan, at = 1);\n  }\n",
        );
        assert!(
            text[0].contains("line 2, column 3 of it: \"cpuu\"") && text[1].contains("line 3"),
            "{text:?}"
        );
        let map = said(
            "\n  measurements: {m: {metric: rate.rx}}\n  zones: {z: 'AVG(val = n, max_age = \"1 s\") >'}\n  actions: [{on: y, topic: t, message: m}]\n",
        );
        assert!(
            map[0].contains("monitoring.measurements.m (line 6") && map[0].contains("not clear"),
            "{map:?}"
        );
        assert!(map[1].contains("monitoring.zones.z (line 7") && map[1].contains("column 32"), "{map:?}");
        assert!(
            map[2].contains("monitoring.actions[0] (line 8") && map[2].contains("no zone \"y\""),
            "{map:?}"
        );
        let lost = said(
            " |\n  measurements { a = rate.rx(interface = fw:out); b = mem(function = fv); c = rate.tx(sap = wan); }\n",
        );
        assert!(lost[0].contains("no port \"out\"") && lost[1].contains("no function \"fv\""), "{lost:?}");
        assert!(lost[2].contains("no access point \"wan\""), "{lost:?}");
    }
}
