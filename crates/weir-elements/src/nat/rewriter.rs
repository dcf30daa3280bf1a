//! Rewriters that other elements refer to by name.

use weir_ir::{Element, Peer, Peers};

use super::eviction::Sharer;
use super::flow;
use super::icmp_ping_rewriter::ICMPPingRewriter;
use super::ip_addr_pair_rewriter::IPAddrPairRewriter;
use super::ip_addr_rewriter::IPAddrRewriter;
use super::ip_endpoint_rewriter::IPEndpointRewriter;
use super::ip_rewriter::IPRewriter;
use super::mapping;
use super::params::Capacity;
use super::tcp_rewriter::TCPRewriter;
use super::udp_rewriter::UDPRewriter;
use crate::args::Args;
use crate::class::Configure;

/// A kind of rewriter, by the key of its mappings.
#[derive(Debug)]
pub(super) enum Rewriter {
    /// Addresses and ports.
    Flows(flow::Settings),
    /// Pairs of addresses.
    Pairs(mapping::Settings),
    /// One address.
    Addresses(mapping::Settings),
    /// Addresses and ICMP identifier.
    Pings(mapping::Settings),
    /// One address, with its port or ICMP identifier.
    Endpoints(mapping::Settings),
}

impl Rewriter {
    /// The rewriter that an element means by a name. `None`: one that is not right, which it reports itself; nobody else repeats it.
    pub(super) fn find(name: &str, peers: &Peers<'_>) -> Result<Option<Rewriter>, String> {
        let Some(peer) = peers.named(name) else {
            return Err(format!("'{name}' is not an IP rewriter: there is no element of that name"));
        };
        let (own, args, peers) = (peer.name, peer.args, peers.seen_from(peer.name));
        Ok(match peer.class {
            "IPRewriter" => configured::<IPRewriter>(args, &peers).map(|e| Rewriter::Flows(e.settings(own))),
            "TCPRewriter" => {
                configured::<TCPRewriter>(args, &peers).map(|e| Rewriter::Flows(e.settings(own)))
            }
            "UDPRewriter" => {
                configured::<UDPRewriter>(args, &peers).map(|e| Rewriter::Flows(e.settings(own)))
            }
            "IPAddrPairRewriter" => {
                configured::<IPAddrPairRewriter>(args, &peers).map(|e| Rewriter::Pairs(e.settings(own)))
            }
            "IPAddrRewriter" => {
                configured::<IPAddrRewriter>(args, &peers).map(|e| Rewriter::Addresses(e.settings(own)))
            }
            "ICMPPingRewriter" => {
                configured::<ICMPPingRewriter>(args, &peers).map(|e| Rewriter::Pings(e.settings(own)))
            }
            "IPEndpointRewriter" => {
                configured::<IPEndpointRewriter>(args, &peers).map(|e| Rewriter::Endpoints(e.settings(own)))
            }
            class => return Err(format!("'{name}' is not an IP rewriter: it is of class {class}")),
        })
    }

    /// What its tables follow from.
    pub(super) fn table(&self) -> &mapping::Settings {
        match self {
            Rewriter::Flows(flows) => &flows.table,
            Rewriter::Pairs(table)
            | Rewriter::Addresses(table)
            | Rewriter::Pings(table)
            | Rewriter::Endpoints(table) => table,
        }
    }
}

/// Classes of rewriters.
pub(super) const CLASSES: [&str; 7] = [
    "IPRewriter",
    "TCPRewriter",
    "UDPRewriter",
    "IPAddrPairRewriter",
    "IPAddrRewriter",
    "ICMPPingRewriter",
    "IPEndpointRewriter",
];

/// A rewriter whose capacity is that of the one with the full name `root`, which says this number.
pub(super) fn sharer(peer: &Peer<'_>, root: &str, capacity: u32, peers: &Peers<'_>) -> Option<Sharer> {
    let own = Capacity::of_arguments(peer.args).ok()?;
    let (_, of) = own.resolve(&peers.seen_from(peer.name)).ok()?;
    if of != root {
        return None;
    }
    // Its links are not looked at: they lead back.
    macro_rules! table {
        ($class:ty, $($table:tt)*) => {{
            let mut e: $class = parsed(peer.args)?;
            e.inputs.1.capacity = Some(capacity);
            e.settings(peer.name)$($table)*
        }};
    }
    let settings: mapping::Settings = match peer.class {
        "IPRewriter" => table!(IPRewriter, .table),
        "TCPRewriter" => table!(TCPRewriter, .table),
        "UDPRewriter" => table!(UDPRewriter, .table),
        "IPAddrPairRewriter" => table!(IPAddrPairRewriter,),
        "IPAddrRewriter" => table!(IPAddrRewriter,),
        "ICMPPingRewriter" => table!(ICMPPingRewriter,),
        "IPEndpointRewriter" => table!(IPEndpointRewriter,),
        _ => return None,
    };
    Some(Sharer { name: peer.name.to_owned(), map: settings.map(""), spare: settings.spare })
}

fn parsed<T: Configure>(args: &[String]) -> Option<T> {
    let mut args = Args::new(args, T::INFO);
    let element = T::configure(&mut args);
    element.filter(|_| args.finish().is_empty())
}

fn configured<T: Configure>(args: &[String], peers: &Peers<'_>) -> Option<T> {
    let mut element: T = parsed(args)?;
    Element::resolve(&mut element, peers).ok()?;
    Some(element)
}
