//! One program, on its own: what tests hold against the interpreter.

use std::rc::Rc;

use weir_ir::interp::MAX_STRANDS;
use weir_ir::program::BlockId;

use crate::explore::Explorer;
use crate::explore::input::SymbolicInput;
use crate::explore::path::{Exploration, Limits, Path};
use crate::network::Network;
use crate::solve::eval::ConcreteRun;

/// All paths through the first program of a network from one of its entries.
pub fn explore(net: &Network, entry: BlockId, input: &SymbolicInput, limits: Limits) -> Exploration {
    paths(Explorer::new(net, limits, None), entry, input)
}

/// The path that a concrete run takes (just one, unless something is wrong): limits on paths do not matter.
pub fn follow(net: &Network, entry: BlockId, input: &SymbolicInput, run: &ConcreteRun<'_>) -> Exploration {
    let limits =
        Limits { paths: 16, steps: usize::MAX, hops: u32::MAX, strands: MAX_STRANDS, ..Limits::default() };
    paths(Explorer::new(net, limits, Some(run)), entry, input)
}

fn paths(mut explorer: Explorer<'_>, entry: BlockId, input: &SymbolicInput) -> Exploration {
    let start = explorer.start(0, entry, input).ok();
    let done = explorer.run(start);
    let entries: Vec<_> = done.iter().map(|st| explorer.tables.entry_ends(st)).collect();
    let incomplete = explorer.branch.budget.incomplete;
    let exprs = Rc::new(explorer.branch.x);
    let path = |(st, entries): (Box<crate::explore::state::State>, _)| Path {
        entry,
        exprs: Rc::clone(&exprs),
        facts: st.facts,
        ends: st.ends,
        notices: st.notices,
        entries,
    };
    Exploration { paths: done.into_iter().zip(entries).map(path).collect(), incomplete }
}
