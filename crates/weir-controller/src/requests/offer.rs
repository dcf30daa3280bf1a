//! What the operator offers to those who ask for processing: a network, and where its platforms take modules.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use weir_check::World;
use weir_model::template::{Template, TemplateError};
use weir_model::value::IpPrefix;
use weir_net::PortShare;
use weir_plan::Classes;
use weir_topology::{BoxKind, Topology, TopologyError};

use super::dns::Dns;
use super::shares::Pool;

/// Longest lifetime of a request, in seconds, unless the operator says another.
const LONGEST: u64 = 30 * 86_400;

/// Requests and queries of one in a second, unless the operator says another.
const RATE: u32 = 20;

/// The document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    topology: PathBuf,
    platforms: BTreeMap<String, Platform>,
    #[serde(default)]
    longest: Option<u64>,
    #[serde(default)]
    images: Option<PathBuf>,
    #[serde(default)]
    rate: Option<u32>,
    #[serde(default)]
    dns: Option<super::dns::Written>,
}

/// A platform of the topology, which is the node of the same name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Platform {
    /// Access points for graphs of requests, each for one at a time.
    #[serde(default)]
    pub access: Vec<AccessRange>,
    /// The router that what modules send goes to.
    pub gateway: Ipv4Addr,
    /// Addresses of which several modules have some ports each.
    #[serde(default)]
    pub shared: Vec<Pool>,
}

/// An interface as a whole, or VLANs of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AccessRange {
    if_name: String,
    /// The first and the last.
    #[serde(default)]
    vlans: Option<[u16; 2]>,
}

/// An access point.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Access {
    /// The interface.
    pub if_name: String,
    /// The VLAN of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Ports of an address on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<PortShare>,
}

/// The operator's offer.
#[derive(Debug)]
pub struct Offer {
    /// The network with its platforms.
    pub topology: Topology,
    /// The same, to be asked.
    pub network: World,
    /// The classes that modules may be made of.
    pub classes: Classes,
    /// The platforms by name.
    pub platforms: BTreeMap<String, Platform>,
    /// Longest lifetime, in seconds.
    pub longest: u64,
    /// Images that modules may be made of.
    pub images: BTreeMap<String, Template>,
    /// How many requests and queries one may make in a second.
    pub rate: u32,
    /// Where names of modules are published.
    pub dns: Option<Arc<Dns>>,
    /// What it was read from, and when that was written.
    files: Vec<(PathBuf, Option<SystemTime>)>,
}

/// The offer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// The file cannot be read.
    #[error("cannot read {}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It has a mistake.
    #[error("{}: {what}", .path.display())]
    Mistake {
        /// Which.
        path: PathBuf,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// An image cannot be used.
    #[error(transparent)]
    Image(#[from] TemplateError),
    /// The topology cannot be used.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl Offer {
    /// Reads the offer, and the topology that it names, which is looked for beside it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(path: &Path) -> Result<Offer, OfferError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| OfferError::Io { path: path.to_owned(), source })?;
        let wrong = |what: String| OfferError::Mistake { path: path.to_owned(), what };
        let written: Written = serde_yaml_ng::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let beside = path.parent().unwrap_or(Path::new(".")).join(&written.topology);
        let topology = Topology::load(&beside)?;
        for (name, platform) in &written.platforms {
            let of_topology = topology.boxes.iter().find(|b| b.name == *name);
            let is_platform = of_topology.is_some_and(|b| matches!(b.kind, BoxKind::Platform(_)));
            if !is_platform {
                let what = format!("platforms.{name}: the topology has no platform of this name");
                return Err(wrong(what));
            }
            if let Some(what) =
                pools(platform, &of_topology.map(weir_topology::NetBox::owns).unwrap_or_default())
            {
                return Err(wrong(format!("platforms.{name}.shared: {what}")));
            }
            let bad = |r: &&AccessRange| r.vlans.is_some_and(|[a, b]| a == 0 || a > b || b > 4094);
            if let Some(range) = platform.access.iter().find(bad) {
                let what = format!(
                    "platforms.{name}.access: vlans of {} are the first and the last, from 1 to 4094",
                    range.if_name
                );
                return Err(wrong(what));
            }
        }
        let classes = Classes::with(weir_switch::CLASSES.iter().copied());
        let network =
            World::of_topology(&topology, &classes, |_, _| false).map_err(|e| wrong(e.join("; ")))?;
        let rate = written.rate.unwrap_or(RATE);
        if rate == 0 {
            return Err(wrong("rate: it is how many requests one may make in a second, 1 at least".into()));
        }
        let longest = written.longest.unwrap_or(LONGEST);
        let images = match &written.images {
            Some(folder) => images(&path.parent().unwrap_or(Path::new(".")).join(folder))?,
            None => BTreeMap::new(),
        };
        let platforms = written.platforms;
        let folder = path.parent().unwrap_or(Path::new("."));
        let dns = written.dns.as_ref().map(|dns| dns.read(folder)).transpose().map_err(wrong)?;
        let key = written.dns.map(|dns| dns.key_file(folder));
        let files =
            [path.to_owned(), beside].into_iter().chain(key).map(|p| (p.clone(), changed(&p))).collect();
        let dns = dns.map(Arc::new);
        Ok(Offer { topology, network, classes, platforms, longest, images, rate, dns, files })
    }

    /// The offer as it is written now, if its files changed since they were read, or failed to be read.
    ///
    /// # Errors
    /// What is wrong with it now.
    pub fn newer(&self) -> Result<Option<Offer>, OfferError> {
        match self.files.iter().any(|(p, at)| changed(p) != *at) {
            true => Offer::load(&self.files[0].0).map(Some),
            false => Ok(None),
        }
    }
}

impl Platform {
    /// All of its access points, in order.
    pub fn access(&self) -> impl Iterator<Item = Access> {
        self.access.iter().flat_map(|r| {
            let vlans: Vec<Option<u16>> = match r.vlans {
                None => vec![None],
                Some([first, last]) => (first..=last).map(Some).collect(),
            };
            vlans.into_iter().map(|vlan| Access { if_name: r.if_name.clone(), vlan, share: None })
        })
    }
}

/// What is wrong with the addresses that modules share.
fn pools(platform: &Platform, owns: &[IpPrefix]) -> Option<String> {
    for (i, pool) in platform.shared.iter().enumerate() {
        let address = pool.address;
        if let Some(what) = pool.mistake() {
            return Some(what);
        }
        if !owns.iter().any(|p| p.contains(&IpPrefix::host(address.into()))) {
            return Some(format!("the topology does not say that the platform owns {address}"));
        }
        if address == platform.gateway {
            return Some(format!("{address} is the gateway"));
        }
        let [first, last] = pool.ports;
        let same = |p: &&Pool| p.address == address && p.ports[0] <= last && first <= p.ports[1];
        if platform.shared[..i].iter().any(|p| same(&p)) {
            return Some(format!("ports {first} to {last} of {address} stand in another entry already"));
        }
    }
    None
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}

/// The images of a directory by name.
fn images(folder: &Path) -> Result<BTreeMap<String, Template>, OfferError> {
    let io = |source| OfferError::Io { path: folder.to_owned(), source };
    let mut images = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.is_dir() {
            let template = Template::load(&path)?;
            images.insert(template.name.to_string(), template);
        }
    }
    Ok(images)
}
