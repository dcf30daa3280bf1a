//! `weir doctor`, settings in files, and the Debian package: made, installed, upgraded, removed and purged in a root of its own.

use std::fs;
use std::path::Path;

use crate::lab::{Lab, WEIR, host, repository, weir};
use crate::node::Node;

#[test]
fn the_doctor_says_what_this_machine_can_do_and_fails_for_what_it_cannot() {
    let groups = || {
        let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        let groups = hierarchies
            .flat_map(|h| std::fs::read_dir(h.path().join("weir")).into_iter().flatten().flatten());
        groups.map(|g| g.path()).filter(|g| g.to_string_lossy().contains("/doctor-")).collect::<Vec<_>>()
    };
    let before = groups();
    let report = weir(&["--json", "doctor", "--state", "/tmp", "--run", "/tmp"]).json();
    assert_eq!(groups(), before, "what it tries is gone afterwards");
    let works = |name: &str| {
        report["uses"].as_array().unwrap().iter().any(|u| u["name"] == name && u["works"] == true)
    };
    // What other tests do here.
    for name in ["node", "inline", "process", "native", "container", "packet", "tap", "memif", "vhost-user"] {
        assert!(works(name), "{name}: {report:#}");
    }
    // Where /sys is mounted anew, without the control groups.
    let lab = Lab::new(&["inside"]);
    let text = lab.ns("inside").weir(&["doctor", "--need", "native", "--state", "/tmp", "--run", "/tmp"]);
    assert!(text.code == 1 && text.stdout.contains("nsenter --net=/run/netns/NAME"), "{}", text.stdout);
    let text = weir(&["doctor", "--state", "/proc/weir", "--run", "/tmp"]);
    assert_eq!(text.code, 1, "{}", text.stdout);
    assert!(
        text.stdout.contains("does not work: state folder") && text.stdout.contains("→ a file system"),
        "{}",
        text.stdout
    );
    assert!(weir(&["doctor", "--need", "nothing"]).fails(2).contains("possible values"));
    // As somebody without rights.
    let nobody =
        ["setpriv", "--reuid", "65534", "--clear-groups", WEIR, "doctor", "--state", "/tmp", "--run", "/tmp"];
    let out = host(&nobody);
    assert_eq!(out.code, 1, "{}", out.stdout);
    assert!(
        out.stdout.contains("missing  packet sockets") && out.stdout.contains("CAP_NET_RAW"),
        "{}",
        out.stdout
    );
}

