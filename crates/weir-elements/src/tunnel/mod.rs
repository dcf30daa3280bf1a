//! Tunnels: packets in packets.

use crate::class::{Class, class};

mod gre_decap;
mod gre_encap;
mod gtpu_decap;
mod gtpu_encap;
mod outer;
mod vxlan_decap;
mod vxlan_encap;

pub(crate) const CLASSES: &[Class] = &[
    class::<gre_decap::GREDecap>("tunnel"),
    class::<gre_encap::GREEncap>("tunnel"),
    class::<gtpu_decap::GTPUDecap>("tunnel"),
    class::<gtpu_encap::GTPUEncap>("tunnel"),
    class::<vxlan_decap::VXLANDecap>("tunnel"),
    class::<vxlan_encap::VXLANEncap>("tunnel"),
];
