//! Network namespaces, links and programs that live as long as one test.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use weir_testkit::Namespace;

/// The program under test.
pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// Debian's Python: it has scapy, and needs no start-up script.
pub const PYTHON: &str = "/usr/bin/python3";

/// Pause between two looks at a condition.
const POLL: Duration = Duration::from_millis(20);
/// How often a condition is looked at before the test gives up.
const POLLS: u32 = 1000;
/// Environment variable by which processes of a lab are found, whatever became of their parents.
const MARK: &str = "WEIR_TEST_LAB";

/// Labs that run side by side, and those that want the machine for themselves.
static MACHINE: RwLock<()> = RwLock::new(());

// Held for its `Drop` only.
#[allow(dead_code)]
enum Share {
    Together(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

/// Namespaces, links, files and processes of one test. All are removed when it is dropped, which also checks that
/// nothing is left.
pub struct Lab {
    id: String,
    dir: PathBuf,
    namespaces: Vec<Namespace>,
    // Last, so that the next test begins when everything else is gone.
    _share: Share,
}

/// The output of a finished program.
#[derive(Debug)]
pub struct Output {
    /// Exit code; -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Standard output of a program that has to succeed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout
    }

    /// Standard error of a program that has to fail with `code`.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stderr
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }
}

impl Lab {
    /// A lab with these namespaces, beside other labs.
    pub fn new(namespaces: &[&str]) -> Lab {
        Lab::make(namespaces, false)
    }

    /// A lab while no other runs: for tests that count lost packets, and those that take all of the machine.
    pub fn alone(namespaces: &[&str]) -> Lab {
        Lab::make(namespaces, true)
    }

    fn make(namespaces: &[&str], alone: bool) -> Lab {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let root = fs::read_to_string("/proc/self/status").unwrap().lines().any(|l| l == "Uid:\t0\t0\t0\t0");
        assert!(root, "this test makes network namespaces and so has to run as root");
        // A test that failed poisons the lock; that says nothing about the machine.
        let share = if alone {
            Share::Alone(MACHINE.write().unwrap_or_else(std::sync::PoisonError::into_inner))
        } else {
            Share::Together(MACHINE.read().unwrap_or_else(std::sync::PoisonError::into_inner))
        };
        let id = format!("weirtest-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(&id);
        fs::create_dir(&dir).unwrap();
        let mut lab = Lab { id, dir, namespaces: Vec::new(), _share: share };
        for n in namespaces {
            lab.namespace(n);
        }
        lab
    }

    /// One more namespace. Nothing speaks in it unasked: there is no IPv6.
    pub fn namespace(&mut self, name: &str) {
        self.namespaces.push(Namespace::named(self.name(name)).unwrap());
    }

    /// `ip -n NAMESPACE ARGUMENTS`; has to succeed.
    #[track_caller]
    pub fn ip(&self, namespace: &str, arguments: &str) -> String {
        self.at(namespace).ip(arguments)
    }

    /// A veth pair between two namespaces; both ends are up.
    pub fn link(&self, a: (&str, &str), b: (&str, &str)) {
        weir_testkit::link((self.at(a.0), a.1), (self.at(b.0), b.1));
    }

    #[track_caller]
    fn at(&self, name: &str) -> &Namespace {
        let full = self.name(name);
        self.namespaces.iter().find(|n| n.name() == full).expect("the lab has that namespace")
    }

    /// A place to run programs in.
    pub fn ns(&self, name: &str) -> Ns<'_> {
        Ns { lab: self, name: self.name(name) }
    }

