//! A switch that obeys an OpenFlow controller, beside Open vSwitch on the same links.
//!
//! Both are in user space, with packet sockets on veth pairs as ports (the `netdev` datapath of Open vSwitch). Changes come from `ovs-ofctl`; that
//! reads and writes them takes a part of the time for both. What the switch itself takes is the processor time of its process.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use weir_testkit::{Namespace, link};

use crate::functions::Figure;
use crate::references::process::{Folder, Running, need_root, program, run, run_time};
use crate::stats::Spread;

/// How many entries are made, changed and removed.
const ENTRIES: u32 = 10_000;
/// How long something may take to be there.
const PATIENCE: Duration = Duration::from_secs(20);
/// What the figures are of.
const OURS: &str = "weir openflow-switch";
const THEIRS: &str = "Open vSwitch (netdev)";

/// Measures both in turns; says in `skipped` why not, if it cannot.
pub fn measure(samples: usize, time: Duration, skipped: &mut Vec<String>) -> Vec<Figure> {
    let mut all = Vec::new();
    for who in [OURS, THEIRS] {
        eprintln!("apps: {who}");
        if let Err(e) = of(who, samples, time, &mut all) {
            skipped.push(format!("apps: {who}: {e:#}"));
        }
    }
    all.sort_by(|a, b| a.what.cmp(&b.what));
    all
}

/// Two hosts with a switch between them.
struct Lab {
    switch: Namespace,
    hosts: [Namespace; 2],
}

impl Lab {
    fn new() -> Lab {
        let switch = Namespace::new("apps-switch");
        let hosts = ["apps-a", "apps-b"].map(Namespace::new);
        for (host, n) in hosts.iter().zip(1..) {
            link((&switch, &format!("p{n}")), (host, "eth0"));
            host.ip(&format!("addr add 10.0.0.{n}/24 dev eth0"));
        }
        Lab { switch, hosts }
    }
}

/// A switch at work, ended in the order of the fields.
struct Switch {
    _processes: Vec<Running>,
    /// Which of them moves packets.
    main: u32,
    target: String,
    folder: Folder,
}

impl Switch {
    fn ours(lab: &Lab) -> Result<Switch> {
        let folder = Folder::new("apps-ours")?;
        let program = std::env::current_exe()?.with_file_name("weir");
        ensure!(program.exists(), "{} is not there: cargo build --release -p weir", program.display());
        let target = folder.file("control").display().to_string();
        let mut command = lab.switch.command(&program.display().to_string());
        command.args([
            "openflow-switch",
            "--port",
            "p1",
            "--port",
            "p2",
            "--controller",
            &format!("punix:{target}"),
        ]);
        let process = Running::start(&mut command)?;
        let main = process.pid();
        Ok(Switch { _processes: vec![process], main, target, folder })
    }

    fn theirs(lab: &Lab) -> Result<Switch> {
        for tool in ["ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl"] {
            program(tool, "openvswitch-switch")?;
        }
        let folder = Folder::new("apps-theirs")?;
        let file = |name: &str| folder.file(name).display().to_string();
        let environment = |command: &mut Command| {
            let names = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"];
            command.envs(names.map(|name| (name, folder.path())));
        };
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        run(Command::new("ovsdb-tool").args(["create", &file("conf.db"), schema]), "")?;
        let mut database = Command::new("ovsdb-server");
        database.args([file("conf.db"), format!("--remote=punix:{}", file("db.sock"))]);
        environment(&mut database);
        let database = Running::start(&mut database)?;
        wait_for(&folder.file("db.sock"))?;
        let socket = format!("--db=unix:{}", file("db.sock"));
        run(Command::new("ovs-vsctl").args([&socket, "--timeout=20", "--no-wait", "init"]), "")?;
        let mut switch = lab.switch.command("ovs-vswitchd");
        switch.args([format!("unix:{}", file("db.sock")), format!("--unixctl={}", file("ctl"))]);
        environment(&mut switch);
        let switch = Running::start(&mut switch)?;
        let main = switch.pid();
        let set = "add-br b -- set bridge b datapath_type=netdev protocols=OpenFlow13 fail-mode=secure \
                   -- add-port b p1 -- set interface p1 ofport_request=1 -- add-port b p2 -- set interface p2 ofport_request=2";
        run(Command::new("ovs-vsctl").args([&socket, "--timeout=20"]).args(set.split_whitespace()), "")?;
        let target = file("b.mgmt");
        Ok(Switch { _processes: vec![switch, database], main, target, folder })
    }

    fn ofctl(&self, command: &str, rest: &[&str]) -> Result<String> {
        let target = format!("unix:{}", self.target);
        run(
            Command::new("ovs-ofctl").args(["-O", "OpenFlow13", "--timeout=60", command, &target]).args(rest),
            "",
        )
    }

    /// Processor time of all threads of its process.
    fn time(&self) -> Result<Duration> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.main))?;
        // A thread may end meanwhile.
        Ok(tasks.filter_map(|task| run_time(&task.ok()?.path()).ok()).sum())
    }
}

