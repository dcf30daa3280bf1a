//! The linker: joins the programs of elements into one program for the graph.
//!
//! A block of an element stands once, however many paths lead to it. Elements are put in an order in which most
//! wires go forward; a wire that goes back closes a cycle of the graph, and packets on it count their rounds.

use std::borrow::Borrow;

use crate::program::{
    BlockId, End, Entry, EntryKind, Event, Op, Program, Reason, TableDecl, TableId, TableInit, Type,
};

/// The target of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// To an input of an element.
    Input {
        /// The element's number.
        element: usize,
        /// The input.
        port: u32,
    },
    /// Out of the graph.
    Exit(u32),
}

/// Programs that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Two elements share a table, but declare it differently.
    #[error("'{a}' and '{b}' share the table '{table}' but declare it differently")]
    SharedTable {
        /// The table's shared name.
        table: String,
        /// One element.
        a: String,
        /// The other.
        b: String,
    },
    /// A wire leads to an input that the element has no program for.
    #[error("a wire leads to input {port} of '{element}', which has no program for it")]
    NoInput {
        /// The element.
        element: String,
        /// The input.
        port: u32,
    },
}

/// Links checked programs of single elements. `wire` says where an output of an element leads (`None`: nowhere, its
/// packets are dropped as `Unconnected`); `exits` is the number of exits.
pub fn link<P: Borrow<Program>>(
    programs: &[P],
    wire: impl Fn(usize, u32) -> Option<Wire>,
    exits: u32,
) -> Result<Program, LinkError> {
    let programs: Vec<&Program> = programs.iter().map(Borrow::borrow).collect();
    let order = order(&programs, &wire);
    let mut rank = vec![0; programs.len()];
    order.iter().enumerate().for_each(|(i, &e)| rank[e] = i);
    let mut first_block = vec![0; programs.len()];
    let mut next = 0;
    for &e in &order {
        first_block[e] = next;
        next += programs[e].blocks.len() as u32;
    }

    let mut out = Program {
        elements: programs.iter().map(|p| p.elements.first().cloned().unwrap_or_default()).collect(),
        outputs: exits,
        blocks: Vec::with_capacity(next as usize),
        ..Program::default()
    };
    // In the order of the elements as given, so that tables and events keep their numbers when only wires change.
    let mut tables: Vec<Vec<TableId>> = Vec::new();
    let mut first_event = Vec::new();
    for (owner, p) in programs.iter().enumerate() {
        tables.push(link_tables(&mut out, owner as u32, p)?);
        first_event.push(out.events.len() as u32);
        out.events.extend(p.events.iter().map(|e| Event { name: e.name.clone(), owner: owner as u32 }));
        out.entries.extend(p.entries.iter().map(|e| Entry {
            kind: match &e.kind {
                EntryKind::Expire { table } => EntryKind::Expire { table: tables[owner][table.0 as usize] },
                kind => kind.clone(),
            },
            block: BlockId(e.block.0 + first_block[owner]),
            owner: owner as u32,
        }));
    }
    for &e in &order {
        let p = programs[e];
        let first_value = out.types.len() as u32;
        out.types.extend(p.types.iter().map(|ty| match ty {
            Type::Entry(t) => Type::Entry(tables[e][t.0 as usize]),
            int => *int,
        }));
        for block in &p.blocks {
            let mut block = block.clone();
            block.owner = e as u32;
            block.params.iter_mut().for_each(|v| v.0 += first_value);
            for op in &mut block.ops {
                op.visit_values_mut(|v, _| v.0 += first_value);
                if let Some(t) = op.table_mut() {
                    *t = tables[e][t.0 as usize];
                }
                match op {
                    Op::Fork { target, .. } | Op::Release { target, .. } => target.block.0 += first_block[e],
                    Op::Notify { event, .. } => *event += first_event[e],
                    _ => {}
                }
            }
            block.end.visit_values_mut(|v| v.0 += first_value);
            if let Some(t) = block.end.table_mut() {
                *t = tables[e][t.0 as usize];
            }
            block.end.visit_targets_mut(|_, t| t.block.0 += first_block[e]);
            if let End::Emit { port } = block.end {
                block.end = match wire(e, port) {
                    None => End::Drop { reason: Reason::UNCONNECTED },
                    Some(Wire::Exit(exit)) => End::Exit { exit },
                    Some(Wire::Input { element, port }) => {
                        let p = programs[element];
                        let entry = p.packet_entry(0, port).ok_or_else(|| LinkError::NoInput {
                            element: p.elements.first().cloned().unwrap_or_default(),
                            port,
                        })?;
                        End::Enter {
                            block: BlockId(entry.0 + first_block[element]),
                            back: rank[element] <= rank[e],
                        }
                    }
                };
            }
            out.blocks.push(block);
        }
    }
    Ok(out)
}

fn link_tables(out: &mut Program, owner: u32, p: &Program) -> Result<Vec<TableId>, LinkError> {
    let mut numbers = Vec::new();
    for t in &p.tables {
        let shared = t
            .decl
            .shared_name
            .as_ref()
            .and_then(|name| out.tables.iter().position(|o| o.decl.shared_name.as_ref() == Some(name)));
        if let Some(i) = shared {
            // Each element may have its own name for the table.
            let theirs = TableDecl { name: t.decl.name.clone(), ..out.tables[i].decl.clone() };
            if theirs != t.decl {
                return Err(LinkError::SharedTable {
                    table: t.decl.name.clone(),
                    a: out.elements[out.tables[i].owner as usize].clone(),
                    b: out.elements[owner as usize].clone(),
                });
            }
            numbers.push(TableId(i as u32));
        } else {
            out.tables.push(TableInit { owner, ..t.clone() });
            numbers.push(TableId(out.tables.len() as u32 - 1));
        }
    }
    Ok(numbers)
}

/// Reverse postorder of the graph of elements. Iterative: a chain of elements may be long.
fn order(programs: &[&Program], wire: &impl Fn(usize, u32) -> Option<Wire>) -> Vec<usize> {
    let next = |e: usize| -> Vec<usize> {
        let mut to: Vec<usize> = (0..programs[e].outputs)
            .filter_map(|port| match wire(e, port) {
                Some(Wire::Input { element, .. }) => Some(element),
                _ => None,
            })
            .collect();
        to.reverse();
        to
    };
    let mut has_input = vec![false; programs.len()];
    for e in 0..programs.len() {
        next(e).into_iter().for_each(|n| has_input[n] = true);
    }
    let roots = (0..programs.len()).filter(|&e| !has_input[e]).chain(0..programs.len());
    let (mut seen, mut post) = (vec![false; programs.len()], Vec::new());
    for root in roots {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut stack = vec![(root, next(root))];
        while let Some((e, paths)) = stack.last_mut() {
            match paths.pop() {
                Some(n) if !seen[n] => {
                    seen[n] = true;
                    let paths = next(n);
                    stack.push((n, paths));
                }
                Some(_) => {}
                None => {
                    post.push(*e);
                    stack.pop();
                }
            }
        }
    }
    post.reverse();
    post
}
