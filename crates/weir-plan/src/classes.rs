//! The classes that a configuration may use: packet programs and engine nodes.

use std::collections::BTreeMap;

use weir_click::{ElementSet, PortCounts};
use weir_elements::Class;
use weir_ir::ClassInfo;
use weir_nodes::node::{Modes, NodeClass, Reach};

/// Handlers that every element has.
pub const COMMON: [&str; 5] = ["class", "config", "handlers", "name", "ports"];
/// Handlers of elements that work by themselves.
pub const TASK: [&str; 2] = ["home_thread", "scheduled"];

/// A class of either kind.
#[derive(Debug, Clone, Copy)]
pub enum AnyClass {
    /// Packet programs.
    Element(Class),
    /// Engine nodes.
    Node(NodeClass),
}

impl AnyClass {
    /// The manual page.
    pub fn info(&self) -> &'static ClassInfo {
        match self {
            AnyClass::Element(c) => c.info,
            AnyClass::Node(c) => c.info,
        }
    }

    /// How a handler of its elements may be called; no mode: there is none.
    pub fn handler_modes(&self, handler: &str) -> Modes {
        let works = matches!(self, AnyClass::Node(_)) && TASK.contains(&handler);
        let mut modes = Modes { read: COMMON.contains(&handler) || works, ..Modes::default() };
        for h in self.info().handlers.iter().filter(|h| is_called(h.name, handler)) {
            modes.read |= h.read;
            modes.write |= h.write;
        }
        modes
    }

    /// What its elements can get at.
    pub fn reach(&self) -> Reach {
        match self {
            AnyClass::Element(_) => Reach::Graph,
            AnyClass::Node(c) => c.reach,
        }
    }

    /// The family it belongs to.
    pub fn family(&self) -> &'static str {
        match self {
            AnyClass::Element(c) => c.family,
            AnyClass::Node(_) => "engine",
        }
    }
}

/// Whether a handler of a manual page goes by this name: a capital N at its end stands for a number.
pub fn is_called(handler: &str, name: &str) -> bool {
    let handler = handler.trim_start_matches("r#");
    let numbered = |prefix| weir_elements::private::numbered(name, prefix).is_some();
    handler == name || handler.strip_suffix('N').is_some_and(numbered)
}

/// All classes by name.
#[derive(Debug, Clone)]
pub struct Classes {
    by_name: BTreeMap<&'static str, AnyClass>,
}

impl Default for Classes {
    fn default() -> Classes {
        Classes::with([])
    }
}

impl Classes {
    /// The element library, the engine nodes, and packet programs of other crates.
    pub fn with(more: impl IntoIterator<Item = Class>) -> Classes {
        let elements = weir_elements::classes().copied().chain(more).map(AnyClass::Element);
        let nodes = weir_nodes::classes().copied().map(AnyClass::Node);
        Classes { by_name: elements.chain(nodes).map(|c| (c.info().name, c)).collect() }
    }

    /// The class of that name.
    pub fn get(&self, name: &str) -> Option<&AnyClass> {
        self.by_name.get(name)
    }

    /// All classes in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &AnyClass> {
        self.by_name.values()
    }
}

impl ElementSet for Classes {
    fn class(&self, name: &str) -> Option<weir_click::ClassInfo> {
        let info = self.get(name)?.info();
        weir_click::ClassInfo::new(info.ports, info.processing, info.flow).ok()
    }

    fn names(&self) -> Vec<String> {
        self.by_name.keys().map(|&n| n.to_owned()).collect()
    }

    fn ports(&self, class: &str, args: &[String]) -> Option<PortCounts> {
        let AnyClass::Element(class) = self.get(class)? else { return None };
        // Wrong arguments are reported when the elements are configured.
        class.configure(args).ok()?.ports().parse().ok()
    }
}
