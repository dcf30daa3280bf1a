//! The scripts of an image.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::record::Paths;
use crate::compute::ComputeError;
use crate::compute::launch::Launch;
use crate::compute::netns;
use crate::instance::{InstanceId, NativeSpec};
use crate::process;

/// How long a script may take.
const TIME: Duration = Duration::from_secs(10);
/// Bytes of output that an error shows.
const TAIL: u64 = 600;
/// Most bytes that a handler says.
const MAX_ANSWER: u64 = 1 << 20;
/// A log that has grown to this is begun anew; the one before is kept beside it.
const MAX_LOG: u64 = 4 << 20;

/// Where and how scripts of a function run.
#[derive(Debug)]
pub(super) struct Scripts<'a> {
    pub id: &'a InstanceId,
    pub paths: &'a Paths,
    pub spec: &'a NativeSpec,
    pub launcher: &'a [OsString],
}

impl Scripts<'_> {
    /// The file of a script, if the image has it.
    fn file(&self, name: &str) -> Option<PathBuf> {
        let file = self.paths.image(self.spec).join("scripts").join(name);
        file.is_file().then_some(file)
    }

    /// Whether the image has a script.
    pub fn has(&self, name: &str) -> bool {
        self.file(name).is_some()
    }

    /// How a program is started where the function is.
    pub fn launch(&self, command: Vec<String>, terminal: bool) -> Launch {
        let text = |path: &Path| path.display().to_string();
        let ports: Vec<&str> = self.spec.ports.iter().map(|p| p.inside.as_str()).collect();
        let mut environment = vec![
            ("WEIR_GRAPH".to_owned(), self.id.graph.clone()),
            ("WEIR_FUNCTION".to_owned(), self.id.function.clone()),
            ("WEIR_IMAGE".to_owned(), text(&self.paths.image(self.spec))),
            ("WEIR_STATE".to_owned(), text(&self.paths.state())),
            ("WEIR_PORTS".to_owned(), ports.join(" ")),
        ];
        environment.extend(self.spec.params.iter().map(|(name, v)| (format!("PARAM_{name}"), v.clone())));
        let private = self.spec.native.private.iter().enumerate();
        Launch {
            netns: netns::path(&self.paths.name),
            cgroup: self.paths.name.clone(),
            private: private.map(|(i, seen)| (self.paths.private(i), seen.into())).collect(),
            directory: self.paths.state(),
            environment,
            terminal,
            command,
        }
    }

    fn command(&self, file: &Path, argument: Option<&str>) -> Result<Command, ComputeError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let command = [file.display().to_string()].into_iter().chain(argument.map(str::to_owned));
        let job = self.paths.job(NEXT.fetch_add(1, Ordering::Relaxed));
        let write = self.launch(command.collect(), false).write(&job);
        write.map_err(ComputeError::system(format!("cannot write {}", job.display())))?;
        let mut line = self.launcher.iter().cloned().chain([job.into()]);
        let program = line.next().unwrap_or_default();
        let arguments: Vec<OsString> = line.collect();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(false);
        Ok(command)
    }

    /// Runs a script to its end; one that the image does not have is none.
    pub async fn run(&self, name: &str) -> Result<(), ComputeError> {
        let Some(file) = self.file(name) else { return Ok(()) };
        let (log, from) = self.log()?;
        let mut command = self.command(&file, None)?;
        command.stdout(self.again(&log)?).stderr(log);
        let mut child = command.spawn().map_err(ComputeError::system(format!("cannot start {name}")))?;
        let failed = |what: String| self.failed(name, what, tail(&self.paths.log(), from));
        match ended(&mut child).await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failed(format!("failed ({})", said(status)))),
            Err(what) => Err(failed(what)),
        }
    }

    /// Starts the main process, if the image has one.
    pub fn main(&self) -> Result<Option<Child>, ComputeError> {
        let Some(file) = self.file("run") else { return Ok(None) };
        let (log, _) = self.log()?;
        let mut command = self.command(&file, None)?;
        command.stdout(self.again(&log)?).stderr(log);
        command.spawn().map(Some).map_err(ComputeError::system("cannot start run"))
    }

    /// Reads a handler, or writes it.
    pub async fn handler(&self, name: &str, value: Option<&str>) -> Result<String, ComputeError> {
        let script = format!("handlers/{name}");
        let Some(file) = self.file(&script) else {
            let what = format!("it has no file scripts/{script}");
            return Err(ComputeError::Image { image: self.spec.image.clone(), what });
        };
        let mut command = self.command(&file, Some(if value.is_some() { "write" } else { "read" }))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(ComputeError::system(format!("cannot start {script}")))?;
        let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let (Some(mut input), Some(value)) = (input, value) {
                // A script may end without reading all.
                _ = input.write_all(value.as_bytes()).await;
            }
        };
        let talk = async { tokio::join!(read(out), read(err), write) };
        let failed = |what: String, output: &str| self.failed(&script, what, one_line(output));
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

    fn failed(&self, script: &str, what: String, output: String) -> ComputeError {
        ComputeError::Script { id: self.id.clone(), script: script.to_owned(), what, output }
    }

    /// The log, and its length.
    fn log(&self) -> Result<(File, u64), ComputeError> {
        let path = self.paths.log();
        let open = || -> io::Result<(File, u64)> {
            bound(&path)?;
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        open().map_err(ComputeError::system(format!("cannot write {}", path.display())))
    }

    fn again(&self, log: &File) -> Result<File, ComputeError> {
        log.try_clone().map_err(ComputeError::system("cannot write the log twice"))
    }
}

/// What a script writes, up to a little more than the most that is taken.
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
    if !log.metadata().is_ok_and(|m| m.len() > MAX_LOG) {
        return Ok(());
    }
    std::fs::copy(log, log.with_extension("before"))?;
    OpenOptions::new().write(true).open(log)?.set_len(0)
}

/// Waits for a script's end, or ends it.
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

/// What is said of a script that takes too long.
fn late() -> String {
    format!("did not end within {} seconds and was killed", TIME.as_secs())
}

/// Kills a script with what it started, as far as that is still in its session.
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
