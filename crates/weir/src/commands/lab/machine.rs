//! Machines of a lab: network namespaces, and what runs in them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::ui::Failure;

/// How long a process has to end by itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// A process, which another one with its number is not taken for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pid: i32,
    /// When it began, in clock ticks since the machine did (proc(5), field 22 of `stat`).
    began: u64,
}

impl Process {
    pub fn of(pid: u32) -> Option<Process> {
        let pid = i32::try_from(pid).ok()?;
        Some(Process { pid, began: began(pid)? })
    }

    pub fn works(&self) -> bool {
        began(self.pid) == Some(self.began)
    }

    /// Asks it to end, and makes it end if it does not.
    pub fn end(&self) {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            if !self.works() {
                return;
            }
            // It may have ended just now.
            let _ = kill(Pid::from_raw(self.pid), signal);
            wait(|| !self.works());
        }
    }
}

/// When a process began; `None` if it has ended, though its parent may not know yet.
fn began(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" { None } else { fields.nth(18)?.parse().ok() }
}

/// Waits a bounded time.
pub(super) fn wait(mut holds: impl FnMut() -> bool) -> bool {
    for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
        if holds() {
            return true;
        }
        std::thread::sleep(LOOK);
    }
    holds()
}

/// The name of a machine's namespace.
pub(super) fn namespace(lab: &str, machine: &str) -> String {
    format!("{lab}-{machine}")
}

/// Runs a program of iproute2.
///
/// # Errors
/// What it printed.
pub(super) fn ip(arguments: &[&str]) -> Result<String, Failure> {
    run(Command::new("ip").args(arguments), &format!("ip {}", arguments.join(" ")))
}

/// Runs a program to its end.
///
/// # Errors
/// What it printed.
pub(super) fn run(command: &mut Command, shown: &str) -> Result<String, Failure> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| {
        Failure::refused(format!("cannot run {shown}: {e}; weir doctor says what is missing"))
    })?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    Err(Failure::refused(format!("{shown} failed: {said}")))
}

/// A program in a namespace; this program and those beside it are found by their names.
pub(super) fn inside(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{namespace}")).arg("--").arg(program);
    if let Some(folder) = ourselves().parent() {
        let before = std::env::var_os("PATH").unwrap_or_default();
        let all = [folder.to_owned()].into_iter().chain(std::env::split_paths(&before));
        if let Ok(path) = std::env::join_paths(all) {
            command.env("PATH", path);
        }
    }
    // A node of a lab is asked there, whatever context is in use.
    command.env_remove("WEIR_CONTEXT").env("WEIR_NODE", "http://127.0.0.1:7400");
    command
}

/// This program.
pub(super) fn ourselves() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "weir".into())
}

/// Starts a program that goes on after this one, its output in a file.
///
/// # Errors
/// It cannot be started.
pub(super) fn start(command: &mut Command, log: &Path) -> Result<Process, Failure> {
    use std::os::unix::process::CommandExt;
    let failed = |e: std::io::Error| {
        Failure::refused(format!("cannot start a program whose output goes to {}: {e}", log.display()))
    };
    let out = File::options().create(true).append(true).open(log).map_err(failed)?;
    let errors = out.try_clone().map_err(failed)?;
    let child =
        command.stdin(Stdio::null()).stdout(out).stderr(errors).process_group(0).spawn().map_err(failed)?;
    Process::of(child.id())
        .ok_or_else(|| Failure::refused(format!("it ended at once; see {}", log.display())))
}

/// The processes in a namespace.
pub(super) fn processes(namespace: &str) -> Vec<Process> {
    let list = ip(&["netns", "pids", namespace]).unwrap_or_default();
    list.lines().filter_map(|l| Process::of(l.trim().parse().ok()?)).collect()
}
