//! Requirements as questions about a network.

use weir_filter::text::closest;
use weir_filter::{Dir, Expr, Prim, Tags};
use weir_ir::program::Width;
use weir_model::requirement::{FieldLayer, Goal, HeaderField, KeptField, Place, Requirement};
use weir_model::value::IpPrefix;
use weir_verify::checks::{Bits, Field, Filter, Framing, Query, ReturnPath, Shows, Target};
use weir_verify::{Guard, NodeId};

use crate::error::Error;
use crate::world::{EdgePort, Location, World, within};

/// Names that an error lists.
const LISTED: usize = 12;

/// A requirement that can be asked.
#[derive(Debug)]
pub struct Question {
    /// What was required.
    pub requirement: Requirement,
    pub(crate) ask: Ask,
}

#[derive(Debug)]
pub(crate) enum Ask {
    Can(Query),
    Only(Query),
    /// One for each place of SRC.
    All(Vec<Query>, bool),
    Never(Query),
    /// Fields with the packets that they are asked of.
    Invariant(Vec<(Query, Vec<Field>)>),
    Return(Query, ReturnPath),
    NoLoops(Query),
}

impl Ask {
    /// What it says that no packet does, if that is all that it says.
    pub(crate) fn about_all(&self) -> Option<(&Query, Shows)> {
        match self {
            Ask::Only(q) => Some((q, Shows::Other)),
            Ask::Never(q) => Some((q, Shows::Any)),
            _ => None,
        }
    }

    /// All that is asked.
    fn queries_mut(&mut self) -> Vec<&mut Query> {
        match self {
            Ask::Can(q) | Ask::Only(q) | Ask::Never(q) | Ask::NoLoops(q) | Ask::Return(q, _) => vec![q],
            Ask::All(list, _) => list.iter_mut().collect(),
            Ask::Invariant(list) => list.iter_mut().map(|(q, _)| q).collect(),
        }
    }

    /// The same of each source on its own.
    pub(crate) fn by_source(&self) -> Vec<Ask> {
        let each = |q: &Query| -> Vec<Query> {
            q.from.iter().map(|start| Query { from: vec![start.clone()], ..q.clone() }).collect()
        };
        match self {
            Ask::Can(q) => each(q).into_iter().map(Ask::Can).collect(),
            Ask::Only(q) => each(q).into_iter().map(Ask::Only).collect(),
            Ask::Never(q) => each(q).into_iter().map(Ask::Never).collect(),
            Ask::NoLoops(q) => each(q).into_iter().map(Ask::NoLoops).collect(),
            Ask::Return(q, path) => each(q).into_iter().map(|q| Ask::Return(q, path.clone())).collect(),
            Ask::All(list, strict) => {
                list.iter().flat_map(each).map(|q| Ask::All(vec![q], *strict)).collect()
            }
            Ask::Invariant(list) => {
                let one = |(q, fields): &(Query, Vec<Field>)| {
                    let fields = fields.clone();
                    each(q).into_iter().map(move |q| Ask::Invariant(vec![(q, fields.clone())]))
                };
                list.iter().flat_map(one).collect()
            }
        }
    }
}

/// An edge port, and the prefix that addresses behind it are meant to have.
type Meant = (EdgePort, Option<IpPrefix>);

impl World {
    /// The question that a requirement asks. Adds nodes to the network, so [`weir_verify::Network::finish`] is due
    /// before it is asked.
    ///
    /// # Errors
    /// If the requirement names something that is not there, or that packets do not begin or end at.
    pub fn question(&mut self, r: &Requirement) -> Result<Question, Error> {
        let mut ask = self.ask_of(r)?;
        if r.well_formed {
            for q in ask.queries_mut() {
                q.sent = self.filter(q, |world, framing| Some(world.guard_of_hosts(framing)));
            }
        }
        Ok(Question { requirement: r.clone(), ask })
    }

