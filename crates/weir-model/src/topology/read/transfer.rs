//! Boxes that are given by a transfer function.

use super::Context;
use super::boxes::{import, in_file};
use super::links::ports_by_use;
use crate::doc::{At, Fields, Reader};
use crate::error::quote;
use crate::import::hassel::TransferFunction;
use crate::topology::TransferBox;

/// Most stages of a box.
const MAX_STAGES: u32 = 16;

pub(super) fn transfer(
    r: &mut Reader,
    at: &At<'_>,
    f: &Fields<'_>,
    used: Option<&Vec<Option<String>>>,
    context: &mut Context<'_, '_>,
) -> Option<TransferBox> {
    let stages = f.get("stages").map_or(Some(1), |at| r.number(&at, "the number of stages", 1, MAX_STAGES));
    let out_offset =
        f.get("out-offset").map_or(Some(0), |at| r.number(&at, "the offset of outputs", 0, u32::MAX));
    let (name, text) = import(r, at, f, context)?;
    let function = match TransferFunction::parse(&text) {
        Ok(function) => function,
        Err(errors) => {
            in_file(r, at, &name, &errors);
            return None;
        }
    };
    let ports = ports_by_use(used.filter(|used| !used.is_empty()));
    let known = function.ports();
    let (stages, out_offset) = (stages?, out_offset?);
    for port in ports.iter().filter(|_| used.is_some()) {
        let number = port.parse::<u32>().ok();
        let is_known = |n: u32| known.binary_search(&n).is_ok();
        let found = number.is_some_and(|n| is_known(n) || n.checked_add(out_offset).is_some_and(is_known));
        if !found {
            let help = "links name a transfer function's ports by their numbers";
            r.error(at, format!("the transfer function of {name} has no port {}", quote(port)), help);
        }
    }
    Some(TransferBox { function, stages, out_offset, ports })
}
