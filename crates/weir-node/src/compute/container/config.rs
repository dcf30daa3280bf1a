//! What runc is to run: the runtime specification of a container (OCI runtime specification 1.0, `config.json`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oci_spec::runtime::{Process, Spec, get_default_maskedpaths, get_default_readonly_paths};
use serde_json::{Value, json};
use weir_model::template::{Container, expand};
use weir_oci::Root;

use super::super::hosted::{CONTAINER_SECRETS, Context};
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
/// Flags of clone(2) that make namespaces: mounts, control groups, host names, IPC, users, processes, networks.
const NAMESPACES: [u64; 7] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
const ENOSYS: u32 = 38;
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
    let servers: String =
        name_servers(container, params).iter().map(|s| format!("nameserver {s}\n")).collect();
    let name = host_name(id);
    [
        ("hosts", format!("127.0.0.1 localhost {name}\n::1 localhost\n")),
        ("resolv.conf", servers),
        ("hostname", format!("{name}\n")),
    ]
}

/// The name servers, where parameters may give several, with blanks or commas between.
pub(super) fn name_servers(container: &Container, params: &BTreeMap<String, String>) -> Vec<String> {
    let texts = container.name_servers.iter().map(|s| expand(s, params));
    let servers = texts.flat_map(|s| {
        let words = s.split(|c: char| c == ',' || c.is_whitespace()).map(str::to_owned);
        words.filter(|w| !w.is_empty()).collect::<Vec<String>>()
    });
    servers.collect()
}

/// A host's name like the function's.
fn host_name(id: &InstanceId) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    id.function.chars().take(63).map(word).collect()
}

/// A program in a container, with its arguments, as runc takes it; none: that of the image.
pub(super) fn process(
    cx: &Context<'_>,
    container: &Container,
    root: &Root,
    program: Vec<String>,
) -> Result<Process, String> {
    let config = &root.config;
    let images =
        || config.entrypoint().iter().flatten().chain(config.cmd().iter().flatten()).cloned().collect();
    let args: Vec<String> = if program.is_empty() { images() } else { program };
    if args.is_empty() {
        return Err("neither the container image nor \"command\" says what to run".to_owned());
    }
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    variables.insert("PATH".into(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into());
    let of_image = config.env().iter().flatten().filter_map(|v| v.split_once('='));
    variables.extend(of_image.map(|(name, value)| (name.to_owned(), value.to_owned())));
    variables.extend(environment(cx));
    let env: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let named = |names: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        names.map(|c| format!("CAP_{c}")).collect()
    };
    let given = || container.capabilities.iter().map(String::as_str);
    let capabilities = named(&mut CAPABILITIES.iter().copied().chain(given()));
    // Whoever does not run as root has none but what it is given by name.
    let (effective, ambient) = if root.user.uid == 0 {
        (capabilities.clone(), Vec::new())
    } else {
        (named(&mut given()), named(&mut given()))
    };
    let directory = config.working_dir().as_deref().filter(|d| d.starts_with('/')).unwrap_or("/");
    let value = json!({
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
    });
    serde_json::from_value(value).map_err(|e| format!("internal error: what runc is to run: {e}"))
}

/// The system calls that fail: [`REFUSED`], and those that make namespaces.
fn refused() -> Value {
    let mut rules = vec![json!({"names": &REFUSED[..], "action": "SCMP_ACT_ERRNO", "errnoRet": 1})];
    rules.extend(NAMESPACES.iter().map(|flag| {
        let flag = json!({"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"});
        json!({"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "args": [flag]})
    }));
    // Its flags are in memory, where no filter sees them: programs go back to clone.
    rules.push(json!({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS}));
    json!(rules)
}

/// The specification, with the folder of the files, and the directories that are written to: where they are kept, and seen.
pub(super) fn spec(
    cx: &Context<'_>,
    container: &Container,
    root: &Root,
    bundle: &Path,
    writable: &[(PathBuf, String)],
) -> Result<Spec, String> {
    let command = container.command.iter().map(|t| expand(t, &cx.spec.params)).collect();
    let process = process(cx, container, root, command)?;
    let limits = cx.spec.limits();
    let mut resources = json!({
        "memory": {"limit": limits.memory},
        "pids": {"limit": limits.processes},
        "devices": [{"allow": false, "access": "rwm"}],
    });
    if let Some(cpu) = limits.cpu {
        resources["cpu"] = json!({"quota": u64::from(cpu) * PERIOD / 1000, "period": PERIOD});
    }
    let mut devices = Vec::new();
    for path in &container.devices {
        // The only one that there may be (linux/Documentation/admin-guide/devices.txt).
        devices.push(json!({"path": path, "type": "c", "major": 10, "minor": 200, "fileMode": 0o666}));
        let rule = json!({"allow": true, "type": "c", "major": 10, "minor": 200, "access": "rw"});
        resources["devices"].as_array_mut().into_iter().for_each(|rules| rules.push(rule.clone()));
    }
    let sysctls: BTreeMap<&String, String> =
        container.sysctls.iter().map(|(name, value)| (name, expand(value, &cx.spec.params))).collect();
    let value = json!({
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": root.files, "readonly": true},
        "hostname": host_name(cx.id),
        "mounts": mounts(cx, bundle, root, writable),
        "linux": {
            "resources": resources,
            "devices": devices,
            "sysctl": sysctls,
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
            "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": refused()},
        },
    });
    serde_json::from_value(value).map_err(|e| format!("internal error: what runc is to run: {e}"))
}

fn mounts(cx: &Context<'_>, bundle: &Path, root: &Root, writable: &[(PathBuf, String)]) -> Vec<Value> {
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
        mount(
            "/run",
            "tmpfs",
            "tmpfs",
            &["nosuid", "nodev", "mode=755", TEMPORARY, &format!("uid={}", root.user.uid)],
        ),
    ];
    for file in ["hosts", "resolv.conf", "hostname"] {
        let from = bundle.join(file).display().to_string();
        mounts.push(mount(&format!("/etc/{file}"), "bind", &from, &["bind", "ro"]));
    }
    for name in &cx.spec.secrets {
        let from = cx.paths.secret(name).display().to_string();
        mounts.push(mount(&format!("{CONTAINER_SECRETS}/{name}"), "bind", &from, &["bind", "ro"]));
    }
    for (kept, seen) in writable {
        mounts.push(mount(seen, "bind", &kept.display().to_string(), &["bind", "rw", "nosuid", "nodev"]));
    }
    mounts
}
