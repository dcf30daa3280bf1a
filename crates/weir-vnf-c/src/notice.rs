//! O1: what an orchestrator says of replicas.

use std::ffi::{CString, c_char, c_int};
use std::net::SocketAddr;

use weir_vnf::{Core, Notice, Reason, Task};

use crate::errors::{VnfError::*, status};
use crate::function::{Function, enter};
use crate::setup::{address, setup, text};
use crate::types::{VnfNotice, VnfReason, VnfTask};

/// O1. Follows an orchestrator, which says which replicas of functions come and go; before startEventLoop. Every core calls back for every
/// notice, within a second of when it was sent: so each core may have a list of its own, without a lock.
///
/// The library asks the orchestrator by HTTP for /replicas; the answer does not end, begins with an "add" for each replica that there is,
/// and has a line for each change (docs/vnf.md):
///   {"task":"remove","name":"b","address":"10.0.0.7","reason":"failure"}
/// While it cannot be reached or understood, it is asked again every second, and connection 0 gets one ERROR, VNF_ORCHESTRATOR.
///
/// Returns 0 or an error: VNF_STARTED, VNF_ARGUMENT, VNF_ADDRESS.
///
/// # Safety
/// The string ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn registerforNotification(
    ip: *const c_char,
    port: c_int,
    callback: VnfNotice,
) -> c_int {
    let register = || {
        // SAFETY: the caller promises it.
        let orchestrator = address(unsafe { text(ip) }?, port)?;
        if callback.is_none() {
            return Err(VNF_ARGUMENT.into());
        }
        let mut setup = setup()?;
        if setup.plan.notified.iter().any(|(o, _)| *o == orchestrator) {
            return Err(VNF_ARGUMENT.into());
        }
        setup.vnf()?.follow(orchestrator);
        setup.plan.notified.push((orchestrator, callback));
        Ok(())
    };
    status(register())
}

/// Hands a notice to C code.
pub(crate) fn call(
    function: &mut Function,
    core: &mut Core<Function>,
    notified: &[(SocketAddr, VnfNotice)],
    orchestrator: SocketAddr,
    notice: &Notice,
) {
    let Some((_, Some(callback))) = notified.iter().find(|(o, _)| *o == orchestrator) else { return };
    let task = match notice.task {
        Task::Add => VnfTask::ADD,
        Task::Remove => VnfTask::REMOVE,
    };
    let reason = match notice.reason {
        None => VnfReason::UNKNOWN,
        Some(Reason::Maintenance) => VnfReason::MAINTENANCE,
        Some(Reason::Failure) => VnfReason::FAILURE,
        Some(Reason::Overload) => VnfReason::OVERLOAD,
    };
    // A name with a zero byte ends there for C.
    let name: Vec<u8> = notice.name.bytes().take_while(|b| *b != 0).collect();
    let name = CString::new(name).unwrap_or_default();
    let address = CString::new(notice.address.to_string()).unwrap_or_default();
    // SAFETY: registerforNotification was given a function of this type; the strings live until it returns.
    enter(function, core, || unsafe {
        callback(task as c_int, name.as_ptr(), address.as_ptr(), reason as c_int);
    });
}
