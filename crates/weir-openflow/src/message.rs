//! Messages (section 7): a header of eight bytes and a body.

use std::fmt;

use weir_net::EtherAddr;

use crate::choices::Choices;
use crate::error::{DecodeError, EncodeError, ErrorCode, bad_request};
use crate::flow::{FlowMod, FlowRemoved, PacketIn, PacketOut};
use crate::hello::HelloElement;
use crate::meter::{GroupMod, MeterMod};
use crate::multipart::{MultipartReply, MultipartRequest, Part};
use crate::numbers::{
    Capabilities, MaxLen, PortConfig, PortFeatures, PortNo, PortReason, Role, TableConfig, TableId,
};
use crate::queue::{QueueConfig, QueueConfigRequest};
use crate::stats::Port;
use crate::wire::{Bytes, Reader, Wire};

/// The version on the wire of OpenFlow 1.3.
pub const VERSION: u8 = 4;
/// Bytes of the header of a message.
pub const HEADER: usize = 8;

choice! {
    /// A message.
    pub enum Message: u8 {
        /// The first one of each side.
        0 "OFPT_HELLO" Hello(Vec<HelloElement>),
        /// Something went wrong.
        1 "OFPT_ERROR" Error(ErrorMessage),
        /// Is anybody there?
        2 "OFPT_ECHO_REQUEST" EchoRequest(Bytes),
        /// Yes, with the bytes of the request.
        3 "OFPT_ECHO_REPLY" EchoReply(Bytes),
        /// Something of an experimenter.
        4 "OFPT_EXPERIMENTER" Experimenter(ExperimenterMessage),
        /// What can the switch?
        5 "OFPT_FEATURES_REQUEST" FeaturesRequest,
        /// What the switch can.
        6 "OFPT_FEATURES_REPLY" FeaturesReply(Features),
        /// How is the switch configured?
        7 "OFPT_GET_CONFIG_REQUEST" GetConfigRequest,
        /// How the switch is configured.
        8 "OFPT_GET_CONFIG_REPLY" GetConfigReply(SwitchConfig),
        /// How the switch is to be configured.
        9 "OFPT_SET_CONFIG" SetConfig(SwitchConfig),
        /// A packet for the controller.
        10 "OFPT_PACKET_IN" PacketIn(PacketIn),
        /// A flow entry is gone.
        11 "OFPT_FLOW_REMOVED" FlowRemoved(FlowRemoved),
        /// Something happened to a port.
        12 "OFPT_PORT_STATUS" PortStatus(PortStatus),
        /// A packet of the controller.
        13 "OFPT_PACKET_OUT" PacketOut(PacketOut),
        /// A change of flow entries.
        14 "OFPT_FLOW_MOD" FlowMod(FlowMod),
        /// A change of a group.
        15 "OFPT_GROUP_MOD" GroupMod(GroupMod),
        /// A change of a port.
        16 "OFPT_PORT_MOD" PortMod(PortMod),
        /// A change of a table.
        17 "OFPT_TABLE_MOD" TableMod(TableMod),
        /// What has the switch?
        18 "OFPT_MULTIPART_REQUEST" MultipartRequest(Part<MultipartRequest>),
        /// What the switch has.
        19 "OFPT_MULTIPART_REPLY" MultipartReply(Part<MultipartReply>),
        /// Is all before this done?
        20 "OFPT_BARRIER_REQUEST" BarrierRequest,
        /// All before that is done.
        21 "OFPT_BARRIER_REPLY" BarrierReply,
        /// Which queues has a port?
        22 "OFPT_QUEUE_GET_CONFIG_REQUEST" QueueGetConfigRequest(QueueConfigRequest),
        /// The queues of a port.
        23 "OFPT_QUEUE_GET_CONFIG_REPLY" QueueGetConfigReply(QueueConfig),
        /// What the controller wants to be.
        24 "OFPT_ROLE_REQUEST" RoleRequest(RoleMessage),
        /// What the controller is.
        25 "OFPT_ROLE_REPLY" RoleReply(RoleMessage),
        /// Which asynchronous messages does the controller get?
        26 "OFPT_GET_ASYNC_REQUEST" GetAsyncRequest,
        /// The asynchronous messages that the controller gets.
        27 "OFPT_GET_ASYNC_REPLY" GetAsyncReply(AsyncConfig),
        /// The asynchronous messages that the controller is to get.
        28 "OFPT_SET_ASYNC" SetAsync(AsyncConfig),
        /// A change of a meter.
        29 "OFPT_METER_MOD" MeterMod(MeterMod),
    }
}

/// A message with its transaction id: a reply has that of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The transaction id.
    pub xid: u32,
    /// The message.
    pub message: Message,
}

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The version of OpenFlow on the wire.
    pub version: u8,
    /// The type of the message.
    pub kind: u8,
    /// Its length with this header, in bytes.
    pub length: u16,
    /// Its transaction id.
    pub xid: u32,
}

impl Header {
    /// The header at the start of these bytes; `None` if they are fewer than eight.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let [version, kind, l0, l1, xid @ ..] = *bytes.first_chunk::<HEADER>()?;
        Some(Header { version, kind, length: u16::from_be_bytes([l0, l1]), xid: u32::from_be_bytes(xid) })
    }
}

