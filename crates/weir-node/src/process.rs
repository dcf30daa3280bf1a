//! Processes by their number, and the ends of their logs.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

/// A process, told from later ones with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did.
    started: u64,
}

impl Process {
    /// The one with this number, unless it has ended.
    pub fn of(pid: u32) -> Option<Process> {
        Some(Process { pid, started: started(pid)? })
    }

    /// Whether it has not ended. One that only waits for its parent has.
    pub fn lives(self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Whether it has asked for a signal (proc(5), `/proc/PID/status`: `SigCgt`, `SigBlk`), or is one that a signal ends all the same, since it is
    /// not the first of its process namespace.
    pub fn heeds(self, signal: Signal) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        let first = field("NSpid:").is_some_and(|n| n.split_whitespace().nth(1) == Some("1"));
        let mask = |name: &str| field(name).and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
        !first || (mask("SigCgt:") | mask("SigBlk:")) & (1 << (signal as u32 - 1)) != 0
    }
}

/// Why a process does not go on although it has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// A signal has stopped it, such as SIGSTOP.
    Stopped,
    /// Another process traces it: a debugger.
    Traced,
}

impl Process {
    /// Why it does not go on, if it does not (proc(5), `/proc/PID/stat`, field 3).
    pub fn halt(self) -> Option<Halt> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        match stat.rsplit(')').next()?.split_whitespace().next()? {
            "T" => Some(Halt::Stopped),
            "t" => Some(Halt::Traced),
            _ => None,
        }
    }
}

/// When a process started, unless it has ended (proc(5), `/proc/PID/stat`: fields 3 and 22).
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X");
    let started = fields.nth(18)?.parse().ok()?;
    (!ended).then_some(started)
}

/// The end of a log: at most so many bytes, and none before a place.
pub fn tail(log: &Path, from: u64, bytes: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(bytes)).min(length)))?;
        let mut end = Vec::new();
        file.take(bytes).read_to_end(&mut end)?;
        Ok(String::from_utf8_lossy(&end).trim().to_owned())
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_when_it_only_waits_for_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.lives());
        child.kill().unwrap();
        while process.lives() {
            std::thread::yield_now();
        }
        assert_eq!(Process::of(child.id()), None, "a zombie");
        child.wait().unwrap();
        let other = Process { started: 1, ..Process::of(std::process::id()).unwrap() };
        assert!(!other.lives(), "an earlier one of the same number");
    }

    #[test]
    fn the_end_of_a_log_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(tail(&log, 0, 5), "");
        fs::write(&log, "one\ntwo\n").unwrap();
        assert_eq!(
            (tail(&log, 0, 5), tail(&log, 0, 99), tail(&log, 8, 99)),
            ("two".into(), "one\ntwo".into(), String::new())
        );
    }
}
