//! IP: checks, routing, addresses, errors.

use crate::class::{Class, class};

mod aggregate_field;
mod aggregate_ip;
mod check_icmp_header;
mod check_ip_header;
mod check_ip_header2;
mod check_tcp_header;
mod check_udp_header;
pub(crate) mod checks;
mod dec_ip_ttl;
mod direct_ip_lookup;
pub(crate) mod encap;
mod fix_ip_src;
mod flow_hash_switch;
mod get_ip_address;
mod icmp_encap;
mod icmp_error;
mod icmp_ip_encap;
mod icmp_ping_encap;
mod icmp_ping_responder;
mod ip_encap;
mod ip_fragmenter;
mod ip_gw_options;
mod ip_input_combo;
pub(crate) mod ip_mirror;
mod ip_output_combo;
mod linear_ip_lookup;
mod mark_ip_ce;
mod mark_ip_header;
mod radix_ip_lookup;
mod range_ip_lookup;
mod rewrite;
mod set_ip_address;
mod set_ip_checksum;
pub(crate) mod set_ip_dscp;
mod set_ip_dst;
mod set_ip_ecn;
mod set_tcp_checksum;
mod set_udp_checksum;
mod sorted_ip_lookup;
mod source_route;
mod static_ip_lookup;
mod store_ip_address;
mod strip_ip_header;
mod tos;
mod truncate_ip_payload;
mod udp_ip_encap;
mod unstrip_ip_header;

pub(crate) const CLASSES: &[Class] = &[
    class::<aggregate_ip::AggregateIP>("ip"),
    class::<check_icmp_header::CheckICMPHeader>("ip"),
    class::<check_ip_header::CheckIPHeader>("ip"),
    class::<check_ip_header2::CheckIPHeader2>("ip"),
    class::<check_tcp_header::CheckTCPHeader>("ip"),
    class::<check_udp_header::CheckUDPHeader>("ip"),
    class::<dec_ip_ttl::DecIPTTL>("ip"),
    class::<direct_ip_lookup::DirectIPLookup>("ip"),
    class::<fix_ip_src::FixIPSrc>("ip"),
    class::<flow_hash_switch::FlowHashSwitch>("ip"),
    class::<get_ip_address::GetIPAddress>("ip"),
    class::<icmp_error::ICMPError>("ip"),
    class::<icmp_ip_encap::ICMPIPEncap>("ip"),
    class::<icmp_ping_encap::ICMPPingEncap>("ip"),
    class::<icmp_ping_responder::ICMPPingResponder>("ip"),
    class::<ip_encap::IPEncap>("ip"),
    class::<ip_fragmenter::IPFragmenter>("ip"),
    class::<ip_gw_options::IPGWOptions>("ip"),
    class::<ip_input_combo::IPInputCombo>("ip"),
    class::<ip_mirror::IPMirror>("ip"),
    class::<ip_output_combo::IPOutputCombo>("ip"),
    class::<linear_ip_lookup::LinearIPLookup>("ip"),
    class::<mark_ip_ce::MarkIPCE>("ip"),
    class::<mark_ip_header::MarkIPHeader>("ip"),
    class::<radix_ip_lookup::RadixIPLookup>("ip"),
    class::<range_ip_lookup::RangeIPLookup>("ip"),
    class::<set_ip_address::SetIPAddress>("ip"),
    class::<set_ip_checksum::SetIPChecksum>("ip"),
    class::<set_ip_dscp::SetIPDSCP>("ip"),
    class::<set_ip_dst::SetIPDst>("ip"),
    class::<set_ip_ecn::SetIPECN>("ip"),
    class::<set_tcp_checksum::SetTCPChecksum>("ip"),
    class::<set_udp_checksum::SetUDPChecksum>("ip"),
    class::<sorted_ip_lookup::SortedIPLookup>("ip"),
    class::<static_ip_lookup::StaticIPLookup>("ip"),
    class::<store_ip_address::StoreIPAddress>("ip"),
    class::<strip_ip_header::StripIPHeader>("ip"),
    class::<truncate_ip_payload::TruncateIPPayload>("ip"),
    class::<udp_ip_encap::UDPIPEncap>("ip"),
    class::<unstrip_ip_header::UnstripIPHeader>("ip"),
];
