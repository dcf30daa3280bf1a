//! A plan that is to run, and what this graph of it may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_nodes::env::Env;
use weir_nodes::node::EngineNode;
use weir_plan::{Plan, size};

/// A graph that is to be made of a plan.
#[derive(Clone)]
pub(crate) struct Instance {
    pub plan: Plan,
    /// What names of links begin with, if they are the graph's own.
    pub scope: Option<String>,
    /// How many bytes more its nodes may take, if its memory is bounded; all workers take from it.
    pub spare: Option<Arc<AtomicU64>>,
}

impl Instance {
    /// Of a graph that belongs to the machine's owner, with no limits.
    pub fn unlimited(plan: Plan) -> Instance {
        Instance { plan, scope: None, spare: None }
    }
}

/// Writes a handler of a node with so many inputs. What makes it take more memory than is left is taken back, and refused.
pub(crate) fn write_within(
    spare: Option<&AtomicU64>,
    node: &mut dyn EngineNode,
    inputs: usize,
    (handler, value): (&str, &str),
    env: &mut Env,
) -> Result<(), String> {
    let Some(spare) = spare else { return node.write(handler, value, env) };
    let (before, old) = (node.memory(inputs), node.read(handler, env));
    node.write(handler, value, env)?;
    let after = node.memory(inputs);
    if after <= before {
        spare.fetch_add(before - after, Relaxed);
        return Ok(());
    }
    match spare.fetch_update(Relaxed, Relaxed, |spare| spare.checked_sub(after - before)) {
        Ok(_) => Ok(()),
        Err(left) => {
            old.and_then(|old| node.write(handler, &old, env))?;
            let (more, left) = (size(after - before), size(left));
            Err(format!("that takes {more} more of memory, and of what the graph may take {left} are left"))
        }
    }
}
