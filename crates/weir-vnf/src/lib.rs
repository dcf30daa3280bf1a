//! A library for network functions that end connections (after libVNF): TCP and UDP, on the kernel's stack or one in user space.
//!
//! A function is a type with the trait [`Function`]: it is called when a connection is accepted, when data arrives, and when a
//! connection ends or fails. [`Vnf`] runs one event loop a core, each pinned, each with a copy of the function and its own listening
//! sockets (SO_REUSEPORT); a connection stays on the core that accepted or opened it, so that nothing but the [`Store`] is shared.
//!
//! A connection is also what is known of a peer of a UDP server: it begins with a datagram, and lasts as long as request objects are
//! linked to it; without any, until the callback of the datagram returns. So a server remembers no peer that it has nothing to do for.
//!
//! A **request object** (`Function::Request`) carries a request's state from one callback to the next. Several connections may be linked
//! to one object, and several objects to a connection (requests that are under way at once); it goes when the last of its connections is
//! unlinked or closed.
//!
//! ```
//! use weir_vnf::{Buffer, Connection, Core, Function, Protocol, Vnf};
//!
//! /// Sends back what it receives.
//! struct Echo;
//!
//! impl Function for Echo {
//!     type Request = ();
//!     fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
//!         if core.send(connection, data).is_err() {
//!             let _ = core.close(connection); // The peer does not read.
//!         }
//!     }
//! }
//!
//! let mut vnf = Vnf::new(2);
//! let (_, address) = vnf.server("127.0.0.1:0".parse()?, Protocol::Tcp, None)?;
//! let running = vnf.start(|| Echo)?;
//!
//! use std::io::{Read, Write};
//! let mut client = std::net::TcpStream::connect(address)?;
//! client.write_all(b"hello")?;
//! let mut reply = [0; 5];
//! client.read_exact(&mut reply)?;
//! assert_eq!(&reply, b"hello");
//! running.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

/// The page of the manual; its code in Rust is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/vnf.md")]
mod manual {}

mod buffer;
mod core;
mod notices;
mod remote;
mod requests;
mod socket;
mod stack;
mod store;
mod vnf;

pub use buffer::{BUFFER_SIZE, Buffer};
pub use core::{Connection, Core, SEND_LIMIT};
pub use notices::{Notice, NoticeError, Reason, SILENCE, Task};
pub use remote::{CacheUse, Redis, Swapped};
pub use requests::RequestId;
pub use stack::{Device, STACK_VARIABLE, Stack, StackCounters, StackError, UserStack};
pub use store::Store;
pub use vnf::{CALLBACK_LIMIT, Running, ServerId, Stopper, Vnf};

use std::net::SocketAddr;
use std::time::Duration;

/// Protocols of servers and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// A stream, in which nothing is lost or out of order.
    Tcp,
    /// Datagrams, which may be lost; one a buffer.
    Udp,
}

/// A network function. One value of it lives on each core; no two callbacks of a core run at once. A callback must not block: the other
/// connections of its core wait for it.
pub trait Function: Sized + 'static {
    /// State of one request.
    type Request: 'static;

    /// The loop of a core begins: the time to open connections that no request asks for.
    fn start(&mut self, core: &mut Core<Self>) {
        let _ = core;
    }

    /// A server of this function accepted a connection; a UDP server: a datagram came of a peer that there is no connection for.
    fn accept(&mut self, core: &mut Core<Self>, connection: Connection, server: ServerId) {
        let _ = (core, connection, server);
    }

    /// Data has come. TCP is a stream: the buffer may hold a part of a message, or several. A datagram of UDP is in one buffer.
    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer);

    /// All that waited to be sent on a connection because its peer (or the network) was slow is sent.
    fn sent(&mut self, core: &mut Core<Self>, connection: Connection) {
        let _ = (core, connection);
    }

    /// The peer will send nothing more ([`Error::PeerClosed`]), or the connection failed. After a failure it is closed by the library when
    /// this returns. After `PeerClosed` it is closed at once if no request object is linked to it, else when the last is unlinked: so a
    /// peer that half-closes behind its request gets its reply. After [`Error::TooLong`] the connection goes on.
    fn error(&mut self, core: &mut Core<Self>, connection: Connection, error: &Error) {
        let _ = (core, connection, error);
    }

    /// A callback (of this connection; `None`: [`Function::start`]) took longer than the limit ([`Vnf::set_callback_limit`]): it waited
    /// for something, or computed for too long, while all others of its core waited for it.
    fn blocked(&mut self, core: &mut Core<Self>, connection: Option<Connection>, took: Duration) {
        let _ = (core, connection, took);
    }

    /// An orchestrator that this function follows ([`Vnf::follow`]) says that a replica came or went, or cannot be understood. Each core
    /// gets each notice.
    fn notify(
        &mut self,
        core: &mut Core<Self>,
        orchestrator: SocketAddr,
        notice: &Result<Notice, NoticeError>,
    ) {
        let _ = (core, orchestrator, notice);
    }
}

/// Why a call, or a connection, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection was closed, or never was.
    #[error("no such connection on this core: it was closed, or belongs to another core")]
    UnknownConnection,
    /// The request object is gone, or never was.
    #[error("no such request object on this core: its last link is gone, or it belongs to another core")]
    UnknownRequest,
    /// The request object is linked to the connection already.
    #[error("the request object is linked to this connection already")]
    Linked,
    /// The request object is not linked to the connection.
    #[error("the request object is not linked to this connection: attach or link it first")]
    NotLinked,
    /// The peer does not read as fast as is sent; UDP: the network card does not send as fast.
    #[error(
        "more than {SEND_LIMIT} bytes wait to be sent on this connection, or the kernel takes no datagram now"
    )]
    SendQueueFull,
    /// A datagram of more than [`BUFFER_SIZE`] bytes came, and is thrown away; or one was to be sent.
    #[error("a datagram has more than {BUFFER_SIZE} bytes")]
    TooLong,
    /// There is no remote state.
    #[error("this function has no remote state: Vnf::remote says where Redis is")]
    NoRemote,
    /// Redis did not answer in time.
    #[error("Redis did not answer within {0:?}: whether a change was or will be made is not known")]
    RemoteTimeout(Duration),
    /// The connection with Redis ended before an answer came.
    #[error("the connection with Redis was lost: whether a change was made is not known")]
    RemoteLost,
    /// Redis refused.
    #[error("Redis refused: {0}")]
    RemoteRefused(String),
    /// This core has as many connections as it can name.
    #[error("too many connections on one core: at most {}", core::MAX_CONNECTIONS)]
    TooManyConnections,
    /// The peer has closed its side.
    #[error("the peer closed its side of the connection")]
    PeerClosed,
    /// The environment describes no stack.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The operating system refused.
    #[error("the operating system refused: {what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
}
