use super::Route;
use crate::prelude::*;

element! {
    /// Routes IPv4 packets by longest prefix, with a table that handlers can change.
    ///
    /// In Click this element searches linearly; here all routing elements choose their algorithm by their content.
    ///
    /// The address is the destination annotation. If the route has a gateway, the annotation becomes the gateway.
    /// Packets without a route are dropped (`NoRoute`).
    LinearIPLookup: "1/-", "h/h";
    example "Idle -> CheckIPHeader -> r :: LinearIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 1); r [0] -> Discard; r [1] -> Discard;";
    params {
        /// Routes: `PREFIX [GATEWAY] OUTPUT`.
        rest routes: Vec<Route>,
    }
    handlers {
        /// The routes, one a line: prefix, gateway or `-`, output.
        read table = |_, s| Ok(Route::list(s)),
        /// Output and gateway for an address, or -1: `lookup ADDRESS`.
        query lookup = |_, s| Route::lookup(s),
        /// Adds a route; refused if its prefix has one.
        write add = |_, s, v| Route::add(s, v),
        /// Adds or replaces a route.
        write set = |_, s, v| Route::set(s, v),
        /// Removes the route of a prefix: `PREFIX [[GATEWAY] OUTPUT]`.
        write remove = |_, s, v| Route::remove(s, v),
        /// Several changes, one a line: `add ROUTE`, `set ROUTE`, `remove PREFIX`; all are made, or none.
        write ctrl = |_, s, v| Route::control(s, v),
    }
    ports |e| Route::ports(&e.routes);
}

fn program(e: &LinearIPLookup, b: &mut Builder) {
    Route::program(&e.routes, b);
}
