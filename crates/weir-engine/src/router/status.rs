//! Figures of a graph.

use std::collections::BTreeMap;

use weir_ir::Reason;
use weir_nodes::env::device::{Join, Sender};
use weir_protocol::{
    DeviceStatus, ElementProfile, FlowCache, GraphFigures, GraphInfo, GraphStatus, TableFigures,
};
use weir_table::Kind;

use super::Router;
use super::runtime::Runtime;
use crate::executor::Executor;

/// Counts of dropped packets, by element and reason.
pub(super) type DropCounts = BTreeMap<String, BTreeMap<String, u64>>;

impl Router {
    /// The content of [`GraphInfo`].
    pub(crate) fn info(&self) -> GraphInfo {
        GraphInfo {
            name: self.name.clone(),
            tag: self.tag.clone(),
            elements: self.plan.graph.elements.len(),
            swaps: self.swaps,
            engine: self.executor.name().to_owned(),
            trouble: String::new(),
        }
    }

    /// The content of [`GraphStatus`].
    pub(crate) fn status(&self, rt: &mut Runtime) -> GraphStatus {
        let tables = self.large_tables().map(|(i, name, _)| (name, self.tables.table(i).len()));
        GraphStatus {
            info: self.info(),
            tables: tables.collect(),
            devices: self.device_states(rt),
            drops: self.drop_counts(),
            elements: self.plan.graph.elements.iter().map(|e| (e.name.clone(), e.class.clone())).collect(),
            profile: self.profile(),
            flows: self.flows(),
        }
    }

    /// The content of [`GraphFigures`], but for counters: these are read as handlers are.
    pub(crate) fn figures(&self, rt: &mut Runtime) -> GraphFigures {
        let tables = self.large_tables().map(|(i, name, element)| {
            let table = self.tables.table(i);
            TableFigures {
                name,
                element,
                entries: table.len(),
                capacity: self.plan.linked.tables[i as usize].decl.capacity,
                bytes: table.bytes() as u64,
            }
        });
        GraphFigures {
            name: self.name.clone(),
            engine: self.executor.name().to_owned(),
            tables: tables.collect(),
            devices: self.device_states(rt),
            drops: self.drop_counts(),
            counters: BTreeMap::new(),
            profile: self.profile(),
        }
    }

    fn device_states(&self, rt: &mut Runtime) -> Vec<DeviceStatus> {
        let mut devices: Vec<usize> = self.devices();
        devices.sort_unstable();
        devices.dedup();
        devices.into_iter().filter_map(|d| rt.env.devices.status(d)).collect()
    }

    /// The tables that are not cells: number, name and element.
    fn large_tables(&self) -> impl Iterator<Item = (u32, String, String)> {
        let tables = self.plan.linked.tables.iter().enumerate();
        let large = tables.filter(|(_, t)| !(t.decl.kind == Kind::Array && t.decl.capacity == 1));
        large.map(|(i, t)| {
            let element = self.plan.linked.elements[t.owner as usize].clone();
            let name = match &t.decl.shared_name {
                Some(shared) => shared.clone(),
                None => format!("{element}.{}", t.decl.name),
            };
            (i as u32, name, element)
        })
    }

    /// The elements that were measured.
    fn profile(&self) -> Vec<ElementProfile> {
        // The passes keep the elements.
        let of = |executor: &Executor| -> Vec<ElementProfile> {
            let measured = self.plan.linked.elements.iter().zip(executor.profile());
            let passed = measured.filter(|(_, s)| s.packets > 0);
            let profile = passed.map(|(element, s)| ElementProfile {
                element: element.clone(),
                packets: s.packets,
                cycles: s.cycles,
            });
            profile.collect()
        };
        let mut profile = of(&self.executor);
        add_profile(&mut profile, of(&self.locked));
        profile
    }

    fn flows(&self) -> Vec<FlowCache> {
        let mut flows = self.flows_of(&self.executor);
        add_flows(&mut flows, self.flows_of(&self.locked));
        flows
    }

