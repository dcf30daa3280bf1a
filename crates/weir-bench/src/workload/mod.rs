//! What is measured: graphs, the packets that go through them, and what has to come out.

pub mod catalog;
mod chain;
pub mod compile;
mod frames;
mod l2;
mod lb;
mod lpm;
mod nat;
mod router;
mod rules;
mod wifi;

pub use catalog::{Entry, catalog};
pub use frames::Frames;
pub use l2::frames as l2_frames;
pub use nat::{new_flows, text as nat_text};
pub use router::{ETHERNET, ROUTES, Route};
pub use rules::last_frames;

use weir_table::Row;

/// Length of frames where the workload does not say otherwise, without the frame check sequence.
pub const FRAME_LEN: usize = 64;
/// Number of prepared frames where the workload does not say otherwise.
const FRAMES: usize = 1024;

/// Number of prepared frames of that length: they fit into the second-level cache.
fn frames_of(len: usize) -> usize {
    if len > 128 { 128 } else { FRAMES }
}

/// A graph, its packets and what becomes of them.
#[derive(Debug)]
pub struct Workload {
    /// The graph: Click text with an `Input` and an `Output`. Empty: no graph, packets are made and dropped.
    pub text: String,
    /// Rows of the table `routes` that are not in the text, since a text has a greatest length.
    pub routes: Vec<Row>,
    /// Packets that are sent once, before all others, each list on one output of `Input`. Whatever becomes of them is
    /// right; they fill tables.
    pub before: Vec<(u32, Frames)>,
    /// Packets, in the order in which they are sent on output 0 of `Input`, again and again.
    pub frames: Frames,
    /// What becomes of each frame.
    pub expected: Expected,
    /// Whether the hand-written router can stand in for the graph.
    pub by_hand: bool,
}

impl Workload {
    fn new(text: String, frames: Frames, expected: Expected) -> Workload {
        Workload { text, routes: Vec::new(), before: Vec::new(), frames, expected, by_hand: false }
    }
}

/// The expected result for frames.
#[derive(Debug)]
pub enum Expected {
    /// The exit that each frame has to take, and its bytes then.
    Exact(Vec<u32>, Frames),
    /// A frame may take any exit, but always the same, and all exits are in use.
    Balanced {
        /// Number of exits.
        exits: u32,
        /// What a frame has to be on an exit.
        frame: fn(&[u8], u32) -> Vec<u8>,
    },
}

impl Expected {
    /// Exit and bytes of each frame, as `f` computes them.
    fn exact(frames: &Frames, f: impl Fn(&[u8]) -> (u32, Vec<u8>)) -> Expected {
        let mut exits = Vec::with_capacity(frames.len());
        let bytes = Frames::of(frames.iter().map(|frame| {
            let (exit, bytes) = f(frame);
            exits.push(exit);
            bytes
        }));
        Expected::Exact(exits, bytes)
    }
}
