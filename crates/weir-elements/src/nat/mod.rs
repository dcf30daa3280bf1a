//! Address translation and limits on connections.

use crate::class::{Class, class};

mod addresses;
mod change_enforcer;
mod connection_limit;
mod connection_tracker;
mod declare;
mod eviction;
mod flow;
mod fragments;
mod ftp_port_mapper;
mod icmp_ping_rewriter;
mod icmp_rewriter;
mod ip_addr_pair_rewriter;
mod ip_addr_rewriter;
mod ip_endpoint_rewriter;
mod ip_rewriter;
mod ip_rewriter_patterns;
mod listing;
mod live;
mod mapper;
mod mapping;
mod params;
mod pattern;
mod rewriter;
mod round_robin_ip_mapper;
mod shared_address;
mod shift;
mod source_ip_hash_mapper;
mod tcp_rewriter;
mod udp_rewriter;

pub(crate) const CLASSES: &[Class] = &[
    class::<change_enforcer::ChangeEnforcer>("nat"),
    class::<connection_limit::ConnectionLimit>("nat"),
    class::<connection_tracker::ConnectionTracker>("nat"),
    class::<ftp_port_mapper::FTPPortMapper>("nat"),
    class::<icmp_ping_rewriter::ICMPPingRewriter>("nat"),
    class::<icmp_rewriter::ICMPRewriter>("nat"),
    class::<ip_addr_pair_rewriter::IPAddrPairRewriter>("nat"),
    class::<ip_addr_rewriter::IPAddrRewriter>("nat"),
    class::<ip_endpoint_rewriter::IPEndpointRewriter>("nat"),
    class::<ip_rewriter::IPRewriter>("nat"),
    class::<ip_rewriter_patterns::IPRewriterPatterns>("nat"),
    class::<round_robin_ip_mapper::RoundRobinIPMapper>("nat"),
    class::<shared_address::SharedAddress>("nat"),
    class::<source_ip_hash_mapper::SourceIPHashMapper>("nat"),
    class::<tcp_rewriter::TCPRewriter>("nat"),
    class::<udp_rewriter::UDPRewriter>("nat"),
];
