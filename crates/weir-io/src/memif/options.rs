//! What a memif port is, and how that is written.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::message::SECRET;
use super::ring::LARGEST;
use crate::shared::{BadName, SocketAddress, pairs};

/// What the names of these ports begin with.
pub const PREFIX: &str = "memif:";
/// What a name looks like.
const EXAMPLE: &str = "memif:/path/of.sock, memif:@name or memif:name, then perhaps ?role=master&id=1";

/// The side of the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// Listens on the socket; the other side makes the memory.
    Master,
    /// Connects to the socket, and makes the memory: nothing that the other side does to it can harm.
    #[default]
    Slave,
}

/// Options of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the control socket is.
    pub socket: SocketAddress,
    /// The side.
    pub role: Role,
    /// Number of the interface on that socket.
    pub id: u32,
    /// Slots of a ring, a power of two; the slave decides, within what the master can.
    pub ring: u16,
    /// Bytes of a buffer, where we make them. A longer packet takes several.
    pub buffer: u16,
    /// What both sides have to know, at most 24 bytes; nothing if it is empty.
    pub secret: String,
    /// As master: whether everybody who sees the socket may connect, or its owner only.
    pub is_open: bool,
    /// As master: whether memory that may shrink is taken. The other side can then end this process, so it has to be trusted.
    pub unsealed: bool,
    /// As slave: whether the master may give it [direct rings](super::direct). It has to be trusted.
    pub direct: bool,
}

impl Options {
    /// A slave with rings of 1,024 packets, in buffers of 2,048 bytes.
    pub fn new(socket: SocketAddress) -> Options {
        let (role, secret) = (Role::Slave, String::new());
        Options {
            socket,
            role,
            id: 0,
            ring: 1024,
            buffer: 2048,
            secret,
            is_open: false,
            unsealed: false,
            direct: false,
        }
    }

    /// With a path in place of one in a folder.
    #[must_use]
    pub fn in_folder(&self, folder: &Path) -> Options {
        match self.socket.below(folder) {
            Some(socket) => Options { socket, is_open: true, ..self.clone() },
            None => self.clone(),
        }
    }

    pub(crate) fn log2_ring(&self) -> u8 {
        (self.ring.max(1).ilog2() as u8).min(LARGEST)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u32>().map_err(|_| format!("{key}={value}: a number is wanted"));
        match key {
            "role" => {
                self.role = match value {
                    "master" => Role::Master,
                    "slave" => Role::Slave,
                    _ => return Err(format!("role={value}: it is master or slave")),
                }
            }
            "id" => self.id = number()?,
            "ring" => {
                let size =
                    u16::try_from(number()?).ok().filter(|n| n.is_power_of_two() && *n <= 1 << LARGEST);
                self.ring = size.ok_or_else(|| format!("ring={value}: it is a power of two up to 16384"))?;
            }
            "buffer" => {
                let size = u16::try_from(number()?).ok().filter(|n| (64..=32_768).contains(n) && n % 64 == 0);
                self.buffer =
                    size.ok_or_else(|| format!("buffer={value}: it is a multiple of 64, up to 32768"))?;
            }
            "secret" if value.len() > SECRET => return Err(format!("a secret has at most {SECRET} bytes")),
            "secret" => value.clone_into(&mut self.secret),
            "unsealed" => {
                self.unsealed =
                    value.parse().map_err(|_| format!("unsealed={value}: it is true or false"))?;
            }
            "direct" => {
                self.direct = value.parse().map_err(|_| format!("direct={value}: it is true or false"))?;
            }
            _ => {
                return Err(format!(
                    "there is no `{key}`, but role, id, ring, buffer, secret, unsealed and direct"
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for Options {
    type Err = BadName;

    /// Reads a name: `memif:` and the path of the socket (in the process's folder of ports, if it does not begin with `/`), or `@` and
    /// its abstract name; then, if there is something to say,
    /// `?` and pairs `key=value` with `&` between them. Keys are `role` (`slave`, `master`), `id`, `ring` (slots), `buffer`
    /// (bytes), `secret`, `unsealed` and `direct`.
    fn from_str(name: &str) -> Result<Options, BadName> {
        pairs(name, (PREFIX, EXAMPLE), Options::new, Options::set)
    }
}

impl fmt::Display for Options {
    /// The name. It says what differs from a slave of the usual size, but not the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.socket)?;
        let usual = Options::new(self.socket.clone());
        let role = match self.role {
            Role::Master => "master".to_owned(),
            Role::Slave => "slave".to_owned(),
        };
        let said = [
            (self.role != usual.role, "role", role),
            (self.id != usual.id, "id", self.id.to_string()),
            (self.ring != usual.ring, "ring", self.ring.to_string()),
            (self.buffer != usual.buffer, "buffer", self.buffer.to_string()),
            (self.unsealed, "unsealed", "true".to_owned()),
            (self.direct, "direct", "true".to_owned()),
        ];
        for (i, (_, key, value)) in said.into_iter().filter(|(said, ..)| *said).enumerate() {
            let between = if i == 0 { '?' } else { '&' };
            write!(f, "{between}{key}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in [
            "memif:/run/a.sock",
            "memif:@a b",
            "memif:a.sock",
            "memif:function/port?role=master",
            "memif:/run/a.sock?role=master",
            "memif:/run/a.sock?role=master&id=7&ring=64&buffer=4096&unsealed=true",
            "memif:left?direct=true",
        ] {
            assert_eq!(name.parse::<Options>().unwrap().to_string(), name);
        }
        let secret: Options = "memif:/a?secret=xyz&role=slave".parse().unwrap();
        assert_eq!((secret.secret.as_str(), secret.to_string().as_str()), ("xyz", "memif:/a"));
    }

    #[test]
    fn a_name_without_a_root_is_in_a_folder() {
        let options: Options = "memif:f/a?role=master".parse().unwrap();
        let placed = options.in_folder(Path::new("/run/ports"));
        assert_eq!((placed.socket, placed.is_open), (SocketAddress::Path("/run/ports/f/a".into()), true));
        let options: Options = "memif:/f/a?role=master".parse().unwrap();
        assert_eq!(options.in_folder(Path::new("/run/ports")), options);
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (name, what) in [
            ("memif:", "a path of at most"),
            ("memif:@", "a path of at most"),
            ("memif:../a.sock", "without .."),
            ("memif:a/./../b", "without .."),
            ("memif:/a?id", "not key=value"),
            ("memif:/a?id=x", "a number"),
            ("memif:/a?ring=1000", "a power of two"),
            ("memif:/a?buffer=100", "multiple of 64"),
            ("memif:/a?role=server", "master or slave"),
            ("memif:/a?color=red", "there is no `color`"),
        ] {
            let error = name.parse::<Options>().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