    fn ask_of(&mut self, r: &Requirement) -> Result<Ask, Error> {
        Ok(match &r.goal {
            Goal::Can { from, to, via, filter } => {
                let q = self.query(r, from, to, via)?;
                known(r, filter, q.to.iter().map(|t| t.framing))?;
                Ask::Can(self.filtered(q, filter))
            }
            Goal::Only { from, to, filter } => {
                let q = self.query(r, from, to, &[])?;
                known(r, filter, q.to.iter().map(|t| t.framing))?;
                Ask::Only(self.filtered(q, filter))
            }
            Goal::Never { from, to, filter } => {
                let q = self.query(r, from, to, &[])?;
                known(r, filter, q.from.iter().map(|s| s.framing))?;
                Ask::Never(self.filtered(q, filter))
            }
            Goal::All { from, to, via, filter, strict } => {
                let q = self.query(r, from, to, via)?;
                known(r, filter, q.from.iter().map(|s| s.framing))?;
                let mut each = Vec::new();
                for (edge_port, prefix) in self.sources(r, from, to)? {
                    let Some(start) = edge_port.start else { continue };
                    let meant = match prefix {
                        Some(p) => Expr::and([filter.clone(), within(p, Dir::Src)]),
                        None => filter.clone(),
                    };
                    each.push(self.filtered_as_sent(Query { from: vec![start], ..q.clone() }, &meant));
                }
                Ask::All(each, *strict)
            }
            Goal::Invariant { from, to, fields } => {
                let q = self.query(r, from, to, &[])?;
                let mut asked: Vec<(Option<u8>, Vec<Field>)> = Vec::new();
                for f in fields {
                    let (proto, field) = field(r, f)?;
                    match asked.iter_mut().find(|(p, _)| *p == proto) {
                        Some((_, list)) => list.push(field),
                        None => asked.push((proto, vec![field])),
                    }
                }
                let mut each = Vec::new();
                for (proto, fields) in asked {
                    // Fields are those behind VLAN tags, and so is the protocol.
                    let filter = proto.map_or(Expr::True, |number| {
                        Expr::from(Prim::Proto { number, version: None }).behind(Tags::All)
                    });
                    each.push((self.filtered(q.clone(), &filter), fields));
                }
                Ask::Invariant(each)
            }
            Goal::Return { from, to, filter } => {
                let q = self.query(r, from, to, &[])?;
                known(r, filter, q.to.iter().map(|t| t.framing))?;
                let path = self.return_path(r, from, to)?;
                Ask::Return(self.filtered(q, filter), path)
            }
            Goal::NoLoops => Ask::NoLoops(Query {
                from: self.others.clone(),
                others: self.others.clone(),
                ..Query::default()
            }),
        })
    }

    fn query(&mut self, r: &Requirement, from: &Place, to: &Place, via: &[Place]) -> Result<Query, Error> {
        let mut q = Query { others: self.others.clone(), ..Query::default() };
        for (edge_port, prefix) in self.sources(r, from, to)? {
            if let Some(start) = edge_port.start {
                q.from.push(match prefix {
                    Some(p) => self.sent_from(start, p),
                    None => start,
                });
            }
        }
        q.to = self.destinations(r, to)?.into_iter().map(|(target, _)| target).collect();
        q.via = via.iter().map(|p| self.nodes(r, p)).collect::<Result<_, _>>()?;
        Ok(q)
    }

    /// Where packets of SRC begin.
    fn sources(&self, r: &Requirement, from: &Place, to: &Place) -> Result<Vec<Meant>, Error> {
        let mut meant: Vec<Meant> = self.meant(r, from)?;
        if let Place::Prefix(_) = from {
            // All but the place that they are to come to.
            let other = |(g, _): &Meant| !self.is_edge_port_of(g, to);
            let others: Vec<Meant> = meant.iter().filter(|m| other(m)).cloned().collect();
            meant = if others.iter().any(|(g, _)| g.start.is_some()) { others } else { meant };
        }
        meant.retain(|(g, _)| g.start.is_some());
        if let (Place::Prefix(prefix), Goal::Can { .. } | Goal::Return { .. }) = (from, &r.goal) {
            // That some part of the prefix can is not enough where somebody owns it all: 0/0 is the internet.
            let whole = self.locations.iter().filter(|s| s.owns.iter().any(|own| own.contains(prefix)));
            let places: Vec<_> =
                whole.flat_map(|s| &s.edge_ports).filter_map(|g| g.start.as_ref()).map(|s| s.place).collect();
            let of_all = |(g, _): &Meant| g.start.as_ref().is_some_and(|s| places.contains(&s.place));
            if meant.iter().any(of_all) {
                meant.retain(of_all);
            }
        }
        if meant.is_empty() {
            let known = self.locations.iter().filter(|s| s.edge_ports.iter().any(|g| g.start.is_some()));
            let help = format!("packets begin at {}", list(known.map(|s| s.name.as_str())));
            return Err(Error::new(r, format!("no packet begins at '{from}'"), help));
        }
        Ok(meant)
    }

    /// Where packets of DST arrive, each with its edge port.
    fn destinations(&mut self, r: &Requirement, to: &Place) -> Result<Vec<(Target, EdgePort)>, Error> {
        let mut found = Vec::new();
        for (edge_port, prefix) in self.meant(r, to)? {
            if let Some(target) = edge_port.target {
                let target = prefix.map_or(target, |p| self.addressed(target, p));
                found.push((target, edge_port));
            }
        }
        if found.is_empty() {
            let known = self.locations.iter().filter(|s| s.edge_ports.iter().any(|g| g.target.is_some()));
            let help = format!("packets come to {}", list(known.map(|s| s.name.as_str())));
            return Err(Error::new(r, format!("no packet comes to '{to}'"), help));
        }
        Ok(found)
    }