    /// The full name of a namespace, unique on the machine.
    pub fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.id)
    }

    /// A file in the lab's own directory.
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file in the lab's own directory and gives its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.dir.join(name), content).unwrap();
        self.path(name)
    }

    /// Processes that this lab started, also those that they started: they bear its mark, or are in its namespaces.
    pub fn processes(&self) -> Vec<u32> {
        let mark = format!("{MARK}={}", self.id);
        let marked = |pid: &u32| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|e| e.split(|b| *b == 0).any(|v| v == mark.as_bytes()))
        };
        let all = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
        let mut list: Vec<u32> = all.filter(marked).collect();
        for n in &self.namespaces {
            list.extend(
                host(&["ip", "netns", "pids", n.name()])
                    .stdout
                    .lines()
                    .filter_map(|l| l.trim().parse::<u32>().ok()),
            );
        }
        list.sort_unstable();
        list.dedup();
        list
    }

    fn clean(&mut self) -> Result<(), String> {
        let gone = poll(POLLS, || {
            for pid in self.processes() {
                signal(pid, "KILL");
            }
            self.processes().is_empty()
        });
        let mut left = Vec::new();
        if !gone {
            left.push(format!("processes {:?}", self.processes()));
        }
        // Functions that a failed test left: their folders have the names of their namespaces and control groups.
        for entry in fs::read_dir(self.dir.join("store/weir.functions")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            _ = host(&["ip", "netns", "del", &name]);
            for hierarchy in ["memory/", "pids/", ""] {
                let group = format!("/sys/fs/cgroup/{hierarchy}weir/{name}");
                let processes = fs::read_to_string(format!("{group}/cgroup.procs")).unwrap_or_default();
                processes.lines().filter_map(|p| p.parse().ok()).for_each(|p| signal(p, "KILL"));
                _ = poll(POLLS, || !Path::new(&group).exists() || fs::remove_dir(&group).is_ok());
            }
        }
        self.namespaces.clear();
        // What a test mounted in the directory goes with it.
        for line in fs::read_to_string("/proc/mounts").unwrap_or_default().lines() {
            if let Some(at) = line.split(' ').nth(1).filter(|at| Path::new(at).starts_with(&self.dir)) {
                _ = host(&["umount", at]);
            }
        }
        _ = fs::remove_dir_all(&self.dir);
        // The names of other labs may begin with the number of this one.
        let own = format!("{}-", self.id);
        for list in [host(&["ip", "netns", "list"]), host(&["ip", "-o", "link", "show"])] {
            left.extend(list.stdout.lines().filter(|l| l.contains(&own)).map(str::to_owned));
        }
        if self.dir.exists() {
            left.push(self.dir.display().to_string());
        }
        if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The output of programs says why the test failed.
            for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|e| e == "out" || e == "err") {
                    let text = fs::read(&path).unwrap_or_default();
                    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(2000)..]).into_owned();
                    if !text.is_empty() {
                        eprintln!("--- {}\n{text}", path.file_name().unwrap_or_default().display());
                    }
                }
            }
        }
        if let Err(left) = self.clean() {
            if std::thread::panicking() {
                eprintln!("the test left: {left}");
            } else {
                panic!("the test left: {left}");
            }
        }
    }
}

/// A namespace of a lab.
#[derive(Clone)]
pub struct Ns<'a> {
    lab: &'a Lab,
    name: String,
}

impl<'a> Ns<'a> {
    /// Runs a program to its end. One that hangs is killed, and its exit code is 124 or 137.
    pub fn run(&self, argv: &[&str]) -> Output {
        run(self.command(&["timeout", "-k", "5", "60"], argv))
    }

    /// Runs `weir` to its end.
    pub fn weir(&self, arguments: &[&str]) -> Output {
        self.run(&[&[WEIR], arguments].concat())
    }

    /// Starts a program. It ends with the value at the latest.
    pub fn spawn(&self, argv: &[&str]) -> Process {
        self.start(argv, self.command(&[], argv))
    }

    /// The same in the network namespace alone, not in a mount namespace as `ip netns exec` makes one: names of namespaces that it
    /// makes outlive it.
    pub fn spawn_in_network(&self, argv: &[&str]) -> Process {
        let namespace = format!("--net=/run/netns/{}", self.name);
        let mut command = Command::new("nsenter");
        command.arg(namespace).args(argv).env(MARK, &self.lab.id).current_dir(repository());
        self.start(argv, command)
    }

