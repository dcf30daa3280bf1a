//! The system calls of a worker. All others fail with EPERM.

use std::collections::BTreeMap;

use libc::*;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// Those that a worker may make: no files, no programs, no namespaces, no sockets but Unix ones.
pub const ALLOWED: &[i64] = &[
    // Memory, also of compiled code and of ports.
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_madvise,
    SYS_memfd_create,
    SYS_ftruncate,
    SYS_fcntl,
    // Threads, and how they end.
    SYS_clone,
    SYS_futex,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_getpid,
    SYS_gettid,
    SYS_tgkill,
    SYS_sched_getaffinity,
    SYS_sched_yield,
    SYS_prctl,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_exit,
    SYS_exit_group,
    // Time and randomness.
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_getrandom,
    // What was interrupted by a pause goes on.
    SYS_restart_syscall,
    // Sockets of the node and of ports, and their messages.
    SYS_socket,
    SYS_connect,
    SYS_accept4,
    SYS_setsockopt,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_sendto,
    SYS_recvfrom,
    SYS_shutdown,
    SYS_read,
    SYS_write,
    SYS_close,
    // Waiting for them, and waking the other side.
    SYS_poll,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_preadv2,
];

/// The flags of clone(2) that make namespaces.
const NAMESPACES: i32 =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

/// Refuses all others from now on, to this thread and those that it starts.
pub(crate) fn restrict() -> Result<(), Error> {
    // Its flags are in memory, where no filter sees them: programs go back to clone.
    let unknown = BTreeMap::from([(SYS_clone3, Vec::new())]);
    apply(unknown, SeccompAction::Allow, SeccompAction::Errno(ENOSYS as u32))?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(&[SYS_clone3]).map(|call| (*call, Vec::new())).collect();
    let only = |argument, operator, value| -> Result<Vec<SeccompRule>, Error> {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)?;
        Ok(vec![SeccompRule::new(vec![condition])?])
    };
    rules.insert(SYS_clone, only(0, SeccompCmpOp::MaskedEq(NAMESPACES as u64), 0)?);
    rules.insert(SYS_socket, only(0, SeccompCmpOp::Eq, AF_UNIX as u64)?);
    apply(rules, SeccompAction::Errno(EPERM as u32), SeccompAction::Allow)
}

fn apply(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    others: SeccompAction,
    these: SeccompAction,
) -> Result<(), Error> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let filter: BpfProgram = SeccompFilter::new(rules, others, these, arch)?.try_into()?;
    apply_filter(&filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_at_most_fifty_system_calls() {
        assert!(ALLOWED.len() <= 50, "{}", ALLOWED.len());
        let mut calls = ALLOWED.to_vec();
        calls.sort_unstable();
        calls.dedup();
        assert_eq!(calls.len(), ALLOWED.len());
    }
}