    fn return_path(&mut self, r: &Requirement, from: &Place, to: &Place) -> Result<ReturnPath, Error> {
        let replies: Vec<_> = self
            .destinations(r, to)?
            .into_iter()
            .filter_map(|(target, edge_port)| Some((target.place, edge_port.start?)))
            .collect();
        if replies.is_empty() {
            let help = "name a place that packets both come to and begin at";
            return Err(Error::new(r, format!("'{to}' sends no replies"), help));
        }
        let home: Vec<Target> =
            self.sources(r, from, to)?.into_iter().filter_map(|(g, _)| g.target).collect();
        if home.is_empty() {
            let help = "name a place that packets both begin at and come to";
            return Err(Error::new(r, format!("no reply comes to '{from}'"), help));
        }
        Ok(ReturnPath { replies, home })
    }

    /// The edge ports of a place, and for a prefix which of the addresses behind them are meant: `None` for all.
    fn meant(&self, r: &Requirement, place: &Place) -> Result<Vec<Meant>, Error> {
        match place {
            Place::Node(name) => {
                Ok(self.location(r, name)?.edge_ports.iter().map(|g| (g.clone(), None)).collect())
            }
            Place::Port { node, port } => {
                let location = self.location(r, node)?;
                let named = location.edge_ports.iter().filter(|g| g.name == *port);
                let mut found: Vec<Meant> = named.map(|g| (g.clone(), None)).collect();
                if found.is_empty()
                    && let Some(edge_port) = port.parse().ok().and_then(|n: usize| location.edge_ports.get(n))
                {
                    found.push((edge_port.clone(), None));
                }
                if found.is_empty() {
                    let help = format!(
                        "ports of {node}: {}",
                        list(location.edge_ports.iter().map(|g| g.name.as_str()))
                    );
                    return Err(Error::new(r, format!("{node} has no port '{port}'"), help));
                }
                Ok(found)
            }
            Place::Prefix(prefix) => {
                let mut found = Vec::new();
                for location in self.owners(prefix) {
                    // Of a location that owns no more than what is asked for, all packets are meant.
                    let all = location
                        .owns
                        .iter()
                        .all(|own| prefix.contains(own) || own.addr().is_ipv4() != prefix.addr().is_ipv4());
                    let own = location.edge_ports.iter().filter(|g| g.owns);
                    found.extend(own.map(|g| (g.clone(), (!all).then_some(*prefix))));
                }
                if found.is_empty() {
                    let help = format!("name one of {}", list(self.names()));
                    return Err(Error::new(r, format!("nobody here owns addresses of {prefix}"), help));
                }
                Ok(found)
            }
        }
    }

    /// Those who own addresses of a prefix: those whose prefixes lie in it, and the one with the longest around it.
    fn owners(&self, prefix: &IpPrefix) -> Vec<&Location> {
        let inside = |s: &&Location| s.owns.iter().any(|own| prefix.contains(own));
        let mut found: Vec<&Location> = self.locations.iter().filter(inside).collect();
        let around = |s: &Location| s.owns.iter().filter(|own| own.contains(prefix)).map(IpPrefix::len).max();
        let nearest = self.locations.iter().filter_map(|s| Some((around(s)?, s))).max_by_key(|(len, _)| *len);
        if let Some((_, nearest)) = nearest
            && !found.iter().any(|s| std::ptr::eq(*s, nearest))
        {
            found.push(nearest);
        }
        found
    }

    fn is_edge_port_of(&self, edge_port: &EdgePort, place: &Place) -> bool {
        let location = match place {
            Place::Node(name) | Place::Port { node: name, .. } => {
                self.locations.iter().find(|s| s.name == *name)
            }
            // Whoever owns just that.
            Place::Prefix(p) => {
                self.locations.iter().find(|s| s.owns.iter().any(|own| p.contains(own) && own.len() > 0))
            }
        };
        let same =
            |g: &EdgePort| g.start.as_ref().map(|s| s.place) == edge_port.start.as_ref().map(|s| s.place);
        edge_port.start.is_some() && location.is_some_and(|s| s.edge_ports.iter().any(same))
    }

