//! The supervisor of the data-plane process: connects to it, starts it if none listens, and starts it again if it
//! dies. The process has a session of its own, so that it survives the daemon.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use process_wrap::std::{ChildWrapper, CommandWrap, ProcessSession};
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use weir_protocol::{Answer, Command, Event, VERSION};

use crate::connection::{CallError, Connection, DataPlane, EventStream};
use crate::process::{Process, tail};
use crate::upgrade::is_same_file;

/// How long a new process may take until it listens.
const START_TIME: Duration = Duration::from_secs(15);
/// How long a process may take to end.
const END_TIME: Duration = Duration::from_secs(10);
/// Pause before the first further attempt; doubled from one to the next.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Bytes of the process's log that an error shows.
const LOG_TAIL: u64 = 2000;

/// An event of the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEvent {
    /// The connection stands.
    Up {
        /// The process.
        pid: u32,
    },
    /// There is no connection; why.
    Down(String),
    /// The data plane tells something.
    Notice {
        /// The graph, if one is concerned.
        graph: Option<String>,
        /// What, see the protocol.
        what: String,
        /// More.
        text: String,
    },
}

/// Where the data plane listens, and how it is started.
#[derive(Debug, Clone)]
pub struct EnginePlace {
    /// Its socket.
    pub socket: PathBuf,
    /// Program and arguments; empty: it is never started from here.
    pub command: Vec<OsString>,
}

/// What is said while the process is started for the first time.
const STARTING: &str = "it is being started";

/// The data-plane process, whether or not it runs right now.
#[derive(Debug, Clone)]
pub struct Engine {
    state: watch::Receiver<Result<Arc<Connection>, String>>,
    /// Ends the supervision.
    over: Arc<watch::Sender<bool>>,
    place: EnginePlace,
    /// Whoever has this has no process started or connected to.
    held: Arc<Mutex<()>>,
}

/// A data plane that is to take the place of the one that runs. It ends when this is dropped before it has.
#[derive(Debug)]
pub(crate) struct Successor {
    connection: Connection,
    pid: u32,
    socket: PathBuf,
}

impl Successor {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl DataPlane for Successor {
    async fn call(&self, command: Command) -> Result<Answer, CallError> {
        self.connection.call(command).await
    }
}

impl Engine {
    /// Supervises until the task is dropped; `events` gets what happens.
    pub fn supervise(place: EnginePlace, events: mpsc::Sender<EngineEvent>) -> Engine {
        let (sender, state) = watch::channel(Err(STARTING.to_owned()));
        let (over, mut ended) = watch::channel(false);
        let held = Arc::new(Mutex::new(()));
        let (its_place, its_hold) = (place.clone(), held.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = run(its_place, its_hold, sender, events) => {}
                _ = ended.wait_for(|over| *over) => {}
            }
        });
        Engine { state, over: Arc::new(over), place, held }
    }

    /// Ends the process, and does not start it again. Returns when it has ended; one that does not end when it is asked to
    /// is killed.
    ///
    /// # Errors
    /// It could not be reached, or does not end.
    pub async fn stop(&self) -> Result<(), String> {
        // Nobody is to start another in its place.
        _ = self.over.send(true);
        let connection = match Connection::open(&self.place.socket).await {
            Ok(connection) => connection,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => return Ok(()),
            Err(e) => return Err(format!("cannot connect to {}: {e}", self.place.socket.display())),
        };
        let hello = connection.call(Command::Hello).await.map_err(|e| e.to_string())?;
        let Answer::Hello { pid, .. } = hello else {
            return Err(format!("it answered Hello with {hello:?}"));
        };
        let asked = timeout(END_TIME, connection.call(Command::Shutdown)).await;
        tracing::debug!("asked process {pid} to end: {asked:?}");
        if ends(pid).await {
            return Ok(());
        }
        tracing::warn!("process {pid} does not end; it is killed");
        let pid_of = nix::unistd::Pid::from_raw(i32::try_from(pid).map_err(|e| e.to_string())?);
        nix::sys::signal::kill(pid_of, nix::sys::signal::Signal::SIGKILL)
            .map_err(|e| format!("process {pid} cannot be killed: {e}"))?;
        if ends(pid).await { Ok(()) } else { Err(format!("process {pid} does not end")) }
    }

    /// Lets nobody start a process, or connect to another, as long as the answer is there.
    pub(crate) async fn hold(&self) -> OwnedMutexGuard<()> {
        self.held.clone().lock_owned().await
    }

    /// Whether a process runs the program that this daemon would start.
    pub(crate) fn is_of_this_program(&self, pid: u32) -> bool {
        let program = self.place.command.first().map(Path::new);
        program.is_some_and(|program| is_same_file(Path::new(&format!("/proc/{pid}/exe")), program))
    }

    /// The process that serves on the socket now.
    pub(crate) async fn serves(&self) -> Option<u32> {
        let connection = Connection::open(&self.place.socket).await.ok()?;
        match connection.call(Command::Hello).await {
            Ok(Answer::Hello { pid, .. }) => Some(pid),
            _ => None,
        }
    }

    /// Starts a data plane that is to take the place of this one.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) async fn successor(&self) -> Result<Successor, String> {
        let mut name = self.place.socket.as_os_str().to_owned();
        name.push(".next");
        let socket = PathBuf::from(name);
        let own = self.place.socket.as_os_str();
        let replaced = |a: &OsString| if a == own { socket.clone().into_os_string() } else { a.clone() };
        let mut command: Vec<OsString> = self.place.command.iter().map(replaced).collect();
        command.extend(["--takes-over".into(), own.to_owned()]);
        let connection = start(&EnginePlace { socket: socket.clone(), command }).await?;
        match connection.call(Command::Hello).await.map_err(|e| e.to_string())? {
            Answer::Hello { version: VERSION, pid, .. } => Ok(Successor { connection, pid, socket }),
            other => Err(format!("it answered Hello with {other:?}")),
        }
    }

    /// The connection; while the process is on its way for the first time, waits for it.
    async fn connection(&self) -> Result<Arc<Connection>, CallError> {
        let mut state = self.state.clone();
        let known = state.wait_for(|s| !matches!(s, Err(e) if e == STARTING));
        _ = timeout(START_TIME, known).await;
        self.state.borrow().clone().map_err(CallError::Lost)
    }

    /// Begins a trace or capture.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn stream(&self, command: Command) -> Result<EventStream, CallError> {
        self.connection().await?.stream(command).await
    }

    /// Why there is no connection, if there is none.
    pub fn trouble(&self) -> Option<String> {
        self.state.borrow().as_ref().err().cloned()
    }
}

