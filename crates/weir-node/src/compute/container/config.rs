//! What runc is to run: the runtime specification of a container (OCI runtime specification 1.0, `config.json`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oci_spec::runtime::{Spec, get_default_maskedpaths, get_default_readonly_paths};
use serde_json::{Value, json};
use weir_model::template::{Container, expand};
use weir_oci::Root;

use super::super::hosted::Context;
use super::super::netns;
use super::environment;
use crate::instance::InstanceId;

/// What every container may do, capabilities(7): what services need to bind their ports and to become another user.
const CAPABILITIES: [&str; 7] =
    ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"];
/// System calls that no function needs, and that reach into the kernel: they fail with EPERM.
const REFUSED: [&str; 34] = [
    "acct",
    "add_key",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "reboot",
    "request_key",
    "setns",
    "settimeofday",
    "swapon",
    "umount2",
    "unshare",
    "userfaultfd",
];
/// The period of which a share of processor time is taken, in microseconds.
const PERIOD: u64 = 100_000;
/// Most open files.
const FILES: u64 = 20_000;
/// Bytes of what is empty at each start.
const TEMPORARY: &str = "size=64m";

/// The files of the system that a container sees as its own: name, text.
pub(super) fn files(
    id: &InstanceId,
    container: &Container,
    params: &BTreeMap<String, String>,
) -> [(&'static str, String); 3] {
    let servers = container.name_servers.iter().map(|s| expand(s, params));
    let lines = servers.flat_map(|s| s.split([',', ' ']).map(str::to_owned).collect::<Vec<_>>());
    let servers: String = lines.filter(|s| !s.is_empty()).map(|s| format!("nameserver {s}\n")).collect();
    let name = host_name(id);
    [
        ("hosts", format!("127.0.0.1 localhost {name}\n::1 localhost\n")),
        ("resolv.conf", servers),
        ("hostname", format!("{name}\n")),
    ]
}

/// A host's name like the function's.
fn host_name(id: &InstanceId) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    id.function.chars().take(63).map(word).collect()
}

/// The specification, with the folder of the files, and the directories that are written to: where they are kept, and seen.
pub(super) fn spec(
    cx: &Context<'_>,
    container: &Container,
    root: &Root,
    bundle: &Path,
    writable: &[(PathBuf, String)],
) -> Result<Spec, String> {
    let params = &cx.spec.params;
    let config = &root.config;
    let own: Vec<String> = container.command.iter().map(|t| expand(t, params)).collect();
    let images =
        || config.entrypoint().iter().flatten().chain(config.cmd().iter().flatten()).cloned().collect();
    let args: Vec<String> = if own.is_empty() { images() } else { own };
    if args.is_empty() {
        return Err("neither the container image nor \"command\" says what to run".to_owned());
    }
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    variables.insert("PATH".into(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into());
    let of_image = config.env().iter().flatten().filter_map(|v| v.split_once('='));
    variables.extend(of_image.map(|(name, value)| (name.to_owned(), value.to_owned())));
    variables.extend(environment(cx));
    let env: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let capabilities: Vec<String> = CAPABILITIES
        .iter()
        .copied()
        .chain(container.capabilities.iter().map(String::as_str))
        .map(|c| format!("CAP_{c}"))
        .collect();
    // Whoever does not run as root has none but what it is given by name.
    let (effective, ambient) = if root.user.uid == 0 {
        (capabilities.clone(), Vec::new())
    } else {
        let given: Vec<String> = container.capabilities.iter().map(|c| format!("CAP_{c}")).collect();
        (given.clone(), given)
    };
    let directory = config.working_dir().as_deref().filter(|d| d.starts_with('/')).unwrap_or("/");
    let (memory, processes) = cx.spec.limits();
    let cpu = container.cpu.map(|c| json!({"quota": u64::from(c) * PERIOD / 1000, "period": PERIOD}));
    let mut resources = json!({
        "memory": {"limit": memory},
        "pids": {"limit": processes},
        "devices": [{"allow": false, "access": "rwm"}],
    });
    if let Some(cpu) = cpu {
        resources["cpu"] = cpu;
    }
    let value = json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": {"uid": root.user.uid, "gid": root.user.gid, "additionalGids": root.user.groups},
            "args": args,
            "env": env,
            "cwd": directory,
            "capabilities": {
                "bounding": capabilities,
                "permitted": effective,
                "effective": effective,
                "inheritable": ambient,
                "ambient": ambient,
            },
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": FILES, "soft": FILES}],
            "noNewPrivileges": true,
        },
        "root": {"path": root.files, "readonly": true},
        "hostname": host_name(cx.id),
        "mounts": mounts(bundle, writable),
        "linux": {
            "resources": resources,
            "cgroupsPath": format!("/weir/{}", cx.paths.name),
            "namespaces": [
                {"type": "pid"},
                {"type": "ipc"},
                {"type": "uts"},
                {"type": "mount"},
                {"type": "network", "path": netns::path(&cx.paths.name)},
            ],
            "maskedPaths": get_default_maskedpaths(),
            "readonlyPaths": get_default_readonly_paths(),
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [{"names": &REFUSED[..], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}],
            },
        },
    });
    serde_json::from_value(value).map_err(|e| format!("internal error: what runc is to run: {e}"))
}

fn mounts(bundle: &Path, writable: &[(PathBuf, String)]) -> Vec<Value> {
    let mount = |to: &str, kind: &str, from: &str, options: &[&str]| json!({"destination": to, "type": kind, "source": from, "options": options});
    let safe = ["nosuid", "noexec", "nodev"];
    let with = |more: &[&'static str]| [&safe[..], more].concat();
    let mut mounts = vec![
        mount("/proc", "proc", "proc", &safe),
        mount("/dev", "tmpfs", "tmpfs", &["nosuid", "strictatime", "mode=755", TEMPORARY]),
        mount(
            "/dev/pts",
            "devpts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        ),
        mount("/dev/shm", "tmpfs", "shm", &with(&["mode=1777", TEMPORARY])),
        mount("/sys", "sysfs", "sysfs", &with(&["ro"])),
        mount("/tmp", "tmpfs", "tmpfs", &["nosuid", "nodev", "mode=1777", TEMPORARY]),
        mount("/run", "tmpfs", "tmpfs", &["nosuid", "nodev", "mode=755", TEMPORARY]),
    ];
    for file in ["hosts", "resolv.conf", "hostname"] {
        let from = bundle.join(file).display().to_string();
        mounts.push(mount(&format!("/etc/{file}"), "bind", &from, &["bind", "ro"]));
    }
    for (kept, seen) in writable {
        mounts.push(mount(seen, "bind", &kept.display().to_string(), &["bind", "rw", "nosuid", "nodev"]));
    }
    mounts
}
