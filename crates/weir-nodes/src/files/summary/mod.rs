//! The fields of IP summary dumps, and how packets are taken apart into them and made from them.
//!
//! A field is one [`Field`] in the table of its layer; [`find`] looks through the tables. The format is that of
//! Click's `ToIPSummaryDump` (version 1.3).

use std::borrow::Cow;

use weir_elements::FromArg;

mod anno;
mod draft;
mod icmp;
mod ip;
mod ip_options;
mod link;
mod md5;
mod payload;
mod read;
mod scan;
mod spread;
mod tcp_options;
#[cfg(test)]
mod tests;
mod transport;
mod view;

use draft::{Draft, Flow, Preset};
pub(crate) use read::Reader;
pub(crate) use spread::Spread;
pub(crate) use view::{View, aggregate, extra_length, extra_packets, set_aggregate, set_paint};

/// Most bytes of a line, or of a record, of a dump.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number; addresses are numbers in network order, times are nanoseconds.
    Number(u64),
    /// Bytes as they stand in the packet.
    Bytes(Cow<'a, [u8]>),
}

impl Value<'_> {
    /// The number; 0 if it is none.
    pub fn number(&self) -> u64 {
        match self {
            Value::Number(n) => *n,
            Value::Bytes(_) => 0,
        }
    }

    /// The bytes; empty if it is a number.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Number(_) => &[],
            Value::Bytes(b) => b,
        }
    }
}

/// Why a packet has no value for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The field does not go with this packet.
    Silent,
    /// There is no Ethernet header.
    Ethernet,
    /// There is no IP header, or not enough of it.
    Ip,
    /// Fewer than so many bytes of that protocol's header.
    Transport(Proto, usize),
}

/// The transport protocol that a field belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proto {
    Tcp,
    Udp,
    Icmp,
    TcpOrUdp,
}

/// The value that a packet has for a field.
pub(crate) type Got<'a> = Result<Value<'a>, Absent>;

/// The form of a value in a binary record, all in network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Not at all: the field is always absent.
    Nothing,
    U8,
    U16,
    U32,
    U64,
    /// Seconds and microseconds, 32 bits each.
    Micros,
    /// Seconds and nanoseconds, 32 bits each.
    Nanos,
    /// So many bytes.
    Fixed(usize),
    /// A byte that gives the length, and the bytes.
    Counted,
    /// It cannot be written in binary.
    TextOnly,
}

impl Form {
    /// The largest number that it holds.
    fn max(self) -> u64 {
        match self {
            Form::U8 => 0xff,
            Form::U16 => 0xffff,
            Form::U32 => 0xffff_ffff,
            _ => u64::MAX,
        }
    }

    /// Appends a value, or zeros if there is none.
    pub fn write(self, value: Option<&Value<'_>>, out: &mut Vec<u8>) {
        let n = value.map_or(0, Value::number);
        let bytes = value.map_or(&[][..], Value::bytes);
        match self {
            Form::Nothing | Form::TextOnly => {}
            Form::U8 => out.push(n as u8),
            Form::U16 => out.extend((n as u16).to_be_bytes()),
            Form::U32 => out.extend((n as u32).to_be_bytes()),
            Form::U64 => out.extend(n.to_be_bytes()),
            Form::Micros | Form::Nanos => {
                out.extend(((n / 1_000_000_000) as u32).to_be_bytes());
                let part = (n % 1_000_000_000) as u32;
                out.extend((if self == Form::Micros { part / 1000 } else { part }).to_be_bytes());
            }
            Form::Fixed(len) => {
                let end = out.len() + len;
                out.extend(bytes.iter().take(len));
                out.resize(end, 0);
            }
            Form::Counted => {
                let bytes = bytes.get(..255).unwrap_or(bytes);
                out.push(bytes.len() as u8);
                out.extend(bytes);
            }
        }
    }

    /// Takes a value from the front of a record; `None` if the record ends before.
    pub fn read(self, record: &mut &[u8]) -> Option<Value<'static>> {
        let len = match self {
            Form::Nothing | Form::TextOnly => return None,
            Form::U8 => 1,
            Form::U16 => 2,
            Form::U32 => 4,
            Form::U64 | Form::Micros | Form::Nanos => 8,
            Form::Fixed(len) => len,
            Form::Counted => usize::from(*record.split_off_first()?),
        };
        let bytes = record.split_off(..len)?;
        let n = bytes.iter().fold(0, |n: u64, b| n << 8 | u64::from(*b));
        Some(match self {
            Form::Micros => Value::Number((n >> 32) * 1_000_000_000 + (n & 0xffff_ffff) * 1000),
            Form::Nanos => Value::Number((n >> 32) * 1_000_000_000 + (n & 0xffff_ffff)),
            Form::Fixed(_) | Form::Counted => Value::Bytes(Cow::Owned(bytes.to_vec())),
            _ => Value::Number(n),
        })
    }
}

