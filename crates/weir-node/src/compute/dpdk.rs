//! DPDK programs, unmodified, on memory that they share with the graph's data plane (memif; COMPOSER paper, section 6.1).
//!
//! The program listens at its sockets and the data plane connects to them: `net_memif` connects once, and its peer may come later.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use nix::errno::Errno;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::process::Child;
use tokio::time::{Instant, sleep};
use weir_model::template::{self, expand};

use super::ComputeError;
use super::hosted::{Context, Main, Paths, Workload};
use super::launch::{check_installed, is_installed};
use super::sockets::Sockets;
use crate::instance::{Kind, PortNames, Spec, Work};

/// How long a program may take until its ports are there: DPDK takes its memory first.
const TIME: Duration = Duration::from_secs(30);
/// How long a program has nothing to do that is at work and does not poll.
const SETTLE: Duration = Duration::from_secs(5);
/// Processor time that only a thread which polls takes, in clock ticks (10 ms each).
const BUSY: u64 = 10;
/// How often they are looked for.
const STEP: Duration = Duration::from_millis(10);

/// The driver of DPDK programs.
#[derive(Debug)]
pub struct Dpdk {
    sockets: Sockets,
    /// The command line that leads to [`Launch::exec`](super::launch::Launch::exec), without its last argument.
    launcher: Vec<OsString>,
}

impl Dpdk {
    /// With the folder of sockets; `launcher` is the command line that leads to [`Launch::exec`](super::launch::Launch::exec).
    pub fn new(sockets: Sockets, launcher: Vec<OsString>) -> Dpdk {
        Dpdk { sockets, launcher }
    }

    /// The socket of a port, as the data plane finds it.
    fn socket(&self, cx: &Context<'_>, port: &PortNames) -> PathBuf {
        self.sockets.of(cx.paths).join(&port.inside)
    }

    /// The same as the program makes it. It is not found there: `net_memif` takes a peer before its queues are set up, and then forgets
    /// what it was given.
    fn early_socket(&self, cx: &Context<'_>, port: &PortNames) -> PathBuf {
        self.sockets.of(cx.paths).join(format!(".{}", port.inside))
    }

    /// Lets the data plane find the sockets, when the program is at work: its threads never sleep then. One that does not poll is at work when
    /// it has had nothing to do for a time; a program that is slow to start has.
    async fn publish(&self, cx: &Context<'_>, child: &mut Child) -> io::Result<()> {
        let (until, mut idle) = (Instant::now() + TIME, Instant::now() + SETTLE);
        let mut before = Vec::new();
        while let (Some(pid), Ok(None)) = (child.id(), child.try_wait()) {
            let times = times(pid);
            let busy = times.iter().any(|(thread, time)| *thread != pid && *time >= BUSY);
            if busy || Instant::now() > until.min(idle) {
                break;
            }
            if times != before {
                idle = Instant::now() + SETTLE;
                before = times;
            }
            sleep(STEP).await;
        }
        cx.spec.ports.iter().try_for_each(|p| fs::rename(self.early_socket(cx, p), self.socket(cx, p)))
    }

    /// The command line: what DPDK's environment is told, then the program's own arguments.
    fn command(&self, cx: &Context<'_>, dpdk: &template::Dpdk) -> Vec<String> {
        let last = dpdk.threads - 1;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) - 1;
        let mut line = vec![
            dpdk.program.clone(),
            format!("--lcores=(0-{last})@(0-{processors})"),
            "--no-huge".to_owned(),
            "--no-shconf".to_owned(),
            format!("--file-prefix={}", prefix(cx.paths)),
            "--no-pci".to_owned(),
            "--no-telemetry".to_owned(),
            "-m".to_owned(),
            (dpdk.heap() >> 20).to_string(),
        ];
        for (i, port) in cx.spec.ports.iter().enumerate() {
            let socket = self.early_socket(cx, port);
            line.push(format!(
                "--vdev=net_memif{i},role=server,socket-abstract=no,socket={}",
                socket.display()
            ));
        }
        line.push("--".to_owned());
        line.extend(dpdk.arguments.iter().map(|a| expand(a, &cx.spec.params)));
        line
    }
}