impl DataPlane for Engine {
    async fn call(&self, command: Command) -> Result<Answer, CallError> {
        self.connection().await?.call(command).await
    }
}

async fn run(
    place: EnginePlace,
    held: Arc<Mutex<()>>,
    state: watch::Sender<Result<Arc<Connection>, String>>,
    events: mpsc::Sender<EngineEvent>,
) {
    let mut pause = FIRST_PAUSE;
    let mut reported = None;
    while !events.is_closed() {
        let free = held.lock().await;
        let connected = connect(&place).await;
        drop(free);
        let trouble = match connected {
            Ok((connection, pid, mut notices)) => {
                let connection = Arc::new(connection);
                _ = state.send_replace(Ok(connection.clone()));
                pause = FIRST_PAUSE;
                reported = None;
                _ = events.send(EngineEvent::Up { pid }).await;
                while let Some(event) = notices.next().await {
                    if let Event::Notice { graph, what, text } = event {
                        _ = events.send(EngineEvent::Notice { graph, what, text }).await;
                    }
                }
                if notices.overrun() {
                    // It reported more than could be taken; nothing is wrong with the rest.
                    continue;
                }
                connection.closed().await;
                format!("process {pid} ended or closed its connection")
            }
            Err(e) => e,
        };
        _ = state.send_replace(Err(trouble.clone()));
        if reported.as_ref() != Some(&trouble) {
            reported = Some(trouble.clone());
            _ = events.send(EngineEvent::Down(trouble)).await;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Waits until a process has ended; false if it does not.
async fn ends(pid: u32) -> bool {
    let Some(process) = Process::of(pid) else { return true };
    let until = Instant::now() + END_TIME;
    while process.lives() && Instant::now() < until {
        sleep(Duration::from_millis(5)).await;
    }
    !process.lives()
}

/// A connection to a process of the right version, its pid, and its notices.
async fn connect(place: &EnginePlace) -> Result<(Connection, u32, EventStream), String> {
    let connection = match Connection::open(&place.socket).await {
        Ok(c) => c,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            start(place).await?
        }
        Err(e) => return Err(format!("cannot connect to {}: {e}", place.socket.display())),
    };
    let pid = match connection.call(Command::Hello).await.map_err(|e| e.to_string())? {
        Answer::Hello { version: VERSION, pid, .. } => pid,
        Answer::Hello { version, pid, .. } => {
            return Err(format!(
                "process {pid} at {} speaks protocol version {version}, this daemon {VERSION}: end it, and the right one is started",
                place.socket.display()
            ));
        }
        other => return Err(format!("it answered Hello with {other:?}")),
    };
    let notices = connection.stream(Command::Subscribe).await.map_err(|e| e.to_string())?;
    Ok((connection, pid, notices))
}

async fn start(place: &EnginePlace) -> Result<Connection, String> {
    let socket = place.socket.display();
    let Some((program, arguments)) = place.command.split_first() else {
        return Err(format!("nothing listens at {socket}, and there is no command to start it"));
    };
    // A log of its own: what the daemon writes to may be gone when the daemon is.
    let log = place.socket.with_extension("log");
    let name = program.to_string_lossy();
    let spawned = spawn(program, arguments, &log);
    let mut child =
        spawned.map_err(|e| format!("cannot start {name} with its log at {}: {e}", log.display()))?;
    tracing::info!(pid = child.id(), "started the data plane");
    let until = Instant::now() + START_TIME;
    let failed = loop {
        if let Ok(connection) = Connection::open(&place.socket).await {
            // Reaped when it ends, if this daemon lives to see it.
            std::thread::spawn(move || child.wait());
            return Ok(connection);
        }
        match child.try_wait() {
            Ok(Some(status)) => break format!("{name} ended with {status}"),
            Ok(None) if Instant::now() < until => sleep(Duration::from_millis(20)).await,
            Ok(None) => {
                let seconds = START_TIME.as_secs();
                _ = child.start_kill();
                std::thread::spawn(move || child.wait());
                break format!("{name} does not listen at {socket} after {seconds} seconds");
            }
            Err(e) => break format!("{name}: {e}"),
        }
    };
    let end = tail(&log, 0, LOG_TAIL);
    Err(if end.is_empty() { failed } else { format!("{failed}; its log says: {end}") })
}

fn spawn(program: &OsString, arguments: &[OsString], log: &Path) -> std::io::Result<Box<dyn ChildWrapper>> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let mut command = CommandWrap::with_new(program, |c| {
        c.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    });
    command.wrap(ProcessSession).spawn()
}
