use crate::prelude::*;
use crate::routes::Route;

element! {
    /// Routes IPv4 packets by a table that stands in the configuration: longest prefix first.
    ///
    /// The address is the destination annotation. If the route has a gateway, the annotation becomes the gateway.
    /// Packets without a route are dropped (`NoRoute`).
    StaticIPLookup: "1/-", "h/h";
    example "Idle -> CheckIPHeader -> r :: StaticIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1); r [0] -> Discard; r [1] -> Discard;";
    params {
        /// Routes: `PREFIX [GATEWAY] OUTPUT`.
        rest routes: Vec<Route<Ipv4Prefix>>,
    }
    handlers {
        /// The routes, one a line: prefix, gateway or `-`, output.
        read table = |_, s| Ok(Route::<Ipv4Prefix>::list(s)),
        /// Output and gateway for an address, or -1: `lookup ADDRESS`.
        query lookup = |_, s| Route::<Ipv4Prefix>::lookup(s),
    }
    ports |e| Route::ports(&e.routes);
}

fn program(e: &StaticIPLookup, b: &mut Builder) {
    Route::program(&e.routes, b);
}