/// The threads of a process, and the processor time that each has taken, in clock ticks.
fn times(pid: u32) -> Vec<(u32, u64)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |thread: fs::DirEntry| -> Option<(u32, u64)> {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        // Its name may have blanks. User and system time are fields 14 and 15, proc_pid_stat(5).
        let times = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
        let time = times.map(str::parse::<u64>).sum::<Result<u64, _>>().ok()?;
        Some((thread.file_name().to_str()?.parse().ok()?, time))
    };
    threads.filter_map(of).collect()
}

/// What DPDK calls a program, unlike all others.
fn prefix(paths: &Paths) -> String {
    format!("weir-{}", paths.sockets)
}

/// Removes what DPDK makes for a program and leaves behind.
fn forget_runtime(paths: &Paths) {
    _ = fs::remove_dir_all(Path::new("/var/run/dpdk").join(prefix(paths)));
}

/// Something to read from that never has anything, and never ends: many DPDK programs end when they can read.
fn silence(path: &Path) -> io::Result<Stdio> {
    match mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(e) => return Err(e.into()),
    }
    // It holds its other end itself.
    Ok(OpenOptions::new().read(true).write(true).open(path)?.into())
}

#[async_trait]
impl Workload for Dpdk {
    const KIND: Kind = Kind::Dpdk;
    const PORTS: &'static [&'static str] = &["memif"];
    const MAIN: &str = "the program";
    const FRESH: bool = false;

    fn check(&self, spec: &Spec) -> Result<(), ComputeError> {
        let Work::Dpdk { dpdk } = &spec.work else { return Ok(()) };
        check_installed(&spec.image, &dpdk.dependencies)?;
        if !is_installed(&dpdk.program) {
            let what = format!(
                "this node has no program {}, and its \"dependencies\" name no package",
                dpdk.program
            );
            return Err(ComputeError::Image { image: spec.image.clone(), what });
        }
        Ok(())
    }

    fn sockets(&self) -> Option<&Sockets> {
        Some(&self.sockets)
    }

    async fn start(&self, cx: &Context<'_>) -> Result<Option<Main>, ComputeError> {
        let Work::Dpdk { dpdk } = &cx.spec.work else { return Ok(None) };
        for port in &cx.spec.ports {
            // DPDK does not take over what an earlier one has left.
            for socket in [self.early_socket(cx, port), self.socket(cx, port)] {
                match fs::remove_file(socket) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(ComputeError::system("cannot remove an old socket")(e));
                    }
                    _ => {}
                }
            }
        }
        let command = cx.launched(&self.launcher, &cx.launch(self.command(cx, dpdk), false))?;
        let input =
            silence(&cx.paths.folder.join("input")).map_err(ComputeError::system("cannot make its input"))?;
        let from = cx.log_length();
        let mut child = cx.start_reading(Self::MAIN, command, input)?;
        let until = Instant::now() + TIME;
        while !cx.spec.ports.iter().all(|p| self.early_socket(cx, p).exists()) {
            if !matches!(child.try_wait(), Ok(None)) {
                // Who asks for the main process finds that it has ended, and says so.
                return Ok(Some(Main::Child(child)));
            }
            if Instant::now() > until {
                _ = child.start_kill();
                let what = format!("has not made its ports within {} seconds", TIME.as_secs());
                let (id, program) = (cx.id.clone(), Self::MAIN.to_owned());
                let failed = ComputeError::Program { id, program, what, output: String::new() };
                return Err(cx.with_output(failed, from));
            }
            sleep(STEP).await;
        }
        if let Err(e) = self.publish(cx, &mut child).await
            && matches!(child.try_wait(), Ok(None))
        {
            _ = child.start_kill();
            return Err(ComputeError::system("cannot move its sockets")(e));
        }
        Ok(Some(Main::Child(child)))
    }

    async fn update(&self, cx: &Context<'_>, before: &Spec) -> Result<bool, ComputeError> {
        // It is told its ports and arguments when it starts.
        Ok(before.params == cx.spec.params && before.ports == cx.spec.ports)
    }

    async fn stop(&self, cx: &Context<'_>) -> Result<(), ComputeError> {
        forget_runtime(cx.paths);
        Ok(())
    }

    async fn forget(&self, paths: &Paths) {
        forget_runtime(paths);
    }
}