#[test]
fn settings_stand_in_a_file_that_is_checked_and_the_command_line_goes_before() {
    let lab = Lab::new(&["node"]);
    let wrong = lab.write("wrong.yaml", "lisen: 127.0.0.1:7400\nworkers: [1]\ntls: perhaps\n");
    let said = weir(&["node", "--check-config", "--config", &wrong]).fails(1);
    for part in [
        "wrong.yaml: there is no setting 'lisen'",
        "listen",
        "workers: give one value",
        "tls: give true or false",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let wrong = lab.write("value.yaml", "workers: 3000\n");
    assert!(weir(&["node", "--check-config", "--config", &wrong]).fails(2).contains("from 1 to 256"));
    assert!(weir(&["node", "--config", "/none.yaml"]).fails(3).contains("/none.yaml"));
    let file = lab.write("node.yaml", "listen: 127.0.0.1:1\nrevisions: 2\nstop-engine: true\n");
    assert!(weir(&["node", "--check-config", "--config", &file]).ok().contains("all settings are right"));
    let node = Node::start_with(&lab, &["--config", &file, "--listen", "127.0.0.1:7400"]);
    node.end().ok();
    assert!(
        !Path::new(&lab.path("engine.sock")).exists(),
        "the file says that the data plane ends with the daemon"
    );

    // The package's files: right, and with every setting that there is.
    for daemon in ["node", "controller"] {
        let file = format!("packaging/etc/{daemon}.yaml");
        weir(&[daemon, "--check-config", "--config", &file]).ok();
        let text = fs::read_to_string(repository().join(&file)).unwrap();
        let help = weir(&[daemon, "--help"]).ok();
        let options =
            help.lines().filter_map(|l| l.trim().split("--").nth(1).filter(|_| l.trim().starts_with('-')));
        let names = options.map(|o| o.split([' ', ',', '=']).next().unwrap_or_default().to_owned());
        let no_settings = [
            "json",
            "color",
            "node",
            "context",
            "config",
            "check-config",
            "describe",
            "new-admin-token",
            "help",
            "version",
        ];
        for name in names.filter(|n| !no_settings.contains(&n.as_str())) {
            let there = text.lines().any(|l| l.trim_start_matches("# ").starts_with(&format!("{name}:")));
            assert!(there, "{file} does not explain {name}");
        }
        // With the comments of settings taken away, it still is right, but for what is no default.
        let all: String = text
            .lines()
            .filter_map(|l| {
                let bare = l.strip_prefix("# ").unwrap_or(l);
                let setting = bare
                    .split_once(':')
                    .is_some_and(|(key, _)| help.contains(&format!("--{key}")) && !key.contains(' '));
                (setting
                    && !["name", "token", "join", "no-login", "no-tls"]
                        .contains(&bare.split(':').next().unwrap()))
                .then(|| format!("{bare}\n"))
            })
            .collect();
        let all = lab.write("all.yaml", all);
        weir(&[daemon, "--check-config", "--config", &all]).ok();
    }
}

/// A root with a shell, the programs that maintainer scripts call (users are made as Debian's adduser does it, in a line), and dpkg's state:
/// it is empty but for these.
fn root(lab: &Lab) -> String {
    let root = lab.path("root");
    for folder in [
        "var/lib/dpkg/info",
        "var/lib/dpkg/updates",
        "bin",
        "usr/bin",
        "usr/sbin",
        "proc",
        "tmp",
        "run/weir",
        "etc",
        "dev",
    ] {
        fs::create_dir_all(format!("{root}/{folder}")).unwrap();
    }
    host(&["mknod", &format!("{root}/dev/null"), "c", "1", "3"]).ok();
    for file in ["status", "available"] {
        fs::write(format!("{root}/var/lib/dpkg/{file}"), "").unwrap();
    }
    for file in ["passwd", "group"] {
        fs::write(format!("{root}/etc/{file}"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    }
    // Not busybox' shell, which runs its own adduser whatever else there is.
    fs::copy("/bin/busybox", format!("{root}/bin/busybox")).unwrap();
    std::os::unix::fs::symlink("/bin/busybox", format!("{root}/bin/rm")).unwrap();
    fs::copy("/bin/dash", format!("{root}/bin/sh")).unwrap();
    let libraries = host(&["ldd", "/bin/dash"]).ok();
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let there = format!("{root}{library}");
        fs::create_dir_all(Path::new(&there).parent().unwrap()).unwrap();
        fs::copy(library, there).unwrap();
    }
    let script = |name: &str, text: &str| {
        let file = format!("{root}/usr/bin/{name}");
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        host(&["chmod", "+x", &file]).ok();
    };
    script("getent", "/bin/busybox grep \"^$2:\" /etc/passwd");
    script("adduser", "echo weir:x:900:900::/var/lib/weir-controller:/usr/sbin/nologin >> /etc/passwd");
    script("deluser", "/bin/busybox sed -i /^weir:/d /etc/passwd");
    root
}

#[test]
fn the_package_is_installed_upgraded_removed_and_purged() {
    let lab = Lab::new(&[]);
    let out = lab.path("packages");
    let made = host(&["env", "DEB_COMPRESSION=0", "scripts/deb", WEIR, &out]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let packages: Vec<String> =
        fs::read_dir(&out).unwrap().map(|e| e.unwrap().path().display().to_string()).collect();
    let package = packages.iter().find(|p| p.contains("/weir_")).unwrap();
    assert!(packages.iter().any(|p| p.contains("/weir-dbgsym_")), "{packages:?}");
    let listed = host(&["dpkg-deb", "--contents", package]).ok();
    for file in [
        "./usr/bin/weir\n",
        "./usr/share/man/man1/weir-node.1.gz\n",
        "./usr/share/bash-completion/completions/weir\n",
        "./usr/share/zsh/vendor-completions/_weir\n",
        "./usr/share/weir/images/firewall/function.yaml\n",
        "./lib/systemd/system/weir-node.service\n",
        "./usr/share/doc/weir/operating.md\n",
    ] {
        assert!(listed.contains(file), "{file} is not in the package");
    }
    let sections = host(&["sh", "-c", &format!("dpkg-deb --fsys-tarfile {package} | tar -xO ./usr/bin/weir > {out}/program && readelf -SW {out}/program")]).ok();
    assert!(sections.contains(".gnu_debuglink") && !sections.contains(".debug_info"), "symbols stand apart");

    let root = root(&lab);
    let dpkg = |arguments: &[&str]| {
        let all = ["dpkg", &format!("--root={root}"), "--force-depends", "--force-not-root"];
        host(&[&all[..], arguments].concat())
    };
    let installed = dpkg(&["--install", package]);
    assert_eq!(installed.code, 0, "{}{}", installed.stdout, installed.stderr);
    assert!(installed.stdout.contains("weir doctor"), "{}", installed.stdout);
    let there = |path: &str| Path::new(&format!("{root}{path}")).exists();
    assert!(there("/usr/bin/weir") && there("/etc/weir/node.yaml"));
    assert!(fs::read_to_string(format!("{root}/etc/passwd")).unwrap().contains("weir:"));
    let version = host(&[&format!("{root}/usr/bin/weir"), "--version"]).ok();
    assert!(version.contains(env!("CARGO_PKG_VERSION")));
    // Settings that were changed, and graphs, outlive an upgrade and a removal.
    let settings = format!("{root}/etc/weir/node.yaml");
    fs::write(&settings, "workers: 2\n").unwrap();
    fs::create_dir_all(format!("{root}/var/lib/weir")).unwrap();
    fs::write(format!("{root}/var/lib/weir/store.db"), "graphs").unwrap();
    let again = dpkg(&["--force-confdef", "--force-confold", "--install", package]);
    assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
    assert_eq!(fs::read_to_string(&settings).unwrap(), "workers: 2\n");
    let removed = dpkg(&["--remove", "weir"]);
    assert_eq!(removed.code, 0, "{}{}", removed.stdout, removed.stderr);
    assert!(!there("/usr/bin/weir") && there("/etc/weir/node.yaml") && there("/var/lib/weir/store.db"));
    let purged = dpkg(&["--purge", "weir"]);
    assert_eq!(purged.code, 0, "{}{}", purged.stdout, purged.stderr);
    assert!(!there("/etc/weir") && !there("/var/lib/weir") && !there("/usr/share/weir"));
    assert!(!fs::read_to_string(format!("{root}/etc/passwd")).unwrap().contains("weir:"));

    // The units: what systemd says of them, and that the controller's sandbox is as strict as they come.
    let unit = |name: &str| {
        let text =
            fs::read_to_string(repository().join(format!("packaging/systemd/{name}.service"))).unwrap();
        lab.write(&format!("{name}.service"), text.replace("/usr/bin/weir", WEIR))
    };
    for name in ["weir-node", "weir-controller"] {
        let said = host(&["systemd-analyze", "verify", "--man=no", &unit(name)]);
        let own: Vec<&str> = said.stderr.lines().filter(|l| l.contains(name)).collect();
        assert!(own.is_empty(), "{own:?}");
    }
    let strict =
        host(&["systemd-analyze", "security", "--offline=true", "--threshold=20", &unit("weir-controller")]);
    assert_eq!(strict.code, 0, "{}{}", strict.stdout, strict.stderr);
}

#[test]
fn a_node_works_with_the_rights_that_its_unit_gives() {
    let lab = Lab::new(&["client", "node", "server"]);
    lab.link(("node", "lan"), ("client", "eth0"));
    lab.link(("node", "wan"), ("server", "eth0"));
    lab.ip("client", "addr add 10.0.0.1/24 dev eth0");
    lab.ip("server", "addr add 10.0.0.2/24 dev eth0");
    let text = fs::read_to_string(repository().join("packaging/systemd/weir-node.service")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("CapabilityBoundingSet=")).unwrap();
    // Those of later kernels than setpriv knows are given by number.
    let word = |name: &str| match name {
        "CAP_PERFMON" => "+cap_38".to_owned(),
        "CAP_BPF" => "+cap_39".to_owned(),
        name => format!("+{}", name.trim_start_matches("CAP_").to_lowercase()),
    };
    let set = format!("-all,{}", line.split(' ').map(word).collect::<Vec<_>>().join(","));
    let script = "ip link add bridge0 type bridge\nfor p in $WEIR_PORTS; do ip link set $p master bridge0 up; done\nip link set bridge0 up";
    let images = crate::functions::image(&lab, "plain-bridge", "", &[("start", script)]);
    let (socket, store) = (lab.path("engine.sock"), lab.path("store/weir.db"));
    let node = [
        "setpriv",
        "--bounding-set",
        &set,
        WEIR,
        "node",
        "--socket",
        &socket,
        "--store",
        &store,
        "--images",
        "images",
        "--images",
        &images,
        "--stop-engine",
    ];
    let daemon = lab.ns("node").spawn_in_network(&node);
    crate::lab::until("the data plane", || daemon.stderr().contains("the data plane is process"));
    let apply = |function: &str| {
        let file = crate::functions::graph_of(&lab, function);
        lab.ns("node").weir(&["apply", &file]).ok();
        crate::lab::until_pings(&lab.ns("client"), "10.0.0.2");
        lab.ns("client").run(&["ip", "neigh", "flush", "all"]);
    };
    apply("name: plain-bridge");
    apply("name: bridge");
    apply("name: bridge, kind: process");
    lab.ns("node").weir(&["delete", &lab.name("g")]).ok();
    daemon.signal("TERM");
    daemon.wait();
}
