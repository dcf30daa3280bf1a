//! What this machine can do: tried out where that changes nothing, else read.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::thread;

use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use socket2::{Domain, Protocol, Socket, Type};
use weir_node::compute::cgroup::Cgroup;
use weir_node::compute::launch::is_installed;
use weir_node::instance::Limits;

use super::Check;

/// `AF_PACKET` and `AF_XDP` (linux/socket.h), which `socket2` has no names for.
const AF_PACKET: i32 = 17;
const AF_XDP: i32 = 44;
/// Locked memory of one AF_XDP port: the frames of a queue, and some more.
const LOCKED: u64 = 8 << 20;
/// Open files of a node of some size.
const FILES: u64 = 4096;
/// Free space that a store needs to be of use.
const SPACE: u64 = 64 << 20;

/// Programs, each with its Debian package and what it is for.
const PROGRAMS: [(&str, &str, &str, &str); 6] = [
    ("nft", "nft", "nftables", "native firewalls and NAT"),
    ("ip", "ip", "iproute2", "native functions"),
    ("runc", "runc", "runc", "containers"),
    ("qemu", "qemu-system-x86_64", "qemu-system-x86", "virtual machines"),
    ("z3", "z3", "z3", "requirements that intervals cannot decide"),
    ("dpdk-testpmd", "dpdk-testpmd", "dpdk-dev", "the example of a DPDK function"),
];

/// All of it.
pub(super) fn all(state: &Path, run: &Path) -> Vec<Check> {
    let mut checks = vec![kernel(), processor(), rights()];
    checks.push(folder("state folder", state));
    checks.push(folder("socket folder", run));
    checks.push(limit(
        "open files",
        Resource::RLIMIT_NOFILE,
        FILES,
        "",
        "LimitNOFILE=65536 in the unit, or 'ulimit -n 65536'",
    ));
    checks.push(socket(
        "packet sockets",
        AF_PACKET,
        Some(Protocol::from(0)),
        "run as root, or give CAP_NET_RAW",
    ));
    checks.push(socket(
        "XDP sockets",
        AF_XDP,
        None,
        "a kernel with CONFIG_XDP_SOCKETS, and CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF (or root)",
    ));
    checks.push(limit(
        "locked memory",
        Resource::RLIMIT_MEMLOCK,
        LOCKED,
        " bytes",
        "LimitMEMLOCK=infinity in the unit, or 'ulimit -l unlimited'; CAP_IPC_LOCK does as well",
    ));
    checks.push(tap());
    checks.push(shared_memory());
    checks.push(hugepages());
    checks.push(namespace(
        "network namespaces",
        CloneFlags::CLONE_NEWNET,
        "CAP_SYS_ADMIN, and a kernel with CONFIG_NET_NS",
    ));
    checks.push(namespace("mount namespaces", CloneFlags::CLONE_NEWNS, "CAP_SYS_ADMIN"));
    checks.push(user_namespaces());
    checks.push(control_groups());
    checks.push(seccomp());
    checks.push(landlock());
    checks.push(kvm());
    checks.extend(PROGRAMS.map(|(name, program, package, what)| {
        let there = is_installed(program);
        let found = format!("{program} is {}, for {what}", if there { "there" } else { "not there" });
        check(name, if there { Ok(found) } else { Err(found) }, &format!("apt-get install {package}"))
    }));
    checks
}

fn check(name: &'static str, found: Result<String, String>, remedy: &str) -> Check {
    match found {
        Ok(found) => Check { name, ok: true, found, remedy: None },
        Err(found) => Check { name, ok: false, found, remedy: Some(remedy.to_owned()) },
    }
}

fn kernel() -> Check {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let mut numbers = release.split(['.', '-']).filter_map(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let found = format!("Linux {release}");
    check("kernel", if version >= (5, 10) { Ok(found) } else { Err(found) }, "Linux 5.10 or later")
}

fn processor() -> Check {
    let number = thread::available_parallelism().map_or(1, usize::from);
    let found = format!("{number} of {}", std::env::consts::ARCH);
    let compiled = matches!(std::env::consts::ARCH, "x86_64" | "aarch64");
    check(
        "processor",
        if compiled { Ok(found) } else { Err(found) },
        "x86_64 or aarch64: there is no compiler for others",
    )
}

/// Capabilities by their number (linux/capability.h).
const CAPABILITIES: [(&str, u32); 5] =
    [("CAP_NET_ADMIN", 12), ("CAP_NET_RAW", 13), ("CAP_SYS_ADMIN", 21), ("CAP_SETUID", 7), ("CAP_KILL", 5)];

fn rights() -> Check {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0);
    let lacks: Vec<&str> =
        CAPABILITIES.iter().filter(|(_, bit)| mask >> bit & 1 == 0).map(|(name, _)| *name).collect();
    let found = match &lacks[..] {
        [] => Ok("all that a node needs".to_owned()),
        lacks => Err(format!("without {}", lacks.join(", "))),
    };
    check("capabilities", found, "run 'weir doctor', and the node, as root")
}

