//! The data-plane process: a Unix socket on which the control side speaks [`weir_protocol`].

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_io::PortSpec;
use weir_plan::Classes;
use weir_protocol::{Answer, Command, Event, MAX_LINE, Reply, Request, ports_folder};

use crate::engine::Engine;
use crate::hand_over::ServedSocket;
use crate::options::WorkerOptions;
use crate::worker::{Handle, Worker};

/// Most connections at a time.
const MAX_CONNECTIONS: usize = 64;
/// Most traces, captures and subscriptions of one connection at a time.
const MAX_STREAMS: usize = 256;
/// Replies that wait for a client who does not read; events beyond are lost.
const WAITING_REPLIES: usize = 1024;
/// Commands that wait for those before them; a client that sends more waits.
const WAITING_CHANGES: usize = 64;
/// How often it is looked whether the socket is there.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is looked whether another data plane's place is taken.
const TAKES: Duration = Duration::from_millis(20);
/// How long the last answers of a data plane take whose place another has.
const LAST_ANSWER: Duration = Duration::from_millis(200);
/// How long a client may refuse to read before its connection is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the process cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process serves on this socket.
    #[error("another data plane runs on {}; stop it first, or choose another socket", .socket.display())]
    Running {
        /// The socket.
        socket: PathBuf,
    },
    /// The operating system refused something.
    #[error("{}: cannot {action}", .path.display())]
    Os {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The engine could not be started.
    #[error("cannot start the engine")]
    Engine {
        /// Why not.
        source: io::Error,
    },
}

/// Serves until [`Command::Shutdown`], SIGTERM or SIGINT. The socket may be used by its owner only, and is removed at
/// the end; beside it lies a lock file.
///
/// With the socket of another data plane in `takes`, this one is to take its place: it moves no packets until the other says so by [`Command::Begin`],
/// and has its socket from then on. It ends if nobody is connected to it before.
///
/// # Errors
/// If another process serves on the socket, or the operating system refuses something.
pub fn serve(
    socket: &Path,
    takes: Option<&Path>,
    classes: Classes,
    options: WorkerOptions,
) -> Result<(), ServeError> {
    let (lock, listener) = listen(socket)?;
    let place = ServedSocket::new(socket.to_owned(), takes.map(Path::to_owned));
    let options = WorkerOptions { parked: takes.is_some(), ..options };
    let ports = ports_folder(takes.unwrap_or(socket));
    let awaits = place.clone();
    let worker = start(classes, options, |engine| {
        engine.set_ports_folder(ports);
        if awaits.waits() {
            engine.set_openers(move || {
                let place = awaits.clone();
                Box::new(move |spec: &PortSpec| if place.waits() { Ok(spec.awaited()) } else { spec.open() })
            });
        }
    })?;
    let worker = worker.at(place.clone());
    if takes.is_some() {
        let (place, first) = (place.clone(), socket.to_owned());
        thread::spawn(move || lock_when_taken(&place, &first));
    }
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|source| ServeError::Engine { source })?;
    let asked = signals.handle();
    let handle = worker.handle().clone();
    let on_signal = thread::spawn(move || {
        if signals.forever().next().is_some() {
            // The worker may have ended already.
            let _ = handle.call(Command::Shutdown);
        }
    });
    serve_on(&place, listener, worker)?;
    asked.close();
    let _ = on_signal.join();
    drop(lock);
    Ok(())
}

/// Serves on a socket that somebody else has made, until [`Command::Shutdown`]; `ports`: the folder of devices that are named without
/// one. What elements print goes to standard output. The caller is to end the process then: threads may still wait for clients.
///
/// # Errors
/// The operating system refuses something.
pub fn serve_within(
    listener: UnixListener,
    classes: Classes,
    options: WorkerOptions,
    ports: PathBuf,
) -> Result<(), ServeError> {
    let printer = |text: &str| {
        // What a terminal would obey is a script's own; a log that is full or gone is no reason to stop.
        let text: String = text.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect();
        let _ = writeln!(io::stdout(), "{text}");
    };
    let worker = start(classes, options, |engine| {
        engine.set_ports_folder(ports);
        engine.set_printer(Box::new(printer));
    })?;
    let handle = worker.handle().clone();
    thread::spawn(move || accept(&listener, &handle, &AtomicBool::new(false)));
    worker.join();
    Ok(())
}

