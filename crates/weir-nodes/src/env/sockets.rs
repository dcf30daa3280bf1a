//! Control sockets: listeners and clients in threads of their own, which hand requests to the engine.
//!
//! A server outlives a hot swap: who opens the same address again gets the same server.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use weir_io::Waker;
use weir_io::inbox::{self, inbox};

/// Clients at a time.
const MAX_CLIENTS: usize = 64;
/// The longest line, and the most data, that a client may send.
const MAX_DATA: u64 = 1 << 20;
/// Ports that are tried for `PORT+`.
const PORTS_TRIED: u16 = 100;

/// Kinds of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// A TCP port.
    Tcp,
    /// A name in the file system.
    Unix,
}

/// A call of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A read handler and its parameter.
    Read(String, String),
    /// A write handler and the value.
    Write(String, String),
    /// Whether a handler can be read.
    CheckRead(String),
    /// Whether a handler can be written.
    CheckWrite(String),
}

/// A request that the threads hand to the engine.
pub enum Request {
    /// A client waits for the answer.
    Call {
        /// What it asks for.
        call: Call,
        /// Takes the answer.
        reply: Sender<Reply>,
    },
    /// A client came or went.
    Report(String),
}

/// The answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Three digits.
    pub code: u16,
    /// The first line.
    pub text: String,
    /// Further lines.
    pub more: Vec<String>,
    /// The value.
    pub data: Option<String>,
}

impl Reply {
    /// An answer of one line.
    pub fn new(code: u16, text: impl Into<String>) -> Reply {
        Reply { code, text: text.into(), more: Vec::new(), data: None }
    }

    /// The same with a value.
    pub fn with(self, data: String) -> Reply {
        Reply { data: Some(data), ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut lines = vec![self.text.as_str()];
        lines.extend(self.more.iter().map(String::as_str));
        let last = lines.len() - 1;
        let mut out = String::new();
        for (i, line) in lines.iter().enumerate() {
            let mark = if i == last { ' ' } else { '-' };
            out.push_str(&format!("{}{mark}{line}\r\n", self.code));
        }
        if let Some(data) = &self.data {
            out.push_str(&format!("DATA {}\r\n{data}", data.len()));
        }
        out.into_bytes()
    }
}

/// All control sockets of an engine.
#[derive(Default)]
pub struct Sockets {
    open: BTreeMap<(Where, String), Weak<Server>>,
}

impl Sockets {
    /// Listens at an address, or finds who does so already.
    pub fn open(
        &mut self,
        kind: Where,
        address: &str,
        local: bool,
        waker: Waker,
    ) -> Result<Arc<Server>, String> {
        let key = (kind, address.to_owned());
        if let Some(server) = self.open.get(&key).and_then(Weak::upgrade) {
            return Ok(server);
        }
        let listener = Listener::open(kind, address, local)?;
        let server = Server::start(listener, waker).map_err(|e| format!("{address}: {e}"))?;
        self.open.retain(|_, server| server.strong_count() > 0);
        self.open.insert(key, Arc::downgrade(&server));
        Ok(server)
    }
}

/// A socket that clients connect to.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, String),
}

impl Listener {
    pub(crate) fn open(kind: Where, address: &str, local: bool) -> Result<Listener, String> {
        if kind == Where::Unix {
            // One that nobody listens to is left from a process that was killed.
            if UnixStream::connect(address).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
                let _ = std::fs::remove_file(address);
            }
            let listener = UnixListener::bind(address).map_err(|e| format!("{address}: {e}"))?;
            return Ok(Listener::Unix(listener, address.to_owned()));
        }
        let (number, more) = match address.strip_suffix('+') {
            Some(number) => (number, PORTS_TRIED),
            None => (address, 0),
        };
        let port: u16 = number
            .parse()
            .map_err(|_| format!("'{address}' is not a TCP port: a number up to 65535, or N+"))?;
        let host = if local { "127.0.0.1" } else { "0.0.0.0" };
        let mut result = TcpListener::bind((host, port));
        for next in (port..=port.saturating_add(more)).skip(1) {
            if !matches!(&result, Err(e) if e.kind() == io::ErrorKind::AddrInUse) {
                break;
            }
            result = TcpListener::bind((host, next));
        }
        result.map(Listener::Tcp).map_err(|e| format!("TCP port {address}: {e}"))
    }

    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Listener::Tcp(l) => l.local_addr().ok().map(|a| a.port()),
            Listener::Unix(..) => None,
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(l) => Ok(Stream::Tcp(l.accept()?.0)),
            Listener::Unix(l, _) => Ok(Stream::Unix(l.accept()?.0)),
        }
    }

    /// Ends a call of `accept`, by a client that says nothing.
    pub(crate) fn wake(&self) {
        // If nobody can connect, nobody waits either.
        let _ = match self {
            Listener::Tcp(l) => {
                l.local_addr().and_then(|a| TcpStream::connect(("127.0.0.1", a.port()))).map(drop)
            }
            Listener::Unix(_, name) => UnixStream::connect(name).map(drop),
        };
        if let Listener::Unix(_, name) = self {
            let _ = std::fs::remove_file(name);
        }
    }
}