/// The folder, or what it would be made in.
fn folder(name: &'static str, path: &Path) -> Check {
    let there = path.ancestors().find(|p| p.is_dir()).unwrap_or(Path::new("/"));
    let shown = path.display();
    let remedy = format!("a file system with space that is mounted for writing at {shown}");
    let writable = nix::unistd::access(there, nix::unistd::AccessFlags::W_OK);
    let found = match (writable, statvfs(there)) {
        (Err(e), _) => Err(format!("{shown} cannot be written: {}", e.desc())),
        (Ok(()), Err(e)) => Err(format!("{shown}: {}", e.desc())),
        (Ok(()), Ok(fs)) => {
            let free = fs.blocks_available() * fs.fragment_size();
            let found = format!("{shown}, {} MB free", free >> 20);
            if free >= SPACE { Ok(found) } else { Err(found) }
        }
    };
    check(name, found, &remedy)
}

fn limit(name: &'static str, resource: Resource, least: u64, unit: &str, remedy: &str) -> Check {
    let found = match getrlimit(resource) {
        Ok((_, hard)) if hard == nix::sys::resource::RLIM_INFINITY => Ok("no limit".to_owned()),
        Ok((_, hard)) => {
            let found = format!("{hard}{unit} at most");
            if hard >= least { Ok(found) } else { Err(format!("{found}, of {least}{unit} or more")) }
        }
        Err(e) => Err(e.desc().to_owned()),
    };
    check(name, found, remedy)
}

fn socket(name: &'static str, family: i32, protocol: Option<Protocol>, remedy: &str) -> Check {
    let found = Socket::new(Domain::from(family), Type::RAW, protocol);
    check(name, found.map(|_| "can be made".to_owned()).map_err(|e| e.to_string()), remedy)
}

fn opened(path: &str) -> Result<String, String> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.map(|_| format!("{path} can be opened")).map_err(|e| format!("{path}: {e}"))
}

fn tap() -> Check {
    check("TAP", opened("/dev/net/tun"), "load the module tun ('modprobe tun'), and give CAP_NET_ADMIN")
}

fn shared_memory() -> Check {
    let made = memfd_create("weir-doctor", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING);
    check(
        "shared memory",
        made.map(|_| "memfd can be made and sealed".to_owned()).map_err(|e| e.desc().to_owned()),
        "a kernel with CONFIG_MEMFD_CREATE",
    )
}

fn hugepages() -> Check {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name: &str| -> u64 {
        let value = text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("0");
        value.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0)
    };
    let (total, free, size) = (of("HugePages_Total:"), of("HugePages_Free:"), of("Hugepagesize:"));
    let found = format!("{free} of {total} free, of {size} KB");
    check(
        "hugepages",
        if total > 0 { Ok(found) } else { Err(format!("{found}; DPDK programs run without, more slowly")) },
        "sysctl vm.nr_hugepages=512, if DPDK programs are to have them",
    )
}

/// Tried by a thread of its own, which ends with what it made.
fn namespace(name: &'static str, flag: CloneFlags, remedy: &str) -> Check {
    let tried = thread::spawn(move || unshare(flag)).join();
    let found = match tried {
        Ok(Ok(())) => Ok("can be made".to_owned()),
        Ok(Err(e)) => Err(e.desc().to_owned()),
        Err(_) => Err("cannot be tried".to_owned()),
    };
    check(name, found, remedy)
}

fn user_namespaces() -> Check {
    let most = fs::read_to_string("/proc/sys/user/max_user_namespaces");
    let most = most.ok().and_then(|text| text.trim().parse::<u64>().ok());
    let found = match most {
        None => Err("this kernel has none".to_owned()),
        Some(0) => Err("none may be made".to_owned()),
        Some(most) => Ok(format!("{most} at most")),
    };
    check("user namespaces", found, "sysctl user.max_user_namespaces=10000")
}

/// Tried with a group that has nobody in it.
fn control_groups() -> Check {
    let group = Cgroup::named(&format!("doctor-{}", std::process::id()));
    let version = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { 2 } else { 1 };
    let made = group.create(Limits { memory: 64 << 20, processes: 8, cpu: Some(1000) });
    group.joined().for_each(|folder| _ = fs::remove_dir(folder));
    let found =
        made.map(|()| format!("version {version}: memory, processes and processor time can be limited"));
    check(
        "control groups",
        found.map_err(|e| format!("version {version}: {e}")),
        "mount /sys/fs/cgroup with the controllers memory, pids and cpu, for writing; a unit of systemd's needs Delegate=yes",
    )
}

fn seccomp() -> Check {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let found = match actions.split_whitespace().any(|a| a == "kill_process") {
        true => Ok("system calls can be refused".to_owned()),
        false => Err("system calls cannot be refused".to_owned()),
    };
    check("seccomp", found, "a kernel with CONFIG_SECCOMP_FILTER")
}

fn landlock() -> Check {
    let has = |abi: ABI| {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        ruleset.handle_access(AccessFs::from_all(abi)).and_then(Ruleset::create).is_ok()
    };
    let newest = [ABI::V5, ABI::V3, ABI::V2, ABI::V1].into_iter().find(|abi| has(*abi));
    let found = match newest {
        Some(abi) => Ok(format!("files can be refused, as of {abi:?} or later")),
        None => Err("files cannot be refused; workers have an empty root all the same".to_owned()),
    };
    check(
        "Landlock",
        found,
        "a kernel with CONFIG_SECURITY_LANDLOCK, and 'landlock' in lsm= of its command line",
    )
}

fn kvm() -> Check {
    let found =
        opened("/dev/kvm").map_err(|e| format!("{e}; virtual machines are emulated, ten times as slow"));
    check(
        "KVM",
        found,
        "virtualisation in the firmware, nested if this is a guest, and the module kvm_intel or kvm_amd",
    )
}
