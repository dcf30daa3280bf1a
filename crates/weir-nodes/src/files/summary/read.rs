//! Reading dumps: lines and records, and the packets that they describe.

use std::io::{self, BufRead, Read};
use std::net::Ipv4Addr;

use weir_elements::FromArg;
use weir_packet::Packet;

use super::{Draft, Field, Flow, MAX_LINE, NONE, Preset, Value, find, names};

/// The minor version of dumps that is written, and that a dump without a banner is taken for.
const MINOR: u32 = 3;

/// Reads a dump.
pub(crate) struct Reader {
    source: Box<dyn BufRead + Send>,
    name: String,
    /// Number of the line, or of the record.
    line: u64,
    fields: Vec<&'static Field>,
    /// Indices of `fields` in the order in which they are set.
    order: Vec<usize>,
    preset: Preset,
    checksum: bool,
    binary: bool,
    /// Whether a line was wrong: only the first is reported.
    complained: bool,
    /// Notices about the dump.
    warnings: Vec<String>,
}

/// A line of a dump.
enum Line {
    Text(Vec<u8>),
    Record(Vec<u8>),
}

impl Reader {
    /// Starts to read; `name` is for messages.
    pub fn new(source: Box<dyn BufRead + Send>, name: &str, protocol: u8, checksum: bool) -> Reader {
        Reader {
            source,
            name: name.to_owned(),
            line: 0,
            fields: Vec::new(),
            order: Vec::new(),
            preset: Preset { protocol, flow: None, aggregate: None, minor: MINOR },
            checksum,
            binary: false,
            complained: false,
            warnings: Vec::new(),
        }
    }

    /// What was found wrong since the last time.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// The next packet; `None` at the end.
    pub fn next_packet(&mut self) -> io::Result<Option<Packet>> {
        while let Some(line) = self.next_line()? {
            let draft = match line {
                Line::Record(record) => self.of_record(&record),
                Line::Text(text) => {
                    let Ok(text) = std::str::from_utf8(&text) else {
                        self.complain("the line is not text (UTF-8)");
                        continue;
                    };
                    let text = text.trim();
                    if text.is_empty() || text.starts_with('#') {
                        continue;
                    }
                    if text.starts_with('!') {
                        self.directive(text);
                        continue;
                    }
                    self.of_line(text)
                }
            };
            let Some(draft) = draft else {
                self.complain(if self.fields.is_empty() {
                    "no line '!data' names the fields"
                } else {
                    "no field of the packet can be read"
                });
                continue;
            };
            match draft.finish(self.checksum) {
                Some(packet) => return Ok(Some(packet)),
                None => self.complain("the packet is too long"),
            }
        }
        Ok(None)
    }

    fn complain(&mut self, message: &str) {
        if !self.complained {
            self.warn(message);
        }
        self.complained = true;
    }

    fn warn(&mut self, message: &str) {
        let place = if self.binary { "record " } else { "" };
        self.warnings.push(format!("{}:{place}{}: {message}", self.name, self.line));
    }

