//! IP: checks, routing, addresses, errors.

use crate::class::{Class, class};

mod check_icmp_header;
mod check_ip_header;
mod check_ip_header2;
mod check_tcp_header;
mod check_udp_header;
mod checks;
mod dec_ip_ttl;
mod direct_ip_lookup;
mod fix_ip_src;
mod flow_hash_switch;
mod get_ip_address;
mod icmp_error;
mod icmp_ping_responder;
mod ip_fragmenter;
mod ip_gw_options;
mod ip_mirror;
mod linear_ip_lookup;
mod mark_ip_header;
mod radix_ip_lookup;
mod rewrite;
mod routes;
mod set_ip_address;
mod set_ip_dst;
mod static_ip_lookup;
mod store_ip_address;

pub(crate) const CLASSES: &[Class] = &[
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
    class::<icmp_ping_responder::ICMPPingResponder>("ip"),
    class::<ip_fragmenter::IPFragmenter>("ip"),
    class::<ip_gw_options::IPGWOptions>("ip"),
    class::<ip_mirror::IPMirror>("ip"),
    class::<linear_ip_lookup::LinearIPLookup>("ip"),
    class::<mark_ip_header::MarkIPHeader>("ip"),
    class::<radix_ip_lookup::RadixIPLookup>("ip"),
    class::<set_ip_address::SetIPAddress>("ip"),
    class::<set_ip_dst::SetIPDst>("ip"),
    class::<static_ip_lookup::StaticIPLookup>("ip"),
    class::<store_ip_address::StoreIPAddress>("ip"),
];
