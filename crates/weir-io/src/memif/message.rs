//! The messages of the control connection (`memif.h` of VPP, version 2.0): each has 128 bytes, its numbers in the byte order
//! of the machine, and begins with its kind. Descriptors go beside it.

use std::fmt;

/// Bytes of a message.
pub const LEN: usize = 128;
/// The version that is spoken, 2.0.
pub const VERSION: u16 = 2 << 8;
/// Bytes of a name, the zero at its end included.
const NAME: usize = 32;
/// Bytes of a secret.
pub const SECRET: usize = 24;
/// Bytes of the reason for a disconnect, the zero at its end included.
const REASON: usize = 96;

/// Kinds of messages that are Weir's own, far from those of memif.
const DIRECT_MEMORY: u16 = 0x5701;
const DIRECT_RING: u16 = 0x5702;
const DIRECT_GO: u16 = 0x5703;
const DIRECT_STOP: u16 = 0x5704;
const DIRECT_SWITCHED: u16 = 0x5705;
const DIRECT_ENDED: u16 = 0x5706;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What was sent before is taken.
    Ack,
    /// From the master, when the slave has connected: what it can do.
    Hello(Hello),
    /// From the slave: which interface of the master it wants.
    Init(Init),
    /// From the slave, with the descriptor of a region of memory.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its size in bytes.
        size: u64,
    },
    /// From the slave, with the descriptor of an eventfd: where a ring is.
    AddRing(AddRing),
    /// From the slave, whose interface has this name: everything is there.
    Connect(String),
    /// From the master, whose interface has this name: it is ready.
    Connected(String),
    /// The end, and why.
    Disconnect {
        /// A number without a meaning of its own.
        code: u32,
        /// The reason, for people.
        reason: String,
    },
    /// Weir's own ([`super::direct`]), as all that follow. From the master, with the descriptor of the memory of a direct ring.
    DirectMemory,
    /// From the master, with the descriptor of a socket: the slave's end of the ring in the memory that came before.
    DirectRing {
        /// The ring's number.
        id: u32,
        /// Whether the slave sends by it, or receives.
        sends: bool,
    },
    /// From the master: all that was sent before the ring of this number was used is with the slave.
    DirectGo(u32),
    /// From the master: the slave is to send by the ring of this number no more.
    DirectStop(u32),
    /// From the slave: it sends by the ring of this number from now on.
    DirectSwitched(u32),
    /// From the slave: it has done with a ring.
    DirectEnded {
        /// The ring's number.
        id: u32,
        /// Whether it sent by it, or received.
        sends: bool,
    },
}

/// The capabilities of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Name of the program.
    pub name: String,
    /// Lowest and highest version.
    pub versions: (u16, u16),
    /// Highest number of a region.
    pub max_region: u16,
    /// Highest numbers of rings from master to slave, and from slave to master.
    pub max_rings: (u16, u16),
    /// Logarithm of the largest ring's size.
    pub max_log2_ring_size: u8,
}

/// Which interface of a master a slave wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// The version.
    pub version: u16,
    /// Number of the interface.
    pub id: u32,
    /// What packets begin with: 0 is an Ethernet header.
    pub mode: u8,
    /// The secret that both know; zeros if there is none.
    pub secret: [u8; SECRET],
    /// Name of the program.
    pub name: String,
}

/// Where a ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRing {
    /// Whether packets go from slave to master in it.
    pub to_master: bool,
    /// Its number, counted for each direction.
    pub index: u16,
    /// The region that it lies in.
    pub region: u16,
    /// Where it begins in that.
    pub offset: u32,
    /// Logarithm of its size.
    pub log2_size: u8,
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoMessage {
    /// It has another length.
    #[error("a message has {LEN} bytes, not {0}")]
    Length(usize),
    /// There is no such kind.
    #[error("there is no message of the kind {0}")]
    Kind(u16),
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Message::Ack => "ack",
            Message::Hello(_) => "hello",
            Message::Init(_) => "init",
            Message::AddRegion { .. } => "add region",
            Message::AddRing(_) => "add ring",
            Message::Connect(_) => "connect",
            Message::Connected(_) => "connected",
            Message::Disconnect { .. } => "disconnect",
            Message::DirectMemory => "direct memory",
            Message::DirectRing { .. } => "direct ring",
            Message::DirectGo(_) => "direct go",
            Message::DirectStop(_) => "direct stop",
            Message::DirectSwitched(_) => "direct switched",
            Message::DirectEnded { .. } => "direct ended",
        })
    }
}

