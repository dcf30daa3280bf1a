//! What goes wrong, as the protocol says it (section 7.4.4) and as people read it.

use std::fmt;

/// Type and code of an error message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode {
    /// Its type (`ofp_error_type`).
    pub kind: u16,
    /// Its code, which the type gives its meaning.
    pub code: u16,
}

/// The type of experimenters' errors; the code is theirs.
pub const EXPERIMENTER: u16 = 0xffff;

/// From the types with their codes: a module of constants each, and their names.
macro_rules! error_codes {
    ($($(#[$doc:meta])* $module:ident = $kind:literal $prefix:literal { $($name:ident = $code:literal,)* })*) => {
        $(
            $(#[$doc])*
            pub mod $module {
                use super::ErrorCode;
                $(
                    #[doc = concat!("`", $prefix, stringify!($name), "`.")]
                    pub const $name: ErrorCode = ErrorCode { kind: $kind, code: $code };
                )*
            }
        )*

        /// All codes of the specification with their names.
        pub const CODES: &[(ErrorCode, &str)] =
            &[$($(($module::$name, concat!($prefix, stringify!($name))),)*)*];
    };
}

error_codes! {
    /// The versions of both sides.
    hello_failed = 0 "OFPHFC_" {
        INCOMPATIBLE = 0, EPERM = 1,
    }
    /// A message as a whole.
    bad_request = 1 "OFPBRC_" {
        BAD_VERSION = 0, BAD_TYPE = 1, BAD_MULTIPART = 2, BAD_EXPERIMENTER = 3, BAD_EXP_TYPE = 4,
        EPERM = 5, BAD_LEN = 6, BUFFER_EMPTY = 7, BUFFER_UNKNOWN = 8, BAD_TABLE_ID = 9, IS_SLAVE = 10,
        BAD_PORT = 11, BAD_PACKET = 12, MULTIPART_BUFFER_OVERFLOW = 13,
    }
    /// An action.
    bad_action = 2 "OFPBAC_" {
        BAD_TYPE = 0, BAD_LEN = 1, BAD_EXPERIMENTER = 2, BAD_EXP_TYPE = 3, BAD_OUT_PORT = 4,
        BAD_ARGUMENT = 5, EPERM = 6, TOO_MANY = 7, BAD_QUEUE = 8, BAD_OUT_GROUP = 9,
        MATCH_INCONSISTENT = 10, UNSUPPORTED_ORDER = 11, BAD_TAG = 12, BAD_SET_TYPE = 13, BAD_SET_LEN = 14,
        BAD_SET_ARGUMENT = 15,
    }
    /// An instruction.
    bad_instruction = 3 "OFPBIC_" {
        UNKNOWN_INST = 0, UNSUP_INST = 1, BAD_TABLE_ID = 2, UNSUP_METADATA = 3, UNSUP_METADATA_MASK = 4,
        BAD_EXPERIMENTER = 5, BAD_EXP_TYPE = 6, BAD_LEN = 7, EPERM = 8,
    }
    /// A match.
    bad_match = 4 "OFPBMC_" {
        BAD_TYPE = 0, BAD_LEN = 1, BAD_TAG = 2, BAD_DL_ADDR_MASK = 3, BAD_NW_ADDR_MASK = 4,
        BAD_WILDCARDS = 5, BAD_FIELD = 6, BAD_VALUE = 7, BAD_MASK = 8, BAD_PREREQ = 9, DUP_FIELD = 10,
        EPERM = 11,
    }
    /// A change of a flow table.
    flow_mod_failed = 5 "OFPFMFC_" {
        UNKNOWN = 0, TABLE_FULL = 1, BAD_TABLE_ID = 2, OVERLAP = 3, EPERM = 4, BAD_TIMEOUT = 5,
        BAD_COMMAND = 6, BAD_FLAGS = 7,
    }
    /// A change of a group.
    group_mod_failed = 6 "OFPGMFC_" {
        GROUP_EXISTS = 0, INVALID_GROUP = 1, WEIGHT_UNSUPPORTED = 2, OUT_OF_GROUPS = 3, OUT_OF_BUCKETS = 4,
        CHAINING_UNSUPPORTED = 5, WATCH_UNSUPPORTED = 6, LOOP = 7, UNKNOWN_GROUP = 8, CHAINED_GROUP = 9,
        BAD_TYPE = 10, BAD_COMMAND = 11, BAD_BUCKET = 12, BAD_WATCH = 13, EPERM = 14,
    }
    /// A change of a port.
    port_mod_failed = 7 "OFPPMFC_" {
        BAD_PORT = 0, BAD_HW_ADDR = 1, BAD_CONFIG = 2, BAD_ADVERTISE = 3, EPERM = 4,
    }
    /// A change of a table.
    table_mod_failed = 8 "OFPTMFC_" {
        BAD_TABLE = 0, BAD_CONFIG = 1, EPERM = 2,
    }
    /// A question about queues.
    queue_op_failed = 9 "OFPQOFC_" {
        BAD_PORT = 0, BAD_QUEUE = 1, EPERM = 2,
    }
    /// A change of the configuration.
    switch_config_failed = 10 "OFPSCFC_" {
        BAD_FLAGS = 0, BAD_LEN = 1, EPERM = 2,
    }
    /// A change of the role.
    role_request_failed = 11 "OFPRRFC_" {
        STALE = 0, UNSUP = 1, BAD_ROLE = 2,
    }
    /// A change of a meter.
    meter_mod_failed = 12 "OFPMMFC_" {
        UNKNOWN = 0, METER_EXISTS = 1, INVALID_METER = 2, UNKNOWN_METER = 3, BAD_COMMAND = 4,
        BAD_FLAGS = 5, BAD_RATE = 6, BAD_BURST = 7, BAD_BAND = 8, BAD_BAND_VALUE = 9, OUT_OF_METERS = 10,
        OUT_OF_BANDS = 11,
    }
    /// A change of what tables can.
    table_features_failed = 13 "OFPTFFC_" {
        BAD_TABLE = 0, BAD_METADATA = 1, BAD_TYPE = 2, BAD_LEN = 3, BAD_ARGUMENT = 4, EPERM = 5,
    }
}

impl ErrorCode {
    /// Its name in the specification, if it has one.
    pub fn name(self) -> Option<&'static str> {
        CODES.iter().find(|(code, _)| *code == self).map(|(_, name)| *name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}, code {}", self.kind, self.code),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bytes that are no message: what is wrong, where, and the error that the peer gets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {what}, at byte {at}{}{path}", if path.is_empty() { "" } else { ", in " })]
pub struct DecodeError {
    /// What an error message says of it.
    pub code: ErrorCode,
    /// Where in the message, in bytes from the start of its header.
    pub at: usize,
    /// In which field, outermost first: `flow_mod.instructions[0]`; empty for the header.
    pub path: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl DecodeError {
    pub(crate) fn new(code: ErrorCode, at: usize, what: String) -> DecodeError {
        DecodeError { code, at, path: String::new(), what }
    }

    /// The same, seen from the part that this stands in.
    pub(crate) fn within(mut self, part: impl fmt::Display) -> DecodeError {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{part}{dot}{}", self.path);
        self
    }
}

/// A message that cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Its length does not fit the header.
    #[error("the message has {0} bytes; 65,535 are the most: divide it, or leave something out")]
    TooLong(usize),
}

/// A value that a field cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct ValueError {
    /// Which field.
    pub field: &'static str,
    /// What is wrong, and what would be right.
    pub what: String,
    /// What an error message says of it.
    pub code: ErrorCode,
}