fn start(
    classes: Classes,
    options: WorkerOptions,
    setup: impl FnOnce(&mut Engine),
) -> Result<Worker, ServeError> {
    Worker::start(Arc::new(classes), options, setup).map_err(|source| ServeError::Engine { source })
}

/// When a data plane has taken the place of another: has the lock of that as well, as soon as the other has ended, for as long as this process lives.
fn lock_when_taken(place: &ServedSocket, first: &Path) {
    while place.waits() {
        thread::sleep(TAKES);
    }
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(lock_of(&place.socket()));
    match lock.and_then(|lock| lock.lock().map(|()| lock)) {
        Ok(_lock) => {
            let _ = fs::remove_file(lock_of(first));
            loop {
                thread::park();
            }
        }
        Err(e) => eprintln!("weir: the lock of {} cannot be had: {e}", place.socket().display()),
    }
}

fn lock_of(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Binds the socket under its lock, so that a socket that a killed process left behind is no obstacle.
fn listen(socket: &Path) -> Result<(File, UnixListener), ServeError> {
    let lock_path = lock_of(socket);
    let os = |path: &Path, action| {
        let path = path.to_owned();
        move |source| ServeError::Os { path, action, source }
    };
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&lock_path);
    let lock = lock.map_err(os(&lock_path, "open the lock file"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ServeError::Running { socket: socket.to_owned() }),
        Err(TryLockError::Error(source)) => return Err(os(&lock_path, "lock it")(source)),
    }
    match fs::remove_file(socket) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(os(socket, "remove the old socket")(e)),
        _ => {}
    }
    let listener = bind(socket).map_err(os(socket, "create the socket"))?;
    Ok((lock, listener))
}

/// A socket that only its owner may use.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves on a socket until the worker ends, and removes it, unless another data plane has it by then.
pub(crate) fn serve_on(
    place: &Arc<ServedSocket>,
    listener: UnixListener,
    worker: Worker,
) -> Result<(), ServeError> {
    let handle = worker.handle().clone();
    let over = Arc::new(AtomicBool::new(false));
    let (end, ended) = sync_channel::<()>(0);
    let serving = {
        let (over, place, handle) = (over.clone(), place.clone(), handle.clone());
        thread::spawn(move || serve_again(&place, listener, &handle, &over, &ended))
    };
    worker.join();
    over.store(true, Ordering::Relaxed);
    drop(end);
    if handle.is_given() {
        // Who asked for it gets its answer.
        thread::sleep(LAST_ANSWER);
        return Ok(());
    }
    let _ = serving.join();
    let socket = place.socket();
    match fs::remove_file(&socket) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(ServeError::Os { path: socket, action: "remove the socket", source })
        }
        _ => Ok(()),
    }
}

/// Accepts connections until the end. A socket that somebody has removed is made again: nobody could find this process, nor start
/// another, which the lock forbids.
fn serve_again(
    place: &ServedSocket,
    listener: UnixListener,
    handle: &Handle,
    over: &Arc<AtomicBool>,
    ended: &Receiver<()>,
) {
    let mut next = Some(listener);
    loop {
        if let Some(listener) = next.take() {
            let (handle, over) = (handle.clone(), over.clone());
            thread::spawn(move || accept(&listener, &handle, &over));
        }
        if !matches!(ended.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
            break;
        }
        let socket = &place.socket();
        let gone = matches!(socket.symlink_metadata(), Err(e) if e.kind() == io::ErrorKind::NotFound);
        // Its folder may be gone as well.
        next = gone.then(|| bind(socket).ok()).flatten();
        if next.is_some() {
            eprintln!("weir: the socket {} was removed; it is there again", socket.display());
        }
    }
    // Ends the wait for the next connection.
    drop(UnixStream::connect(place.socket()));
}

