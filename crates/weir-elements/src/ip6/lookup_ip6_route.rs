use std::net::Ipv6Addr;

use super::address::Ipv6Prefix;
use crate::ip::routes::{change_all, in_order};
use crate::prelude::*;

element! {
    /// Routes IPv6 packets by longest prefix, with a table that handlers can change.
    ///
    /// The address is the destination annotation. If the route has a gateway, the annotation becomes the gateway.
    /// Packets without a route are dropped (`NoRoute`).
    LookupIP6Route: "1/-", "h/h";
    example "Idle -> CheckIP6Header -> r :: LookupIP6Route(fd00:1::/64 0, ::/0 fd00:2::1 1); r [0] -> Discard; r [1] -> Discard;";
    params {
        /// Routes: `PREFIX [GATEWAY] OUTPUT`; the gateway `::` is none.
        rest routes: Vec<Route>,
    }
    handlers {
        /// The routes, one a line: prefix, gateway or `-`, output.
        read table = |_, s| Ok(in_order(s).iter().filter_map(|(_, row)| Route::of_row(row)).map(|r| format!("{r}\n")).collect()),
        /// Output and gateway for an address, or -1: `lookup ADDRESS`.
        query lookup = |_, s| lookup(s),
        /// Adds a route; refused if its prefix has one.
        write add = |_, s, v| change(s, "add", v),
        /// Adds or replaces a route.
        write set = |_, s, v| change(s, "set", v),
        /// Removes the route of a prefix.
        write remove = |_, s, v| change(s, "remove", v),
        /// Several changes, one a line: `add ROUTE`, `set ROUTE`, `remove PREFIX`; all are made, or none.
        write ctrl = |_, s, v| change_all(s, v, change),
        /// Removes all routes.
        write flush = |_, s, _| {
            s.table_mut("routes").clear();
            Ok(())
        },
    }
    ports |e| match e.routes.iter().map(|r| r.output).max() {
        Some(last) => format!("1/{}-", last + 1),
        None => "1/-".into(),
    };
}

/// Most routes of a table.
const CAPACITY: u32 = 1 << 20;

/// A route: destination prefix, gateway (`::`: none), output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    prefix: Ipv6Prefix,
    gateway: Ipv6Addr,
    output: u32,
}

impl FromArg for Route {
    const SYNTAX: &'static str = "route";
    fn from_arg(text: &str) -> Result<Route, String> {
        let form = "a route is PREFIX [GATEWAY] OUTPUT, as fd00:1::/64 fd00:2::1 2";
        let words: Vec<&str> = text.split_whitespace().collect();
        let (prefix, gateway, output) = match words[..] {
            [prefix, output] => (prefix, "-", output),
            [prefix, gateway, output] => (prefix, gateway, output),
            _ => return Err(format!("'{text}': {form}")),
        };
        let wrong = |e: String| format!("'{text}': {e}; {form}");
        Ok(Route {
            prefix: Ipv6Prefix::from_arg(prefix).map_err(wrong)?,
            gateway: match gateway {
                "-" => Ipv6Addr::UNSPECIFIED,
                g => Ipv6Addr::from_arg(g).map_err(wrong)?,
            },
            output: u16::from_arg(output).map_err(wrong)?.into(),
        })
    }
}

impl Route {
    fn row(&self) -> Row {
        let value = vec![self.gateway.into(), self.output.into()];
        Row { key: vec![self.prefix.key()], value, priority: 0, ttl: None }
    }

    fn of_row(row: &Row) -> Option<Route> {
        let ([key], [gateway, output]) = (&row.key[..], &row.value[..]) else { return None };
        Some(Route { prefix: Ipv6Prefix::of_key(key)?, gateway: (*gateway).into(), output: *output as u32 })
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gateway = Some(self.gateway).filter(|g| !g.is_unspecified());
        let gateway = gateway.map_or("-".into(), |g| g.to_string());
        write!(f, "{} {gateway} {}", self.prefix, self.output)
    }
}

fn program(e: &LookupIP6Route, b: &mut Builder) {
    let fields = [("gateway", W128), ("output", W32)];
    let decl = TableDecl::new("routes", Kind::Lpm, &[("dst", W128)], &fields, CAPACITY);
    let table = b.table(decl.configured(), e.routes.iter().map(Route::row).collect());
    b.input(0, |b| {
        let dst = b.load_anno(W128, anno::DST_IP);
        let route = b.find(table, &[dst], |b| b.drop(Reason::new("NoRoute")));
        let gateway = b.get(route, "gateway");
        let direct = b.eq(gateway, 0);
        let next = b.select(direct, dst, gateway);
        b.store_anno(anno::DST_IP, next);
        let output = b.get(route, "output");
        let ports: Vec<u128> = (0..b.outputs().into()).collect();
        b.switch(output, &ports, |b, port| match port {
            Some(port) => b.emit(port as u32),
            None => b.drop(Reason::UNCONNECTED),
        });
    });
}

