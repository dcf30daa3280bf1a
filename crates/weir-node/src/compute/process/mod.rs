//! Functions in processes of their own: a Click script in a worker, which is a data plane for this function alone, without
//! privileges. Its ports are memory that it shares with the graph's data plane (memif).
//!
//! The worker speaks the protocol of the data plane. It runs what others wrote, so that nothing which it says is trusted: it can
//! answer wrongly for its own function, and nothing else.

mod zygote;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep, timeout};
use weir_protocol::{Answer, CONTROL, Command, MAX_LINE, SpawnRequest};

use super::cgroup::Cgroup;
use super::hosted::{ANSWER, Context, Hang, Main, Paths, SHELL, Workload, halted};
use super::launch::{Launch, mounts_for_others};
use super::sockets::Sockets;
use super::{ComputeError, OWN_GRAPH, netns};
use crate::connection::{CallError, Connection};
use crate::instance::{Kind, Spec, Work};
use crate::process;
use crate::traces::FunctionTrace;
use zygote::Zygote;

/// How long a worker may take until it can be spoken to, and for an answer.
const TIME: Duration = Duration::from_secs(10);
/// Most bytes that a worker may say at a time.
const MAX_ANSWER: usize = 1 << 20;
/// Longest text of a refusal, in characters, and most of them.
const MAX_REFUSAL: usize = 2000;
const MAX_REFUSALS: usize = 20;
/// Most reasons for drops that are listened to, over all elements.
const MAX_REASONS: usize = 1000;
/// How often it is tried to speak to it at first.
const STEP: Duration = Duration::from_millis(1);

/// The first of the users that workers become.
const FIRST_USER: u32 = 0x7000_0000;

/// The driver of functions in processes of their own.
#[derive(Debug)]
pub struct Process {
    sockets: Sockets,
    zygote: Zygote,
    /// Connections on which workers are asked whether they work, by the name of the function: each takes two threads of its worker.
    pulses: Mutex<HashMap<String, Arc<Connection>>>,
    /// The same for what is done to those that move, whose state may be long.
    moves: Mutex<HashMap<String, Arc<Connection>>>,
}

impl Process {
    /// With the folder of sockets; `zygote` is the command line of the process that workers are copies of.
    pub fn new(sockets: Sockets, zygote: Vec<OsString>) -> Process {
        Process { sockets, zygote: Zygote::new(zygote), pulses: Mutex::default(), moves: Mutex::default() }
    }

    /// A connection to a worker that may just be starting.
    async fn connect(
        &self,
        cx: &Context<'_>,
        worker: Option<process::Process>,
    ) -> Result<Connection, ComputeError> {
        let control = self.sockets.of(cx.paths).join(CONTROL);
        let until = Instant::now() + TIME;
        loop {
            match Connection::open_bounded(&control, MAX_ANSWER).await {
                Ok(connection) => return Ok(connection),
                Err(_) if worker.is_some_and(process::Process::lives) && Instant::now() < until => {
                    sleep(STEP).await;
                }
                Err(e) => return Err(ComputeError::system("cannot speak to the worker")(e)),
            }
        }
    }

    /// Whether a worker answers: the thread that moves its packets, not only the one that listens. It may take [`ANSWER`].
    async fn answers(&self, cx: &Context<'_>) -> bool {
        let name = &cx.paths.name;
        let pulses = || self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = async {
            let known = pulses().get(name).cloned();
            if let Some(connection) = known
                && connection.call(Command::List).await.is_ok()
            {
                return true;
            }
            // That was of the worker before, or there was none.
            let control = self.sockets.of(cx.paths).join(CONTROL);
            let Ok(new) = Connection::open_bounded(&control, MAX_ANSWER).await else { return false };
            let answers = new.call(Command::List).await.is_ok();
            pulses().insert(name.clone(), Arc::new(new));
            answers
        };
        let answers = timeout(ANSWER, asked).await.unwrap_or(false);
        if !answers {
            pulses().remove(name);
        }
        answers
    }

    /// The connection on which a worker's state is asked for. A new one, if its worker is another by now.
    async fn for_moves(&self, cx: &Context<'_>) -> std::io::Result<Arc<Connection>> {
        let moves = || self.moves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = moves().get(&cx.paths.name).filter(|c| !c.is_closed()) {
            return Ok(known.clone());
        }
        let new =
            Arc::new(Connection::open_bounded(&self.sockets.of(cx.paths).join(CONTROL), MAX_LINE).await?);
        moves().insert(cx.paths.name.clone(), new.clone());
        Ok(new)
    }

