//! A graph of two interfaces, loaded into the kernel.

use std::collections::HashMap;
use std::process::Command;

use weir_ebpf::{Ended, Hook, Object, Options, Role, compile, encode};
use weir_io::Netns;
use weir_io::bpf::{self, Link, Map, Mode, Program};
use weir_testkit::Namespace;

/// A firewall between two interfaces: what comes from the left leaves to the right, and the other way round.
pub const FIREWALL: &str = "
    Idle -> a :: Classifier(12/0806, 12/0800); a [0] -> right :: Discard;
    a [1] -> CheckIPHeader(14) -> fa :: IPFilter(deny tcp dst port 81, allow all) -> ca :: Counter -> right;
    Idle -> b :: Classifier(12/0806, 12/0800); b [0] -> left :: Discard;
    b [1] -> CheckIPHeader(14) -> fb :: IPFilter(allow all) -> cb :: Counter -> left;";

/// Programs of a graph in the kernel, on the interfaces `left` and `right` of a namespace.
pub struct Loaded {
    pub object: Object,
    pub maps: HashMap<Role, Map>,
    pub programs: Vec<Program>,
    pub links: Vec<Link>,
    pub elements: Vec<String>,
}

impl Loaded {
    pub fn new(netns: &Netns, hook: Hook) -> Loaded {
        let g = crate::graph::linked(FIREWALL);
        let options = Options { hook, ..Options::default() };
        let objects: Vec<Object> = g
            .points
            .iter()
            .map(|&(owner, port)| {
                let entry = g.fast.packet_entry(owner, port).expect("the point is an input");
                compile(&g.fast, entry, &options).unwrap_or_else(|e| panic!("{e}"))
            })
            .collect();
        let mut maps = HashMap::new();
        for m in objects.iter().flat_map(|o| &o.maps) {
            maps.entry(m.role).or_insert_with(|| {
                Map::new(m.kind as u32, m.key, m.value, m.entries).expect("the map is made")
            });
        }
        let programs: Vec<Program> = objects
            .iter()
            .map(|o| {
                let code =
                    encode(&o.code, |m| maps[&o.maps[m as usize].role].fd()).expect("no jump is too far");
                let kind = if hook == Hook::Xdp { bpf::Hook::Xdp } else { bpf::Hook::Tc };
                Program::load(kind, &code, "weir_test").unwrap_or_else(|e| panic!("{e}"))
            })
            .collect();
        // Exits are numbered as the wires to `Discard` are written: two to the right, two to the left.
        let [left, right] = indices(netns);
        let ports = [right, right, left, left];
        let map = &maps[&Role::Ports];
        if hook == Hook::Xdp {
            for (exit, index) in (0_u32..).zip(ports) {
                // The number of an interface is of the namespace of whoever writes it.
                let set = || map.set(&exit.to_ne_bytes(), &index.to_ne_bytes());
                netns.run(set).expect("the namespace is there").expect("the interface is taken");
            }
        } else {
            map.set(&[0; 4], &ports.map(u32::to_ne_bytes).concat()).expect("the interfaces are taken");
        }
        let object = objects.into_iter().next().expect("there are two");
        Loaded { object, maps, programs, links: Vec::new(), elements: g.fast.elements.clone() }
    }

    pub fn attach(&mut self, netns: &Netns) -> std::io::Result<()> {
        for (program, index) in self.programs.iter().zip(indices(netns)) {
            // Of XDP in the driver, a veth takes packets only where its peer has a program, too.
            let link = netns.run(|| program.attach(index, Mode::Generic)).expect("the namespace is there")?;
            self.links.push(link);
        }
        Ok(())
    }

    /// Packets that ended so, over all processors.
    pub fn ended(&self, like: impl Fn(&Ended) -> bool) -> u64 {
        let values =
            self.maps[&Role::Ends].get(&[0; 4]).expect("counters are read").expect("there is an entry");
        let count = |v: &[u8], i: usize| u64::from_ne_bytes(v[16 * i..][..8].try_into().expect("8 bytes"));
        let ends = self.object.ends.iter().enumerate().filter(|(_, e)| like(e));
        ends.flat_map(|(i, _)| values.iter().map(move |v| count(v, i))).sum()
    }

    pub fn dropped(&self, element: &str, why: &str) -> u64 {
        self.ended(|e| matches!(e, Ended::Dropped { element: n, reason } if self.elements[*n as usize] == element && reason.name() == why))
    }
}

pub fn netns(of: &Namespace) -> Netns {
    Netns::Named(of.name().to_owned())
}

/// The numbers of `left` and `right`.
fn indices(netns: &Netns) -> [u32; 2] {
    ["left", "right"].map(|name| {
        let path = format!("/sys/class/net/{name}/ifindex");
        let command = match netns {
            Netns::Named(n) => Command::new("ip").args(["netns", "exec", n, "cat", &path]).output(),
            _ => unreachable!("the tests name their namespaces"),
        };
        let text = String::from_utf8(command.expect("cat runs").stdout).expect("a number");
        text.trim().parse().unwrap_or_else(|_| panic!("'{text}' of {name} is a number"))
    })
}
