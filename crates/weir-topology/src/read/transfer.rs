//! Boxes that are given by a transfer function.

use std::collections::BTreeSet;

use weir_filter::text::quote;
use weir_model::doc::{At, Fields, Reader};

use super::Context;
use super::boxes::{import, in_file};
use crate::import::hassel::TransferFunction;
use crate::{MAX_PORTS, TransferBox};

/// Most stages of a box.
const MAX_STAGES: u32 = 16;

pub(crate) fn transfer(
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
    let (stages, out_offset) = (stages?, out_offset?);
    let ports: Vec<String> = outer(&function, stages, out_offset).iter().map(ToString::to_string).collect();
    if ports.len() > MAX_PORTS {
        r.error(at, format!("{name}: {} outer ports", ports.len()), format!("at most {MAX_PORTS} are read"));
        return None;
    }
    let of_links = used.into_iter().flatten().flatten();
    for port in of_links.filter(|port| !ports.contains(port)) {
        let help = "links name a transfer function's outer ports by their numbers";
        r.error(at, format!("the transfer function of {name} has no outer port {}", quote(port)), help);
    }
    Some(TransferBox { function, stages, out_offset, ports })
}

/// The ports by which packets come in or leave. With several stages, what is an output of one and an input of the next is
/// an inner port.
fn outer(function: &TransferFunction, stages: u32, out_offset: u32) -> BTreeSet<u32> {
    let inputs: BTreeSet<u32> = function.rules.iter().flat_map(|r| &r.in_ports).copied().collect();
    let outputs: BTreeSet<u32> = function.rules.iter().flat_map(|r| &r.out_ports).copied().collect();
    let inner = |n: &&u32| stages > 1 && inputs.contains(n) && outputs.contains(n);
    let leave = outputs.iter().filter(|n| !inner(n)).filter_map(|n| n.checked_sub(out_offset));
    inputs.iter().filter(|n| !inner(n)).copied().chain(leave).collect()
}
