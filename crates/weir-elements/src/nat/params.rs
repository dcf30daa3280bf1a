//! Types of the rewriters' parameters.

use weir_ir::Peers;

use super::mapping::DEFAULT_CAPACITY;
use super::pattern::Links;
use crate::anno;
use crate::args::FromArg;

/// Rewriters that take their capacity from each other.
const MOST_NAMES: u32 = 16;

/// Most mappings: a number, or as many as another rewriter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capacity {
    /// So many.
    Number(u32),
    /// As the rewriter of that name has.
    Of(String),
}

impl Capacity {
    /// What a rewriter has if its configuration does not say so.
    pub(super) const DEFAULT: Capacity = Capacity::Number(DEFAULT_CAPACITY);
}

impl Capacity {
    /// The number, from the arguments of the rewriters that are named, and the full name of the one that says it.
    pub(super) fn resolve(&self, peers: &Peers<'_>) -> Result<(u32, String), String> {
        let (mut capacity, mut peers) = (self.clone(), *peers);
        // Names may go round in a circle.
        for _ in 0..MOST_NAMES {
            let name = match capacity {
                Capacity::Number(n) => return Ok((n, peers.own().to_owned())),
                Capacity::Of(name) => name,
            };
            let peer = peers.named(&name).filter(|p| p.class.ends_with("Rewriter"));
            let Some(peer) = peer else {
                return Err(format!("'{name}' is neither a number nor the name of a rewriter"));
            };
            capacity = Capacity::of_arguments(peer.args)?;
            peers = peers.seen_from(peer.name);
        }
        Err("the rewriters name each other: write a number for one of them".into())
    }

    /// As the arguments of a rewriter say.
    pub(super) fn of_arguments(args: &[String]) -> Result<Capacity, String> {
        let given = args.iter().find_map(|arg| {
            let (keyword, value) = arg.trim().split_once(char::is_whitespace)?;
            ["CAPACITY", "MAPPING_CAPACITY"].contains(&keyword).then_some(value)
        });
        given.map_or(Ok(Capacity::DEFAULT), Capacity::from_arg)
    }

    /// The number, once it is known.
    pub(super) fn number(&self, links: &Links) -> u32 {
        match self {
            Capacity::Number(n) => *n,
            Capacity::Of(_) => links.capacity.unwrap_or(DEFAULT_CAPACITY),
        }
    }
}

impl FromArg for Capacity {
    const SYNTAX: &'static str = "number or element";

    fn from_arg(text: &str) -> Result<Capacity, String> {
        let text = text.trim();
        match text.bytes().next() {
            Some(b'0'..=b'9') => u32::from_arg(text).map(Capacity::Number),
            Some(_) => Ok(Capacity::Of(text.to_owned())),
            None => Err("write a number, or the name of another rewriter".into()),
        }
    }
}

/// Offset of an annotation of one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anno(pub(super) u32);

impl FromArg for Anno {
    const SYNTAX: &'static str = "annotation";

    fn from_arg(text: &str) -> Result<Anno, String> {
        match text.trim() {
            "PAINT" => Ok(Anno(anno::PAINT)),
            "ICMP_PARAMPROB" => Ok(Anno(anno::ICMP_PARAM_PROB)),
            "FIX_IP_SRC" => Ok(Anno(anno::FIX_IP_SRC)),
            number => u32::from_arg(number).ok().filter(|n| *n < 48).map(Anno).ok_or_else(|| {
                format!("'{text}' is not an annotation of one byte: write PAINT, or an offset below 48")
            }),
        }
    }
}
