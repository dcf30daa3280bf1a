//! Routing tables: what the elements that look routes up share.

use crate::prelude::*;

/// Most routes of a table.
const CAPACITY: u32 = 1 << 22;

/// A route: destination prefix, gateway (0: none), output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    prefix: Ipv4Prefix,
    gateway: Ipv4Addr,
    output: u32,
}

impl FromArg for Route {
    const SYNTAX: &'static str = "route";
    fn from_arg(text: &str) -> Result<Route, String> {
        let form = "a route is PREFIX [GATEWAY] OUTPUT, as 10.0.0.0/8 10.1.1.1 2";
        let words: Vec<&str> = text.split_whitespace().collect();
        let (prefix, gateway, output) = match words[..] {
            [prefix, output] => (prefix, "-", output),
            [prefix, gateway, output] => (prefix, gateway, output),
            _ => return Err(format!("'{text}': {form}")),
        };
        let gateway = match gateway {
            "-" => Ipv4Addr::UNSPECIFIED,
            g => Ipv4Addr::from_arg(g).map_err(|e| format!("'{text}': {e}; {form}"))?,
        };
        Ok(Route {
            prefix: Ipv4Prefix::from_arg(prefix).map_err(|e| format!("'{text}': {e}; {form}"))?,
            gateway,
            output: u16::from_arg(output).map_err(|e| format!("'{text}': {e}; {form}"))?.into(),
        })
    }
}

impl Route {
    fn row(&self) -> Row {
        let addr = u32::from(self.prefix.addr()).into();
        Row {
            key: vec![KeyMatch::Prefix(addr, self.prefix.len().into())],
            value: vec![u32::from(self.gateway).into(), self.output.into()],
            priority: 0,
            ttl: None,
        }
    }

    /// The route of a prefix in this slot of the table.
    fn at(s: &State<'_>, prefix: Ipv4Prefix, slot: u32) -> Route {
        let table = s.table("routes");
        Route { prefix, gateway: (table.get(slot, 0) as u32).into(), output: table.get(slot, 1) as u32 }
    }

    fn of_row(row: &Row) -> Option<Route> {
        let KeyMatch::Prefix(addr, len) = *row.key.first()? else { return None };
        let prefix = Ipv4Prefix::new((addr as u32).into(), len as u8)?;
        Some(Route {
            prefix,
            gateway: (*row.value.first()? as u32).into(),
            output: *row.value.get(1)? as u32,
        })
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gateway = Some(self.gateway).filter(|g| !g.is_unspecified());
        let gateway = gateway.map_or("-".into(), |g| g.to_string());
        write!(f, "{} {gateway} {}", self.prefix, self.output)
    }
}

/// The program: looks the destination annotation up, sets it to the gateway, and emits.
pub(super) fn program(routes: &[Route], b: &mut Builder) {
    let decl =
        TableDecl::new("routes", Kind::Lpm, &[("dst", W32)], &[("gateway", W32), ("output", W32)], CAPACITY);
    let table = b.table(decl.configured(), routes.iter().map(Route::row).collect());
    b.input(0, |b| {
        let dst = b.load_anno(W32, anno::DST_IP);
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

/// All routes, one a line, in the order in which they were added; a route may take the place of one that was removed.
pub(super) fn list(s: &State<'_>) -> String {
    in_order(s).iter().filter_map(|(_, row)| Route::of_row(row)).map(|r| format!("{r}\n")).collect()
}

/// The rows of the table in the order in which they were added.
pub(crate) fn in_order(s: &State<'_>) -> Vec<(u32, Row)> {
    let mut rows = s.table("routes").rows();
    rows.sort_by_key(|(slot, _)| *slot);
    rows
}

/// `add ROUTE`: refuses a prefix that has a route.
pub(super) fn add(s: &mut State<'_>, text: &str) -> Result<(), String> {
    let route = Route::from_arg(text)?;
    if let Some(slot) = s.table("routes").find_row(&route.row().key, 0) {
        let found = Route::at(s, route.prefix, slot);
        return Err(format!("conflict with existing route '{found}'"));
    }
    insert(s, &route)
}

/// `set ROUTE`: adds or replaces.
pub(super) fn set(s: &mut State<'_>, text: &str) -> Result<(), String> {
    insert(s, &Route::from_arg(text)?)
}

fn insert(s: &mut State<'_>, route: &Route) -> Result<(), String> {
    let now = s.now;
    s.table_mut("routes").insert_row(&route.row(), now).map(|_| ()).map_err(|e| e.to_string())
}

/// `remove PREFIX [[GATEWAY] OUTPUT]`: what is given has to be what the route says.
pub(super) fn remove(s: &mut State<'_>, text: &str) -> Result<(), String> {
    let mut words = text.split_whitespace();
    let prefix = Ipv4Prefix::from_arg(words.next().ok_or("write the prefix of the route to remove")?)?;
    let key = [KeyMatch::Prefix(u32::from(prefix.addr()).into(), prefix.len().into())];
    let slot =
        s.table("routes").find_row(&key, 0).ok_or_else(|| format!("there is no route for {prefix}"))?;
    if words.next().is_some() {
        let wanted = Route::from_arg(text)?;
        let found = Route::at(s, prefix, slot);
        if wanted != found {
            return Err(format!("there is no route {wanted}, but {found}"));
        }
    }
    s.remove("routes", slot);
    Ok(())
}

/// Removes all routes.
pub(super) fn flush(s: &mut State<'_>) {
    s.table_mut("routes").clear();
}

/// `lookup ADDRESS`: output and gateway of the route to an address, or -1 if there is none.
pub(super) fn lookup(s: &State<'_>) -> Result<String, String> {
    let addr = Ipv4Addr::from_arg(s.param).map_err(|e| format!("{e}: write lookup ADDRESS"))?;
    let table = s.table("routes");
    Ok(match table.lookup(&[addr.bits()]) {
        None => "-1".to_owned(),
        Some(slot) => match Ipv4Addr::from(table.get(slot, 0) as u32) {
            Ipv4Addr::UNSPECIFIED => table.get(slot, 1).to_string(),
            gateway => format!("{} {gateway}", table.get(slot, 1)),
        },
    })
}

/// Port counts of an element with these routes: outputs that they name have to be there.
pub(super) fn ports(routes: &[Route]) -> String {
    match routes.iter().map(|r| r.output).max() {
        Some(last) => format!("1/{}-", last + 1),
        None => "1/-".into(),
    }
}

/// `add ROUTE`, `set ROUTE`, `remove PREFIX`, one a line; nothing is done if one of them is wrong.
pub(super) fn control(s: &mut State<'_>, text: &str) -> Result<(), String> {
    change_all(s, text, |s, word, rest| match word {
        "add" => add(s, rest),
        "set" => set(s, rest),
        _ => remove(s, rest),
    })
}

/// Makes changes of the table of routes, one a line: the word `add`, `set` or `remove`, and what is behind it, go to
/// `change`. Nothing is done if one of them is wrong.
pub(crate) fn change_all(
    s: &mut State<'_>,
    text: &str,
    change: impl Fn(&mut State<'_>, &str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let before = in_order(s);
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let done = match word {
            "add" | "set" | "remove" => change(s, word, rest),
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