    async fn ask(&self, connection: &Connection, command: Command) -> Result<Answer, WorkerError> {
        let answer = timeout(TIME, connection.call(command)).await.map_err(|_| WorkerError::TimedOut)?;
        answer.map_err(WorkerError::from)
    }

    /// Gives a worker its function, in place of what it runs, whose tables it keeps.
    async fn load(&self, cx: &Context<'_>, connection: &Connection) -> Result<(), WorkerError> {
        let Work::Process { config, .. } = &cx.spec.work else { return Ok(()) };
        let command = Command::Load {
            graph: OWN_GRAPH.to_owned(),
            config: config.clone(),
            file: format!("{}.click", cx.spec.image),
            tag: String::new(),
            scope: None,
            memory: None,
        };
        self.ask(connection, command).await.map(drop)
    }
}

/// The reason why a worker did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
enum WorkerError {
    #[error("refuses: {0}")]
    Refused(String),
    #[error("does not answer: {0}")]
    Lost(String),
    #[error("does not answer within {} seconds", TIME.as_secs())]
    TimedOut,
}

impl WorkerError {
    /// Whether it did not answer, so that it is not known what it does.
    fn is_silence(&self) -> bool {
        matches!(self, WorkerError::Lost(_) | WorkerError::TimedOut)
    }

    fn of(self, cx: &Context<'_>) -> ComputeError {
        let (id, program, what) = (cx.id.clone(), Process::MAIN.to_owned(), self.to_string());
        ComputeError::Program { id, program, what, output: String::new() }
    }
}

impl From<CallError> for WorkerError {
    fn from(e: CallError) -> WorkerError {
        match e {
            CallError::Refused(errors) => {
                WorkerError::Refused(errors.join("; ").chars().take(MAX_REFUSAL).collect())
            }
            CallError::Lost(what) => WorkerError::Lost(what),
        }
    }
}

/// The user that a worker becomes: one of its own, since the kernel counts by user what all of them may take together. The range is
/// nobody's by the conventions of systemd (uids-gids).
fn user(paths: &Paths) -> u32 {
    let number = paths.sockets.get(..7).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    FIRST_USER + number.unwrap_or(0)
}

