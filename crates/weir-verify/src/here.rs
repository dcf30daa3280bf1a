//! The program that a path is in.

use std::sync::LazyLock;

use weir_ir::Frame;
use weir_ir::program::Program;

use crate::fates::{Fates, LASTS};
use crate::idle::Idle;
use crate::network::NodeId;

/// What stands where there is no program.
static NOTHING: LazyLock<(Program, Frame)> = LazyLock::new(Default::default);

/// Where the path that is followed is.
#[derive(Clone, Copy)]
pub(crate) struct Here<'a> {
    pub(crate) node: NodeId,
    pub(crate) program: &'a Program,
    pub(crate) frame: &'a Frame,
    pub(crate) tables: &'a [u32],
    pub(crate) fates: &'a [Fates],
    pub(crate) idle: &'a [Idle],
    /// What of these is looked at.
    pub(crate) wanted: Fates,
}

impl Here<'_> {
    /// Where no program is.
    pub(crate) fn nowhere(node: NodeId) -> Self {
        Here {
            node,
            program: &NOTHING.0,
            frame: &NOTHING.1,
            tables: &[],
            fates: &[],
            idle: &[],
            wanted: LASTS,
        }
    }
}
