//! What a node takes and gives over REST: the types of requests and answers, one file for each of its subjects, and a blocking
//! [`client`]. Whoever speaks with a node needs this alone, and no part of what runs graphs. `docs/openapi.json` describes the
//! same for other languages.

#![forbid(unsafe_code)]

/// Where the resources stand: the version of the interface.
pub const BASE: &str = "/v1";

pub mod access;
pub mod accounting;
pub mod client;
pub mod domain;
pub mod events;
pub mod functions;
pub mod graphs;
pub mod history;
pub mod images;
pub mod mark;
pub mod members;
pub mod node;
pub mod plan;
pub mod policies;
pub mod problem;
pub mod queries;
pub mod requests;
pub mod status;
pub mod usage;
pub mod watch;