/// `MEMIF_MSG_ADD_RING_FLAG_S2M`.
const TO_MASTER: u16 = 1;

impl Message {
    /// The bytes of the message. Names that are too long are cut.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let (kind, mut at) = (self.kind(), 2);
        bytes[..2].copy_from_slice(&kind.to_ne_bytes());
        let mut put = |field: &[u8], room: usize| {
            let n = field.len().min(room);
            bytes[at..at + n].copy_from_slice(&field[..n]);
            at += room;
        };
        match self {
            Message::Ack => {}
            Message::Hello(m) => {
                put(text(&m.name, NAME), NAME);
                let (of_master, of_slave) = m.max_rings;
                for number in [m.versions.0, m.versions.1, m.max_region, of_master, of_slave] {
                    put(&number.to_ne_bytes(), 2);
                }
                put(&[m.max_log2_ring_size], 1);
            }
            Message::Init(m) => {
                put(&m.version.to_ne_bytes(), 2);
                put(&m.id.to_ne_bytes(), 4);
                put(&[m.mode], 1);
                put(&m.secret, SECRET);
                put(text(&m.name, NAME), NAME);
            }
            Message::AddRegion { index, size } => {
                put(&index.to_ne_bytes(), 2);
                put(&size.to_ne_bytes(), 8);
            }
            Message::AddRing(m) => {
                let flags = if m.to_master { TO_MASTER } else { 0 };
                for number in [flags, m.index, m.region] {
                    put(&number.to_ne_bytes(), 2);
                }
                put(&m.offset.to_ne_bytes(), 4);
                put(&[m.log2_size], 1);
            }
            Message::Connect(name) | Message::Connected(name) => put(text(name, NAME), NAME),
            Message::Disconnect { code, reason } => {
                put(&code.to_ne_bytes(), 4);
                put(text(reason, REASON), REASON);
            }
            Message::DirectMemory => {}
            Message::DirectRing { id, sends } | Message::DirectEnded { id, sends } => {
                put(&id.to_ne_bytes(), 4);
                put(&[u8::from(*sends)], 1);
            }
            Message::DirectGo(id) | Message::DirectStop(id) | Message::DirectSwitched(id) => {
                put(&id.to_ne_bytes(), 4);
            }
        }
        bytes
    }

    /// Reads a message. What its kind does not use may be anything.
    ///
    /// # Errors
    /// If it has another length, or there is no such kind.
    pub fn decode(bytes: &[u8]) -> Result<Message, NoMessage> {
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| NoMessage::Length(bytes.len()))?;
        let mut rest = Fields(bytes);
        Ok(match rest.u16() {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: rest.text::<NAME>(),
                versions: (rest.u16(), rest.u16()),
                max_region: rest.u16(),
                max_rings: (rest.u16(), rest.u16()),
                max_log2_ring_size: rest.u8(),
            }),
            3 => Message::Init(Init {
                version: rest.u16(),
                id: rest.u32(),
                mode: rest.u8(),
                secret: rest.take(),
                name: rest.text::<NAME>(),
            }),
            4 => Message::AddRegion { index: rest.u16(), size: u64::from_ne_bytes(rest.take()) },
            5 => Message::AddRing(AddRing {
                to_master: rest.u16() & TO_MASTER != 0,
                index: rest.u16(),
                region: rest.u16(),
                offset: rest.u32(),
                log2_size: rest.u8(),
            }),
            6 => Message::Connect(rest.text::<NAME>()),
            7 => Message::Connected(rest.text::<NAME>()),
            8 => Message::Disconnect { code: rest.u32(), reason: rest.text::<REASON>() },
            DIRECT_MEMORY => Message::DirectMemory,
            DIRECT_RING => Message::DirectRing { id: rest.u32(), sends: rest.u8() != 0 },
            DIRECT_GO => Message::DirectGo(rest.u32()),
            DIRECT_STOP => Message::DirectStop(rest.u32()),
            DIRECT_SWITCHED => Message::DirectSwitched(rest.u32()),
            DIRECT_ENDED => Message::DirectEnded { id: rest.u32(), sends: rest.u8() != 0 },
            kind => return Err(NoMessage::Kind(kind)),
        })
    }

    fn kind(&self) -> u16 {
        match self {
            Message::Ack => 1,
            Message::Hello(_) => 2,
            Message::Init(_) => 3,
            Message::AddRegion { .. } => 4,
            Message::AddRing(_) => 5,
            Message::Connect(_) => 6,
            Message::Connected(_) => 7,
            Message::Disconnect { .. } => 8,
            Message::DirectMemory => DIRECT_MEMORY,
            Message::DirectRing { .. } => DIRECT_RING,
            Message::DirectGo(_) => DIRECT_GO,
            Message::DirectStop(_) => DIRECT_STOP,
            Message::DirectSwitched(_) => DIRECT_SWITCHED,
            Message::DirectEnded { .. } => DIRECT_ENDED,
        }
    }
}

