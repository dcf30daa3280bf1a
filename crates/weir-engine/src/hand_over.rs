//! One data plane gives all that it has to another one, which takes its place: by the other's socket, as a client of it.
//!
//! Which of both runs is decided by one answer. The new one goes on when it has said that it does, and the old one when the new one has ended without
//! having said so: if it is not known, the new one is ended first.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_io::hand_over::PidFd;
use weir_protocol::{Answer, Client, Command, HandedPort};
use weir_table::Frozen;

use crate::engine::hand_over::{HandOver, Successor, WHOLE};
use crate::worker::Handle;

/// Most rounds in which what changed is copied while packets move.
const ROUNDS: usize = 6;
/// So few bytes need no further round.
const FEW: usize = 16 << 10;
/// How long the other one may take for an answer while nothing waits, and while packets do.
const PATIENCE: Duration = Duration::from_secs(60);
const WHILE_WAITING: Duration = Duration::from_secs(5);

/// The place that a data plane is to take: its socket becomes this one when it begins.
#[derive(Debug)]
pub(crate) struct ServedSocket {
    /// The socket of the other one.
    pub of: PathBuf,
    /// Its own, until it begins.
    own: Mutex<PathBuf>,
    /// Whether it has still to begin.
    waits: AtomicBool,
}

impl ServedSocket {
    /// Of a data plane with a socket of its own, which waits for the place of another if that has one.
    pub fn new(own: PathBuf, of: Option<PathBuf>) -> Arc<ServedSocket> {
        let waits = AtomicBool::new(of.is_some());
        let of = of.unwrap_or_else(|| own.clone());
        Arc::new(ServedSocket { of, own: Mutex::new(own), waits })
    }

    fn lock(&self) -> MutexGuard<'_, PathBuf> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.lock().clone()
    }

    /// Whether it waits for the place of another.
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    /// Takes the place: from now on clients of the other one's socket come to this one.
    pub fn take(&self) -> Result<(), String> {
        let mut own = self.lock();
        let shown = self.of.display();
        std::fs::rename(&*own, &self.of).map_err(|e| format!("the socket cannot become {shown}: {e}"))?;
        own.clone_from(&self.of);
        self.waits.store(false, Ordering::Release);
        Ok(())
    }
}

/// The data plane that takes the place, as the old one sees it.
pub(crate) struct Other {
    client: Client,
    process: PidFd,
}

impl Other {
    fn connect(socket: &str) -> Result<Other, String> {
        let mut client = Client::connect(socket).map_err(|e| weir_io::with_causes(&e))?;
        client.set_patience(PATIENCE).map_err(|e| e.to_string())?;
        let Answer::Hello { pid, .. } = ask(&mut client, Command::Hello)? else {
            return Err("it does not say which process it is".to_owned());
        };
        let process = PidFd::of(pid).map_err(|e| format!("process {pid}: {e}"))?;
        Ok(Other { client, process })
    }

    fn give(&mut self, graph: &str, round: String) -> Result<(), String> {
        let (graph, function) = (graph.to_owned(), WHOLE.to_owned());
        // Its elements may be others, but no table is lost.
        let leave = Some(Vec::new());
        ask(&mut self.client, Command::ImportRound { graph, function, round, leave }).map(drop)
    }

    /// Ends it, if it has not ended.
    fn end(&self) {
        if let Err(e) = self.process.kill() {
            eprintln!("weir: the data plane that was to take this one's place cannot be ended: {e}");
        }
    }
}

fn ask(client: &mut Client, command: Command) -> Result<Answer, String> {
    client.call(command).map_err(|e| format!("the other data plane: {}", weir_io::with_causes(&e)))
}

impl Successor for Other {
    fn round(&mut self, graph: &str, text: String) -> Result<(), String> {
        self.give(graph, text).map_err(|e| format!("graph '{graph}': {e}"))
    }

    fn begin(&mut self, ports: Vec<HandedPort>) -> Result<(), String> {
        let begin = Command::Begin { pid: std::process::id(), ports };
        ask(&mut self.client, begin).map(drop).inspect_err(|_| self.end())
    }
}

/// Hands over all that `handle`'s engine has; when this is done, the process has nothing more to do.
pub(crate) fn hand_over(handle: &Handle, own: &Path, socket: &str) -> Result<Answer, Vec<String>> {
    let one = |e: String| vec![e];
    let bound = handle.bound()?;
    if !bound.is_empty() {
        let why = bound.into_iter().map(|what| format!("this cannot go to another data plane: {what}"));
        return Err(why.collect());
    }
    let mut other = Other::connect(socket).map_err(one)?;
    let done = rounds(handle, &mut other).and_then(|before| {
        other.client.set_patience(WHILE_WAITING).map_err(|e| vec![e.to_string()])?;
        handle.give_place(other, before)
    });
    let HandOver { bytes, pause } = done.inspect_err(|_| {
        // It may have the other one's name by now; this process makes it again.
        let _ = std::fs::remove_file(own);
    })?;
    let pause_micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
    Ok(Answer::HandedOver { bytes, pause_micros })
}

/// Copies the state of all graphs while packets move.
fn rounds(handle: &Handle, other: &mut Other) -> Result<HashMap<String, Frozen>, Vec<String>> {
    let mut before: HashMap<String, Frozen> = HashMap::new();
    let mut last = usize::MAX;
    for _ in 0..ROUNDS {
        let mut bytes = 0;
        for graph in handle.graphs()? {
            let look = handle.look(&graph, WHOLE)?;
            let text = look.written(before.get(&graph)).map_err(|e| vec![e])?;
            bytes += text.len();
            before.insert(graph.clone(), look.frozen);
            other.round(&graph, text).map_err(|e| vec![e])?;
        }
        if bytes < FEW || bytes > last / 4 * 3 {
            break;
        }
        last = bytes;
    }
    Ok(before)
}
