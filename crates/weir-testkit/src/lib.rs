//! Network namespaces and hosts, for tests and measurements. They need root: whatever uses them fails where it is missing.
#![forbid(unsafe_code)]

use std::io;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Runs a command line, which has to succeed, and gives what it prints.
///
/// # Panics
/// If it does not succeed, with what it says.
#[track_caller]
pub fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    output(command.args(words)).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a command, which has to succeed, and gives what it prints.
///
/// # Errors
/// It does not succeed; with what it says.
pub fn output(command: &mut Command) -> io::Result<String> {
    let result = command.output();
    let failed = |what: String| io::Error::other(format!("{command:?}: {what}"));
    let Output { status, stdout, stderr } = result.map_err(|e| failed(e.to_string()))?;
    if !status.success() {
        return Err(failed(format!("{status} (root?): {}", String::from_utf8_lossy(&stderr).trim())));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// A network namespace with a name that is unique on the machine. It is removed when it is dropped.
#[derive(Debug)]
pub struct Namespace(String);

impl Namespace {
    /// A new one, with its loopback interface up. Nothing speaks in it unasked: there is no IPv6.
    ///
    /// # Panics
    /// If it cannot be made.
    #[track_caller]
    pub fn new(label: &str) -> Namespace {
        Namespace::try_new(label).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The same.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn try_new(label: &str) -> io::Result<Namespace> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Namespace::named(format!("weirkit-{}-{number}-{label}", std::process::id()))
    }

    /// The same with a name that is given, which no other may have.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn named(name: String) -> io::Result<Namespace> {
        output(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Namespace(name);
        let quiet = ["-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"];
        output(namespace.command("sysctl").args(quiet))?;
        output(Command::new("ip").args(["-n", &namespace.0, "link", "set", "lo", "up"]))?;
        Ok(namespace)
    }

    /// Its name, for `ip netns`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The program `ip` in it.
    ///
    /// # Panics
    /// If it does not succeed.
    #[track_caller]
    pub fn ip(&self, arguments: &str) -> String {
        run(&format!("ip -n {} {arguments}", self.0))
    }

    /// A command line in it.
    ///
    /// # Panics
    /// If it does not succeed.
    #[track_caller]
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
        // The kernel refuses to remove a name while a mount of it is on its way into another mount namespace.
        for pause in [0, 10, 100, 1000] {
            sleep(Duration::from_millis(pause));
            match output(Command::new("ip").args(["netns", "del", &self.0])) {
                Ok(_) => return,
                Err(e) => eprintln!("{e}"),
            }
        }
    }
}

/// Joins two namespaces by a veth link, both ends up.
///
/// # Panics
/// If it cannot be made.
#[track_caller]
pub fn link(a: (&Namespace, &str), b: (&Namespace, &str)) {
    a.0.ip(&format!("link add {} type veth peer name {} netns {}", a.1, b.1, b.0.0));
    for (namespace, name) in [a, b] {
        namespace.ip(&format!("link set {name} up"));
    }
}

/// Two hosts, and a namespace between them in which the interfaces `left` and `right` lead to their `eth0`.
///
/// ```text
/// left eth0 10.9.0.1 --- left [ middle ] right --- 10.9.0.2 eth0 right
/// ```
#[derive(Debug)]
pub struct Hosts {
    /// The host with 10.9.0.1/24.
    pub left: Namespace,
    /// The namespace between.
    pub middle: Namespace,
    /// The host with 10.9.0.2/24.
    pub right: Namespace,
}

impl Hosts {
    /// New ones.
    ///
    /// # Panics
    /// If they cannot be made.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it makes things on the machine")]
    pub fn new() -> Hosts {
        let (left, middle, right) = (Namespace::new("l"), Namespace::new("m"), Namespace::new("r"));
        link((&left, "eth0"), (&middle, "left"));
        link((&middle, "right"), (&right, "eth0"));
        left.ip("addr add 10.9.0.1/24 dev eth0");
        right.ip("addr add 10.9.0.2/24 dev eth0");
        Hosts { left, middle, right }
    }
}
