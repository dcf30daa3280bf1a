//! What of a graph the kernel could run itself: the paths from one interface to others.

use std::fmt;

use weir_ebpf::{Object, Options, compile};
use weir_ir::program::{BlockId, End, Program};

use crate::fast::Fast;
use crate::plan::{Dest, Part, Plan};

/// The offload of one interface: what becomes of its packets.
#[derive(Debug, Clone)]
pub struct Offload {
    /// The element that receives them.
    pub element: String,
    /// The interface.
    pub interface: String,
    /// The program for it, or all that speaks against one.
    pub result: Result<Object, Vec<String>>,
    /// The interfaces by which packets leave, with the numbers of the exits.
    pub leaves: Vec<(u32, String)>,
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: packets of {} ", self.element, self.interface)?;
        match &self.result {
            Ok(object) => {
                let to: Vec<&str> = self.leaves.iter().map(|(_, to)| to.as_str()).collect();
                let to = if to.is_empty() { "nowhere".to_owned() } else { to.join(", ") };
                write!(f, "can go to {to} in the kernel, by {} instructions", object.code.len())
            }
            Err(why) => write!(f, "have to come to the engine: {}", why.join("; ")),
        }
    }
}

impl Plan {
    /// For each element that receives from an interface: what the kernel could do with its packets. `fast` is the plan's own
    /// [optimised](Plan::optimized) program.
    pub fn offload(&self, fast: &Fast, options: &Options) -> Vec<Offload> {
        let from_interfaces = self.links.iter().filter_map(|link| {
            let (element, _) = link.from?;
            let decl = &self.graph.elements[element];
            (decl.class == "FromDevice").then_some((element, link.dest))
        });
        from_interfaces.map(|(element, dest)| self.offload_of(element, dest, fast, options)).collect()
    }

    fn offload_of(&self, element: usize, dest: Dest, fast: &Fast, options: &Options) -> Offload {
        let mut offload = Offload {
            element: self.graph.elements[element].name.clone(),
            interface: self.interface(element),
            result: Err(Vec::new()),
            leaves: Vec::new(),
        };
        let start = match dest {
            Dest::Program(block) => fast.start(block),
            Dest::Nowhere => None,
            Dest::Node { node, .. } => {
                let why = self.is_no_interface(node).unwrap_or_else(|| "no element is between".to_owned());
                offload.result = Err(vec![why]);
                return offload;
            }
        };
        let Some(start) = start else {
            offload.result = Err(vec!["its output leads nowhere".to_owned()]);
            return offload;
        };
        let mut why = Vec::new();
        for exit in exits(&fast.program, start) {
            match self.links[exit as usize].dest {
                Dest::Node { node, .. } => match self.is_no_interface(node) {
                    Some(reason) => why.push(reason),
                    None => offload.leaves.push((exit, self.interface(node))),
                },
                Dest::Program(_) | Dest::Nowhere => {
                    why.push("several workers share an element on the path".to_owned());
                }
            }
        }
        let compiled = compile(&fast.program, start, options);
        if let Err(refused) = &compiled {
            why.extend(refused.0.iter().map(ToString::to_string));
        }
        why.sort();
        why.dedup();
        offload.result = match compiled {
            Ok(object) if why.is_empty() => Ok(object),
            _ => Err(why),
        };
        offload
    }

    /// Why packets that come to a node do not leave by an interface; `None` if they do.
    fn is_no_interface(&self, node: usize) -> Option<String> {
        let decl = &self.graph.elements[node];
        let interface = self.interface(node);
        match (&self.parts[node], decl.class.as_str()) {
            (Part::Node { .. }, "ToDevice") if interface.contains(':') => {
                Some(format!("{}: {interface} is no interface of the kernel", decl.name))
            }
            (Part::Node { .. }, "ToDevice") => None,
            (_, class) => Some(format!("{}: only the engine has a {class}", decl.name)),
        }
    }

    /// The interface of an element for one: its first argument.
    fn interface(&self, element: usize) -> String {
        self.graph.elements[element].args.first().map_or(String::new(), |a| a.trim_matches('"').to_owned())
    }
}

/// The exits by which packets may leave that start at a block.
fn exits(program: &Program, start: BlockId) -> Vec<u32> {
    let (mut seen, mut work, mut found) = (vec![false; program.blocks.len()], vec![start], Vec::new());
    while let Some(b) = work.pop() {
        if std::mem::replace(&mut seen[b.0 as usize], true) {
            continue;
        }
        match &program.block(b).end {
            End::Exit { exit } => found.push(*exit),
            End::Enter { block, .. } => work.push(*block),
            end => work.extend(end.targets().iter().map(|t| t.block)),
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Classes;
    use weir_ebpf::Hook;

    fn texts(config: &str) -> Vec<String> {
        let plan =
            Plan::new(&Classes::default(), config, "test").unwrap_or_else(|e| panic!("{:?}", e.texts()));
        let options = Options { hook: Hook::Tc, ..Options::default() };
        plan.offload(&plan.optimized(), &options).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_firewall_between_interfaces_can_run_in_the_kernel() {
        let found = texts(
            "FromDevice(a) -> CheckIPHeader(14) -> IPFilter(deny tcp dst port 81, allow all) -> to :: ToDevice(b);
             FromDevice(b) -> Counter -> ToDevice(a);",
        );
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("FromDevice@1: packets of a can go to b in the kernel, by "),
            "{found:?}"
        );
        assert!(found[1].contains("packets of b can go to a in the kernel"), "{found:?}");
    }

    #[test]
    fn what_speaks_against_it_is_said() {
        let found = texts(
            "FromDevice(a) -> t :: Tee -> q :: Queue -> ToDevice(b); t [1] -> Print(x) -> ToDevice(c);
             FromDevice(b) -> ToDevice(a); FromDevice(c) -> ToDevice(memif:x);",
        );
        assert_eq!(
            found[0],
            "FromDevice@1: packets of a have to come to the engine: q: only the engine has a Queue; t: makes or copies packets"
        );
        assert!(found[1].ends_with("have to come to the engine: no element is between"), "{found:?}");
        assert!(found[2].ends_with("memif:x is no interface of the kernel"), "{found:?}");
    }

    #[test]
    fn packets_that_wait_in_a_queue_come_to_the_engine() {
        let found = texts("FromDevice(a) -> Counter -> q :: Queue -> ToDevice(b);");
        assert_eq!(
            found,
            ["FromDevice@1: packets of a have to come to the engine: q: only the engine has a Queue"]
        );
    }
}
