//! Packets that end in a device: each has a reason, and is counted for the element that gave it or would have taken it.

use weir_io::{Lost, PortError, TxErrors};
use weir_ir::Reason;
use weir_packet::Packet;

/// An element of a graph, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// The graph.
    pub graph: usize,
    /// The element in it.
    pub element: usize,
}

/// Packets of one element that wait for a device, oldest first.
#[derive(Debug)]
pub(super) struct Waiting {
    pub sender: Sender,
    pub packets: Vec<Packet>,
}

/// Packets that have ended in a device.
#[derive(Debug)]
pub struct Loss {
    /// The device.
    pub device: usize,
    /// Who gave them; `None`: they came from outside.
    pub sender: Option<Sender>,
    /// Why.
    pub reason: Reason,
    /// How many.
    pub packets: u64,
}

/// The packets that a port has lost between two looks, by reason.
pub fn between(before: Lost, after: Lost) -> impl Iterator<Item = (&'static str, u64)> {
    let (old, new) = (before.tx, after.tx);
    let counts = [
        ("Malformed", before.malformed, after.malformed),
        ("TooLong", old.too_long, new.too_long),
        ("BadOffload", old.offload, new.offload),
        ("DeviceDown", old.down, new.down),
        ("Refused", old.refused, new.refused),
    ];
    counts
        .into_iter()
        .filter(|(_, before, after)| after > before)
        .map(|(why, before, after)| (why, after - before))
}

/// Takes note of what a port has lost between two looks.
pub(super) fn note(losses: &mut Vec<Loss>, device: usize, sender: Option<Sender>, before: Lost, after: Lost) {
    if before == after {
        return;
    }
    let lost = between(before, after);
    losses.extend(lost.map(|(why, packets)| Loss { device, sender, reason: Reason::new(why), packets }));
}

/// As what packets end that a port leaves behind with an error (`None`: there is no port).
pub(super) fn left_behind(packets: usize, error: Option<&PortError>) -> TxErrors {
    let packets = packets as u64;
    match error {
        None
        | Some(
            PortError::Down { .. }
            | PortError::NoPeer { .. }
            | PortError::Gone { .. }
            | PortError::Closed { .. },
        ) => TxErrors { down: packets, ..TxErrors::default() },
        Some(_) => TxErrors { refused: packets, ..TxErrors::default() },
    }
}