    fn start(&self, argv: &[&str], mut command: Command) -> Process {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let program = Path::new(argv[0]).file_name().unwrap().to_str().unwrap();
        let base = self.lab.dir.join(format!("{program}-{}", COUNTER.fetch_add(1, Ordering::Relaxed)));
        let (out, err) = (base.with_extension("out"), base.with_extension("err"));
        command.stdin(Stdio::piped()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let child = command.spawn().unwrap_or_else(|e| panic!("cannot start {argv:?}: {e}"));
        Process { child, out, err }
    }

    /// Starts `weir`.
    pub fn spawn_weir(&self, arguments: &[&str]) -> Process {
        self.spawn(&[&[WEIR], arguments].concat())
    }

    fn command(&self, before: &[&str], argv: &[&str]) -> Command {
        let all = [before, &["ip", "netns", "exec", &self.name], argv].concat();
        let mut command = Command::new(all[0]);
        command
            .args(&all[1..])
            .env("XDG_CONFIG_HOME", self.lab.path("config"))
            .env(MARK, &self.lab.id)
            .current_dir(repository());
        command
    }
}

/// A program that runs. It is killed when this is dropped.
pub struct Process {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Process {
    /// Its process id (`ip netns exec` becomes the program).
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it wrote to standard output so far.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.out).unwrap()).into_owned()
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.err).unwrap()).into_owned()
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a signal (`INT`, `KILL`, …).
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(mut self) -> Output {
        drop(self.child.stdin.take());
        let mut status: Option<ExitStatus> = None;
        until("the program to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        Output {
            code: status.and_then(|s| s.code()).unwrap_or(-1),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    /// Kills it, and waits for its end.
    #[track_caller]
    pub fn kill(&mut self) {
        self.signal("KILL");
        until("the program to end", || matches!(self.child.try_wait(), Ok(Some(_))));
    }

    /// Ends it as Ctrl-C does, and waits for that.
    #[track_caller]
    pub fn interrupt(self) -> Output {
        self.signal("INT");
        self.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a program outside any lab, to its end.
pub fn host(argv: &[&str]) -> Output {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).current_dir(repository());
    run(command)
}

/// Runs `weir` outside any lab, to its end: for what needs no network.
pub fn weir(arguments: &[&str]) -> Output {
    host(&[&["timeout", "-k", "5", "60", WEIR], arguments].concat())
}

fn run(mut command: Command) -> Output {
    let o = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    Output {
        code: o.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&o.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&o.stderr).into_owned(),
    }
}

fn signal(pid: u32, name: &str) {
    _ = host(&["kill", "-s", name, &pid.to_string()]);
}

/// Whether a condition comes true within a bounded number of looks.
pub fn poll(looks: u32, mut condition: impl FnMut() -> bool) -> bool {
    (0..looks).any(|i| {
        if i > 0 {
            sleep(POLL);
        }
        condition()
    })
}

/// Waits for a condition; panics if it does not come true within a bounded number of looks.
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(poll(POLLS, condition), "waited in vain for {what}");
}

/// Waits until an address answers; panics if it does not within a bounded number of requests.
#[track_caller]
pub fn until_pings(from: &Ns, address: &str) {
    let answers = poll(60, || from.run(&["ping", "-c1", "-W0.3", address]).code == 0);
    assert!(answers, "{address} does not answer");
}

/// A client (10.0.1.2) and a server (10.0.2.2) with the namespace `node` between them, whose interfaces are `lan` and
/// `wan`. The client's way to the world is 10.0.1.1.
///
/// ```text
/// client eth0 10.0.1.2 --- lan [ node ] wan --- 10.0.2.2 eth0 server
/// ```
pub fn two_networks(lab: &Lab) {
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("server", "eth0"));
    lab.ip("client", "addr add 10.0.1.2/24 dev eth0");
    lab.ip("client", "route add default via 10.0.1.1");
    lab.ip("server", "addr add 10.0.2.2/24 dev eth0");
}