/// As much of a text as leaves room for a zero, cut between two characters.
fn text(text: &str, room: usize) -> &[u8] {
    let mut n = text.len().min(room - 1);
    while !text.is_char_boundary(n) {
        n -= 1;
    }
    &text.as_bytes()[..n]
}

/// The bytes that are still to be read; zeros follow the last.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        let (now, rest) = self.0.split_at(self.0.len().min(N));
        field[..now.len()].copy_from_slice(now);
        self.0 = rest;
        field
    }

    fn u8(&mut self) -> u8 {
        u8::from_ne_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    /// A text up to its zero. It goes into messages for people: what would change a terminal does not.
    fn text<const N: usize>(&mut self) -> String {
        let bytes = self.take::<N>();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(N - 1);
        let text = String::from_utf8_lossy(&bytes[..end.min(N - 1)]);
        text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields stand where `memif.h` has them.
    #[test]
    fn messages_have_the_published_layout() {
        let init = Message::Init(Init {
            version: VERSION,
            id: 0x0403_0201,
            mode: 0,
            secret: [7; SECRET],
            name: "weir".to_owned(),
        });
        let bytes = init.encode();
        assert_eq!(bytes[..9], [3, 0, 0, 2, 1, 2, 3, 4, 0]);
        assert_eq!((&bytes[9..33], &bytes[33..38]), (&[7; SECRET][..], &b"weir\0"[..]));
        let ring = AddRing { to_master: true, index: 2, region: 3, offset: 0x0102_0304, log2_size: 10 };
        assert_eq!(Message::AddRing(ring).encode()[..15], [5, 0, 1, 0, 2, 0, 3, 0, 4, 3, 2, 1, 10, 0, 0]);
        let region = Message::AddRegion { index: 1, size: 0x0807_0605_0403_0201 };
        assert_eq!(region.encode()[..12], [4, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let hello = Message::Hello(Hello {
            name: "n".to_owned(),
            versions: (VERSION, VERSION),
            max_region: 5,
            max_rings: (6, 7),
            max_log2_ring_size: 14,
        });
        assert_eq!(hello.encode()[34..45], [0, 2, 0, 2, 5, 0, 6, 0, 7, 0, 14]);
    }

    #[test]
    fn messages_read_back_and_long_names_are_cut() {
        let long = "ä".repeat(40);
        let all = [
            Message::Ack,
            Message::Connect(long.clone()),
            Message::Connected("port 1".to_owned()),
            Message::Disconnect { code: 9, reason: long.repeat(2) },
            Message::DirectMemory,
            Message::DirectRing { id: 0x0102_0304, sends: true },
            Message::DirectGo(2),
            Message::DirectStop(3),
            Message::DirectSwitched(4),
            Message::DirectEnded { id: 5, sends: false },
        ];
        for message in all {
            let again = Message::decode(&message.encode()).unwrap();
            match (&message, &again) {
                (Message::Connect(_), Message::Connect(name)) => assert_eq!(*name, "ä".repeat(15)),
                (Message::Disconnect { .. }, Message::Disconnect { code, reason }) => {
                    assert_eq!((*code, reason.as_str()), (9, &*"ä".repeat(47)));
                }
                _ => assert_eq!(message, again),
            }
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(Message::decode(&[1, 0]), Err(NoMessage::Length(2)));
        assert_eq!(Message::decode(&[0; LEN]), Err(NoMessage::Kind(0)));
        assert_eq!(Message::decode(&[9; LEN]), Err(NoMessage::Kind(0x0909)));
        // A name without an end, and with what a terminal would obey.
        let mut bytes = [b'x'; LEN];
        bytes[..4].copy_from_slice(&[6, 0, 0x1b, b'[']);
        assert_eq!(Message::decode(&bytes), Ok(Message::Connect(format!("?[{}", "x".repeat(29)))));
    }
}