fn accept(listener: &UnixListener, handle: &Handle, over: &AtomicBool) {
    let open = Arc::new(AtomicUsize::new(0));
    let keys = Arc::new(AtomicU64::new(1));
    for stream in listener.incoming() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            // No descriptors left, most likely: some connection will end.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            refuse(stream);
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (handle, ends, keys, of) = (handle.clone(), handle.clone(), keys.clone(), open.clone());
        let started = thread::Builder::new().name("weir-client".to_owned()).spawn(move || {
            // A connection that breaks is the client's matter.
            let _ = Connection::serve(stream, handle, keys);
            if of.fetch_sub(1, Ordering::Relaxed) == 1 && ends.is_parked() {
                // Nobody is there any more who could give it something to do.
                let _ = ends.call(Command::Shutdown);
            }
        });
        if started.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn refuse(mut stream: UnixStream) {
    let errors = vec![format!("too many connections; at most {MAX_CONNECTIONS} are served")];
    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
    let _ = stream.write_all(&line(&Reply::Failed { id: 0, errors }));
}

fn line(reply: &Reply) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(reply).unwrap_or_else(|e| {
        let id = match reply {
            Reply::Done { id, .. } | Reply::Failed { id, .. } | Reply::Event { id, .. } => *id,
        };
        let failed = serde_json::json!({"failed": {"id": id, "errors": [format!("the answer cannot be written: {e}")]}});
        failed.to_string().into_bytes()
    });
    bytes.push(b'\n');
    bytes
}

/// One client.
struct Connection {
    handle: Handle,
    replies: SyncSender<Reply>,
    /// Ends of streams that find no place among the replies: these must not be lost.
    ends: Sender<Reply>,
    keys: Arc<AtomicU64>,
    /// Streams by the id of the request that started them.
    streams: HashMap<u64, u64>,
    /// Commands that change something, for a thread that carries them out in their order. Questions are answered
    /// meanwhile.
    changes: Option<SyncSender<Request>>,
}

impl Connection {
    fn serve(stream: UnixStream, handle: Handle, keys: Arc<AtomicU64>) -> io::Result<()> {
        let out = stream.try_clone()?;
        out.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let (replies, outbox) = sync_channel(WAITING_REPLIES);
        let (ends, late_ends) = channel();
        let write = move || write(out, &outbox, &late_ends);
        let writer = thread::Builder::new().name("weir-client-out".to_owned()).spawn(write)?;
        let mut this = Connection { handle, replies, ends, keys, streams: HashMap::new(), changes: None };
        let read = this.read(stream);
        for key in this.streams.values() {
            this.handle.cancel(*key);
        }
        drop(this);
        let _ = writer.join();
        read
    }

