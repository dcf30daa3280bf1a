//! Requirements of a graph.

use crate::doc::{At, Reader};
use crate::error::quote;
use crate::graph::place::{NoPlace, find};
use crate::graph::{Function, Sap};
use crate::requirement::{Requirement, limits_all};

/// Reads a requirement, whose places must be places of the graph; unless `lost`: some of these could not be read. It may
/// be a line that `limits` all of them to packets as hosts send them.
pub(super) fn requirement(
    r: &mut Reader,
    at: &At<'_>,
    (functions, saps): (&[Function], &[Sap]),
    lost: bool,
    limits: &mut bool,
) -> Option<Requirement> {
    let text = r.text(at, "a requirement such as \"can sap:lan sap:wan tcp\"")?;
    if limits_all(text) {
        *limits = true;
        return None;
    }
    let requirement = match Requirement::parse(text) {
        Ok(requirement) => requirement,
        Err(e) => {
            r.error(at, format!("column {}: {}", e.column, e.message), e.help);
            return None;
        }
    };
    for place in requirement.places() {
        let word = quote(&place.to_string());
        match find(functions, saps, place) {
            Err(NoPlace::Unknown) if !lost => {
                let help = "write sap:ID for an access point, sf:FUNCTION or sf:FUNCTION:PORT for a function";
                r.error(at, format!("{word} is no place of the graph"), help);
            }
            Err(NoPlace::Ambiguous) => {
                let message = format!("{word} is an access point and a function");
                r.error(at, message, format!("write sap:{place} or sf:{place}"));
            }
            _ => {}
        }
    }
    // Graphs are equal if they say the same, wherever it stands.
    Some(Requirement { position: None, ..requirement })
}
