//! `weir link`: what the operator says of the links between nodes.

use std::net::Ipv4Addr;
use std::str::FromStr;

use weir_api::members::{Encapsulation, LinkList, LinkSettings, LinkSummary, LinkUse};
use weir_model::ValueError;
use weir_model::value::{Bandwidth, Delay};

use super::remote::NodeArgs;
use crate::ui::{Failure, Ui, table};

/// Options of `weir link`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say what a link can carry, how long it takes, and how tunnels go there; what was said before is forgotten. It counts for graphs that are placed from now on
    Set(Set),
    /// Take back what was said of a link
    Remove {
        /// A node
        a: String,
        /// The other node
        b: String,
    },
}

#[derive(Debug, clap::Args)]
struct Set {
    /// A node
    a: String,
    /// The other node
    b: String,
    /// What it can carry in each direction, such as '1 Gbit/s'
    #[arg(long, value_name = "BANDWIDTH", value_parser = value::<Bandwidth>)]
    capacity: Option<Bandwidth>,
    /// How long packets take, such as '2 ms'
    #[arg(long, value_name = "DELAY", value_parser = value::<Delay>)]
    delay: Option<Delay>,
    /// The largest IP packet that passes, in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(576..=65_535))]
    mtu: Option<u32>,
    /// How tunnels go there; without it, as the controller was started (--encrypt)
    #[arg(long, value_enum)]
    encapsulation: Option<EncapsulationName>,
    /// The VLANs that tunnels may have there, with --encapsulation vlan: no others may use them
    #[arg(long, value_name = "FIRST-LAST", value_parser = vlans)]
    vlans: Option<[u16; 2]>,
    /// The addresses of both ends, where the nodes have none of one network
    #[arg(long, value_name = "ADDRESS", num_args = 2)]
    addresses: Option<Vec<Ipv4Addr>>,
}

/// How tunnels go over a link.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum EncapsulationName {
    /// VXLAN
    Vxlan,
    /// VXLAN inside of WireGuard: encrypted
    Wireguard,
    /// GRE with a key
    Gre,
    /// A VLAN for each tunnel, of those that --vlans says
    Vlan,
}

/// The first and the last VLAN of a text such as 3000-3099.
fn vlans(text: &str) -> Result<[u16; 2], String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) => Ok([first, last]),
        _ => Err("give the first and the last one, such as 3000-3099".into()),
    }
}

/// A value in its text form.
pub(super) fn value<T: FromStr<Err = ValueError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: ValueError| format!("{}; {}", e.message, e.help))
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let client = args.node.client()?;
    match &args.what {
        What::Set(set) => {
            let encapsulation = set.encapsulation.map(|e| match e {
                EncapsulationName::Vxlan => Encapsulation::Vxlan,
                EncapsulationName::Wireguard => Encapsulation::WireGuard,
                EncapsulationName::Gre => Encapsulation::Gre,
                EncapsulationName::Vlan => Encapsulation::Vlan,
            });
            let settings = LinkSettings {
                addresses: set.addresses.as_deref().and_then(|a| a.try_into().ok()),
                capacity: set.capacity.map(Bandwidth::kbits),
                delay: set.delay.map(Delay::micros),
                mtu: set.mtu,
                encapsulation,
                vlans: set.vlans,
            };
            client.put_link(&set.a, &set.b, &settings)?;
            ui.print(&settings, || format!("the link between {} and {} is as you said\n", set.a, set.b))?;
        }
        What::Remove { a, b } => client.remove_link(a, b)?,
    }
    Ok(())
}

/// The links, for people.
pub(super) fn text(list: &LinkList) -> String {
    let heading = [
        "NODE", "FROM", "NODE", "TO", "MTU", "DELAY", "CAPACITY", "PROMISED", "MEASURED", "TUNNELS", "",
        "FOUND BY",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(list.links.iter().map(row));
    let mut out = if list.links.is_empty() { "no links\n".to_owned() } else { table(&rows, &[4, 9]) };
    for o in &list.others {
        let (a, b) = (&o.a, &o.b);
        out.push_str(&format!(
            "joined as well, by probes: {} ({}) to {} ({})\n",
            a.node, a.interface, b.node, b.interface
        ));
    }
    for m in &list.missing {
        let [a, b] = &m.nodes;
        out.push_str(&format!("not there, though declared: {a} to {b}: {}\n", m.reason));
    }
    out
}

fn row(l: &LinkSummary) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    // Forth and back, or once if it is the same.
    let both = |of: fn(&LinkUse) -> Option<u64>| {
        let text = |u| of(u).map_or("-".to_owned(), bandwidth);
        let (forth, back) = (text(&l.forth), text(&l.back));
        if forth == back { forth } else { format!("{forth}, back {back}") }
    };
    vec![
        l.a.node.clone(),
        format!("{} ({})", l.a.address, l.a.interface),
        l.b.node.clone(),
        format!("{} ({})", l.b.address, l.b.interface),
        or_none(l.mtu.map(|mtu| mtu.to_string())),
        or_none(l.delay.and_then(Delay::of_micros).map(|d| d.to_string())),
        or_none(l.capacity.map(bandwidth)),
        both(|u| Some(u.promised)),
        both(|u| u.measured.map(|bits| bits.div_ceil(1000))),
        l.tunnels.to_string(),
        match l.encapsulation {
            Encapsulation::WireGuard => "encrypted".to_owned(),
            other => other.to_string(),
        },
        found(l),
    ]
}

/// How a link came to be known.
fn found(l: &LinkSummary) -> String {
    let mut by: Vec<String> = l.found.iter().map(ToString::to_string).collect();
    if l.declared {
        by.push("declared".to_owned());
    }
    by.join(", ")
}

/// So many kbit/s.
fn bandwidth(kbits: u64) -> String {
    Bandwidth::of_kbits(kbits).map_or("0".to_owned(), |b| b.to_string())
}
