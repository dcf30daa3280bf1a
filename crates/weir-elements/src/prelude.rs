//! What an element's file needs.

#![allow(unused_imports, reason = "no element uses all of it")]

pub(crate) use std::net::Ipv4Addr;
pub(crate) use std::time::Duration;

pub(crate) use weir_ir::Width::{self, W1, W8, W16, W32, W64, W128};
pub(crate) use weir_ir::program::{Amount, Row, TableId};
pub(crate) use weir_ir::{Builder, E, Layer, MetaField, Peers, Reason, State, TableDecl, V};
pub(crate) use weir_net::{EtherAddr, Ipv4Prefix, ethertype, proto};
pub(crate) use weir_packet::{Packet, Provenance};
pub(crate) use weir_table::{KeyMatch, Kind};

pub(crate) use crate::anno;
pub(crate) use crate::args::{Bandwidth, CellValue, FromArg};
pub(crate) use crate::class::{Class, class};
pub(crate) use crate::headers::*;
pub(crate) use crate::times::Time;
