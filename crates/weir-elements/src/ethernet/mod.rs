//! Ethernet: headers, ARP, VLAN tags.

use crate::class::{Class, class};

mod arp_print;
mod arp_querier;
mod arp_responder;
mod drop_broadcasts;
mod ether_encap;
mod ether_mirror;
mod ether_switch;
mod vlan_decap;
mod vlan_encap;

pub(crate) const CLASSES: &[Class] = &[
    class::<arp_print::ARPPrint>("ethernet"),
    class::<arp_querier::ARPQuerier>("ethernet"),
    class::<arp_responder::ARPResponder>("ethernet"),
    class::<drop_broadcasts::DropBroadcasts>("ethernet"),
    class::<ether_encap::EtherEncap>("ethernet"),
    class::<ether_mirror::EtherMirror>("ethernet"),
    class::<ether_switch::EtherSwitch>("ethernet"),
    class::<vlan_decap::VLANDecap>("ethernet"),
    class::<vlan_encap::VLANEncap>("ethernet"),
];
