//! What programs hand back while they run.

use std::collections::VecDeque;

use weir_ir::program::BlockId;
use weir_ir::{Host, Program, Reason};
use weir_jit::{BatchHost, Ended, Fate};
use weir_packet::Packet;
use weir_plan::{Part, Plan};

use super::runtime::Runtime;

/// Packets between programs and nodes, by link.
#[derive(Debug, Default)]
pub(crate) struct Outflow {
    pub links: Vec<Flow>,
    /// Links that have packets to deliver, in the order in which the first came.
    pub ready: VecDeque<u32>,
    /// The pull input that asks now: the first packet that leaves there is given back.
    pub asker: Option<u32>,
    pub returned: Option<Packet>,
}

/// The packets on one link.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// To be delivered.
    pub packets: Vec<Packet>,
    /// On a pull input: came before it was asked for.
    pub ahead: VecDeque<Packet>,
    /// Whether packets wait until they are asked for.
    pub pull: bool,
}

impl Outflow {
    /// Puts a packet on a link.
    pub fn put(&mut self, link: u32, packet: Packet) {
        let flow = &mut self.links[link as usize];
        if flow.pull {
            if self.asker == Some(link) && self.returned.is_none() {
                self.returned = Some(packet);
            } else {
                flow.ahead.push_back(packet);
            }
            return;
        }
        if flow.packets.is_empty() {
            self.ready.push_back(link);
        }
        flow.packets.push(packet);
    }

    /// Puts packets on a link again, before those that are there: they are delivered after all that is ready now.
    pub fn put_back(&mut self, link: u32, packets: &mut Vec<Packet>) {
        let flow = &mut self.links[link as usize];
        if flow.packets.is_empty() {
            self.ready.push_back(link);
        }
        packets.append(&mut flow.packets);
        std::mem::swap(packets, &mut flow.packets);
    }
}

/// Counts of packets that ended in programs, by place.
#[derive(Debug)]
pub(crate) struct BlockDrops {
    /// By block of the linked program, and of the fast one.
    pub linked: Vec<u64>,
    pub fast: Vec<u64>,
    /// By owner: those that went round too often, and those whose entry was removed.
    pub loops: Vec<u64>,
    pub orphans: Vec<u64>,
}

/// The host of a run at speed.
pub(crate) struct FastHost<'a> {
    pub out: &'a mut Outflow,
    pub drops: &'a mut BlockDrops,
    pub plan: &'a Plan,
    pub rt: &'a mut Runtime,
    /// Whose packets end when their entry is removed.
    pub holder: u32,
    /// The program that runs.
    pub program: &'a Program,
    /// Whether it is the fast one, instead of the linked one.
    pub fast: bool,
}

impl FastHost<'_> {
    fn count_drops(&mut self, at: BlockId, reason: &Reason, n: u64) {
        if *reason == Reason::LOOP_LIMIT {
            self.drops.loops[self.program.block(at).owner as usize] += n;
        } else if self.fast {
            self.drops.fast[at.0 as usize] += n;
        } else {
            self.drops.linked[at.0 as usize] += n;
        }
    }
}

impl Host for FastHost<'_> {
    fn exit(&mut self, port: u32, packet: Packet) {
        self.out.put(port, packet);
    }

    fn dropped(&mut self, at: BlockId, reason: &Reason, _packet: Packet) {
        self.count_drops(at, reason, 1);
    }

    fn orphaned(&mut self, _packet: Packet) {
        if let Some(n) = self.drops.orphans.get_mut(self.holder as usize) {
            *n += 1;
        }
    }

    fn notify(&mut self, event: u32, args: &[u128], packet: Option<&Packet>) {
        let event = &self.plan.linked.events[event as usize];
        let Part::Element { element, .. } = &self.plan.parts[self.plan.owners[event.owner as usize]] else {
            return;
        };
        if let Some(line) = element.describe(&event.name, args, packet) {
            let graph = self.rt.env.running.clone();
            self.rt.env.notice(Some(&graph), "print", line);
        }
    }

    fn random(&mut self) -> u32 {
        self.rt.env.random()
    }

    fn hash_seed(&self) -> u64 {
        self.rt.env.hash_seed
    }
}

impl BatchHost for FastHost<'_> {
    fn ended(&mut self, mut ended: Ended<'_>) {
        let mut from = 0;
        while let Some((run, fate)) = ended.run(from) {
            from = run.end;
            match fate {
                Fate::Exit(link) => {
                    for packet in run.filter_map(|i| ended.take(i)) {
                        self.out.put(link, packet);
                    }
                }
                Fate::Dropped(at, reason) => self.count_drops(at, reason, run.len() as u64),
                Fate::Gone => {}
            }
        }
    }
}
