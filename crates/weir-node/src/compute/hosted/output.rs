//! Programs that are run for a function: with a bound on their time and output, which goes to the function's log.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::Context;
use crate::compute::ComputeError;
use crate::compute::launch::Launch;
use crate::process;

/// How long a program may take.
const TIME: Duration = Duration::from_secs(10);
/// Bytes of output that an error shows.
const TAIL: u64 = 600;
/// Most bytes that a handler says.
const MAX_ANSWER: u64 = 1 << 20;
/// A log that has grown to this is begun anew; the one before is kept beside it.
const MAX_LOG: u64 = 4 << 20;

impl Context<'_> {
    /// Runs a program to its end; `name` is what it is called in messages.
    pub async fn run(&self, name: &str, command: Command) -> Result<(), ComputeError> {
        let from = self.log_length();
        let mut child = self.start(name, command)?;
        let failed = |what: String| self.failed(name, what, tail(&self.paths.log(), from));
        match ended(&mut child).await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failed(format!("failed ({})", said(status)))),
            Err(what) => Err(failed(what)),
        }
    }

    /// The command that starts a program where the function is; `launcher` is the command line that leads to [`Launch::exec`].
    pub fn launched(&self, launcher: &[OsString], launch: &Launch) -> Result<Command, ComputeError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let job = self.paths.job(NEXT.fetch_add(1, Ordering::Relaxed));
        launch.write(&job).map_err(ComputeError::system(format!("cannot write {}", job.display())))?;
        let mut line = launcher.iter().cloned().chain([job.into()]);
        let mut command = Command::new(line.next().unwrap_or_default());
        command.args(line.collect::<Vec<OsString>>());
        Ok(command)
    }

    /// Starts a program that goes on.
    pub fn start(&self, name: &str, command: Command) -> Result<Child, ComputeError> {
        self.start_reading(name, command, Stdio::null())
    }

    /// The same with something to read.
    pub fn start_reading(
        &self,
        name: &str,
        mut command: Command,
        input: Stdio,
    ) -> Result<Child, ComputeError> {
        let log = self.log()?;
        let again = log.try_clone().map_err(ComputeError::system("cannot write the log twice"))?;
        command.stdin(input).stdout(again).stderr(log).kill_on_drop(false);
        command.spawn().map_err(ComputeError::system(format!("cannot start {name}")))
    }

    /// Runs a program that answers on standard output, with a value on its standard input, if there is one.
    pub async fn ask(
        &self,
        name: &str,
        mut command: Command,
        value: Option<&str>,
    ) -> Result<String, ComputeError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(false);
        let mut child = command.spawn().map_err(ComputeError::system(format!("cannot start {name}")))?;
        let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let (Some(mut input), Some(value)) = (input, value) {
                // It may end without reading all.
                _ = input.write_all(value.as_bytes()).await;
            }
        };
        let talk = async { tokio::join!(read(out), read(err), write) };
        let failed = |what: String, output: &str| self.failed(name, what, one_line(output));
        let Ok((answer, errors, ())) = timeout(TIME, talk).await else {
            kill(&child);
            _ = child.wait().await;
            return Err(failed(late(), ""));
        };
        match ended(&mut child).await {
            Ok(_) if answer.len() as u64 > MAX_ANSWER => {
                Err(failed(format!("said more than {MAX_ANSWER} bytes"), ""))
            }
            Ok(status) if status.success() => Ok(answer),
            Ok(status) => Err(failed(format!("failed ({})", said(status)), &errors)),
            Err(what) => Err(failed(what, &errors)),
        }
    }

    /// That a program failed.
    fn failed(&self, program: &str, what: String, output: String) -> ComputeError {
        ComputeError::Program { id: self.id.clone(), program: program.to_owned(), what, output }
    }

    /// An error with what the function has said since a place in its log.
    pub fn with_output(&self, e: ComputeError, from: u64) -> ComputeError {
        let said = tail(&self.paths.log(), from);
        match e {
            ComputeError::Program { id, program, what, output } if output.is_empty() => {
                ComputeError::Program { id, program, what, output: said }
            }
            ComputeError::System { what, source } if !said.is_empty() => ComputeError::System {
                what,
                source: io::Error::new(source.kind(), format!("{source}; it says: {said}")),
            },
            other => other,
        }
    }

    /// Bytes in the log.
    pub fn log_length(&self) -> u64 {
        self.paths.log().metadata().map_or(0, |m| m.len())
    }

    fn log(&self) -> Result<File, ComputeError> {
        let path = self.paths.log();
        let open = || -> io::Result<File> {
            bound(&path)?;
            OpenOptions::new().create(true).append(true).open(&path)
        };
        open().map_err(ComputeError::system(format!("cannot write {}", path.display())))
    }
}

/// What a program writes, up to a little more than the most that is taken.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What was read until an error is what there is.
        _ = pipe.take(MAX_ANSWER + 1).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Begins a log anew that has grown too long, and keeps what it had beside it. Whoever writes to it goes on: it is appended to.
pub(super) fn bound(log: &Path) -> io::Result<()> {
    let length = log.metadata().map_or(0, |m| m.len());
    if length <= MAX_LOG {
        return Ok(());
    }
    // No more than the end of it: who writes may also make it as long as they like.
    let mut end = File::open(log)?;
    end.seek(SeekFrom::Start(length - MAX_LOG))?;
    io::copy(&mut end.take(MAX_LOG), &mut File::create(log.with_extension("before"))?)?;
    OpenOptions::new().write(true).open(log)?.set_len(0)
}

/// Waits for a program's end, or ends it.
async fn ended(child: &mut Child) -> Result<ExitStatus, String> {
    match timeout(TIME, child.wait()).await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(e)) => Err(format!("cannot be waited for: {e}")),
        Err(_) => {
            kill(child);
            _ = child.wait().await;
            Err(late())
        }
    }
}

/// What is said of a program that takes too long.
fn late() -> String {
    format!("did not end within {} seconds and was killed", TIME.as_secs())
}

/// Kills a program with what it started, as far as that is still in its session.
fn kill(child: &Child) {
    if let Some(pid) = child.id().and_then(|p| i32::try_from(p).ok()) {
        // It may just have ended.
        _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        _ = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// How a program ended, in words.
pub(super) fn said(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => match Signal::try_from(signal) {
            Ok(name) => format!("killed by {name}"),
            Err(_) => format!("killed by signal {signal}"),
        },
        (None, None) => "it ended".to_owned(),
    }
}

/// The end of a log, from a place on, in one line.
pub(super) fn tail(log: &Path, from: u64) -> String {
    one_line(&process::tail(log, from, TAIL))
}

/// Text of a function in one line, without what a terminal would obey.
fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    let lines: Vec<&str> = clean.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines.join(" / ")
}
