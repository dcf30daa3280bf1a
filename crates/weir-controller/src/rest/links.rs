//! Routes of links between nodes.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weir_api::members::{
    Adjacency, Encapsulation, LinkEnd, LinkList, LinkPort, LinkSettings, LinkSummary, LinkUse,
};
use weir_api::problem::Problem;
use weir_auth::Action;
use weir_model::value::{Bandwidth, Delay, VlanId};
use weir_rest::body::{Received, json};
use weir_rest::extract::Path;
use weir_rest::login::Caller;
use weir_rest::to_the_end;

use super::App;
use crate::admit::{adjacencies, links};
use crate::links::{End, Link, Port, port};
use crate::split::Tunnel;

/// The smallest largest packet that every host takes (RFC 791), and the largest that there is.
const MTU: std::ops::RangeInclusive<u32> = 576..=65_535;

/// The links between the nodes that are connected: found where they have addresses of one network, found by their probes, and declared.
#[utoipa::path(get, path = "/links", tag = "nodes", operation_id = "links", responses(
    (status = 200, body = LinkList, description = "The links, by the names of their nodes."),
))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<LinkList>, Problem> {
    caller.may(&Action::ReadNodes)?;
    let view = app.view();
    let online = app.fleet.names().into_iter().collect();
    let end = |e: &End| LinkEnd {
        node: e.node.clone(),
        interface: e.interface.clone(),
        address: e.address.map(|a| a.to_string()).unwrap_or_default(),
    };
    let (there, missing) = links(&view, &online);
    let summary = |l: &Link| {
        let tunnels = view.graphs.values().flat_map(|g| &g.graph.tunnels);
        let here = |t: &&Tunnel| {
            let ends = (t.from.as_str(), t.to.as_str());
            ends == (&*l.a.node, &*l.b.node) || ends == (&*l.b.node, &*l.a.node)
        };
        let measured = |from: &str, to: &str| view.known.get(from)?.sent.rates.get(to).copied();
        let [forth, back] = l.promised;
        LinkSummary {
            a: end(&l.a),
            b: end(&l.b),
            mtu: l.mtu,
            tunnels: tunnels.filter(here).count(),
            found: l.found.iter().copied().collect(),
            declared: l.declared,
            capacity: l.capacity,
            delay: l.delay,
            encapsulation: l.encapsulation,
            forth: LinkUse { promised: forth, measured: measured(&l.a.node, &l.b.node) },
            back: LinkUse { promised: back, measured: measured(&l.b.node, &l.a.node) },
        }
    };
    // What is a link's is not said twice.
    let ends = |l: &Link| [port(&l.a), port(&l.b)];
    let of_links: BTreeSet<[Port; 2]> = there.iter().map(ends).collect();
    let port_of = |(node, interface): Port| LinkPort { node, interface };
    let others = adjacencies(&view, &online).into_iter().filter(|ends| !of_links.contains(ends));
    let others = others.map(|[a, b]| Adjacency { a: port_of(a), b: port_of(b) }).collect();
    Ok(Json(LinkList { links: there.iter().map(summary).collect(), others, missing }))
}

/// What is wrong about what was said of a link.
fn check(settings: &LinkSettings) -> Result<(), String> {
    if let Some(capacity) = settings.capacity
        && Bandwidth::of_kbits(capacity).is_none()
    {
        return Err(format!("capacity: {capacity} kbit/s; it is 1 to 1000000000"));
    }
    if let Some(delay) = settings.delay
        && Delay::of_micros(delay).is_none()
    {
        return Err(format!("delay: {delay} us; it is 1 to 10000000"));
    }
    if let Some(mtu) = settings.mtu.filter(|mtu| !MTU.contains(mtu)) {
        return Err(format!("mtu: {mtu}; it is {} to {}", MTU.start(), MTU.end()));
    }
    match (settings.encapsulation == Some(Encapsulation::Vlan), settings.vlans) {
        (true, None) => {
            return Err("vlans: with the encapsulation vlan, say which ones tunnels may have".into());
        }
        (false, Some(_)) => return Err("vlans: they are for the encapsulation vlan".into()),
        (_, Some([first, last]))
            if first > last || VlanId::new(first).is_none() || VlanId::new(last).is_none() =>
        {
            return Err(format!("vlans: {first} to {last}; these are 1 to 4094, the first one first"));
        }
        _ => {}
    }
    match settings.addresses {
        Some([a, b]) if a == b || [a, b].iter().any(|i| i.is_unspecified() || i.is_multicast()) => {
            Err(format!("addresses: {a} and {b} are no two ends of a link"))
        }
        _ => Ok(()),
    }
}

/// Says something of the link between two nodes: what it can carry, how long it takes, how tunnels go there. It counts for graphs that are placed from now on.
#[utoipa::path(put, path = "/links/{a}/{b}", tag = "nodes", operation_id = "put_link", request_body = LinkSettings,
    params(("a" = String, Path, description = "A node."), ("b" = String, Path, description = "Another node.")),
    responses(
        (status = 204, description = "It counts."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such node."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "A graph has a VLAN of these."),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
    ))]
pub(super) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path((a, b)): Path<(String, String)>,
    body: Received,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ChangeNodes)?;
    let settings: LinkSettings = json(body)?.0;
    check(&settings).map_err(|text| Problem::new(StatusCode::BAD_REQUEST, text))?;
    caller.summary(format!("{a} to {b}: {}", serde_json::to_string(&settings).unwrap_or_default()));
    to_the_end(async move { app.put_link(&a, &b, settings).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes back what was said of the link between two nodes.
#[utoipa::path(delete, path = "/links/{a}/{b}", tag = "nodes", operation_id = "delete_link",
    params(("a" = String, Path, description = "A node."), ("b" = String, Path, description = "Another node.")),
    responses(
        (status = 204, description = "Nothing is said of it any more."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "Nothing was said of it."),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
    ))]
pub(super) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path((a, b)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ChangeNodes)?;
    caller.summary(format!("{a} to {b}: removed"));
    to_the_end(async move { app.remove_link(&a, &b).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