fn wait_for(path: &Path) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !path.exists() {
        ensure!(Instant::now() < end, "{} did not appear", path.display());
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn of(who: &str, samples: usize, time: Duration, all: &mut Vec<Figure>) -> Result<()> {
    need_root()?;
    program("ovs-ofctl", "openvswitch-switch")?;
    program("iperf3", "iperf3")?;
    program("ethtool", "ethtool")?;
    let lab = Lab::new();
    let switch = if who == OURS { Switch::ours(&lab)? } else { Switch::theirs(&lab)? };
    wait_for(Path::new(&switch.target))?;
    let mut figure = |what: &str, values: Vec<f64>| {
        all.push(Figure { what: what.to_owned(), kind: who.to_owned(), value: Spread::of(values) });
    };
    let (wall, cpu) = flow_mods(&switch, samples)?;
    figure("10,000 entries made by ovs-ofctl, ms", wall);
    figure("an entry made, changed and removed, µs of the switch's processor time", cpu);
    switch.ofctl("add-flow", &["in_port=1,actions=output:2"])?;
    switch.ofctl("add-flow", &["in_port=2,actions=output:1"])?;
    let tcp = ["-l", "128K"];
    let gigabits = |r: &serde_json::Value| Some(r["end"]["sum_received"]["bits_per_second"].as_f64()? / 1e9);
    if who == OURS {
        // That datapath of Open vSwitch takes neither unfinished checksums nor segments that wait to be cut.
        figure("TCP that nobody has segmented, Gbit/s", iperf(&lab, samples, time, &tcp, gigabits)?);
    }
    for host in &lab.hosts {
        let off = ["-K", "eth0", "tx", "off", "tso", "off", "gso", "off"];
        run(host.command("ethtool").args(off), "")?;
    }
    figure("TCP, segmented by the hosts, Gbit/s", iperf(&lab, samples, time, &tcp, gigabits)?);
    let udp = ["-u", "-b", "0", "-l", "64"];
    let rate = |r: &serde_json::Value| {
        let sum = &r["end"]["sum"];
        let arrived = sum["packets"].as_f64()? * (1.0 - sum["lost_percent"].as_f64()? / 100.0);
        Some(arrived / sum["seconds"].as_f64()? / 1e3)
    };
    figure(
        "UDP datagrams of 64 bytes through it, thousands a second",
        iperf(&lab, samples, time, &udp, rate)?,
    );
    Ok(())
}

/// Milliseconds to make all entries, and microseconds of the switch for each that is made, changed and removed.
fn flow_mods(switch: &Switch, samples: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut entries = String::new();
    for n in 0..ENTRIES {
        let [_, _, high, low] = n.to_be_bytes();
        _ = writeln!(
            entries,
            "priority={},udp,nw_src=10.0.{high}.{low},tp_dst={n},actions=output:2",
            1000 + n % 100
        );
    }
    let file = switch.folder.file("entries");
    std::fs::write(&file, entries)?;
    let file = file.display().to_string();
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        switch.ofctl("del-flows", &[])?;
        let (start, before) = (Instant::now(), switch.time()?);
        switch.ofctl("add-flows", &[&file])?;
        wall.push(start.elapsed().as_secs_f64() * 1e3);
        let there = switch.ofctl("dump-aggregate", &[])?;
        ensure!(there.contains(&format!("flow_count={ENTRIES}")), "not all entries are there: {there}");
        switch.ofctl("mod-flows", &["udp,actions=output:1"])?;
        switch.ofctl("del-flows", &["udp"])?;
        cpu.push((switch.time()? - before).as_secs_f64() * 1e6 / f64::from(ENTRIES));
    }
    Ok((wall, cpu))
}

fn iperf(
    lab: &Lab,
    samples: usize,
    time: Duration,
    options: &[&str],
    figure: impl Fn(&serde_json::Value) -> Option<f64>,
) -> Result<Vec<f64>> {
    let [client, server] = &lab.hosts;
    let mut values = Vec::new();
    for _ in 0..samples {
        let mut command = server.command("iperf3");
        let mut listener = Running::start(command.args(["-s", "-1", "--forceflush"]))?;
        listener.hear("that it listens", |line| line.contains("listening").then_some(()))?;
        let seconds = time.as_secs().max(1).to_string();
        let mut command = client.command("iperf3");
        let report = run(command.args(["-c", "10.0.0.2", "-J", "-t", &seconds]).args(options), "")?;
        let report: serde_json::Value = serde_json::from_str(&report)?;
        values.push(figure(&report).with_context(|| format!("iperf3 reports nothing: {report}"))?);
    }
    Ok(values)
}

/// The figures as a part of the report.
pub fn markdown(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut out = "\n## A switch that obeys an OpenFlow controller\n\nBeside the user-space datapath of Open vSwitch, on the same links (veth, packet sockets), in one \
                   run; median (smallest–largest).\n\n| | switch | |\n|---|---|---:|\n"
        .to_owned();
    for f in figures {
        _ = writeln!(out, "| {} | {} | {} |", f.what, f.kind, f.value.show(2));
    }
    out
}
