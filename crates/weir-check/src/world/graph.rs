//! Service graphs on their own, as the configurations that they compile to.

use weir_model::graph::ServiceGraph;
use weir_plan::Plan;
use weir_switch::compile::Names;
use weir_verify::checks::{Framing, Target};
use weir_verify::{Body, NodePort};

use super::configurations::devices;
use super::{EdgePort, Location, World};
use crate::click::Template;

impl World {
    /// A service graph: requirements name its access points (`client`, `sap:client`), its functions and their ports
    /// (`nat:inside`, `sf:nat:inside`), and the elements of its configuration. `plan` is that of the configuration, with these
    /// names. What functions do that are not inline is not known.
    ///
    /// # Errors
    /// If a handler write of a function is wrong.
    pub fn of_graph(graph: &ServiceGraph, names: &Names, plan: &Plan) -> Result<World, Vec<String>> {
        let mut world = World::default();
        let mut template = Template::new(plan);
        let writes = names.functions.iter().flat_map(|f| &f.writes);
        let errors: Vec<String> =
            writes.filter_map(|(handler, value)| template.write(plan, handler, value).err()).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let ports = template.add(&mut world.net, 0, "");
        world.add_ports(&ports, "");
        let links = devices(&ports);
        let mut all = Vec::new();
        for (sap, a) in graph.saps.iter().zip(&names.attachments) {
            let link = |name: &str| links.iter().find(|s| s.name == name);
            let (from, to) = (link(&a.to_graph), link(&a.from_graph));
            let edge_ports = |s: Option<&Location>| s.map(|s| s.edge_ports.clone()).unwrap_or_default();
            let edge_port = EdgePort {
                name: sap.id.to_string(),
                start: edge_ports(from).into_iter().find_map(|g| g.start),
                target: edge_ports(to).into_iter().find_map(|g| g.target),
                owns: true,
            };
            let nodes = [from, to].into_iter().flatten().flat_map(|s| s.nodes.clone()).collect();
            all.push(edge_port.clone());
            world.locations.push(Location {
                name: sap.id.to_string(),
                edge_ports: vec![edge_port],
                nodes,
                owns: Vec::new(),
            });
        }
        world.locations.push(Location {
            name: "sap".into(),
            edge_ports: all.clone(),
            nodes: Vec::new(),
            owns: Vec::new(),
        });
        let mut of_functions = Vec::new();
        for (f, made) in graph.functions.iter().zip(&names.functions) {
            let place = |port: usize| {
                if let Some(interface) = made.interfaces.get(port) {
                    let device = links.iter().find(|s| s.name == *interface)?;
                    return device.edge_ports.iter().find_map(|g| g.target);
                }
                let element = plan.graph.find(&format!("{}/in_{port}", made.element))?;
                let place = NodePort { node: ports.nodes.get(element)?.0, port: 0 };
                Some(Target::new(place, Framing::Ethernet))
            };
            // What a function sends that is not inline may be anything.
            let start = |port: usize| {
                let interface = made.interfaces.get(port)?;
                let device = links.iter().find(|s| s.name == *interface)?;
                device.edge_ports.iter().find_map(|g| g.start.clone())
            };
            let edge_port = |(i, p): (usize, &weir_model::graph::Port)| EdgePort {
                name: p.id.to_string(),
                start: start(i),
                target: place(i),
                owns: false,
            };
            let edge_ports: Vec<EdgePort> = f.ports.iter().enumerate().map(edge_port).collect();
            if !made.interfaces.is_empty() {
                let opaque = world.net.add(made.element.clone(), Body::Opaque);
                let cause = format!(
                    "what the function {} does with packets is not known: the graph's data plane does not run it",
                    f.id
                );
                world.causes.insert(opaque, cause);
                let targets = edge_ports.iter().filter_map(|g| g.target.as_ref());
                targets.for_each(|t| world.net.connect(t.place, NodePort { node: opaque, port: 0 }));
            }
            let own = |name: &str| name.strip_prefix(&made.element).is_some_and(|rest| rest.starts_with('/'));
            let mine = plan.graph.elements.iter().zip(&ports.nodes).filter(|(e, _)| own(&e.name));
            let nodes = mine.flat_map(|(_, (a, b))| [*a, *b]).collect();
            let full = |g: &EdgePort| EdgePort { name: format!("{}:{}", f.id, g.name), ..g.clone() };
            of_functions.extend(edge_ports.iter().map(full));
            if !world.locations.iter().any(|s| s.name == f.id.as_str()) {
                world.locations.push(Location {
                    name: f.id.to_string(),
                    edge_ports,
                    nodes,
                    owns: Vec::new(),
                });
            }
        }
        world.locations.push(Location {
            name: "sf".into(),
            edge_ports: of_functions,
            nodes: Vec::new(),
            owns: Vec::new(),
        });
        world.add_elements(plan, &ports, "");
        world.add_outside(all);
        Ok(world)
    }
}
