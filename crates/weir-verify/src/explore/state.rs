//! A path so far.

use std::collections::VecDeque;
use std::rc::Rc;

use weir_ir::program::BlockId;

use crate::explore::path::{Notice, PacketEnd};
use crate::explore::released::TablesSeen;
use crate::explore::route::Route;
use crate::explore::tables::Entry;
use crate::model::expr::Expr;
use crate::model::facts::Facts;
use crate::model::packet::{Bounds, SymbolicPacket};
use crate::network::NodeId;

/// A packet that waits for its turn.
#[derive(Debug, Clone)]
pub(crate) struct Strand {
    /// Number of the element that started it, in its node.
    pub(crate) starter: u32,
    pub(crate) node: NodeId,
    pub(crate) block: BlockId,
    pub(crate) args: Vec<u32>,
    pub(crate) packet: SymbolicPacket,
    pub(crate) laps: u32,
    pub(crate) route: Route,
}

/// Packets that came in, a bit each, from the second bit on. Those behind the 62nd share one.
pub(crate) type Packets = u64;

/// The bit of the packet with this number, from 1; 0 is what happens before the first.
fn packet_bit(number: u32) -> Packets {
    1 << number.min(63)
}

/// A path so far.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) node: NodeId,
    pub(crate) block: BlockId,
    pub(crate) op: usize,
    /// Whether the path is inside a program.
    pub(crate) running: bool,
    /// Number of an expression or of an entry, by the value's type, where the [`Frame`] of the program says.
    pub(crate) values: Vec<u32>,
    pub(crate) packet: Option<SymbolicPacket>,
    /// Where the packet came by.
    pub(crate) route: Route,
    pub(crate) strands: VecDeque<Strand>,
    pub(crate) entries: Vec<Rc<Entry>>,
    /// Tables in which the path changed when entries expire.
    pub(crate) stirred: Vec<u32>,
    pub(crate) facts: Facts,
    /// How often each loop was entered since it was entered from outside.
    pub(crate) rounds: Vec<(BlockId, u32)>,
    pub(crate) randoms: u32,
    pub(crate) steps: usize,
    pub(crate) ends: Vec<PacketEnd>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) orphans: Vec<SymbolicPacket>,
    /// Rounds of the current packet through cycles of a linked graph.
    pub(crate) laps: u32,
    /// Checksums (without their final inversion) that are known to be all ones.
    pub(crate) sums: Vec<Expr>,
    /// Packets that came in so far.
    pub(crate) inputs: u32,
    /// How many of the entries stood there before the current packet came in.
    pub(crate) past: usize,
    /// The packets of others that came before what is looked at.
    pub(crate) others: Packets,
    /// Those without which it might have been otherwise, as the entries show that were found.
    pub(crate) used: Packets,
    /// What lookups did not find before an entry of each of them was found: tables and keys.
    pub(crate) missed: Vec<(u32, Rc<[Expr]>)>,
    /// What it read of their entries: fields by table and number.
    pub(crate) read: Vec<(u32, u32)>,
    /// Whether a packet came to where nobody looks.
    pub(crate) ignored: bool,
    /// What one of the paths assumed that it stands for, and it does not: whoever looks for a run may start there.
    pub(crate) forgotten: Vec<Expr>,
    /// What it saw of tables that packets of others may change, which it let go.
    pub(crate) seen: TablesSeen,
}

impl State {
    /// A path on which nothing has happened.
    pub(crate) fn fresh() -> Box<State> {
        Box::new(State {
            node: 0,
            block: BlockId(0),
            op: 0,
            running: false,
            values: Vec::new(),
            packet: None,
            route: Route::default(),
            strands: VecDeque::new(),
            entries: Vec::new(),
            stirred: Vec::new(),
            facts: Facts::default(),
            rounds: Vec::new(),
            randoms: 0,
            steps: 0,
            ends: Vec::new(),
            notices: Vec::new(),
            orphans: Vec::new(),
            laps: 0,
            sums: Vec::new(),
            inputs: 0,
            past: 0,
            others: 0,
            used: 0,
            missed: Vec::new(),
            read: Vec::new(),
            ignored: false,
            forgotten: Vec::new(),
            seen: TablesSeen::default(),
        })
    }

    /// Whether nothing but its current packet, what is assumed, and entries show what happened on a path.
    pub(crate) fn is_settled(&self) -> bool {
        self.strands.is_empty()
            && self.notices.is_empty()
            && self.orphans.is_empty()
            && self.ends.is_empty()
            && self.stirred.is_empty()
    }

    /// Whether a packet came to a node, on the path of the current one or on another that belongs to the path.
    pub(crate) fn meets(&self, node: NodeId) -> bool {
        let strands = self.strands.iter().map(|s| &s.route);
        let mut all = self.ends.iter().map(|e| &e.route).chain(strands).chain([&self.route]);
        all.any(|t| t.meets(node))
    }

    /// Forgets what was found out about packets: what it follows from is not assumed any more.
    pub(crate) fn forget_found(&mut self) {
        let waiting = self.strands.iter_mut().map(|s| &mut s.packet);
        let all = waiting.chain(&mut self.packet).chain(&mut self.orphans);
        all.for_each(|p| p.bounds = Bounds::default());
        for e in self.entries.iter_mut().filter(|e| !e.held.is_empty()) {
            Rc::make_mut(e).held.iter_mut().for_each(|p| p.bounds = Bounds::default());
        }
    }

    /// What happened so far is what others did.
    pub(crate) fn leave_to_others(&mut self) {
        let all = (0..=self.inputs).fold(0, |all, n| all | packet_bit(n));
        (self.others, self.used) = (all & !packet_bit(0), 0);
        self.missed.clear();
        self.read.clear();
    }

    /// Whether entries of all others were found.
    pub(crate) fn uses_all_others(&self) -> bool {
        self.others & !self.used == 0
    }

    /// Whether an entry was found that needs a packet, by its number.
    pub(crate) fn uses_packet(&self, number: u32) -> bool {
        self.used & packet_bit(number) != 0
    }

    /// Whether the packet that comes last made an entry, or changed one that an earlier one made, or (`old`) one that was there
    /// before all.
    pub(crate) fn leaves_something(&self, old: bool) -> bool {
        let is_of_last = |e: &Entry| e.makers & packet_bit(self.inputs) != 0;
        self.entries.iter().any(|e| (old || e.base.is_none()) && is_of_last(e))
    }

    /// The packet that comes last, and those without which it might have done something else.
    pub(crate) fn makers(&self) -> Packets {
        self.used | packet_bit(self.inputs)
    }

    /// An entry, to change.
    pub(crate) fn entry_mut(&mut self, i: usize) -> &mut Entry {
        Rc::make_mut(&mut self.entries[i])
    }

    /// Writes a field of an entry, if it is there.
    pub(crate) fn set_field(&mut self, i: usize, field: u32, v: Expr) {
        if self.entries[i].live {
            let makers = self.makers();
            let entry = self.entry_mut(i);
            entry.fields[field as usize] = v;
            entry.makers |= makers;
        }
    }

    /// Rounds through a loop.
    pub(crate) fn rounds_of(&mut self, header: BlockId) -> &mut u32 {
        let i = self.rounds.iter().position(|(b, _)| *b == header).unwrap_or_else(|| {
            self.rounds.push((header, 1));
            self.rounds.len() - 1
        });
        &mut self.rounds[i].1
    }
}
