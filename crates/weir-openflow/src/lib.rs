//! OpenFlow 1.3.5 (ONF TS-025): messages as values, and both ends of a connection as state machines. Nothing here does I/O or looks
//! at a clock.
//!
//! A message is described once, field by field ([`message`], [`flow`], [`meter`], [`stats`], [`action`], [`oxm`]); how it is read, written,
//! printed and made up for tests follows from the description (`describe.rs`). [`Frame::decode`] takes any bytes: it says
//! what is wrong, where, and which error its sender gets. What it accepts comes back from [`Frame::encode`] as the same
//! bytes, but for padding, which is then zero.
//!
//! ```
//! use weir_openflow::action::{Action, Instruction};
//! use weir_openflow::flow::FlowMod;
//! use weir_openflow::oxm::Field;
//! use weir_openflow::{Frame, Match, Message, PortNo, TableId};
//!
//! let web = Match::any_packet().with(Field::EthType, 0x800_u16)?.with(Field::IpProto, 6_u8)?.with(Field::TcpDst, 80_u16)?;
//! let send = Instruction::apply(vec![Action::output(PortNo(2))]);
//! let frame = Frame { xid: 1, message: Message::FlowMod(FlowMod::add(TableId(0), 10, web, vec![send])) };
//!
//! assert_eq!(frame.to_string(), "OFPT_FLOW_MOD (OF1.3) (xid=0x1): ADD priority=10,tcp,tp_dst=80 actions=output:2");
//! assert_eq!(Frame::decode(&frame.encode()?)?, frame);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`connection`] has the two ends: [`connection::Controller`] and [`connection::Switch`].
//!
//! Section numbers are those of the specification.

#![forbid(unsafe_code)]

#[macro_use]
mod describe;
mod choices;
mod text;
mod wire;

pub mod action;
pub mod bundle;
pub mod connection;
pub mod error;
pub mod flow;
pub mod hello;
pub mod matching;
pub mod message;
pub mod meter;
pub mod multipart;
pub mod numbers;
pub mod oxm;
pub mod queue;
pub mod stats;
pub mod table_features;

pub use choices::Choices;
pub use error::{DecodeError, EncodeError, ErrorCode, ValueError};
pub use matching::Match;
pub use message::{Frame, Message};
pub use numbers::{BufferId, GroupId, MeterId, PortNo, Role, TableId};
pub use wire::{AlignedBytes, Bytes, Name};
