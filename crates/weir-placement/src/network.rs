//! What services are placed on: servers, switches, access points, and links between them (paper sections 3.1 and 3.2, the
//! graph D = (F, E)).

use thiserror::Error;

/// A server, a switch or an access point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexId(pub u32);

/// A link, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// Part of a domain that a module may ask for: a site, a country.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(pub u32);

/// A kind of function (inline, native, container …), as a bit of [`Server::kinds`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

/// A machine that runs modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Thousandths of a processor core.
    pub cpu: u32,
    /// MB.
    pub memory: u32,
    /// What modules on it may send each other, kbit/s.
    pub internal: u64,
    /// Where it stands.
    pub region: Region,
    /// Which kinds of function it runs: bit N is `Kind(N)`.
    pub kinds: u64,
}

/// A vertex of the network: a server or a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vertex {
    /// Runs modules.
    Server(Server),
    /// Forwards.
    Switch,
    /// Where traffic enters and leaves the domain (the paper's I/O node).
    Access,
}

/// A link, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Sender.
    pub from: VertexId,
    /// Receiver.
    pub to: VertexId,
    /// kbit/s.
    pub capacity: u64,
    /// In the unit of the demands' bounds.
    pub delay: u32,
}

/// A domain's vertices and links, before anything runs.
#[derive(Debug, Clone, Default)]
pub struct Network {
    pub(crate) vertices: Vec<Vertex>,
    pub(crate) links: Vec<Link>,
}

/// A network that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// A link's end is missing.
    #[error("link {link} has an end {vertex}, but there are only {vertices} vertices (0 to {})", vertices.saturating_sub(1))]
    NoVertex {
        /// Its number.
        link: usize,
        /// The end.
        vertex: u32,
        /// How many there are.
        vertices: usize,
    },
    /// More than can be counted.
    #[error("{what} of {at} is {value}; at most {most} is possible")]
    TooLarge {
        /// Which figure.
        what: &'static str,
        /// Of what.
        at: String,
        /// The figure.
        value: u64,
        /// The limit.
        most: u64,
    },
}

/// Most thousandths of a core and most MB of a server.
pub const MAX_RESOURCE: u32 = 1 << 30;
/// Most kbit/s of a link or inside a server.
pub const MAX_BANDWIDTH: u64 = 1 << 48;
/// Largest delay of a link.
pub const MAX_DELAY: u32 = 1 << 20;

impl Network {
    /// Without vertices.
    pub fn new() -> Network {
        Network::default()
    }

    /// Adds a vertex.
    pub fn add(&mut self, vertex: Vertex) -> VertexId {
        self.vertices.push(vertex);
        VertexId(self.vertices.len() as u32 - 1)
    }

    /// Adds a link in one direction.
    pub fn link(&mut self, from: VertexId, to: VertexId, capacity: u64, delay: u32) -> LinkId {
        self.links.push(Link { from, to, capacity, delay });
        LinkId(self.links.len() as u32 - 1)
    }

    /// Adds a link in each direction.
    pub fn cable(&mut self, a: VertexId, b: VertexId, capacity: u64, delay: u32) -> [LinkId; 2] {
        [self.link(a, b, capacity, delay), self.link(b, a, capacity, delay)]
    }

    /// All vertices: `VertexId(N)` is the one at N.
    pub fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }

    /// All links: `LinkId(N)` is the one at N.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    pub(crate) fn check(&self) -> Result<(), NetworkError> {
        let too_large = |what, at: String, value, most| {
            if value > most { Err(NetworkError::TooLarge { what, at, value, most }) } else { Ok(()) }
        };
        for (n, vertex) in self.vertices.iter().enumerate() {
            if let Vertex::Server(s) = vertex {
                let at = || format!("vertex {n}");
                too_large("cpu", at(), s.cpu.into(), MAX_RESOURCE.into())?;
                too_large("memory", at(), s.memory.into(), MAX_RESOURCE.into())?;
                too_large("internal bandwidth", at(), s.internal, MAX_BANDWIDTH)?;
            }
        }
        for (n, link) in self.links.iter().enumerate() {
            for end in [link.from, link.to] {
                if end.0 as usize >= self.vertices.len() {
                    let vertices = self.vertices.len();
                    return Err(NetworkError::NoVertex { link: n, vertex: end.0, vertices });
                }
            }
            too_large("capacity", format!("link {n}"), link.capacity, MAX_BANDWIDTH)?;
            too_large("delay", format!("link {n}"), link.delay.into(), MAX_DELAY.into())?;
        }
        Ok(())
    }
}
