//! Where packets come into a world.

use std::collections::BTreeMap;

use weir_verify::checks::Start;
use weir_verify::{Body, NodePort};

use super::{EdgePort, Location, World};

impl World {
    /// Where packets come in or come into being, by name.
    pub fn entries(&self) -> BTreeMap<String, Start> {
        let mut all = BTreeMap::new();
        for start in &self.others {
            let name = self.entry_name(start.place);
            let numbered = (2..).map(|i| format!("{name} ({i})"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|n| !all.contains_key(n));
            all.insert(free.unwrap_or(name), start.clone());
        }
        all
    }

    /// Adds the entries that are not there: packets that come in by them are discarded.
    pub fn add_entries(&mut self, starts: &BTreeMap<String, Start>) {
        let own = self.entries();
        for (name, start) in starts.iter().filter(|(name, _)| !own.contains_key(*name)) {
            let node = self.net.add(name.clone(), Body::Sink);
            let start = Start { place: NodePort { node, port: 0 }, ..start.clone() };
            let edge_port =
                EdgePort { name: "0".into(), start: Some(start.clone()), target: None, owns: false };
            self.locations.push(Location {
                name: name.clone(),
                edge_ports: vec![edge_port],
                nodes: vec![node],
                owns: Vec::new(),
            });
            self.others.push(start);
        }
        self.net.finish();
    }

    /// What people call a place by which packets come in: the device rather than the element, the box, the access point.
    pub fn entry_name(&self, place: NodePort) -> String {
        let starts = |g: &EdgePort| g.start.as_ref().is_some_and(|s| s.place == place);
        let named = self.locations.iter().filter(|s| !s.name.is_empty());
        for location in named {
            if let Some(edge_port) = location.edge_ports.iter().find(|g| starts(g)) {
                let several = location.edge_ports.iter().filter(|g| g.start.is_some()).count() > 1;
                return if several {
                    format!("{}:{}", location.name, edge_port.name)
                } else {
                    location.name.clone()
                };
            }
        }
        match self.behind(place.node) {
            Some(node) => self.entry_name(NodePort { node, ..place }),
            None => self.net.nodes().get(place.node as usize).map(|n| n.name.clone()).unwrap_or_default(),
        }
    }

    /// What people call a place that packets come to, if it has a name beside its node's.
    pub(crate) fn arrival_name(&self, place: NodePort) -> Option<String> {
        let ends = |g: &&EdgePort| g.target.is_some_and(|t| t.place == place);
        let location =
            self.locations.iter().find(|s| !s.name.is_empty() && s.edge_ports.iter().any(|g| ends(&g)))?;
        let edge_port = location.edge_ports.iter().find(ends)?;
        let several = location.edge_ports.iter().filter(|g| g.target.is_some()).count() > 1;
        let name = location.name.rsplit_once('@').map_or(location.name.as_str(), |(class, _)| class);
        Some(if several { format!("{name}:{}", edge_port.name) } else { name.to_owned() })
    }
}
