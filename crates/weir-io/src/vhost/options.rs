//! What a vhost-user port is, and how that is written.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::shared::{BadName, SocketAddress, pairs};

/// What the names of these ports begin with.
pub const PREFIX: &str = "vhost-user:";
/// What a name looks like.
const EXAMPLE: &str =
    "vhost-user:/path/of.sock, vhost-user:@name or vhost-user:name, then perhaps ?role=client&queue=256";

/// The side that makes the connection. It does not change who is the device: that is always the port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// The port listens on the socket.
    #[default]
    Server,
    /// The port connects to it.
    Client,
}

/// Options of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the control socket is.
    pub socket: SocketAddress,
    /// Who connects.
    pub role: Role,
    /// Most descriptors of a ring, a power of two; the driver decides, within that.
    pub queue: u16,
    /// Most memory that a front end may share, in megabytes: what it has not touched yet, this process pays for. It does not count
    /// for one that is trusted.
    pub memory: u32,
    /// As server: whether everybody who sees the socket may connect, or its owner only.
    pub is_open: bool,
    /// Whether memory that may shrink is taken. The front end can then end this process, so it has to be trusted.
    pub unsealed: bool,
}

/// Most descriptors of a ring at all (virtio 1.2 section 2.7).
const LARGEST: u16 = 32_768;

impl Options {
    /// A server with rings of at most 1,024 descriptors, for at most a gigabyte of memory.
    pub fn new(socket: SocketAddress) -> Options {
        Options { socket, role: Role::Server, queue: 1024, memory: 1024, is_open: false, unsealed: false }
    }

    /// With a path in place of one in a folder.
    #[must_use]
    pub fn in_folder(&self, folder: &Path) -> Options {
        match self.socket.below(folder) {
            Some(socket) => Options { socket, is_open: true, ..self.clone() },
            None => self.clone(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "role" => {
                self.role = match value {
                    "server" => Role::Server,
                    "client" => Role::Client,
                    _ => return Err(format!("role={value}: it is server or client")),
                }
            }
            "queue" => {
                let size = value.parse().ok().filter(|n: &u16| n.is_power_of_two() && *n <= LARGEST);
                self.queue =
                    size.ok_or_else(|| format!("queue={value}: it is a power of two up to {LARGEST}"))?;
            }
            "memory" => {
                let size = value.parse().ok().filter(|&n: &u32| n > 0);
                self.memory =
                    size.ok_or_else(|| format!("memory={value}: a number of megabytes is wanted"))?;
            }
            "unsealed" => {
                self.unsealed =
                    value.parse().map_err(|_| format!("unsealed={value}: it is true or false"))?;
            }
            _ => return Err(format!("there is no `{key}`, but role, queue, memory and unsealed")),
        }
        Ok(())
    }
}

impl FromStr for Options {
    type Err = BadName;

    /// Reads a name: `vhost-user:` and the path of the socket (in the process's folder of ports, if it does not begin with `/`), or
    /// `@` and its abstract name; then, if there is something to say,
    /// `?` and pairs `key=value` with `&` between them. Keys are `role` (`server`, `client`), `queue` (descriptors), `memory`
    /// (megabytes) and `unsealed`.
    fn from_str(name: &str) -> Result<Options, BadName> {
        pairs(name, (PREFIX, EXAMPLE), Options::new, Options::set)
    }
}

impl fmt::Display for Options {
    /// The name. It says what differs from the usual.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.socket)?;
        let usual = Options::new(self.socket.clone());
        let said = [
            (self.role != usual.role, "role", "client".to_owned()),
            (self.queue != usual.queue, "queue", self.queue.to_string()),
            (self.memory != usual.memory, "memory", self.memory.to_string()),
            (self.unsealed, "unsealed", "true".to_owned()),
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
            "vhost-user:/run/a.sock",
            "vhost-user:@a b",
            "vhost-user:machine/a.sock",
            "vhost-user:/run/a.sock?role=client",
            "vhost-user:/run/a.sock?role=client&queue=256&memory=4096&unsealed=true",
        ] {
            assert_eq!(name.parse::<Options>().unwrap().to_string(), name);
        }
        let usual: Options = "vhost-user:/a?role=server&queue=1024&unsealed=false".parse().unwrap();
        assert_eq!(usual.to_string(), "vhost-user:/a");
        let placed = "vhost-user:f/a".parse::<Options>().unwrap().in_folder(Path::new("/run/ports"));
        assert_eq!((placed.socket, placed.is_open), (SocketAddress::Path("/run/ports/f/a".into()), true));
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (name, what) in [
            ("vhost-user:../a.sock", "without .."),
            ("vhost-user:/a?queue", "not key=value"),
            ("vhost-user:/a?queue=1000", "a power of two"),
            ("vhost-user:/a?queue=65536", "a power of two"),
            ("vhost-user:/a?memory=0", "a number of megabytes"),
            ("vhost-user:/a?role=master", "server or client"),
            ("vhost-user:/a?color=red", "there is no `color`"),
            ("vhost-user:/a?color=red", "write vhost-user:/path/of.sock"),
        ] {
            let error = name.parse::<Options>().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
