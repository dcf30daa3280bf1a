//! What the figures were measured on.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// The machine of the measurements.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// Processor as the kernel names it, family and model.
    pub cpu: String,
    /// Number of processors of the machine.
    pub cpus: usize,
    /// Kernel release.
    pub kernel: String,
    /// Version of the compiler.
    pub rustc: String,
    /// Cargo profile and optimisation level.
    pub profile: String,
    /// RUSTFLAGS.
    pub rustflags: String,
    /// Commit, with a plus sign if files were changed since.
    pub commit: String,
    /// Processes that wanted a processor in the minute before the run, on average.
    pub load: String,
}

impl Machine {
    /// This one, now.
    pub fn this() -> Machine {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let field = |name: &str| {
            let line = info.lines().find(|l| l.split(':').next().is_some_and(|n| n.trim() == name));
            line.and_then(|l| l.split_once(':')).map_or("unknown", |(_, v)| v.trim()).to_owned()
        };
        let plus = if git(&["status", "--porcelain"]).is_some_and(|s| s.is_empty()) { "" } else { "+" };
        Machine {
            cpu: format!("{}, family {} model {}", field("model name"), field("cpu family"), field("model")),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            rustc: env!("BENCH_RUSTC").into(),
            profile: env!("BENCH_PROFILE").into(),
            rustflags: env!("BENCH_RUSTFLAGS").into(),
            commit: git(&["rev-parse", "--short", "HEAD"]).map_or("unknown".into(), |c| c + plus),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
