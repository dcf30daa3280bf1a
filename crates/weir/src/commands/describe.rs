//! `weir node --describe`: what a node is to others.

use std::fmt::Write;

use weir_api::client::NodeClient;
use weir_api::domain::{CapableImage, Domain, Endpoint, Share, TunnelUse};

use crate::ui::{Failure, Ui, table};

pub(super) fn run(client: &NodeClient, ui: &Ui) -> Result<(), Failure> {
    let domain = client.domain()?;
    ui.print(&domain, || text(&domain, *ui))?;
    Ok(())
}

pub(super) fn text(d: &Domain, ui: Ui) -> String {
    let mut rows =
        vec![["END POINT", "STATE", "MTU", "ADDRESSES", "GRAPH", "VLANS"].map(str::to_owned).to_vec()];
    rows.extend(d.endpoints.iter().map(endpoint));
    let mut out = table(&rows, &[2]);
    if !d.tunnels.is_empty() {
        let mut rows = vec![["TUNNEL", "FROM", "TO", "KEY", "GRAPH"].map(str::to_owned).to_vec()];
        rows.extend(d.tunnels.iter().map(tunnel));
        _ = write!(out, "\n{}", table(&rows, &[]));
    }
    let mut rows =
        vec![["CAPABILITY", "IMAGE", "KIND", "VERSION", "PORTS", "WITH", ""].map(str::to_owned).to_vec()];
    for c in &d.capabilities {
        rows.extend(c.images.iter().map(|i| image(&c.capability, i, ui)));
    }
    _ = write!(out, "\n{}", table(&rows, &[4]));
    let mut rows = vec![["KIND", "PORTS", ""].map(str::to_owned).to_vec()];
    let ports = |ports: &[String]| if ports.is_empty() { "-".to_owned() } else { ports.join(", ") };
    rows.extend(d.kinds.iter().map(|k| vec![k.kind.clone(), ports(&k.ports), lack(k.lack.as_deref(), ui)]));
    _ = write!(out, "\n{}", table(&rows, &[]));
    let r = &d.resources;
    let memory = share(r.memory, &weir_node::resources::size);
    let cpu = share(r.cpu, &|n| format!("{}", n as f64 / 1000.0));
    let more = if r.overcommit { "; they may be promised more" } else { "" };
    if let Some(region) = &d.region {
        _ = writeln!(out, "\nit is in region {region}");
    }
    _ = writeln!(out, "\ngraphs may come to take {memory} of memory, and {cpu} processors{more}");
    out
}

fn endpoint(e: &Endpoint) -> Vec<String> {
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let vlans: Vec<String> = e.vlans.iter().map(|v| format!("{} ({})", v.vlan, v.graph)).collect();
    vec![
        e.interface.clone(),
        if e.up { "up" } else { "down" }.to_owned(),
        e.mtu.map_or("-".to_owned(), |mtu| mtu.to_string()),
        or_none(e.addresses.join(", ")),
        or_none(e.graph.clone().unwrap_or_default()),
        or_none(vlans.join(", ")),
    ]
}

fn tunnel(t: &TunnelUse) -> Vec<String> {
    let key = t.key.map_or("-".to_owned(), |key| key.to_string());
    vec![t.kind.clone(), t.local.clone(), t.remote.clone(), key, t.graph.clone()]
}

fn image(capability: &str, i: &CapableImage, ui: Ui) -> Vec<String> {
    vec![
        capability.to_owned(),
        i.image.clone(),
        i.kind.clone(),
        i.version.clone().unwrap_or_else(|| "-".into()),
        i.ports.to_string(),
        if i.features.is_empty() { "-".to_owned() } else { i.features.join(", ") },
        lack(i.lack.as_deref(), ui),
    ]
}

fn lack(lack: Option<&str>, ui: Ui) -> String {
    lack.map_or_else(|| ui.good("can run"), |what| ui.bad(&format!("cannot run: {what}")))
}

/// `64 MB of 512 MB`.
fn share(share: Share, text: &dyn Fn(u64) -> String) -> String {
    format!("{} of {}", text(share.used), text(share.total))
}
