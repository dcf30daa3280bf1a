//! The program that a path is in, and its values there.

use std::sync::LazyLock;

use weir_ir::Frame;
use weir_ir::program::{BlockId, Program, TableId, Value};

use crate::explore::state::State;
use crate::model::expr::Expr;
use crate::network::effects::{Effects, LASTS};
use crate::network::slicing::Sliced;
use crate::network::{Instance, NodeId};

/// What stands where there is no program.
static NOTHING: LazyLock<(Program, Frame)> = LazyLock::new(Default::default);

/// Where the path that is followed is.
#[derive(Clone, Copy)]
pub(crate) struct Position<'a> {
    pub(crate) node: NodeId,
    program: &'a Program,
    frame: &'a Frame,
    tables: &'a [u32],
    effects: &'a [Effects],
    sliced: &'a [Sliced],
    /// What of these is looked at.
    wanted: Effects,
}

impl<'a> Position<'a> {
    /// In a program, of which so much is looked at.
    pub(crate) fn of(node: NodeId, i: &'a Instance, wanted: Effects) -> Position<'a> {
        let (program, frame) = (&*i.program, &*i.frame);
        Position { node, program, frame, tables: &i.tables, effects: &i.effects, sliced: &i.sliced, wanted }
    }

    /// Whether nothing that is looked at can come of a packet that goes on at a block.
    pub(crate) fn shows_nothing(&self, st: &State, block: BlockId) -> bool {
        debug_assert_eq!(st.node, self.node, "no other path is looked at in between");
        self.effects[block.0 as usize] & self.wanted == 0
    }

    /// Where no program is.
    pub(crate) fn nowhere(node: NodeId) -> Position<'a> {
        Position {
            node,
            program: &NOTHING.0,
            frame: &NOTHING.1,
            tables: &[],
            effects: &[],
            sliced: &[],
            wanted: LASTS,
        }
    }

    /// The program that the path is in.
    pub(crate) fn program(&self, st: &State) -> &'a Program {
        debug_assert_eq!(st.node, self.node, "no other path is looked at in between");
        self.program
    }

    /// Its operations that do not count.
    pub(crate) fn sliced(&self) -> &'a [Sliced] {
        self.sliced
    }

    /// Where the values of that program stand.
    pub(crate) fn frame_of(&self, st: &State) -> &'a Frame {
        debug_assert_eq!(st.node, self.node, "no other path is looked at in between");
        self.frame
    }

    /// Number in the network of a table of the program that the path is in.
    pub(crate) fn table(&self, st: &State, t: TableId) -> u32 {
        debug_assert_eq!(st.node, self.node, "no other path is looked at in between");
        self.tables[t.0 as usize]
    }

    /// A value as it was set; more may be known of it by now.
    pub(crate) fn as_set(&self, st: &State, v: Value) -> Expr {
        Expr(self.raw(st, v))
    }

    /// Number of an expression or of an entry.
    pub(crate) fn raw(&self, st: &State, v: Value) -> u32 {
        st.values[self.frame_of(st).place(v)]
    }

    /// Sets a value.
    pub(crate) fn set(&self, st: &mut State, v: Value, to: Expr) {
        self.set_raw(st, v, to.0);
    }

    /// Sets the number of an expression or of an entry.
    pub(crate) fn set_raw(&self, st: &mut State, v: Value, to: u32) {
        let place = self.frame_of(st).place(v);
        st.values[place] = to;
    }
}
