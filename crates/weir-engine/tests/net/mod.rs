//! Network namespaces for tests; they need root.

#![allow(dead_code, reason = "each test uses some of it")]

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a command, which has to succeed, and gives what it prints.
pub fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let out = Command::new(words.next().unwrap()).args(words).output().expect(line);
    assert!(out.status.success(), "`{line}` failed (root?): {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A network namespace, removed when dropped.
pub struct Namespace(pub String);

impl Namespace {
    pub fn new(label: &str) -> Namespace {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("weireng-{}-{}-{label}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link set lo up"));
        Namespace(name)
    }

    /// The program `ip` in it.
    pub fn ip(&self, args: &str) -> String {
        run(&format!("ip -n {} {args}", self.0))
    }

    /// A command in it.
    pub fn exec(&self, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.0))
    }

    /// A program in it, to be started.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}