#[async_trait]
impl Workload for Process {
    const KIND: Kind = Kind::Process;
    const PORTS: &'static [&'static str] = &["memif"];
    const MAIN: &str = "the worker";
    // An update is a hot swap.
    const REMEMBERS: bool = true;
    const FRESH: bool = false;
    // It has answered by then.
    const TRIAL: Duration = Duration::ZERO;

    fn sockets(&self) -> Option<&Sockets> {
        Some(&self.sockets)
    }

    async fn start(&self, cx: &Context<'_>) -> Result<Option<Main>, ComputeError> {
        let request = SpawnRequest {
            id: 0,
            ports: self.sockets.of(cx.paths),
            netns: netns::path(&cx.paths.name),
            cgroups: Cgroup::named(&cx.paths.name).joined().cloned().collect(),
            log: cx.paths.log(),
            user: user(cx.paths),
        };
        let from = cx.log_length();
        let pid = self.zygote.spawn(request).await.map_err(ComputeError::system("cannot start a worker"))?;
        let worker = u32::try_from(pid).ok().and_then(process::Process::of);
        let begun = async {
            let connection = self.connect(cx, worker).await?;
            self.load(cx, &connection).await.map_err(|e| e.of(cx))
        };
        match begun.await {
            Ok(()) => Ok(worker.map(Main::Process)),
            Err(e) => {
                if worker.is_some_and(process::Process::lives) {
                    _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
                Err(cx.with_output(e, from))
            }
        }
    }

    /// The configuration may be another; what it may take may not.
    fn is_update(&self, before: &Spec, after: &Spec) -> bool {
        before.limits() == after.limits()
    }

    async fn update(&self, cx: &Context<'_>, _: &Spec) -> Result<bool, ComputeError> {
        let connection = self.connect(cx, None).await?;
        match self.load(cx, &connection).await {
            // It may come to it later, after something else was asked for: it is started again with what is asked for now.
            Err(e) if e.is_silence() => {
                tracing::warn!("function {} is started again: its worker {e}", cx.id);
                Ok(false)
            }
            done => done.map(|()| true).map_err(|e| e.of(cx)),
        }
    }

    async fn hang(&self, cx: &Context<'_>, main: Option<process::Process>) -> Option<Hang> {
        if let Some(hang) = halted(Self::MAIN, cx, main) {
            return Some(hang);
        }
        let what = format!("{} does not answer", Self::MAIN);
        (!self.answers(cx).await).then_some(Hang { what, cure: true })
    }

    /// With the node's programs, since the worker sees none, but in its namespaces otherwise, and as its user.
    fn inside(&self, cx: &Context<'_>) -> Launch {
        let worker = Cgroup::named(&cx.paths.name).processes().into_iter().min().unwrap_or_default();
        let user = user(cx.paths);
        let line = format!(
            "nsenter --target {worker} --pid --ipc --uts -- \
             setpriv --reuid {user} --regid {user} --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all --"
        );
        Launch {
            mounts: Some(mounts_for_others()),
            directory: "/".into(),
            prefix: line.split_whitespace().map(str::to_owned).collect(),
            ..cx.launch(vec![SHELL.to_owned()], true)
        }
    }

    async fn forget(&self, paths: &Paths) {
        for connections in [&self.pulses, &self.moves] {
            connections.lock().unwrap_or_else(PoisonError::into_inner).remove(&paths.name);
        }
    }

    async fn call(&self, cx: &Context<'_>, command: Command) -> Result<Answer, CallError> {
        let lost = |what: String| CallError::Lost(format!("{} of function {} {what}", Self::MAIN, cx.id));
        let asked = async {
            let connection =
                self.for_moves(cx).await.map_err(|e| lost(WorkerError::Lost(e.to_string()).to_string()))?;
            connection.call(command).await
        };
        match timeout(TIME, asked).await {
            Ok(Err(CallError::Refused(errors))) => {
                let short = |e: String| e.chars().take(MAX_REFUSAL).collect();
                Err(CallError::Refused(errors.into_iter().take(MAX_REFUSALS).map(short).collect()))
            }
            Ok(done) => done,
            Err(_) => Err(lost(WorkerError::TimedOut.to_string())),
        }
    }

    async fn drops(&self, cx: &Context<'_>) -> BTreeMap<String, u64> {
        let status = async {
            let connection = self.connect(cx, None).await?;
            self.ask(&connection, Command::Status { graph: OWN_GRAPH.to_owned() }).await.map_err(|e| e.of(cx))
        };
        let mut drops = BTreeMap::new();
        // One that does not answer counts nothing.
        if let Ok(Answer::Status { status }) = status.await {
            for (reason, count) in status.drops.values().flatten().take(MAX_REASONS) {
                let sum: &mut u64 = drops.entry(reason.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        drops
    }

    async fn trace(&self, cx: &Context<'_>, count: u32) -> Option<FunctionTrace> {
        let connection = self.connect(cx, None).await.ok()?;
        let (graph, filter, functions) = (OWN_GRAPH.to_owned(), String::new(), Vec::new());
        let command = Command::Trace { graph, filter, count, functions };
        let events = timeout(ANSWER, connection.stream(command)).await.ok()?.ok()?;
        Some((connection, events))
    }

    async fn handler(
        &self,
        cx: &Context<'_>,
        name: &str,
        value: Option<&str>,
    ) -> Result<String, ComputeError> {
        let Work::Process { handlers, .. } = &cx.spec.work else {
            return Err(ComputeError::Missing(cx.id.clone()));
        };
        let handler = handlers.get(name).ok_or_else(|| cx.no_handler(name))?.clone();
        let graph = OWN_GRAPH.to_owned();
        let command = match value {
            Some(value) => Command::Write { graph, handler, value: value.to_owned() },
            None => Command::Read { graph, handler },
        };
        let connection = self.connect(cx, None).await?;
        match self.ask(&connection, command).await.map_err(|e| e.of(cx))? {
            Answer::Text { text } => Ok(text),
            _ => Ok(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_no_silence_whatever_its_text_says() {
        let refused = WorkerError::from(CallError::Refused(vec!["x".into(), "does not answer".into()]));
        assert!(!refused.is_silence());
        assert_eq!(refused.to_string(), "refuses: x; does not answer");
        let lost = WorkerError::from(CallError::Lost("the connection ended".into()));
        assert!(lost.is_silence() && WorkerError::TimedOut.is_silence());
        assert_eq!(lost.to_string(), "does not answer: the connection ended");
    }

    #[test]
    fn a_refusal_is_cut() {
        let refused = WorkerError::from(CallError::Refused(vec!["ä".repeat(MAX_REFUSAL + 1)]));
        assert_eq!(refused.to_string().chars().count(), "refuses: ".len() + MAX_REFUSAL);
    }
}
