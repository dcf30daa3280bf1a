//! Places of a service graph that requirements name.

use super::{Function, Sap, ServiceGraph};
use crate::requirement::Place;
use crate::value::{Id, IpPrefix, Name};

/// A place of a service graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphPlace {
    /// A service access point.
    Sap(Id),
    /// A function, or one of its ports.
    Function {
        /// The function's identifier.
        function: Id,
        /// The port's identifier; `None` for any of its ports.
        port: Option<Id>,
    },
    /// Whatever owns addresses of the prefix.
    Prefix(IpPrefix),
}

impl ServiceGraph {
    /// What a requirement's place is in this graph: `sap:ID`, `sf:FUNCTION`, `sf:FUNCTION:PORT`, `FUNCTION:PORT`, or the identifier of an
    /// access point or function alone. Names do where they are unique. `None` if there is no such place, which no requirement of the
    /// graph itself names.
    pub fn place(&self, place: &Place) -> Option<GraphPlace> {
        find(&self.functions, &self.saps, place).ok()
    }
}

/// Why a place was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    Unknown,
    /// An access point and a function have that name.
    Ambiguous,
}

pub(super) fn find(functions: &[Function], saps: &[Sap], place: &Place) -> Result<GraphPlace, NoPlace> {
    let sap = |word: &str| {
        named(saps.iter().map(|s| (&s.id, s.name.as_ref())), word).map(|id| GraphPlace::Sap(id.clone()))
    };
    let function = |word: &str, port: Option<&str>| {
        let id = named(functions.iter().map(|f| (&f.id, Some(&f.name))), word)?;
        let ports = functions.iter().find(|f| f.id == *id).into_iter().flat_map(|f| &f.ports);
        let port = match port {
            Some(word) => Some(named(ports.map(|p| (&p.id, p.name.as_ref())), word)?.clone()),
            None => None,
        };
        Some(GraphPlace::Function { function: id.clone(), port })
    };
    match place {
        Place::Prefix(prefix) => Ok(GraphPlace::Prefix(*prefix)),
        Place::Port { node, port } => match node.as_str() {
            "sap" | "service-access-point" => sap(port),
            "sf" => match port.split_once(':') {
                Some((name, port)) => function(name, Some(port)),
                None => function(port, None),
            },
            node => function(node, Some(port)),
        }
        .ok_or(NoPlace::Unknown),
        Place::Node(node) => match (sap(node), function(node, None)) {
            (Some(_), Some(_)) => Err(NoPlace::Ambiguous),
            (Some(found), None) | (None, Some(found)) => Ok(found),
            (None, None) => Err(NoPlace::Unknown),
        },
    }
}

/// The identifier that is `word`, or that of the only item with this name.
fn named<'a>(items: impl Iterator<Item = (&'a Id, Option<&'a Name>)> + Clone, word: &str) -> Option<&'a Id> {
    if let Some((id, _)) = items.clone().find(|(id, _)| id.as_str() == word) {
        return Some(id);
    }
    let mut found = items.filter(|(_, name)| name.is_some_and(|n| n.as_str() == word));
    match (found.next(), found.next()) {
        (Some((id, _)), None) => Some(id),
        _ => None,
    }
}
