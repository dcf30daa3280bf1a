//! The host of a run that is watched: it sees each block, and so the path from element to element.

use weir_ir::program::{BlockId, End, EntryKind};
use weir_ir::{Host, Reason};
use weir_packet::Packet;

use super::host::FastHost;
use crate::watch::GraphElement;

/// A packet that is in the program now.
struct Strand {
    /// The block that runs.
    block: BlockId,
    /// Its mark, which differs from the packet's if it is a copy of a marked packet.
    mark: u16,
}

/// Wraps the host of an ordinary run.
pub(crate) struct WatchHost<'a> {
    inner: FastHost<'a>,
    strand: Option<Strand>,
    /// The mark of the packet that started the run.
    main: u16,
    started: bool,
}

impl<'a> WatchHost<'a> {
    pub fn new(inner: FastHost<'a>, packet: Option<&Packet>) -> WatchHost<'a> {
        WatchHost { inner, strand: None, main: packet.map_or(0, |p| p.trace), started: false }
    }

    /// After the run: what has neither left nor been dropped is held.
    pub fn finish(mut self) {
        self.held();
    }

    fn place(&self, block: BlockId) -> GraphElement {
        let plan = self.inner.plan;
        let owner = plan.linked.block(block).owner as usize;
        let decl = &plan.graph.elements[plan.owners[owner]];
        GraphElement {
            graph: self.inner.rt.env.running.clone(),
            element: decl.name.clone(),
            class: decl.class.clone(),
        }
    }

    /// The input whose packets start at a block.
    fn input_of(&self, block: BlockId) -> Option<u32> {
        self.inner.plan.linked.entries.iter().find_map(|e| match e.kind {
            EntryKind::Packet { port } if e.block == block => Some(port),
            _ => None,
        })
    }

    fn held(&mut self) {
        if let Some(s) = self.strand.take()
            && s.mark != 0
        {
            let path = format!("waits in {}", self.place(s.block).element);
            self.inner.rt.watch.lock().traces.waits(s.mark, None, &path);
        }
    }

    /// Whether a packet in `from` may go on in `to`.
    fn follows(&self, from: BlockId, to: BlockId) -> bool {
        match &self.inner.plan.linked.block(from).end {
            End::Enter { block, .. } => *block == to,
            end => end.targets().iter().any(|t| t.block == to),
        }
    }

    fn leaves(&mut self, block: BlockId, packet: &Packet) {
        if let Some(port) = self.inner.plan.emits.get(block.0 as usize).copied().flatten() {
            let place = self.place(block);
            self.inner.rt.watch.lock().passes_output(&place, port, packet);
        }
    }
}

impl Host for WatchHost<'_> {
    fn step(&mut self, block: BlockId, packet: Option<&Packet>) {
        let before = self.strand.as_ref().map(|s| s.block);
        if before.is_some_and(|b| !self.follows(b, block)) {
            self.held();
        }
        let Some(packet) = packet else { return };
        let mut entered = self.strand.is_none();
        match (&mut self.strand, before) {
            (Some(s), Some(before)) => {
                s.block = block;
                if matches!(self.inner.plan.linked.block(before).end, End::Enter { .. }) {
                    self.leaves(before, packet);
                    entered = true;
                }
            }
            _ => {
                let copy = self.started && packet.trace != 0 && packet.trace == self.main;
                let mark =
                    if copy { self.inner.rt.watch.lock().traces.fork(packet.trace) } else { packet.trace };
                self.strand = Some(Strand { block, mark });
                self.started = true;
            }
        }
        if entered {
            let place = self.place(block);
            let mark = self.strand.as_ref().map_or(0, |s| s.mark);
            if let Some(port) = self.input_of(block) {
                self.inner.rt.watch.lock().looks_at_input(&place, port, packet);
            }
            if mark != 0 {
                let port = self.input_of(block).unwrap_or(0);
                self.inner.rt.watch.lock().traces.enters_as(mark, &place, port, Some(packet));
            }
        }
    }

    fn exit(&mut self, port: u32, mut packet: Packet) {
        if let Some(s) = self.strand.take() {
            self.leaves(s.block, &packet);
            packet.trace = s.mark;
        }
        self.inner.exit(port, packet);
    }

    fn dropped(&mut self, at: BlockId, reason: &Reason, packet: Packet) {
        let ends =
            matches!(self.inner.plan.linked.block(at).end, End::Drop { .. } | End::Enter { back: true, .. });
        // Otherwise it is a copy too many, and the packet itself goes on.
        if ends && let Some(s) = self.strand.take() {
            self.leaves(s.block, &packet);
            if s.mark != 0 {
                self.inner.rt.watch.lock().traces.ended(s.mark, Some(&packet), &format!("dropped: {reason}"));
            }
        }
        self.inner.dropped(at, reason, packet);
    }

    fn orphaned(&mut self, mut packet: Packet) {
        if packet.trace != 0 {
            self.inner.rt.watch.lock().ended(&mut packet, &format!("dropped: {}", Reason::TIMED_OUT));
        }
        self.inner.orphaned(packet);
    }

    fn notify(&mut self, event: u32, args: &[u128], packet: Option<&Packet>) {
        self.inner.notify(event, args, packet);
    }

    fn random(&mut self) -> u32 {
        self.inner.random()
    }

    fn hash_seed(&self) -> u64 {
        self.inner.hash_seed()
    }
}