    fn next_line(&mut self) -> io::Result<Option<Line>> {
        self.line += 1;
        let mut line = Vec::new();
        if !self.binary {
            let n = self.source.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
            if n == MAX_LINE {
                return Err(io::Error::other(format!("line {} is too long", self.line)));
            }
            return Ok((n > 0).then_some(Line::Text(line)));
        }
        if self.source.by_ref().take(4).read_to_end(&mut line)? < 4 {
            return Ok(None);
        }
        let head = line.iter().fold(0, |n: u32, b| n << 8 | u32::from(*b));
        let len = (head & 0x7fff_ffff) as usize;
        if !(4..=MAX_LINE).contains(&len) {
            return Err(io::Error::other(format!("record {} has a length of {len}", self.line)));
        }
        line.clear();
        if self.source.by_ref().take(len as u64 - 4).read_to_end(&mut line)? < len - 4 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(if head >> 31 == 1 {
            while line.last() == Some(&0) {
                line.pop();
            }
            Line::Text(line)
        } else {
            Line::Record(line)
        }))
    }

    fn directive(&mut self, text: &str) {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match word {
            "!IPSummaryDump" => {
                let version = rest.trim().split_once('.');
                let numbers =
                    version.and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
                match numbers {
                    Some((1, minor)) if minor <= MINOR => self.preset.minor = minor,
                    _ => self.warn(&format!("version {} is not known: at most 1.{MINOR}", rest.trim())),
                }
            }
            "!data" | "!contents" => self.set_fields(rest),
            "!proto" => match protocol(rest.trim()) {
                Some(p) => self.preset.protocol = p,
                None => self.warn(&format!("'{}' is no protocol (like T, udp or 17)", rest.trim())),
            },
            "!flowid" => self.set_flow(rest),
            "!aggregate" => match u32::from_arg(rest.trim()) {
                Ok(n) => self.preset.aggregate = Some(n),
                Err(e) => self.warn(&e),
            },
            "!binary" => {
                self.binary = true;
                self.line = 0;
            }
            // The rest is for people, or for programs of other kinds.
            _ => {}
        }
    }

    /// Says which fields the lines have.
    pub fn set_fields(&mut self, text: &str) {
        self.fields.clear();
        for name in names(text) {
            let field = match find(&name) {
                Some(field) => {
                    if field.set.is_none() && field.name != NONE.name {
                        self.warn(&format!("field '{name}' is ignored when a dump is read"));
                    }
                    field
                }
                None => {
                    self.warn(&format!("field '{name}' is not known"));
                    &NONE
                }
            };
            self.fields.push(field);
        }
        if self.fields.is_empty() {
            self.warn("no fields are named");
        }
        self.order = (0..self.fields.len()).collect();
        let fields = &self.fields;
        self.order.sort_by_key(|i| fields.get(*i).and_then(|f| f.set).map_or(0, |s| s.order));
    }

    /// Sets the addresses and ports of packets that have no others: source, port, destination, port, protocol.
    pub fn set_flow(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let flow = (|| {
            let [src, sport, dst, dport, ..] = words.as_slice() else { return None };
            let address = |w: &str| if w == "-" { Some(Ipv4Addr::UNSPECIFIED) } else { w.parse().ok() };
            let port = |w: &str| if w == "-" { Some(0) } else { u16::from_arg(w).ok() };
            Some(Flow { src: address(src)?, sport: port(sport)?, dst: address(dst)?, dport: port(dport)? })
        })();
        let given = match words.get(4) {
            Some(word) => protocol(word),
            None => Some(self.preset.protocol),
        };
        match (flow, given) {
            (Some(flow), Some(protocol)) => {
                self.preset.flow = Some(flow);
                self.preset.protocol = protocol;
            }
            _ => self.warn("a flow is written: source address, port, destination address, port, protocol"),
        }
    }

    fn of_line(&self, text: &str) -> Option<Draft> {
        let mut words = Vec::with_capacity(self.fields.len());
        let mut rest = text;
        while words.len() < self.fields.len() {
            let (word, after) = word(rest);
            words.push(word);
            rest = after;
        }
        self.build(|draft, field, i| match words.get(i).copied().unwrap_or("") {
            "" | "-" => None,
            word => (field.parse)(field, draft, word),
        })
    }

    fn of_record(&self, mut record: &[u8]) -> Option<Draft> {
        let values: Vec<_> = self.fields.iter().map(|f| f.form.read(&mut record)).collect();
        self.build(|_, _, i| values.get(i)?.clone())
    }

    /// Sets all fields that have a value; `None` if none has.
    fn build(&self, value: impl Fn(&Draft, &Field, usize) -> Option<Value<'static>>) -> Option<Draft> {
        let mut draft = Draft::new(self.preset);
        let mut any = false;
        for i in &self.order {
            let Some(field) = self.fields.get(*i) else { continue };
            if let (Some(set), Some(value)) = (field.set, value(&draft, field, *i)) {
                (set.put)(&mut draft, &value);
                any = true;
            }
        }
        any.then_some(draft)
    }
}

/// The first word, with quoted blanks, and what follows.
fn word(text: &str) -> (&str, &str) {
    let (mut quoted, mut escaped) = (false, false);
    let end = text.find(|c: char| {
        let ends = c.is_whitespace() && !quoted;
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = c == '\\' && !escaped;
        ends
    });
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    (word, rest.trim_start())
}

/// A protocol by name or number.
fn protocol(word: &str) -> Option<u8> {
    match word {
        "T" | "tcp" => Some(6),
        "U" | "udp" => Some(17),
        "I" | "icmp" => Some(1),
        "igmp" => Some(2),
        "ipip" => Some(4),
        "dccp" => Some(33),
        "gre" => Some(47),
        "sctp" => Some(132),
        "udplite" => Some(136),
        number => u8::from_arg(number).ok(),
    }
}
