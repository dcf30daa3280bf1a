use crate::prelude::*;
use crate::routes::routing;

routing! {
    /// Routes IPv4 packets by longest prefix, with a table that handlers can change.
    ///
    /// In Click this element searches a sorted list; here all routing elements choose their algorithm by their content.
    ///
    /// The address is the destination annotation. If the route has a gateway, the annotation becomes the gateway.
    /// Packets without a route are dropped (`NoRoute`).
    SortedIPLookup: Ipv4Prefix;
    example "Idle -> CheckIPHeader -> r :: SortedIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1); r [0] -> Discard; r [1] -> Discard;";
}
