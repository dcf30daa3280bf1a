//! Elements whose handlers are written to by the configuration itself, so that they may change while packets flow.

use std::collections::BTreeSet;

use weir_click::Graph;
use weir_ir::{Peer, Peers};

use super::body::argument;

/// Numbers of the elements whose handlers scripts, counters or filters of the configuration write to.
pub(super) fn written(graph: &Graph) -> BTreeSet<usize> {
    let peers: Vec<Peer<'_>> =
        graph.elements.iter().map(|e| Peer { name: &e.name, class: &e.class, args: &e.args }).collect();
    let mut found = BTreeSet::new();
    for e in &graph.elements {
        for handler in calls(&e.class, &e.args) {
            if handler.contains('$') {
                found.extend(0..graph.elements.len());
                continue;
            }
            // A handler without an element is the script's own, or the graph's.
            let Some((element, _)) = handler.rsplit_once('.') else { continue };
            let peer = Peers::new(&peers, &e.name).named(element);
            found.extend(peer.and_then(|p| graph.find(p.name)));
        }
    }
    // Nothing is learnt of those that only run scripts.
    found.retain(|&i| graph.ports.get(i).is_some_and(|p| !p.inputs.is_empty() || !p.outputs.is_empty()));
    found
}

/// What a reader of verdicts should know about who else may write.
pub(super) fn notes(graph: &Graph) -> Vec<String> {
    let sockets = graph.elements.iter().filter(|e| e.class == "ControlSocket");
    sockets
        .map(|e| {
            format!("{}: what is written to handlers by the control socket later is not covered", e.name)
        })
        .collect()
}

/// Names of the handlers that an element writes to.
fn calls(class: &str, args: &[String]) -> Vec<String> {
    let first = |text: &str| text.split_whitespace().next().map(str::to_owned);
    match class {
        "Script" | "DriverManager" => {
            let words = |arg: &String| {
                let (word, rest) = weir_click::first_word(arg)?;
                matches!(word, "write" | "writeq" | "write_skip" | "writeq_skip").then(|| first(rest))?
            };
            args.iter().filter_map(words).collect()
        }
        "Counter" => ["COUNT_CALL", "BYTE_COUNT_CALL"]
            .iter()
            .filter_map(|k| argument(args, usize::MAX, k).split_whitespace().nth(1).map(str::to_owned))
            .collect(),
        "TimeFilter" => first(&argument(args, usize::MAX, "END_CALL")).into_iter().collect(),
        _ => Vec::new(),
    }
}
