//! Other packets, and the flow of control.

use super::*;

impl Builder {
    /// Copies the packet; the copy runs `body` when this run has ended.
    pub fn fork(&mut self, body: impl FnOnce(&mut Builder)) {
        self.strand(&[], |b, _| body(b), |target| Op::Fork { copy: true, target });
    }

    /// As [`fork`](Builder::fork); `args` are passed along.
    pub fn fork_with(&mut self, args: &[V], body: impl FnOnce(&mut Builder, &[V])) {
        self.strand(args, body, |target| Op::Fork { copy: true, target });
    }

    /// Makes an empty packet with the annotations of the current one (or none); it runs `body` when this run has
    /// ended. `args` are passed along.
    pub fn fork_new(&mut self, args: &[V], body: impl FnOnce(&mut Builder, &[V])) {
        self.strand(args, body, |target| Op::Fork { copy: false, target });
    }

    /// Lets the packets that an entry holds go on with `body` when this run has ended. `args` are passed along.
    pub fn release(&mut self, e: E, args: &[V], body: impl FnOnce(&mut Builder, &[V])) {
        self.strand(args, body, |target| Op::Release { entry: e.value, target });
    }

    pub(super) fn strand(
        &mut self,
        args: &[V],
        body: impl FnOnce(&mut Builder, &[V]),
        op: impl FnOnce(Target) -> Op,
    ) {
        let params: Vec<V> =
            args.iter().map(|a| V { value: self.value(Type::Int(a.width)), width: a.width }).collect();
        let block = self.new_block(params.iter().map(|p| p.value).collect());
        self.op(op(Target { block, args: values(args) }));
        let here = self.current.take();
        self.enter(block);
        body(self, &params);
        if !self.ended() {
            self.drop(Reason::DISCARDED);
        }
        // The strand's blocks stand before those that follow, so what follows here starts a block of its own.
        if let Some(here) = here {
            let next = self.new_block(Vec::new());
            self.open_block(here).end = End::Jump(Target { block: next, args: Vec::new() });
            self.enter(next);
        }
    }

    /// Notifies the host about an event, without showing the packet.
    pub fn notify(&mut self, event: u32, args: &[V]) {
        self.op(Op::Notify { event, args: values(args), packet: false });
    }

    /// Notifies the host about an event and shows it the current packet.
    pub fn notify_packet(&mut self, event: u32, args: &[V]) {
        self.op(Op::Notify { event, args: values(args), packet: true });
    }

    /// Whether the current path has ended.
    pub fn ended(&self) -> bool {
        self.current.is_none()
    }

    /// Does `body` if `cond`.
    pub fn when(&mut self, cond: V, body: impl FnOnce(&mut Builder)) {
        self.if_else(cond, body, |_| {});
    }

    /// Does `body` unless `cond`.
    pub fn unless(&mut self, cond: V, body: impl FnOnce(&mut Builder)) {
        self.if_else(cond, |_| {}, body);
    }

    /// One of two paths.
    pub fn if_else(&mut self, cond: V, yes: impl FnOnce(&mut Builder), no: impl FnOnce(&mut Builder)) {
        debug_assert_eq!(cond.width, Width::W1);
        self.either(yes, no, |then, other| End::Branch { cond: cond.value, then, other });
    }

    /// A value that depends on the path taken. Both paths must give the same width and not end.
    pub fn choose(
        &mut self,
        cond: V,
        yes: impl FnOnce(&mut Builder) -> V,
        no: impl FnOnce(&mut Builder) -> V,
    ) -> V {
        self.either_value(yes, no, |then, other| End::Branch { cond: cond.value, then, other })
    }

    /// A value that depends on whether the packet has `n` bytes from `layer` on.
    pub fn choose_has(
        &mut self,
        layer: Layer,
        n: impl Into<Amount>,
        yes: impl FnOnce(&mut Builder) -> V,
        no: impl FnOnce(&mut Builder) -> V,
    ) -> V {
        let n = n.into();
        self.either_value(yes, no, |ok, fail| End::Require { layer, n, ok, fail })
    }

    /// One path for each case, `None` for all other values. Paths that do not end join.
    pub fn switch(&mut self, v: V, cases: &[u128], mut body: impl FnMut(&mut Builder, Option<usize>)) {
        let paths: Vec<BlockId> = (0..=cases.len()).map(|_| self.new_block(Vec::new())).collect();
        let end = End::Switch {
            value: v.value,
            cases: cases.iter().zip(&paths).map(|(&c, &w)| (c, target(w))).collect(),
            default: target(paths[cases.len()]),
        };
        self.end(end);
        let mut open = Vec::new();
        for (i, &path) in paths.iter().enumerate() {
            self.enter(path);
            body(self, (i < cases.len()).then_some(i));
            open.extend(self.current.take());
        }
        self.join(open);
    }

    /// A loop of at most `limit` rounds. `body` gets the loop's variables and either ends the path, or calls
    /// [`Loop::next`] or [`Loop::leave`]. After the loop the variables have the values they were left with (after
    /// the last round: those for the round that was not run).
    pub fn repeat(&mut self, limit: u32, init: &[V], body: impl FnOnce(&mut Builder, &Loop, &[V])) -> Vec<V> {
        let vars = |b: &mut Builder| -> Vec<V> {
            init.iter().map(|v| V { value: b.value(Type::Int(v.width)), width: v.width }).collect()
        };
        let (inside, outside) = (vars(self), vars(self));
        let header = self.new_block(inside.iter().map(|v| v.value).collect());
        self.open_block(header).loop_limit = Some(limit);
        let exit = self.new_block(outside.iter().map(|v| v.value).collect());
        self.end(End::Jump(Target { block: header, args: values(init) }));
        self.enter(header);
        let this = Loop { header, exit };
        body(self, &this, &inside);
        if !self.ended() {
            this.next(self, &inside);
        }
        self.enter(exit);
        outside
    }

    /// The packet leaves on an output; dropped (`Unconnected`) if there is none of that number.
    pub fn emit(&mut self, port: u32) {
        self.emit_or_drop(port, Reason::UNCONNECTED);
    }

    /// The packet leaves on an output, or is dropped if there is none of that number.
    pub fn emit_or_drop(&mut self, port: u32, reason: Reason) {
        if port < self.program.outputs {
            self.end(End::Emit { port });
        } else {
            self.drop(reason);
        }
    }

    /// The packet ends.
    pub fn drop(&mut self, reason: Reason) {
        self.end(End::Drop { reason });
    }

    /// Leaves the packet with an entry; does `full` if that has no space. Ends the path unless `full` joins.
    pub fn hold(&mut self, e: E, full: impl FnOnce(&mut Builder)) {
        let block = self.new_block(Vec::new());
        self.end(End::Hold { entry: e.value, full: target(block) });
        self.enter(block);
        full(self);
    }

    /// Ends a program that has no packet.
    pub fn stop(&mut self) {
        self.end(End::Finish);
    }
}

/// A loop under construction.
#[derive(Debug)]
pub struct Loop {
    header: BlockId,
    exit: BlockId,
}

impl Loop {
    /// Goes to the next round with these values, or leaves with them after the last.
    pub fn next(&self, b: &mut Builder, vars: &[V]) {
        let args = values(vars);
        b.end(End::Again {
            header: Target { block: self.header, args: args.clone() },
            exit: Target { block: self.exit, args },
        });
    }

    /// Leaves the loop with these values.
    pub fn leave(&self, b: &mut Builder, vars: &[V]) {
        b.end(End::Jump(Target { block: self.exit, args: values(vars) }));
    }
}