    fn flows_of(&self, executor: &Executor) -> Vec<FlowCache> {
        let caches = executor.flows();
        let flows = caches.iter().map(|c| {
            let table = &self.plan.linked.tables[c.table.0 as usize];
            FlowCache {
                table: format!("{}.{}", self.plan.linked.elements[table.owner as usize], table.decl.name),
                entries: c.entries,
                hits: c.hits,
                misses: c.misses,
            }
        });
        flows.collect()
    }

    /// The devices that the graph uses, perhaps more than once.
    pub(crate) fn devices(&self) -> Vec<usize> {
        self.nodes().flat_map(|(_, n)| [n.reads_device(), n.writes_device()]).flatten().collect()
    }

    /// The devices that are to be joined.
    pub(crate) fn joins(&self) -> Vec<Join> {
        let join = |(from, to)| {
            let element = self.sender_to(to)?;
            Some(Join { graph: self.slot, from, to, sender: Sender { graph: self.slot, element } })
        };
        self.nodes().filter_map(|(_, node)| node.joins_devices()).filter_map(join).collect()
    }

    /// The element that sends to a device; one of them, if there are several.
    pub(crate) fn sender_to(&self, device: usize) -> Option<usize> {
        self.nodes().find(|(_, node)| node.writes_device() == Some(device)).map(|(element, _)| element)
    }

    /// Drops since the graph was loaded.
    pub(crate) fn drop_counts(&self) -> DropCounts {
        let mut counts = self.old_drops.clone();
        let mut add = |element: &str, reason: &str, n: u64| {
            if n > 0 {
                let of = counts.entry(element.to_owned()).or_default();
                *of.entry(reason.to_owned()).or_default() += n;
            }
        };
        let fast = self.fast.as_ref().map(|f| (&f.program, &self.drops.fast));
        for (program, drops) in std::iter::once((&*self.plan.linked, &self.drops.linked)).chain(fast) {
            for (block, &n) in program.blocks.iter().zip(drops) {
                // Only blocks that drop count, and these have a reason.
                if let Some(reason) = Router::reason_of(&block.end) {
                    add(&program.elements[block.owner as usize], reason.name(), n);
                }
            }
        }
        for (owner, element) in self.plan.linked.elements.iter().enumerate() {
            add(element, Reason::LOOP_LIMIT.name(), self.drops.loops[owner]);
            add(element, Reason::TIMED_OUT.name(), self.drops.orphans[owner]);
        }
        for (element, reason, n) in &self.node_drops {
            add(self.element_name(*element), reason.name(), *n);
        }
        counts
    }
}

/// Adds the figures of another worker, which has the same programs.
pub(super) fn add_status(sum: &mut GraphStatus, more: GraphStatus) {
    add_profile(&mut sum.profile, more.profile);
    add_flows(&mut sum.flows, more.flows);
    add_devices(&mut sum.devices, more.devices);
}

/// The same of counts.
pub(super) fn add_figures(sum: &mut GraphFigures, more: GraphFigures) {
    add_profile(&mut sum.profile, more.profile);
    add_devices(&mut sum.devices, more.devices);
}

fn add_devices(sum: &mut Vec<DeviceStatus>, more: Vec<DeviceStatus>) {
    for device in more {
        match sum.iter_mut().find(|d| d.name == device.name) {
            Some(d) => {
                d.rx_packets += device.rx_packets;
                d.rx_bytes += device.rx_bytes;
                d.rx_dropped += device.rx_dropped;
                d.tx_packets += device.tx_packets;
                d.tx_bytes += device.tx_bytes;
                d.tx_dropped += device.tx_dropped;
            }
            None => sum.push(device),
        }
    }
}

fn add_profile(sum: &mut Vec<ElementProfile>, more: Vec<ElementProfile>) {
    for one in more {
        match sum.iter_mut().find(|p| p.element == one.element) {
            Some(p) => {
                p.packets += one.packets;
                p.cycles += one.cycles;
            }
            None => sum.push(one),
        }
    }
}

fn add_flows(sum: &mut Vec<FlowCache>, more: Vec<FlowCache>) {
    for (i, one) in more.into_iter().enumerate() {
        match sum.get_mut(i).filter(|f| f.table == one.table) {
            Some(f) => {
                f.entries += one.entries;
                f.hits += one.hits;
                f.misses += one.misses;
            }
            None => sum.push(one),
        }
    }
}