/// `add ROUTE`, `set ROUTE` or `remove PREFIX [[GATEWAY] OUTPUT]`, where what is given has to be what the route says.
fn change(s: &mut State<'_>, word: &str, text: &str) -> Result<(), String> {
    let prefix = text.split_whitespace().next().ok_or("write the prefix of the route")?;
    let prefix = Ipv6Prefix::from_arg(prefix)?;
    let table = s.table("routes");
    let slot = table.find_row(&[prefix.key()], 0);
    let found = slot.map(|slot| Route {
        prefix,
        gateway: table.get(slot, 0).into(),
        output: table.get(slot, 1) as u32,
    });
    if word == "remove" {
        let (Some(slot), Some(found)) = (slot, found) else {
            return Err(format!("there is no route for {prefix}"));
        };
        if text.split_whitespace().count() > 1 {
            let wanted = Route::from_arg(text)?;
            if wanted != found {
                return Err(format!("there is no route {wanted}, but {found}"));
            }
        }
        s.remove("routes", slot);
        return Ok(());
    }
    let route = Route::from_arg(text)?;
    if let Some(found) = found.filter(|_| word == "add") {
        return Err(format!("conflict with existing route '{found}'"));
    }
    let now = s.now;
    s.table_mut("routes").insert_row(&route.row(), now).map(|_| ()).map_err(|e| e.to_string())
}

/// `lookup ADDRESS`: output and gateway of the route to an address, or -1 if there is none.
fn lookup(s: &State<'_>) -> Result<String, String> {
    let addr = Ipv6Addr::from_arg(s.param).map_err(|e| format!("{e}: write lookup ADDRESS"))?;
    let table = s.table("routes");
    let Some(slot) = table.lookup(&[addr.bits()]) else { return Ok("-1".into()) };
    Ok(match Ipv6Addr::from(table.get(slot, 0)) {
        Ipv6Addr::UNSPECIFIED => table.get(slot, 1).to_string(),
        gateway => format!("{} {gateway}", table.get(slot, 1)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome};

    fn routed(e: &mut Harness, dst: &str) -> Option<(u32, String)> {
        let mut p = Packet::from_bytes(b"x").unwrap();
        let dst: Ipv6Addr = dst.parse().unwrap();
        p.anno[..16].copy_from_slice(&dst.octets());
        match &e.send_packet(0, p)[0] {
            Outcome::Out(port, p) => {
                let next = <[u8; 16]>::try_from(&p.anno[..16]).unwrap();
                Some((*port, Ipv6Addr::from(next).to_string()))
            }
            Outcome::Drop(reason) => {
                assert_eq!(reason, "NoRoute");
                None
            }
        }
    }

    #[test]
    fn the_longest_prefix_decides_and_the_gateway_goes_into_the_annotation() {
        let args = ["fd00::/16 ::0 1", "fd00:1::/32 fd00::9 2", "fd00:1::5 0"];
        let mut e = Harness::new("LookupIP6Route", &args, 1, 3);
        assert_eq!(routed(&mut e, "fd00:2::1"), Some((1, "fd00:2::1".into())));
        assert_eq!(routed(&mut e, "fd00:1::6"), Some((2, "fd00::9".into())));
        assert_eq!(routed(&mut e, "fd00:1::5"), Some((0, "fd00:1::5".into())));
        assert_eq!(routed(&mut e, "fe00::1"), None);
        for (addr, found) in [("fd00:1::6", "2 fd00::9"), ("fd00::1", "1"), ("::1", "-1")] {
            assert_eq!(e.read(&format!("lookup {addr}")), found);
        }
        assert!(e.try_read("lookup here").unwrap_err().contains("'here' is not an IPv6 address"));
    }

    #[test]
    fn routes_can_be_changed_while_it_runs() {
        let mut e = Harness::new("LookupIP6Route", &["::/0 0"], 1, 2);
        e.write("add", "fd00::/8 1").unwrap();
        assert_eq!(routed(&mut e, "fd00::1").unwrap().0, 1);
        let error = e.write("add", "fd00::/8 0").unwrap_err();
        assert_eq!(error, "conflict with existing route 'fd00::/8 - 1'");
        assert!(e.write("ctrl", "remove fd00::/8\nset x").is_err());
        assert_eq!(e.read("table"), "::/0 - 0\nfd00::/8 - 1\n", "a text with a mistake changes nothing");
        let error = e.write("remove", "fd00::/8 fd00::1 1").unwrap_err();
        assert_eq!(error, "there is no route fd00::/8 fd00::1 1, but fd00::/8 - 1");
        e.write("ctrl", "remove fd00::/8 1\nset ::/0 fd00::1 1").unwrap();
        assert_eq!(e.read("table"), "::/0 fd00::1 1\n");
        assert!(e.write("remove", "fd00::/8").unwrap_err().contains("no route for fd00::/8"));
        e.write("flush", "").unwrap();
        assert_eq!((e.read("table"), routed(&mut e, "fd00::1")), (String::new(), None));
    }

    #[test]
    fn bad_routes_say_what_is_right() {
        let class = crate::class_named("LookupIP6Route").unwrap();
        let error = |route: &str| class.configure(&[route.to_owned()]).err().unwrap().join("; ");
        assert!(error("fd00::/8").contains("a route is PREFIX"));
        assert!(error("10.0.0.0/8 1").contains("'10.0.0.0/8' is not an IPv6 prefix"));
        assert!(error("::/0 65536").contains("65536 is too large"));
        assert_eq!(class.configure(&["::/0 fd00::1 3".into()]).unwrap().ports(), "1/4-");
    }
}
