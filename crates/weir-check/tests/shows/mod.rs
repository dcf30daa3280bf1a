//! Whether packets show what they are shown for, by what a requirement means and the filter language alone.

use weir_check::World;
use weir_filter::{Expr, PacketView};
use weir_model::requirement::{Goal, Place};
use weir_verify::checks::{Evidence, Framing, Target};
use weir_verify::{Hop, Replay};

/// Whether a requirement wants some packet to exist.
pub fn is_about_one(goal: &Goal) -> bool {
    matches!(goal, Goal::Can { .. } | Goal::Return { .. })
}

/// Whether the packet that came in last shows what it is shown for.
pub fn shown(world: &World, goal: &Goal, e: &Evidence) -> bool {
    let last = &e.replay.hops[e.replay.starts.last().copied().unwrap_or(0)..];
    let sent = |from: &Place, filter: &Expr| is(filter, &last[0], framing_of(world, from));
    let arrived = |to: &Place| arrivals(world, last, to);
    match goal {
        Goal::Can { to, filter, .. } => arrived(to).iter().any(|(h, f)| is(filter, h, *f)),
        Goal::Only { to, filter, .. } => arrived(to).iter().any(|(h, f)| !is(filter, h, *f)),
        Goal::Never { from, to, filter } => sent(from, filter) && !arrived(to).is_empty(),
        Goal::All { from, to, filter, .. } => sent(from, filter) && arrived(to).is_empty(),
        Goal::Invariant { from, to, .. } => {
            let sent = bytes(&last[0], framing_of(world, from));
            arrived(to).iter().any(|(h, f)| bytes(h, *f) != sent)
        }
        // The reply, not the request, came in last.
        Goal::Return { from, to, filter } => {
            let asked = &e.replay.hops[..e.replay.hops.len() - last.len()];
            arrivals(world, asked, to).iter().any(|(h, f)| is(filter, h, *f)) && !arrived(from).is_empty()
        }
        Goal::NoLoops => comes_back(&e.replay),
    }
}

fn comes_back(r: &Replay) -> bool {
    let same = |(i, a): (usize, &Hop)| r.hops[..i].iter().any(|b| (a.place, a.packet) == (b.place, b.packet));
    r.hops.iter().enumerate().any(same)
}

/// Where packets that came to a place are seen, and what they look like there.
fn targets(world: &World, place: &Place) -> Vec<Target> {
    let (Place::Node(name) | Place::Port { node: name, .. }) = place else {
        panic!("planted faults name nodes, not '{place}'")
    };
    let locations = world.locations.iter().filter(|s| s.name == *name);
    locations.flat_map(|s| &s.edge_ports).filter_map(|g| g.target).collect()
}

fn framing_of(world: &World, place: &Place) -> Framing {
    let Place::Node(name) = place else { panic!("planted faults name nodes, not '{place}'") };
    let location = world.locations.iter().find(|s| s.name == *name).expect("the requirement was asked");
    location.edge_ports.iter().find_map(|g| g.start.as_ref()).map_or(Framing::Ip, |s| s.framing)
}

fn arrivals<'a>(world: &World, hops: &'a [Hop], to: &Place) -> Vec<(&'a Hop, Framing)> {
    let targets = targets(world, to);
    let at = |h: &Hop| targets.iter().find(|t| t.place == h.place).map(|t| t.framing);
    hops.iter().filter_map(|h| Some((h, at(h)?))).collect()
}

/// The packet, from its Ethernet header or its network header on.
fn bytes(h: &Hop, framing: Framing) -> &[u8] {
    match framing {
        Framing::Ethernet => &h.before,
        Framing::Ip => &h.before[h.net.unwrap_or(0)..],
    }
}

fn is(filter: &Expr, h: &Hop, framing: Framing) -> bool {
    let bytes = bytes(h, framing);
    filter.matches(&match framing {
        Framing::Ethernet => PacketView::ethernet(bytes),
        Framing::Ip => PacketView::ip(bytes),
    })
}
