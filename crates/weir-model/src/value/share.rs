//! Ports of an address that several have.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::ValueError;
use crate::error::quote;

/// Some ports of an address of which others have the other ports; text form `10.0.0.9:20000-20015`, with `/tcp` or `/udp` behind it for one
/// protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortShare(pub weir_net::PortShare);

text_form!(PortShare, {
    "description": "Ports of an IPv4 address, and perhaps the protocol that they are of: 10.0.0.9:20000-20015/udp.",
    "type": "string", "pattern": r"^[0-9.]{7,15}:[0-9]{1,5}(-[0-9]{1,5})?(/(tcp|udp))?$"
});

impl FromStr for PortShare {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<PortShare, ValueError> {
        let wrong = |e: weir_net::NoPortShare| {
            ValueError::new(format!("{} is no address with ports", quote(text)), e.to_string())
        };
        text.parse().map(PortShare).map_err(wrong)
    }
}

impl fmt::Display for PortShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
