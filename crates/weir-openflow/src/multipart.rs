//! Questions about what a switch has, and their answers, which may take several messages (section 7.3.5).

use std::fmt;

use crate::choices::Choices;
use crate::error::{DecodeError, bad_request};
use crate::stats::*;
use crate::table_features::TableFeatures;
use crate::wire::{Bytes, Reader, Wire};

/// From one line for each kind: what is asked, and what is answered.
macro_rules! multiparts {
    ($($(#[$doc:meta])* $n:literal $text:literal $variant:ident $(asks $ask:ty)?, answers $reply:ty;)*) => {
        choice! {
            /// The body of a multipart request.
            pub enum MultipartRequest: u16 { $($(#[$doc])* $n $text $variant $(($ask))?,)* }
        }
        choice! {
            /// The body of a multipart reply.
            pub enum MultipartReply: u16 { $($(#[$doc])* $n $text $variant($reply),)* }
        }

        impl MultipartRequest {
            /// Takes up a later part of the same kind.
            pub(crate) fn append(&mut self, more: MultipartRequest) -> bool {
                match (self, more) {
                    $((Self::$variant $((ignore!(a, $ask)))?, Self::$variant $((ignore!(b, $ask)))?) => {
                        $(return <$ask as Wire>::join(a, b);)?
                        #[allow(unreachable_code)]
                        false
                    })*
                    _ => false,
                }
            }

            /// Parts of at most `most` bytes each, as far as it can be divided.
            pub(crate) fn split(self, most: usize) -> Vec<MultipartRequest> {
                match self {
                    $(Self::$variant $((ignore!(a, $ask)))? => {
                        $(return <$ask as Wire>::divide(a, most).into_iter().map(Self::$variant).collect();)?
                        #[allow(unreachable_code)]
                        { let _ = most; vec![self] }
                    })*
                }
            }
        }

        impl MultipartReply {
            /// Takes up a later part of the same kind.
            pub(crate) fn append(&mut self, more: MultipartReply) -> bool {
                match (self, more) {
                    $((Self::$variant(a), Self::$variant(b)) => <$reply as Wire>::join(a, b),)*
                    _ => false,
                }
            }

            /// Parts of at most `most` bytes each, as far as it can be divided.
            pub(crate) fn split(self, most: usize) -> Vec<MultipartReply> {
                match self {
                    $(Self::$variant(a) => <$reply as Wire>::divide(a, most).into_iter().map(Self::$variant).collect(),)*
                }
            }
        }
    };
}

multiparts! {
    /// What the switch is.
    0 "DESC" Desc, answers Desc;
    /// Flow entries.
    1 "FLOW" Flow asks FlowStatsRequest, answers Vec<FlowStats>;
    /// Sums over flow entries.
    2 "AGGREGATE" Aggregate asks FlowStatsRequest, answers AggregateStats;
    /// Counters of tables.
    3 "TABLE" Table, answers Vec<TableStats>;
    /// Counters of ports.
    4 "PORT" Port asks PortRequest, answers Vec<PortStats>;
    /// Counters of queues.
    5 "QUEUE" Queue asks QueueRequest, answers Vec<QueueStats>;
    /// Counters of groups.
    6 "GROUP" Group asks GroupRequest, answers Vec<GroupStats>;
    /// Groups.
    7 "GROUP_DESC" GroupDesc, answers Vec<GroupDesc>;
    /// What groups can.
    8 "GROUP_FEATURES" GroupFeatures, answers GroupFeatures;
    /// Counters of meters.
    9 "METER" Meter asks MeterRequest, answers Vec<MeterStats>;
    /// Meters.
    10 "METER_CONFIG" MeterConfig asks MeterRequest, answers Vec<MeterConfig>;
    /// What meters can.
    11 "METER_FEATURES" MeterFeatures, answers MeterFeatureSet;
    /// What tables can; asked with tables: what they are to.
    12 "TABLE_FEATURES" TableFeatures asks Vec<TableFeatures>, answers Vec<TableFeatures>;
    /// Ports.
    13 "PORT_DESC" PortDesc, answers Vec<Port>;
    /// Something of an experimenter.
    0xffff "EXPERIMENTER" Experimenter asks ExperimenterStats, answers ExperimenterStats;
}

/// Bytes of a message before the body of a multipart: its header, kind and flags.
const BEFORE: usize = 16;

/// One message of a multipart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<T> {
    /// Whether another one follows that belongs to it.
    pub more: bool,
    /// What it says.
    pub body: T,
}

/// The common part of multipart requests and replies.
pub(crate) trait Multipart: Sized {
    fn kind(&self) -> u16;
    fn read_body(kind: u16, r: &mut Reader<'_>) -> Result<Option<Self>, DecodeError>;
    fn write_body(&self, w: &mut Vec<u8>);
    fn any(c: &mut Choices<'_>) -> Self;
    fn body_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn append(&mut self, more: Self) -> bool;
    fn split(self, most: usize) -> Vec<Self>;
}

macro_rules! both {
    ($($t:ident)*) => {$(
        impl Multipart for $t {
            fn kind(&self) -> u16 {
                $t::kind(self)
            }
            fn read_body(kind: u16, r: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
                $t::read_body(kind, r)
            }
            fn write_body(&self, w: &mut Vec<u8>) {
                $t::write_body(self, w);
            }
            fn any(c: &mut Choices<'_>) -> Self {
                $t::any(c)
            }
            fn body_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $t::body_text(self, f)
            }
            fn append(&mut self, more: Self) -> bool {
                $t::append(self, more)
            }
            fn split(self, most: usize) -> Vec<Self> {
                $t::split(self, most)
            }
        }
    )*};
}

both! { MultipartRequest MultipartReply }

#[allow(private_bounds)]
impl<T: Multipart> Part<T> {
    /// A whole one.
    pub fn of(body: T) -> Part<T> {
        Part { more: false, body }
    }

    /// The messages that say this: one, unless it is too long for one.
    pub fn split(body: T) -> Vec<Part<T>> {
        let bodies = body.split(usize::from(u16::MAX) - BEFORE);
        let last = bodies.len().saturating_sub(1);
        bodies.into_iter().enumerate().map(|(i, body)| Part { more: i < last, body }).collect()
    }
}

impl<T: Multipart> Wire for Part<T> {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.clone();
        let kind = r.u16()?;
        let flags = r.u16()?;
        r.skip(4)?;
        let body = T::read_body(kind, r)?;
        let body =
            body.ok_or_else(|| start.error(bad_request::BAD_MULTIPART, format!("there is no kind {kind}")))?;
        Ok(Part { more: flags & 1 != 0, body })
    }
    fn write(&self, w: &mut Vec<u8>) {
        w.extend(self.body.kind().to_be_bytes());
        w.extend(u16::from(self.more).to_be_bytes());
        w.extend([0; 4]);
        self.body.write_body(w);
    }
    fn any(c: &mut Choices<'_>) -> Self {
        Part { more: c.below(4) == 3, body: T::any(c) }
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.more { "***more*** " } else { "" })?;
        self.body.body_text(f)
    }
}

record! {
    /// Something of an experimenter.
    => pub struct ExperimenterStatsHeader {
        /// Their number.
        experimenter: u32;
        /// What they call it.
        kind: u32;
    }
}

/// Something of an experimenter, which may take several messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimenterStats {
    /// Whose it is, and what.
    pub header: ExperimenterStatsHeader,
    /// What only they know.
    pub data: Bytes,
}

// By hand: its parts have the header each.
impl Wire for ExperimenterStats {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(ExperimenterStats { header: Wire::read(r)?, data: Bytes::read(r)? })
    }
    fn write(&self, w: &mut Vec<u8>) {
        self.header.write(w);
        self.data.write(w);
    }
    fn any(c: &mut Choices<'_>) -> Self {
        ExperimenterStats { header: Wire::any(c), data: Bytes::any(c) }
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},data={:?}", self.header, self.data)
    }
    fn join(&mut self, more: Self) -> bool {
        self.header == more.header && self.data.join(more.data)
    }
    fn divide(self, most: usize) -> Vec<Self> {
        let header = self.header;
        let parts = self.data.divide(most.saturating_sub(8)).into_iter();
        parts.map(|data| ExperimenterStats { header: header.clone(), data }).collect()
    }
}
