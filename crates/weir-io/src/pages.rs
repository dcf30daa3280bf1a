//! Transparent huge pages. Tables and packets gain by them; a process that has many threads and little to keep loses 2 MB by each of
//! them, and the time to clear these.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::prctl::set_thp_disable;

/// Whether memory that is used from here on may consist of huge pages: that of this process, of those that it starts, and of the
/// programs that they become. What an old kernel refuses costs memory and nothing else.
pub fn allow_huge_pages(allowed: bool) {
    _ = set_thp_disable(!allowed);
}

/// Lets a program have huge pages that a process starts which has none.
pub fn with_huge_pages(command: &mut Command) {
    let allow = || {
        allow_huge_pages(true);
        Ok(())
    };
    // SAFETY: what runs between fork and exec is one system call. It takes no lock and allocates nothing.
    unsafe { command.pre_exec(allow) };
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// `THP_enabled` of a process, proc_pid_status(5).
    const ASK: &str = "grep THP_enabled /proc/self/status";

    #[test]
    fn programs_have_huge_pages_though_who_starts_them_has_none() {
        let says = |change: fn(&mut Command)| {
            let mut command = Command::new("sh");
            change(command.args(["-c", ASK]));
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let own = || fs::read_to_string("/proc/self/status").unwrap().contains("THP_enabled:\t1");
        let before = own();
        allow_huge_pages(false);
        let (without, with) = (says(|_| ()), says(with_huge_pages));
        assert!(!own());
        allow_huge_pages(before);
        assert_eq!((without.trim_end(), with.trim_end()), ("THP_enabled:\t0", "THP_enabled:\t1"));
    }
}
