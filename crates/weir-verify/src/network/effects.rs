//! What may become of a packet from each block of a program on, so that a path on which it is only lost need not be
//! followed where nobody looks at losses.

use std::sync::Arc;

use weir_ir::program::{Block, End, Op, Program};

use crate::network::NodePort;
use crate::network::slicing::{Sliced, goes_back};

/// The effects that a packet may have, a bit each: that it leaves by an output ([`leaves_by`]), or [`LASTS`].
pub(crate) type Effects = u64;

/// It stays, or leaves something behind: an entry, a copy, a notice.
pub(crate) const LASTS: Effects = 1 << 63;

/// The bit that this output and all behind it share.
const SHARED: u32 = 62;

/// It leaves by an output.
pub(crate) fn leaves_by(port: u32) -> Effects {
    1 << port.min(SHARED)
}

/// What others can see of it, where the outputs of a node lead so: it lasts, or leaves by one that leads somewhere.
pub(crate) fn seen_outside(outputs: &[Option<NodePort>]) -> Effects {
    let own = (0..SHARED).zip(outputs).filter(|(_, to)| to.is_some());
    let shared = if outputs.len() > SHARED as usize { leaves_by(SHARED) } else { 0 };
    own.fold(LASTS | shared, |all, (port, _)| all | leaves_by(port))
}

/// For each block what may become of a packet there or later in the program.
pub(crate) fn effects(p: &Program, sliced: &[Sliced]) -> Arc<[Effects]> {
    let here = |(b, sliced): (&Block, &Sliced)| {
        let by_end = match &b.end {
            End::Emit { port } | End::Exit { exit: port } => leaves_by(*port),
            End::Insert { .. } | End::Claim { .. } | End::Meter { .. } | End::Hold { .. } => LASTS,
            _ => 0,
        };
        let lasts = |op: &Op| {
            matches!(
                op,
                Op::Set { .. }
                    | Op::Touch { .. }
                    | Op::Link { .. }
                    | Op::Remove { .. }
                    | Op::Release { .. }
                    | Op::Fork { .. }
                    | Op::Notify { .. }
            )
        };
        let ops = b.ops.iter().enumerate();
        if ops.filter(|(i, _)| !sliced.has(*i)).any(|(_, op)| lasts(op)) { by_end | LASTS } else { by_end }
    };
    let mut all: Vec<Effects> = p.blocks.iter().zip(sliced).map(here).collect();
    let goes_back = goes_back(p);
    let mut is_stable = false;
    while !is_stable {
        is_stable = true;
        // Most programs have each block in front of those that follow: then once is enough.
        for (i, b) in p.blocks.iter().enumerate().rev() {
            let mut effects = all[i];
            b.end.visit_targets(|_, t| effects |= all[t.block.0 as usize]);
            if let End::Enter { block, .. } = b.end {
                effects |= all[block.0 as usize];
            }
            is_stable &= all[i] == effects || !goes_back;
            all[i] = effects;
        }
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use weir_ir::program::Reason;
    use weir_ir::{Builder, Layer, TableDecl, Width};
    use weir_table::Kind;

    use super::*;
    use crate::network::slicing::sliced;

    /// The effects of the blocks of a program with one input, first what it does at all.
    fn of(body: impl FnOnce(&mut Builder)) -> (Effects, Arc<[Effects]>) {
        let mut b = Builder::new("p", 1, 70);
        b.input(0, body);
        let p = b.finish();
        let all = effects(&p, &sliced(&p, p.tables.iter().map(|_| 0)).0);
        (all[p.packet_entry(0, 0).unwrap().0 as usize], all)
    }

    fn lose(b: &mut Builder) {
        b.drop(Reason::NO_MATCH);
    }

    #[test]
    fn a_packet_leaves_by_the_outputs_that_lie_on_its_ways() {
        assert_eq!(of(lose).0, 0);
        let (first, all) = of(|b| {
            b.require(Layer::Net, 20, Reason::TRUNCATED);
            let byte = b.load(Width::W8, Layer::Net, 0);
            b.switch(byte, &[4, 6], |b, case| match case {
                Some(0) => b.emit(0),
                Some(_) => b.emit(69),
                None => lose(b),
            });
        });
        assert_eq!(first, leaves_by(0) | leaves_by(69));
        assert_eq!(leaves_by(69), leaves_by(62));
        let to = Some(NodePort { node: 0, port: 0 });
        assert_eq!(seen_outside(&[None, to]), LASTS | leaves_by(1));
        assert_eq!(
            seen_outside(&[None; 70]),
            LASTS | leaves_by(69),
            "any of those that share a bit may lead somewhere"
        );
        assert_eq!(all.iter().filter(|f| **f == 0).count(), 2, "too short, and neither: {all:?}");
    }

    #[test]
    fn what_is_lost_may_have_left_something_behind() {
        let set = |is_asked: bool| {
            of(|b| {
                let t = b.cell("last", Width::W32, 0);
                let e = b.index(t, 0);
                if is_asked {
                    let last = b.get(e, "value");
                    b.store_anno(0, last);
                }
                let one = b.constant(Width::W32, 1_u8);
                b.set(e, "value", one);
                lose(b);
            })
        };
        assert_eq!((set(true).0, set(false).0), (LASTS, 0), "a count that nobody asks for does not last");
        let made = of(|b| {
            let decl = TableDecl::new("seen", Kind::Exact, &[("key", Width::W8)], &[], 8);
            let t = b.table(decl, Vec::new());
            let key = b.constant(Width::W8, 7_u8);
            b.insert(t, &[key], lose);
            lose(b);
        });
        assert_eq!(made.0, LASTS);
        let copy = of(|b| {
            b.fork(|b| b.emit(3));
            lose(b);
        });
        assert_eq!(copy.0, LASTS);
        let found = of(|b| {
            let event = b.event("seen");
            b.notify(event, &[]);
            b.emit(1);
        });
        assert_eq!(found.0, LASTS | leaves_by(1));
    }
}
