//! Where packets come in for a function that moves, a small function leads them to its old place, and at a word to its new one.

use std::collections::BTreeMap;

use weir_model::DocErrors;
use weir_model::graph::{Actions, Constraints, Function, Match, Port, PortRef, Rule, ServiceGraph};
use weir_model::value::Id;

/// The script of these functions. Nodes know its handler (`move-step`).
pub(crate) const CLICK: &str = "in_0 -> turn :: Switch(0);\nturn [0] -> out_1;\nturn [1] -> out_2;\n";
/// Its ports, in that order.
const PORTS: [&str; 3] = ["in", "old", "new"];

/// Those of a graph.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// By node, and by the place that packets are for.
    by_place: BTreeMap<(String, String), Id>,
    /// With their nodes.
    pub made: Vec<(String, Turn)>,
}

/// One of them, at a node, and the rules behind it.
#[derive(Debug)]
pub(crate) struct Turn {
    pub function: Function,
    pub rules: Vec<Rule>,
}

impl Turns {
    /// The one at a node for packets to a port of a function.
    pub fn of(&mut self, graph: &ServiceGraph, node: &str, place: &PortRef) -> Result<Id, DocErrors> {
        let key = (node.to_owned(), place.to_string());
        if let Some(id) = self.by_place.get(&key) {
            return Ok(id.clone());
        }
        let id = turn_id(graph, place)?;
        let port = |id: &str| Ok(Port { id: parsed(id)?, name: None });
        let function = Function {
            id: id.clone(),
            name: (&id).into(),
            ports: PORTS.iter().map(|p| port(p)).collect::<Result<_, DocErrors>>()?,
            template: None,
            click: Some(CLICK.to_owned()),
            node: None,
            kind: None,
            state: None,
            fifo: None,
            capability: None,
            constraints: Constraints::default(),
            params: BTreeMap::new(),
            handlers: Vec::new(),
        };
        self.made.push((node.to_owned(), Turn { function, rules: Vec::new() }));
        self.by_place.insert(key, id.clone());
        Ok(id)
    }

    /// What leaves one by a port goes there.
    pub fn leads(
        &mut self,
        graph: &ServiceGraph,
        node: &str,
        turn: &Id,
        (port, to): (&str, PortRef),
    ) -> Result<(), DocErrors> {
        let from = turn_port(turn, port)?;
        let made = self.made.iter_mut().find(|(n, t)| n == node && t.function.id == *turn);
        let Some((_, made)) = made else { return Ok(()) };
        if made.rules.iter().any(|r| r.matches.port_in == from) {
            return Ok(());
        }
        let taken = |id: &str| graph.flowrules.iter().any(|r| r.id.as_str() == id);
        made.rules.push(Rule {
            id: parsed(&free(format!("{turn}-{port}"), taken))?,
            priority: 1,
            matches: Match::port_in(from),
            actions: Actions { output_to_port: vec![to], ..Actions::default() },
        });
        Ok(())
    }
}

/// The identifier of the one for packets to a port of a function, at whatever node.
pub(crate) fn turn_id(graph: &ServiceGraph, place: &PortRef) -> Result<Id, DocErrors> {
    let PortRef::Function { function, port } = place else {
        return Err(DocErrors::one(None, format!("{place} is no port of a function"), ""));
    };
    let of = graph.functions.iter().find(|f| f.id == *function);
    let number = of.and_then(|f| f.ports.iter().position(|p| p.id == *port)).unwrap_or_default();
    parsed(&free(format!("turn-{number}"), |id| graph.functions.iter().any(|f| f.id.as_str() == id)))
}

/// A port of one.
pub(crate) fn turn_port(turn: &Id, port: &str) -> Result<PortRef, DocErrors> {
    Ok(PortRef::Function { function: turn.clone(), port: parsed(port)? })
}

/// An identifier that nothing has.
fn free(mut id: String, taken: impl Fn(&str) -> bool) -> String {
    while taken(&id) {
        id.push('-');
    }
    id
}

fn parsed(id: &str) -> Result<Id, DocErrors> {
    id.parse().map_err(|_| DocErrors::one(None, format!("{id} is no identifier"), ""))
}