/// A connection with a client.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(s) => Stream::Tcp(s.try_clone()?),
            Stream::Unix(s) => Stream::Unix(s.try_clone()?),
        })
    }

    /// How long a write may wait for the other side.
    pub(crate) fn set_write_timeout(&self, time: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_write_timeout(Some(time)),
            Stream::Unix(s) => s.set_write_timeout(Some(time)),
        }
    }

    pub(crate) fn close(&self) {
        // The other side may have closed it already.
        let _ = match self {
            Stream::Tcp(s) => s.shutdown(std::net::Shutdown::Both),
            Stream::Unix(s) => s.shutdown(std::net::Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.read(buf),
            Stream::Unix(s) => s.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.write(buf),
            Stream::Unix(s) => s.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listener and its clients. It ends with its last owner.
pub struct Server {
    /// Requests that nobody has answered yet.
    pub waiting: Arc<AtomicUsize>,
    requests: Mutex<Receiver<Request>>,
    listener: Arc<Listener>,
    clients: Clients,
    closed: Arc<AtomicBool>,
}

type Clients = Arc<Mutex<BTreeMap<usize, Stream>>>;

impl Server {
    fn start(listener: Listener, waker: Waker) -> io::Result<Arc<Server>> {
        let (sender, requests) = inbox(waker);
        let server = Arc::new(Server {
            waiting: Arc::default(),
            requests: Mutex::new(requests),
            listener: Arc::new(listener),
            clients: Arc::default(),
            closed: Arc::default(),
        });
        let (listener, clients, closed) =
            (server.listener.clone(), server.clients.clone(), server.closed.clone());
        let desk = Desk { sender, waiting: server.waiting.clone() };
        thread::Builder::new()
            .name("weir-control".to_owned())
            .spawn(move || listen(&listener, &clients, &closed, &desk))?;
        Ok(server)
    }

    /// The TCP port, if it is one.
    pub fn port(&self) -> Option<u16> {
        self.listener.port()
    }

    /// A request that waits.
    pub fn next(&self) -> Option<Request> {
        let request = self.requests.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(request)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        self.listener.wake();
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.values().for_each(Stream::close);
    }
}

fn listen(listener: &Listener, clients: &Clients, closed: &AtomicBool, desk: &Desk) {
    let mut id = 0;
    while let Ok(stream) = listener.accept() {
        if closed.load(Ordering::Acquire) {
            return;
        }
        id += 1;
        let mut list = clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(copy) = stream.clone() else { continue };
        if list.len() >= MAX_CLIENTS {
            stream.close();
            continue;
        }
        list.insert(id, copy);
        drop(list);
        let (clients, desk) = (clients.clone(), desk.clone());
        let mut stream = Some(stream);
        let spawned = thread::Builder::new().name("weir-client".to_owned()).spawn(move || {
            desk.report("opened connection");
            if let Some(stream) = stream.take() {
                // A client that breaks off is no error of ours.
                let _ = serve(stream, &desk);
            }
            desk.report("closed connection");
            clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        });
        drop(spawned);
    }
}

/// The end of the queue where requests are handed in.
#[derive(Clone)]
struct Desk {
    sender: inbox::Sender<Request>,
    waiting: Arc<AtomicUsize>,
}

impl Desk {
    fn hand_in(&self, request: Request) -> bool {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let taken = self.sender.send(request).is_ok();
        if !taken {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        taken
    }

    fn report(&self, text: &str) {
        self.hand_in(Request::Report(text.to_owned()));
    }

    fn ask(&self, call: Call) -> Option<Reply> {
        let (reply, answer) = channel();
        self.hand_in(Request::Call { call, reply }).then(|| answer.recv().ok()).flatten()
    }
}

/// The protocol, with one client.
fn serve(stream: Stream, desk: &Desk) -> io::Result<()> {
    let mut out = stream.clone()?;
    let mut input = BufReader::new(stream);
    out.write_all(b"Click::ControlSocket/1.3\r\n")?;
    loop {
        let Some(line) = line(&mut input)? else { return Ok(()) };
        let (command, rest) = line.trim_start().split_once(' ').unwrap_or((line.trim(), ""));
        let command = command.trim().to_ascii_uppercase();
        let mut words = rest.split_whitespace();
        let (name, second) = (words.next().unwrap_or_default().to_owned(), words.next());
        let params =
            rest.trim_start().strip_prefix(name.as_str()).unwrap_or_default().trim_start().to_owned();
        let lacks_name =
            !matches!(command.as_str(), "" | "HELP" | "QUIT" | "CLOSE" | "EXIT") && name.is_empty();
        let reply = match command.as_str() {
            "" => continue,
            "HELP" => help(),
            "QUIT" | "CLOSE" | "EXIT" => {
                out.write_all(&Reply::new(200, "Goodbye!").bytes())?;
                return Ok(());
            }
            "READ" | "READDATA" | "READUNTIL" | "WRITE" | "WRITEDATA" | "WRITEUNTIL" | "CHECKREAD"
            | "CHECKWRITE" | "SET" | "GET" | "LLRPC"
                if lacks_name =>
            {
                Reply::new(500, "Wrong number of arguments")
            }
            "CHECKREAD" => asked(desk, Call::CheckRead(name))?,
            "CHECKWRITE" => asked(desk, Call::CheckWrite(name))?,
            "READ" | "GET" => asked(desk, Call::Read(name, params))?,
            "WRITE" | "SET" => asked(desk, Call::Write(name, params))?,
            "READDATA" | "WRITEDATA" => match second.map(str::parse) {
                Some(Ok(n)) if n <= MAX_DATA => {
                    let data = exactly(&mut input, n)?;
                    asked(
                        desk,
                        if command == "READDATA" { Call::Read(name, data) } else { Call::Write(name, data) },
                    )?
                }
                Some(Ok(_)) => {
                    // What follows cannot be distinguished from commands.
                    out.write_all(&Reply::new(521, "Data too large").bytes())?;
                    return Ok(());
                }
                _ => Reply::new(500, format!("Syntax error in '{}'", command.to_lowercase())),
            },
            "READUNTIL" | "WRITEUNTIL" => {
                let data = until(&mut input, second.unwrap_or_default())?;
                asked(
                    desk,
                    if command == "READUNTIL" { Call::Read(name, data) } else { Call::Write(name, data) },
                )?
            }
            "LLRPC" => {
                if let Some(Ok(n)) = second.map(str::parse) {
                    exactly(&mut input, n)?;
                }
                Reply::new(501, format!("Cannot call LLRPC '{name}' remotely"))
            }
            other => Reply::new(501, format!("Command '{}' unimplemented", other.to_lowercase())),
        };
        out.write_all(&reply.bytes())?;
    }
}

fn asked(desk: &Desk, call: Call) -> io::Result<Reply> {
    desk.ask(call).ok_or_else(|| io::Error::other("the graph is gone"))
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("more than {MAX_DATA} bytes"))
}

/// A line without its end (CR, LF or CRLF); `None` at the end of the stream.
fn line(input: &mut BufReader<Stream>) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let n = input.by_ref().take(MAX_DATA).read_until(b'\n', &mut bytes)?;
    if n == 0 {
        return Ok(None);
    }
    if !bytes.ends_with(b"\n") && n as u64 >= MAX_DATA {
        return Err(too_long());
    }
    while bytes.ends_with(b"\n") || bytes.ends_with(b"\r") {
        bytes.pop();
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn exactly(input: &mut BufReader<Stream>, n: u64) -> io::Result<String> {
    if n > MAX_DATA {
        return Err(too_long());
    }
    let mut bytes = vec![0; n as usize];
    input.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn until(input: &mut BufReader<Stream>, end: &str) -> io::Result<String> {
    let mut data = String::new();
    while let Some(line) = line(input)? {
        if line.trim_end() == end {
            break;
        }
        data.push_str(&line);
        data.push('\n');
        if data.len() as u64 > MAX_DATA {
            return Err(too_long());
        }
    }
    Ok(data)
}

fn help() -> Reply {
    let mut reply = Reply::new(200, "Commands supported:");
    let lines = [
        "READ handler [arg...]   value of a read handler",
        "READDATA handler n      the same, its parameter in n bytes behind the line",
        "READUNTIL handler end   the same, its parameter in lines up to end",
        "WRITE handler [arg...]  call of a write handler",
        "WRITEDATA handler n     the same, the value in n bytes behind the line",
        "WRITEUNTIL handler end  the same, the value in lines up to end",
        "CHECKREAD handler       whether a handler can be read",
        "CHECKWRITE handler      whether a handler can be written",
        "QUIT                    ends the connection",
    ];
    reply.more.extend(lines.map(str::to_owned));
    reply
}