/// A field of dumps.
pub(crate) struct Field {
    /// Its name.
    pub name: &'static str,
    /// How it stands in binary records.
    pub form: Form,
    /// Takes it from a packet.
    pub get: for<'a> fn(&View<'a>) -> Got<'a>,
    /// Writes a value as text.
    pub print: fn(&View<'_>, &Value<'_>, &mut String),
    /// Reads a value from text; `None` if the text is wrong.
    pub parse: fn(&Field, &Draft, &str) -> Option<Value<'static>>,
    /// How it gets into a packet; `None`: it is ignored when a dump is read.
    pub set: Option<Setter>,
}

/// Puts a value into a packet that is being made.
#[derive(Clone, Copy)]
pub(crate) struct Setter {
    /// Fields are set from the lowest to the highest.
    pub order: u16,
    pub put: fn(&mut Draft, &Value<'_>),
}

/// When the fields of a layer are set.
mod order {
    pub const ANNO: u16 = 100;
    pub const LINK: u16 = 200;
    pub const NET: u16 = 300;
    pub const TRANSPORT: u16 = 400;
    pub const PAYLOAD: u16 = 500;
}

impl Field {
    /// A number, written in decimal, that is only taken from packets.
    const fn new(name: &'static str, form: Form, get: for<'a> fn(&View<'a>) -> Got<'a>) -> Field {
        Field { name, form, get, print: print_number, parse: parse_number, set: None }
    }

    const fn printed(mut self, print: fn(&View<'_>, &Value<'_>, &mut String)) -> Field {
        self.print = print;
        self
    }

    const fn parsed(mut self, parse: fn(&Field, &Draft, &str) -> Option<Value<'static>>) -> Field {
        self.parse = parse;
        self
    }

    const fn sets(mut self, order: u16, put: fn(&mut Draft, &Value<'_>)) -> Field {
        self.set = Some(Setter { order, put });
        self
    }
}

fn print_number(_: &View<'_>, value: &Value<'_>, out: &mut String) {
    out.push_str(&value.number().to_string());
}

fn parse_number(field: &Field, _: &Draft, text: &str) -> Option<Value<'static>> {
    let n = u64::from_arg(text).ok()?;
    (n <= field.form.max()).then_some(Value::Number(n))
}

/// The field that is always absent.
static NONE: Field = Field::new("none", Form::Nothing, |_| Err(Absent::Silent));

/// Other names of fields.
const SYNONYMS: &[(&str, &str)] = &[
    ("utimestamp", "timestamp"),
    ("ts", "timestamp"),
    ("sec", "ts_sec"),
    ("usec", "ts_usec"),
    ("usec1", "ts_usec1"),
    ("first_utimestamp", "first_timestamp"),
    ("first_ts", "first_timestamp"),
    ("pkt_count", "count"),
    ("packet_count", "count"),
    ("agg", "aggregate"),
    ("wire_length", "wire_len"),
    ("ether_src", "eth_src"),
    ("ether_dst", "eth_dst"),
    ("ether_type", "eth_type"),
    ("length", "ip_len"),
    ("ip_length", "ip_len"),
    ("ip_p", "ip_proto"),
    ("tcp_seqno", "tcp_seq"),
    ("tcp_ackno", "tcp_ack"),
    ("tcp_win", "tcp_window"),
    ("payload_length", "payload_len"),
];

/// The field of that name. Blanks stand for underscores, and `ip_` may be left out.
pub(crate) fn find(name: &str) -> Option<&'static Field> {
    let name = name.replace(' ', "_");
    let name = SYNONYMS.iter().find(|(n, _)| *n == name).map_or(name.as_str(), |(_, real)| real);
    if name == NONE.name {
        return Some(&NONE);
    }
    let tables = [anno::FIELDS, link::FIELDS, ip::FIELDS, transport::FIELDS, icmp::FIELDS, payload::FIELDS];
    let found = tables.iter().copied().flatten().find(|f| f.name == name);
    match found {
        None if !name.contains('_') => find(&format!("ip_{name}")),
        found => found,
    }
}

/// Names of fields, separated by blanks; names that contain a blank are quoted.
pub(crate) fn names(text: &str) -> Vec<String> {
    let words = weir_click::split_words(text);
    words.iter().map(|w| String::from_utf8_lossy(&weir_click::unquote(w)).into_owned()).collect()
}

/// The parameter that names the fields of a dump to write.
#[derive(Clone)]
pub(crate) struct Fields(pub Vec<&'static Field>);

impl FromArg for Fields {
    const SYNTAX: &'static str = "names of fields";
    fn from_arg(text: &str) -> Result<Fields, String> {
        let text = names(text).join(" ").replace(['"', '\''], " ");
        let fields: Result<Vec<_>, _> = names(&text)
            .iter()
            .map(|n| find(n).ok_or_else(|| format!("unknown field '{n}' (the manual lists them)")))
            .collect();
        let fields = fields?;
        if fields.is_empty() { Err("no fields are named".to_owned()) } else { Ok(Fields(fields)) }
    }
}