    fn location(&self, r: &Requirement, name: &str) -> Result<&Location, Error> {
        let found = self.locations.iter().find(|s| s.name == name);
        found.ok_or_else(|| {
            let help = match closest(name, self.names()).or_else(|| nearest(name, self.names())) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("known here: {}", list(self.names())),
            };
            Error::new(r, format!("there is no '{name}' here"), help)
        })
    }

    /// The names that requirements can use.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.locations.iter().map(|s| s.name.as_str()).filter(|n| !n.is_empty())
    }

    /// The nodes that packets pass at a place.
    fn nodes(&self, r: &Requirement, place: &Place) -> Result<Vec<NodeId>, Error> {
        match place {
            Place::Node(name) => Ok(self.location(r, name)?.nodes.clone()),
            _ => {
                let edge_ports = self.meant(r, place)?;
                let nodes = edge_ports.iter().flat_map(|(g, _)| {
                    [g.target.map(|t| t.place.node), g.start.as_ref().map(|s| s.place.node)]
                });
                Ok(nodes.flatten().collect())
            }
        }
    }

    /// Of packets that match where they begin.
    fn filtered_as_sent(&mut self, q: Query, expr: &Expr) -> Query {
        let filter = self.filter(&q, |world, framing| match framing {
            Framing::Ip => Some(world.guard_of_sent(expr)),
            Framing::Ethernet => (*expr != Expr::True).then(|| world.guard(expr, framing)),
        });
        Query { filter, ..q }
    }

    /// Of packets that match.
    fn filtered(&mut self, q: Query, expr: &Expr) -> Query {
        let filter =
            self.filter(&q, |world, framing| (*expr != Expr::True).then(|| world.guard(expr, framing)));
        Query { filter, ..q }
    }

    /// Guards for the framings that there are where packets of a query begin and arrive.
    fn filter(&mut self, q: &Query, mut guard: impl FnMut(&mut Self, Framing) -> Option<Guard>) -> Filter {
        let has = |f| q.from.iter().any(|s| s.framing == f) || q.to.iter().any(|t| t.framing == f);
        let mut of = |framing| if has(framing) { guard(self, framing) } else { None };
        Filter { ip: of(Framing::Ip), ethernet: of(Framing::Ethernet) }
    }
}

/// Whether what a filter asks is known of packets with these framings.
fn known(r: &Requirement, filter: &Expr, mut framings: impl Iterator<Item = Framing>) -> Result<(), Error> {
    if filter.needs_ethernet_bytes() && framings.any(|f| f == Framing::Ip) {
        let what = "the filter asks for Ethernet addresses or bytes of the Ethernet header, and packets have none here";
        return Err(Error::new(r, what, "ask for IP addresses, or at a place where there are frames"));
    }
    Ok(())
}

/// The name with the fewest letters to change, if these are few.
fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wanted.chars().count() / 3).max(1);
    let near =
        known.map(|name| (strsim::damerau_levenshtein(wanted, name), name)).filter(|(d, _)| *d <= limit);
    near.min().map(|(_, name)| name)
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.filter(|n| !n.is_empty()).collect();
    // Those that the configuration gave no name come last.
    names.sort_by_key(|n| n.contains('@'));
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    match (names.is_empty(), more) {
        (true, _) => "nothing".to_owned(),
        (false, 0) => names.join(", "),
        (false, n) => format!("{} and {n} more", names.join(", ")),
    }
}

/// A field as the checks know it, and the protocol of the packets that it is asked of.
fn field(r: &Requirement, f: &KeptField) -> Result<(Option<u8>, Field), Error> {
    let proto = f.proto.or(f.field.protocol());
    if f.field == HeaderField::Payload {
        return Ok((proto, Field::Payload));
    }
    let Some(v4) = f.field.bits() else {
        let help = "ask for ether proto, or for single fields behind the tag";
        return Err(Error::new(r, format!("'{}' has no fixed place in a frame", f.field), help));
    };
    let field = match v4.layer {
        FieldLayer::Ether => Field::Ether(bits(v4)),
        FieldLayer::Ipv4 | FieldLayer::Ipv6 => {
            Field::Net { v4: Some(bits(v4)), v6: f.field.bits_ipv6().map(bits) }
        }
        FieldLayer::Transport => Field::Transport(bits(v4)),
    };
    Ok((proto, field))
}

fn bits(b: weir_model::requirement::Bits) -> Bits {
    let (first, last) = (u32::from(b.offset) / 8, u32::from(b.offset + b.width - 1) / 8);
    let width = [Width::W8, Width::W16, Width::W32, Width::W64, Width::W128]
        .into_iter()
        .find(|w| w.bytes() > last - first)
        .unwrap_or(Width::W128);
    let below = 8 * (first + width.bytes()) - u32::from(b.offset + b.width);
    let ones = u128::MAX >> (128 - u32::from(b.width));
    Bits { offset: first, width, mask: ones << below }
}

#[cfg(test)]
mod tests;
