//! Starting, watching and ending other programs.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Where programs are, also those that only root uses.
const FOLDERS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/usr/lib/openvswitch-switch-dpdk",
];

/// The path of a program; an error that names its Debian package if it is not installed.
pub fn program(name: &str, package: &str) -> Result<PathBuf> {
    let found = FOLDERS.iter().map(|dir| Path::new(dir).join(name)).find(|p| p.exists());
    found.with_context(|| format!("{name} is not installed (Debian package {package})"))
}

/// Fails if this is not root.
pub fn need_root() -> Result<()> {
    ensure!(nix::unistd::geteuid().is_root(), "needs root");
    Ok(())
}

/// The version of a Debian package.
pub fn version(package: &str) -> String {
    let out = Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
    out.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned())
}

/// Runs a command to its end and gives what it wrote; `input` is its standard input.
pub fn run(command: &mut Command, input: &str) -> Result<String> {
    let shown = format!("{command:?}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| shown.clone())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).with_context(|| shown.clone())?;
    }
    let out = child.wait_with_output()?;
    ensure!(out.status.success(), "{shown}: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// A folder that goes away.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub fn new(name: &str) -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("weir-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Folder(path))
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that runs until this is dropped.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Running {
    /// Starts it.
    pub fn start(command: &mut Command) -> Result<Running> {
        let shown = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context(shown)?;
        let stdin = child.stdin.take();
        let (send, lines) = channel();
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(out).lines() {
                    let Ok(line) = line else { break };
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Running { child, stdin, lines })
    }

    /// Its process identifier.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("no standard input")?;
        Ok(writeln!(stdin, "{line}").and_then(|()| stdin.flush())?)
    }

    /// The next line of its output that `wanted` takes; waits for it at most ten seconds.
    pub fn hear<T>(&mut self, what: &str, mut wanted: impl FnMut(&str) -> Option<T>) -> Result<T> {
        let end = Instant::now() + Duration::from_secs(10);
        let mut last = String::new();
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => match wanted(&line) {
                    Some(found) => return Ok(found),
                    None => last = line,
                },
                Err(_) => bail!("it did not say {what}; its last line was: {last}"),
            }
        }
    }

    /// Processor time that its thread with this name has had.
    pub fn thread_time(&self, name: &str) -> Result<Duration> {
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in std::fs::read_dir(&tasks).with_context(|| tasks.clone())? {
            let task = task?.path();
            if std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.starts_with(name)) {
                return run_time(&task);
            }
        }
        bail!("it has no thread {name}")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The end of its input ends an interactive program too.
        self.stdin = None;
        _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let end = Instant::now() + Duration::from_secs(3);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                _ = self.child.kill();
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Time on a processor of a process or thread, by its folder in /proc.
pub fn run_time(task: &Path) -> Result<Duration> {
    let file = task.join("schedstat");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok());
    Ok(Duration::from_nanos(nanos.with_context(|| format!("{}: {text}", file.display()))?))
}

/// Huge pages (2 MB) reserved until this is dropped.
pub struct HugePages(u64);

impl HugePages {
    const FILE: &str = "/proc/sys/vm/nr_hugepages";

    /// So many more than there are; none if the kernel does not give them.
    pub fn reserve(pages: u64) -> Option<HugePages> {
        let wanted = HugePages::number()? + pages;
        std::fs::write(HugePages::FILE, wanted.to_string()).ok()?;
        let guard = HugePages(pages);
        (HugePages::number()? >= wanted).then_some(guard)
    }

    fn number() -> Option<u64> {
        std::fs::read_to_string(HugePages::FILE).ok()?.trim().parse().ok()
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // Others may have reserved some meanwhile: only these go.
        if let Some(number) = HugePages::number() {
            _ = std::fs::write(HugePages::FILE, number.saturating_sub(self.0).to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_spoken_to_watched_and_ended() {
        let mut shell = Command::new("sh");
        let mut shell = Running::start(shell.args(["-c", "while read x; do echo heard $x; done"])).unwrap();
        shell.say("one").unwrap();
        shell.say("two").unwrap();
        let two = shell.hear("two", |line| line.strip_prefix("heard t").map(str::to_owned));
        assert_eq!(two.unwrap(), "wo");
        assert!(shell.thread_time("sh").unwrap() > Duration::ZERO);
        assert!(shell.thread_time("no such").is_err());
        let folder = PathBuf::from(format!("/proc/{}", shell.child.id()));
        assert!(folder.exists());
        drop(shell);
        assert!(!folder.exists());
    }

    #[test]
    fn errors_say_what_ran_and_what_is_missing() {
        let error = run(Command::new("sh").args(["-c", "echo no luck >&2; exit 3"]), "").unwrap_err();
        assert!(error.to_string().ends_with("no luck"), "{error}");
        assert_eq!(run(&mut Command::new("cat"), "input").unwrap(), "input");
        let error = program("no-such-program", "some-package").unwrap_err().to_string();
        assert_eq!(error, "no-such-program is not installed (Debian package some-package)");
    }
}
