//! Routing tables: what the elements that look routes up share.

use std::fmt;
use std::net::Ipv4Addr;

use crate::prelude::*;

/// Most routes of a table.
const CAPACITY: u32 = 1 << 22;

/// A prefix of IPv4 or IPv6.
pub trait Prefix: FromArg + fmt::Display + fmt::Debug + Copy + PartialEq {
    /// Its addresses.
    type Addr: FromArg + fmt::Display;
    /// Width of an address.
    const WIDTH: Width;
    /// A route as one writes it.
    const EXAMPLE: &'static str;
    /// The key of the prefix in a table.
    fn key(self) -> KeyMatch;
    /// The prefix with this key.
    fn of_key(key: &KeyMatch) -> Option<Self>;
    /// An address as a number.
    fn bits(addr: Self::Addr) -> u128;
    /// The address of a number.
    fn addr(bits: u128) -> Self::Addr;
}

impl Prefix for Ipv4Prefix {
    type Addr = Ipv4Addr;
    const WIDTH: Width = W32;
    const EXAMPLE: &'static str = "10.0.0.0/8 10.1.1.1 2";

    fn key(self) -> KeyMatch {
        KeyMatch::Prefix(u32::from(Ipv4Prefix::addr(self)).into(), self.len().into())
    }

    fn of_key(key: &KeyMatch) -> Option<Ipv4Prefix> {
        let KeyMatch::Prefix(addr, len) = *key else { return None };
        Ipv4Prefix::new((addr as u32).into(), u8::try_from(len).ok()?)
    }

    fn bits(addr: Ipv4Addr) -> u128 {
        u32::from(addr).into()
    }

    fn addr(bits: u128) -> Ipv4Addr {
        (bits as u32).into()
    }
}

/// A route: destination prefix, gateway (0: none), output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Route<P> {
    prefix: P,
    gateway: u128,
    output: u32,
}

impl<P: Prefix> FromArg for Route<P> {
    const SYNTAX: &'static str = "route";
    fn from_arg(text: &str) -> Result<Route<P>, String> {
        let form = || format!("a route is PREFIX [GATEWAY] OUTPUT, as {}", P::EXAMPLE);
        let words: Vec<&str> = text.split_whitespace().collect();
        let (prefix, gateway, output) = match words[..] {
            [prefix, output] => (prefix, "-", output),
            [prefix, gateway, output] => (prefix, gateway, output),
            _ => return Err(format!("'{text}': {}", form())),
        };
        let wrong = |e: String| format!("'{text}': {e}; {}", form());
        Ok(Route {
            prefix: P::from_arg(prefix).map_err(wrong)?,
            gateway: match gateway {
                "-" => 0,
                g => P::bits(P::Addr::from_arg(g).map_err(wrong)?),
            },
            output: u16::from_arg(output).map_err(wrong)?.into(),
        })
    }
}

impl<P: Prefix> fmt::Display for Route<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gateway {
            0 => write!(f, "{} - {}", self.prefix, self.output),
            gateway => write!(f, "{} {} {}", self.prefix, P::addr(gateway), self.output),
        }
    }
}

impl<P: Prefix> Route<P> {
    fn row(&self) -> Row {
        let value = vec![self.gateway, self.output.into()];
        Row { key: vec![self.prefix.key()], value, priority: 0, ttl: None }
    }

    fn of_row(row: &Row) -> Option<Route<P>> {
        let ([key], [gateway, output]) = (&row.key[..], &row.value[..]) else { return None };
        Some(Route { prefix: P::of_key(key)?, gateway: *gateway, output: *output as u32 })
    }

    /// The route of a prefix, with its slot in the table.
    fn find(s: &State<'_>, prefix: P) -> Option<(u32, Route<P>)> {
        let table = s.table("routes");
        let slot = table.find_row(&[prefix.key()], 0)?;
        Some((slot, Route { prefix, gateway: table.get(slot, 0), output: table.get(slot, 1) as u32 }))
    }

    /// Port counts of an element with these routes: outputs that they name have to be there.
    pub(crate) fn ports(routes: &[Route<P>]) -> String {
        match routes.iter().map(|r| r.output).max() {
            Some(last) => format!("1/{}-", last + 1),
            None => "1/-".into(),
        }
    }