impl Frame {
    /// Reads one whole message.
    ///
    /// # Errors
    /// What is wrong with it, where, and the code that its sender gets.
    pub fn decode(bytes: &[u8]) -> Result<Frame, DecodeError> {
        let mut r = Reader::new(bytes, bad_request::BAD_LEN);
        let Some(header) = Header::read(bytes) else {
            return Err(r.error(bad_request::BAD_LEN, format!("{} bytes; 8 are the header", bytes.len())));
        };
        // A hello says its sender's highest version, and keeps its form in all of them.
        if header.version != VERSION && header.kind != 0 {
            let what = format!("version {:#04x}; OpenFlow 1.3 is {VERSION:#04x}", header.version);
            return Err(r.error(bad_request::BAD_VERSION, what));
        }
        if usize::from(header.length) != bytes.len() {
            let what = format!("it says {} bytes long, and has {}", header.length, bytes.len());
            return Err(r.error(bad_request::BAD_LEN, what));
        }
        r.skip(HEADER)?;
        let name = Message::KINDS.iter().find(|(kind, _)| *kind == header.kind).map(|(_, name)| *name);
        let Some(name) = name else {
            let what = format!("type {}; {} is the last", header.kind, Message::KINDS.len() - 1);
            return Err(DecodeError::new(bad_request::BAD_TYPE, 1, what));
        };
        r.from_switch = matches!(header.kind, 6 | 8 | 10..=12 | 19 | 21 | 23 | 25 | 27);
        let body = Message::read_body(header.kind, &mut r).and_then(|body| r.finish().map(|()| body));
        let message = body.map_err(|e| e.within(name))?;
        message.map(|message| Frame { xid: header.xid, message }).ok_or_else(|| {
            DecodeError::new(bad_request::BAD_TYPE, 1, format!("type {} has no body", header.kind))
        })
    }

    /// Its bytes.
    ///
    /// # Errors
    /// If it has more than 65,535.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut w = vec![VERSION, self.message.kind(), 0, 0];
        w.extend(self.xid.to_be_bytes());
        self.message.write_body(&mut w);
        let length = u16::try_from(w.len()).map_err(|_| EncodeError::TooLong(w.len()))?;
        w[2..4].copy_from_slice(&length.to_be_bytes());
        Ok(w)
    }

    /// A message that choices lead to: for tests and fuzzers.
    pub fn any(c: &mut Choices<'_>) -> Frame {
        Frame { xid: u32::any(c), message: Message::any(c) }
    }
}

record! {
    /// `OFPT_ERROR`
    text crate::text::error =>
    pub struct ErrorMessage {
        /// What is wrong.
        code: ErrorCode;
        /// The start of the message that was wrong, 64 bytes at least if it had them; a text of a failed hello.
        data: Bytes;
    }
}

impl Wire for ErrorCode {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(ErrorCode { kind: r.u16()?, code: r.u16()? })
    }
    fn write(&self, w: &mut Vec<u8>) {
        self.kind.write(w);
        self.code.write(w);
    }
    fn any(c: &mut Choices<'_>) -> Self {
        c.pick(crate::error::CODES).0
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

record! {
    /// `OFPT_EXPERIMENTER`
    => pub struct ExperimenterMessage {
        /// The number of the experimenter.
        experimenter: u32;
        /// What they call it.
        kind: u32;
        /// What only they know.
        data: Bytes;
    }
}

record! {
    /// `OFPT_FEATURES_REPLY`
    text crate::text::features =>
    pub struct Features {
        /// The switch: its address in the lower 48 bits.
        datapath: u64;
        /// How many packets it keeps.
        n_buffers: u32;
        /// How many tables it has.
        n_tables: u8;
        /// 0: the main connection; others go along with it.
        auxiliary: u8, pad 2;
        /// What it can.
        capabilities: Capabilities, pad 4;
    }
}

record! {
    /// `OFPT_GET_CONFIG_REPLY`, `OFPT_SET_CONFIG`
    => pub struct SwitchConfig {
        /// What is done to IP fragments: 0 nothing, 1 dropped, 2 reassembled.
        flags: u16;
        /// How many bytes of a packet go to the controller, if no action says it.
        miss_send_len: MaxLen;
    }
}

record! {
    /// `OFPT_PORT_STATUS`
    text crate::text::port_status =>
    pub struct PortStatus {
        /// What happened.
        reason: PortReason, pad 7;
        /// The port as it is now.
        port: Port;
    }
}

record! {
    /// `OFPT_PORT_MOD`
    => pub struct PortMod {
        /// Which port.
        port: PortNo, pad 4;
        /// Its address, so that no other port is meant.
        hw_addr: EtherAddr, pad 2;
        /// What it is told,
        config: PortConfig;
        /// in these bits.
        mask: PortConfig;
        /// What it says that it can; none: as it was.
        advertise: PortFeatures, pad 4;
    }
}

record! {
    /// `OFPT_TABLE_MOD`
    => pub struct TableMod {
        /// Which table.
        table: TableId, pad 3;
        /// What it is told.
        config: TableConfig;
    }
}

record! {
    /// `OFPT_ROLE_REQUEST`, `OFPT_ROLE_REPLY`
    text crate::text::role =>
    pub struct RoleMessage {
        /// The role.
        role: Role, pad 4;
        /// Which election it comes from, so that late ones are known.
        generation: u64;
    }
}

record! {
    /// `OFPT_GET_ASYNC_REPLY`, `OFPT_SET_ASYNC`. Of each kind two sets of reasons, a bit each: of a controller that is equal or
    /// primary, and of one that is secondary.
    => pub struct AsyncConfig {
        /// Bits of [`crate::numbers::PacketInReason`].
        packet_in: [u32; 2];
        /// Bits of [`crate::numbers::PortReason`].
        port_status: [u32; 2];
        /// Bits of [`crate::numbers::FlowRemovedReason`].
        flow_removed: [u32; 2];
    }
}

impl Default for AsyncConfig {
    /// What a connection has at its start (section 6.3, "Multiple Controllers"): all, but packets whose TTL is not valid; of a
    /// secondary controller only ports.
    fn default() -> AsyncConfig {
        AsyncConfig { packet_in: [0b011, 0], port_status: [0b111, 0b111], flow_removed: [0b1111, 0] }
    }
}
