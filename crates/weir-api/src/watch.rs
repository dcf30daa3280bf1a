//! Traces and captures.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request for a trace.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// Which packets, in the filter language; empty: all.
    #[serde(default)]
    pub filter: String,
    /// How many packets, at most 10,000.
    #[serde(default = "one")]
    pub count: u32,
}

/// A request for a capture.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// Where: places as in flow rules (`sap:ID`, `sf:FUNCTION:PORT`), or elements of the configuration (`element`,
    /// `element[output]`, `[input]element`); none: every access point of the graph.
    #[serde(default)]
    pub points: Vec<String>,
    /// For places: packets from there, to there, or both.
    #[serde(default)]
    pub direction: Direction,
    /// Which packets, in the filter language; empty: all.
    #[serde(default)]
    pub filter: String,
    /// Most bytes of each packet.
    #[serde(default = "whole")]
    pub snaplen: u32,
    /// How many packets, of all places together; 0: until the client goes.
    #[serde(default)]
    pub count: u64,
}

/// A direction, seen from the graph's switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the place.
    From,
    /// To the place.
    To,
    /// Either.
    #[default]
    Both,
}

/// A line of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Captured {
    /// A packet.
    Packet {
        /// Nanoseconds since the epoch.
        time: u64,
        /// Length on the wire.
        length: u32,
        /// Its bytes (at most the snap length), in hex.
        bytes: String,
        /// Where it passed, as it was asked for.
        point: String,
        /// For a place: whether it came from there or went there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
    },
    /// An event of the capture itself.
    Notice {
        /// `overrun`: the reader was too slow, and the capture ends.
        what: String,
        /// More, for people.
        text: String,
    },
}

fn one() -> u32 {
    1
}

fn whole() -> u32 {
    262_144
}
