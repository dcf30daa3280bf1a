//! Ethernet: headers, ARP, VLAN tags.

use crate::class::{Class, class};

mod arp_print;
mod arp_querier;
mod arp_responder;
mod arp_table;
mod check_arp_header;
mod drop_broadcasts;
mod ensure_ether;
mod ether_encap;
mod ether_mirror;
mod ether_rewrite;
mod ether_switch;
mod ether_vlan_encap;
mod host_ether_filter;
mod mark_mac_header;
mod set_vlan_anno;
mod store_ether_address;
mod strip_ether_vlan_header;
mod vlan_decap;
mod vlan_encap;

pub(crate) const CLASSES: &[Class] = &[
    class::<arp_print::ARPPrint>("ethernet"),
    class::<arp_querier::ARPQuerier>("ethernet"),
    class::<arp_responder::ARPResponder>("ethernet"),
    class::<arp_table::ARPTable>("ethernet"),
    class::<check_arp_header::CheckARPHeader>("ethernet"),
    class::<drop_broadcasts::DropBroadcasts>("ethernet"),
    class::<ensure_ether::EnsureEther>("ethernet"),
    class::<ether_encap::EtherEncap>("ethernet"),
    class::<ether_mirror::EtherMirror>("ethernet"),
    class::<ether_rewrite::EtherRewrite>("ethernet"),
    class::<ether_switch::EtherSwitch>("ethernet"),
    class::<ether_vlan_encap::EtherVLANEncap>("ethernet"),
    class::<host_ether_filter::HostEtherFilter>("ethernet"),
    class::<mark_mac_header::MarkMACHeader>("ethernet"),
    class::<set_vlan_anno::SetVLANAnno>("ethernet"),
    class::<store_ether_address::StoreEtherAddress>("ethernet"),
    class::<strip_ether_vlan_header::StripEtherVLANHeader>("ethernet"),
    class::<vlan_decap::VLANDecap>("ethernet"),
    class::<vlan_encap::VLANEncap>("ethernet"),
];
