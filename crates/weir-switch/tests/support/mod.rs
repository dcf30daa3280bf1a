//! What the tests of flow tables share: the element set, frames, and the reference of actions.

pub mod frames;
pub mod reference;

use weir_click::{ClassInfo, ElementSet, PortCounts};
use weir_elements::Class;

/// The element library, `FlowTable`, and engine nodes, of which the language needs the ports only.
pub struct Library;

const NODES: &[(&str, &str, &str)] = &[
    ("FromLink", "0/1", "h"),
    ("ToLink", "1/0", "h"),
    ("FromDevice", "0/1", "h"),
    ("ToDevice", "1/0", "l"),
    ("Queue", "1/1", "h/l"),
];

/// A packet program's class.
pub fn class(name: &str) -> Option<&'static Class> {
    weir_elements::classes().chain(weir_switch::CLASSES).find(|c| c.info.name == name)
}

impl ElementSet for Library {
    fn class(&self, name: &str) -> Option<ClassInfo> {
        if let Some(&(_, ports, processing)) = NODES.iter().find(|(n, _, _)| *n == name) {
            return ClassInfo::new(ports, processing, "x/x").ok();
        }
        let info = class(name)?.info;
        ClassInfo::new(info.ports, info.processing, info.flow).ok()
    }

    fn names(&self) -> Vec<String> {
        let nodes = NODES.iter().map(|(name, _, _)| *name);
        weir_elements::classes()
            .chain(weir_switch::CLASSES)
            .map(|c| c.info.name)
            .chain(nodes)
            .map(str::to_owned)
            .collect()
    }

    fn ports(&self, name: &str, args: &[String]) -> Option<PortCounts> {
        class(name)?.configure(args).ok()?.ports().parse().ok()
    }
}
