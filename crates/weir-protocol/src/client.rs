//! The control side's end of the socket: blocking, one request at a time.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Answer, Command, Event, Reply, Request, VERSION};

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody serves on the socket.
    #[error("no data plane at {}", .socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The data plane speaks another version of the protocol.
    #[error(
        "the data plane speaks version {theirs} of the protocol, and this program version {VERSION}; both must come from one release"
    )]
    Version {
        /// Its version.
        theirs: u32,
    },
    /// The connection broke.
    #[error("the connection to the data plane broke")]
    Broken {
        /// How.
        source: io::Error,
    },
    /// The data plane closed the connection.
    #[error("the data plane closed the connection")]
    Closed,
    /// What came is not of the protocol.
    #[error("the data plane sent what is no answer: {what}")]
    Nonsense {
        /// What is wrong with it.
        what: String,
    },
    /// The data plane refused.
    #[error("{}", .errors.join("\n"))]
    Refused {
        /// Everything that was wrong.
        errors: Vec<String>,
    },
}

/// A connection to a data plane.
#[derive(Debug)]
pub struct Client {
    input: BufReader<UnixStream>,
    output: UnixStream,
    next: u64,
}

impl Client {
    /// Connects, and makes sure that both sides speak the same version.
    ///
    /// # Errors
    /// If nobody serves on the socket, or another version.
    pub fn connect(socket: impl AsRef<Path>) -> Result<Client, ClientError> {
        let socket = socket.as_ref();
        let fail = |source| ClientError::Connect { socket: socket.to_owned(), source };
        let output = UnixStream::connect(socket).map_err(fail)?;
        let input = BufReader::new(output.try_clone().map_err(fail)?);
        let mut client = Client { input, output, next: 1 };
        match client.call(Command::Hello)? {
            Answer::Hello { version: VERSION, .. } => Ok(client),
            Answer::Hello { version, .. } => Err(ClientError::Version { theirs: version }),
            other => Err(ClientError::Nonsense { what: format!("{other:?} in place of a greeting") }),
        }
    }

    /// Lets no answer be waited for longer than this.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn set_patience(&self, most: Duration) -> io::Result<()> {
        self.output.set_read_timeout(Some(most))?;
        self.output.set_write_timeout(Some(most))
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    /// If the data plane refuses, or the connection breaks.
    pub fn call(&mut self, command: Command) -> Result<Answer, ClientError> {
        let id = self.send(command)?;
        loop {
            match self.receive()? {
                Reply::Done { id: of, answer } if of == id => return Ok(answer),
                // Id 0: the data plane could not read whose fault it is.
                Reply::Failed { id: of, errors } if of == id || of == 0 => {
                    return Err(ClientError::Refused { errors });
                }
                // Late events of a stream that was given up.
                _ => {}
            }
        }
    }

    /// Starts a trace, a capture or a subscription. The events come until it ends; it is cancelled when the iterator is
    /// dropped.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub fn stream(&mut self, command: Command) -> Result<Events<'_>, ClientError> {
        let id = self.next;
        // Events may overtake the answer, since the engine does not wait.
        let id_sent = self.send(command)?;
        debug_assert_eq!(id, id_sent);
        let mut early = Vec::new();
        loop {
            match self.receive()? {
                Reply::Done { id: of, .. } if of == id => break,
                Reply::Failed { id: of, errors } if of == id || of == 0 => {
                    return Err(ClientError::Refused { errors });
                }
                Reply::Event { id: of, event } if of == id => early.push(event),
                _ => {}
            }
        }
        early.reverse();
        Ok(Events { client: self, id, early, over: false })
    }

    fn send(&mut self, command: Command) -> Result<u64, ClientError> {
        let id = self.next;
        self.next += 1;
        let mut line = serde_json::to_vec(&Request { id, command })
            .map_err(|e| ClientError::Nonsense { what: format!("the command cannot be written: {e}") })?;
        line.push(b'\n');
        self.output.write_all(&line).map_err(|source| ClientError::Broken { source })?;
        Ok(id)
    }

    fn receive(&mut self) -> Result<Reply, ClientError> {
        let mut line = Vec::new();
        // The data plane is trusted: it is what this program drives.
        let n = self.input.read_until(b'\n', &mut line).map_err(|source| ClientError::Broken { source })?;
        if n == 0 {
            return Err(ClientError::Closed);
        }
        serde_json::from_slice(&line).map_err(|e| ClientError::Nonsense { what: e.to_string() })
    }
}

/// The events of a trace, a capture or a subscription.
#[derive(Debug)]
pub struct Events<'a> {
    client: &'a mut Client,
    id: u64,
    /// Came before the answer; the first is last.
    early: Vec<Event>,
    over: bool,
}

impl Events<'_> {
    fn receive(&mut self) -> Result<Event, ClientError> {
        if let Some(event) = self.early.pop() {
            return Ok(event);
        }
        loop {
            if let Reply::Event { id, event } = self.client.receive()?
                && id == self.id
            {
                return Ok(event);
            }
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        match self.receive() {
            Ok(Event::End) => {
                self.over = true;
                None
            }
            Ok(event) => Some(Ok(event)),
            Err(e) => {
                self.over = true;
                Some(Err(e))
            }
        }
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        if !self.over {
            // If the connection is broken, nothing is left to cancel. The answer is skipped by the next call.
            let _ = self.client.send(Command::Cancel { request: self.id });
        }
    }
}
