//! What processes take (proc(5)).

use std::time::Duration;

/// The memory that a process has taken for itself, in bytes.
pub fn resident(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    // What it shares with guests and other processes is counted with these.
    let kb = |name: &str| -> Option<u64> {
        let value = text.lines().find_map(|l| l.strip_prefix(name))?;
        value.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((kb("RssAnon:")? + kb("RssFile:")?) * 1024)
}

/// The processor time that a process took, with that of its children that ended.
pub fn cpu_of(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets, and may have any character (proc(5)).
    let (_, rest) = text.rsplit_once(") ")?;
    let ticks: Vec<u64> = rest.split(' ').skip(11).take(4).filter_map(|t| t.parse().ok()).collect();
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    (ticks.len() == 4).then(|| Duration::from_secs_f64(ticks.iter().sum::<u64>() as f64 / per_second as f64))
}