    /// The program: looks the destination annotation up, sets it to the gateway, and emits.
    pub(crate) fn program(routes: &[Route<P>], b: &mut Builder) {
        let fields = [("gateway", P::WIDTH), ("output", W32)];
        let decl = TableDecl::new("routes", Kind::Lpm, &[("dst", P::WIDTH)], &fields, CAPACITY);
        let table = b.table(decl.configured(), routes.iter().map(Route::row).collect());
        b.input(0, |b| {
            let dst = b.load_anno(P::WIDTH, anno::DST_IP);
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

    /// All routes, one a line, in the order in which they were added; a route may take the place of one that was
    /// removed.
    pub(crate) fn list(s: &State<'_>) -> String {
        let routes = in_order(s);
        routes.iter().filter_map(|(_, row)| Route::<P>::of_row(row)).map(|r| format!("{r}\n")).collect()
    }

    /// `lookup ADDRESS`: output and gateway of the route to an address, or -1 if there is none.
    pub(crate) fn lookup(s: &State<'_>) -> Result<String, String> {
        let addr = P::Addr::from_arg(s.param).map_err(|e| format!("{e}: write lookup ADDRESS"))?;
        let table = s.table("routes");
        let Some(slot) = table.lookup(&[P::bits(addr)]) else { return Ok("-1".to_owned()) };
        Ok(match table.get(slot, 0) {
            0 => table.get(slot, 1).to_string(),
            gateway => format!("{} {}", table.get(slot, 1), P::addr(gateway)),
        })
    }

    /// `add ROUTE`: refuses a prefix that has a route.
    pub(crate) fn add(s: &mut State<'_>, text: &str) -> Result<(), String> {
        let route = Route::<P>::from_arg(text)?;
        match Route::find(s, route.prefix) {
            Some((_, found)) => Err(format!("conflict with existing route '{found}'")),
            None => route.insert(s),
        }
    }

    /// `set ROUTE`: adds or replaces.
    pub(crate) fn set(s: &mut State<'_>, text: &str) -> Result<(), String> {
        Route::<P>::from_arg(text)?.insert(s)
    }

    fn insert(&self, s: &mut State<'_>) -> Result<(), String> {
        let now = s.now;
        s.table_mut("routes").insert_row(&self.row(), now).map(|_| ()).map_err(|e| e.to_string())
    }

    /// `remove PREFIX [[GATEWAY] OUTPUT]`: what is given has to be what the route says.
    pub(crate) fn remove(s: &mut State<'_>, text: &str) -> Result<(), String> {
        let mut words = text.split_whitespace();
        let prefix = P::from_arg(words.next().ok_or("write the prefix of the route to remove")?)?;
        let (slot, found) =
            Route::find(s, prefix).ok_or_else(|| format!("there is no route for {prefix}"))?;
        if words.next().is_some() {
            let wanted = Route::<P>::from_arg(text)?;
            if wanted != found {
                return Err(format!("there is no route {wanted}, but {found}"));
            }
        }
        s.remove("routes", slot);
        Ok(())
    }

    /// `add ROUTE`, `set ROUTE`, `remove PREFIX`, one a line; nothing is done if one of them is wrong.
    pub(crate) fn control(s: &mut State<'_>, text: &str) -> Result<(), String> {
        let before = in_order(s);
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let done = match word {
                "add" => Route::<P>::add(s, rest),
                "set" => Route::<P>::set(s, rest),
                "remove" => Route::<P>::remove(s, rest),
                _ => Err(format!("'{word}': write add, set or remove")),
            };
            if let Err(e) = done {
                let now = s.now;
                let table = s.table_mut("routes");
                table.clear();
                for (_, row) in before {
                    table.insert_row(&row, now).map_err(|e| e.to_string())?;
                }
                return Err(format!("'{line}': {e}"));
            }
        }
        Ok(())
    }

    /// Removes all routes.
    pub(crate) fn flush(s: &mut State<'_>) {
        s.table_mut("routes").clear();
    }
}

/// The rows of the table in the order in which they were added.
fn in_order(s: &State<'_>) -> Vec<(u32, Row)> {
    let mut rows = s.table("routes").rows();
    rows.sort_by_key(|(slot, _)| *slot);
    rows
}

/// An element that routes by a table which handlers can change.
macro_rules! routing {
    (
        $(#[doc = $doc:expr])*
        $name:ident: $prefix:ident;
        example $example:expr;
    ) => {
        $crate::element! {
            $(#[doc = $doc])*
            $name: "1/-", "h/h";
            example $example;
            params {
                /// Routes: `PREFIX [GATEWAY] OUTPUT`.
                rest routes: Vec<$crate::routes::Route<$prefix>>,
            }
            handlers {
                /// The routes, one a line: prefix, gateway or `-`, output.
                read table = |_, s| Ok($crate::routes::Route::<$prefix>::list(s)),
                /// Output and gateway for an address, or -1: `lookup ADDRESS`.
                query lookup = |_, s| $crate::routes::Route::<$prefix>::lookup(s),
                /// Adds a route; refused if its prefix has one.
                write add = |_, s, v| $crate::routes::Route::<$prefix>::add(s, v),
                /// Adds or replaces a route.
                write set = |_, s, v| $crate::routes::Route::<$prefix>::set(s, v),
                /// Removes the route of a prefix: `PREFIX [[GATEWAY] OUTPUT]`.
                write remove = |_, s, v| $crate::routes::Route::<$prefix>::remove(s, v),
                /// Several changes, one a line: `add ROUTE`, `set ROUTE`, `remove PREFIX`; all are made, or none.
                write ctrl = |_, s, v| $crate::routes::Route::<$prefix>::control(s, v),
                /// Removes all routes.
                write flush = |_, s, _| {
                    $crate::routes::Route::<$prefix>::flush(s);
                    Ok(())
                },
            }
            ports |e| $crate::routes::Route::ports(&e.routes);
        }

        fn program(e: &$name, b: &mut Builder) {
            $crate::routes::Route::program(&e.routes, b);
        }
    };
}
pub(crate) use routing;