    fn read(&mut self, stream: UnixStream) -> io::Result<()> {
        let mut input = BufReader::new(stream);
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            let n = (&mut input).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut buffer)?;
            if n == 0 {
                return Ok(());
            }
            if n > MAX_LINE {
                self.fail(0, format!("the line is longer than {MAX_LINE} bytes"));
                return Ok(());
            }
            let text = buffer.trim_ascii();
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice::<Request>(text) {
                Ok(request) => {
                    let last = matches!(request.command, Command::Shutdown);
                    self.request(request);
                    if last {
                        return Ok(());
                    }
                }
                Err(e) => {
                    let id = serde_json::from_slice::<serde_json::Value>(text).ok();
                    let id = id.and_then(|v| v.get("id")?.as_u64()).unwrap_or(0);
                    self.fail(id, format!("this is not a request: {e}"));
                }
            }
        }
    }

    fn fail(&self, id: u64, error: String) {
        self.reply(Reply::Failed { id, errors: vec![error] });
    }

    fn reply(&self, reply: Reply) {
        // If the writer has ended, the client is gone, and reading ends too.
        let _ = self.replies.send(reply);
    }

    fn request(&mut self, Request { id, command }: Request) {
        let changes = matches!(
            command,
            Command::Load { .. }
                | Command::Unload { .. }
                | Command::Write { .. }
                | Command::Restore { .. }
                | Command::Export { .. }
                | Command::Import { .. }
                | Command::ExportRound { .. }
                | Command::ImportRound { .. }
                | Command::Exchange { .. }
                | Command::HandOver { .. }
                | Command::Begin { .. }
        );
        if changes {
            return self.change(Request { id, command });
        }
        let outcome = match command {
            Command::Cancel { request } => match self.streams.remove(&request) {
                Some(key) => {
                    self.handle.cancel(key);
                    Ok(Answer::Nothing)
                }
                None => Err(vec![format!("request {request} started nothing that could be cancelled")]),
            },
            Command::Trace { .. } | Command::Capture { .. } | Command::Subscribe => self.stream(id, command),
            command => self.handle.call(command),
        };
        self.reply(reply_of(id, outcome));
    }

    fn change(&mut self, request: Request) {
        let id = request.id;
        if self.changes.is_none() {
            let (changes, inbox) = sync_channel::<Request>(WAITING_CHANGES);
            let (handle, replies) = (self.handle.clone(), self.replies.clone());
            let work = move || {
                for Request { id, command } in inbox {
                    // If the writer has ended, the client is gone; what it asked for is done all the same.
                    let _ = replies.send(reply_of(id, handle.call(command)));
                }
            };
            match thread::Builder::new().name("weir-client-changes".to_owned()).spawn(work) {
                Ok(_) => self.changes = Some(changes),
                Err(e) => return self.fail(id, format!("there is no thread to do this: {e}")),
            }
        }
        let sent = match &self.changes {
            Some(changes) => changes.send(request).is_ok(),
            None => false,
        };
        if !sent {
            self.fail(id, "the thread that does this has ended".to_owned());
        }
    }

    fn stream(&mut self, id: u64, command: Command) -> Result<Answer, Vec<String>> {
        if self.streams.contains_key(&id) {
            return Err(vec![format!("request {id} is under way already; choose another id")]);
        }
        if self.streams.len() >= MAX_STREAMS {
            return Err(vec![format!(
                "too many traces, captures and subscriptions; cancel some of the {MAX_STREAMS}"
            )]);
        }
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        let (replies, ends) = (self.replies.clone(), self.ends.clone());
        let listener = Box::new(move |event| {
            // The engine never waits for a client: what finds no place is lost.
            match replies.try_send(Reply::Event { id, event }) {
                Ok(()) => true,
                Err(TrySendError::Full(end @ Reply::Event { event: Event::End, .. })) => {
                    ends.send(end).is_ok()
                }
                Err(TrySendError::Full(_)) => true,
                Err(TrySendError::Disconnected(_)) => false,
            }
        });
        let answer = self.handle.stream(key, command, listener)?;
        self.streams.insert(id, key);
        Ok(answer)
    }
}

fn reply_of(id: u64, outcome: Result<Answer, Vec<String>>) -> Reply {
    match outcome {
        Ok(answer) => Reply::Done { id, answer },
        Err(errors) => Reply::Failed { id, errors },
    }
}

fn write(mut out: UnixStream, outbox: &Receiver<Reply>, late_ends: &Receiver<Reply>) {
    while let Ok(reply) = outbox.recv() {
        // There are late ends only while replies wait, so that the loop comes by here again.
        for reply in [reply].into_iter().chain(late_ends.try_iter()) {
            if out.write_all(&line(&reply)).is_err() {
                // Ends the reader as well.
                let _ = out.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}
