//! The user-space datapath of Open vSwitch with DPDK ports that need no device.
//!
//! Port 1 copies the packets of a file in memory round and round, port 2 frees what is sent. So it is the datapath that
//! is measured (its caches, mostly: all packets of these workloads fit into them), not a network interface.

use std::fmt::Write;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::process::{Folder, HugePages, Running, need_root, program, run, version};
use super::{Effort, Reference, write_pcap};
use crate::stats::Spread;
use crate::workload::{Frames, l2_frames, last_frames};

/// The thread that moves packets.
const WORKER: &str = "pmd-c";

/// The work that it is measured with.
struct Job {
    about: String,
    workload: String,
    frames: Frames,
    flows: String,
}

/// L2 switching and rules.
pub fn measure(effort: Effort, all: &mut Vec<Reference>) -> Result<()> {
    let switchd = program("ovs-vswitchd-dpdk", "openvswitch-switch-dpdk")?;
    for tool in ["ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"] {
        program(tool, "openvswitch-switch")?;
    }
    need_root()?;
    let huge = HugePages::reserve(512);
    let folder = Folder::new("ovs")?;
    let mut ovs = Ovs::start(&folder, &switchd, huge.is_some())?;
    let name = format!("Open vSwitch {}", version("openvswitch-switch-dpdk"));
    for job in jobs() {
        let nanos = ovs.measure(&job, effort).with_context(|| job.about.clone())?;
        all.push(Reference { program: name.clone(), job: job.about, workload: Some(job.workload), nanos });
    }
    Ok(())
}

fn jobs() -> Vec<Job> {
    let switches = [1, 10, 100, 1000].map(|macs| {
        let frames = l2_frames(macs, 1024);
        let mut flows = String::new();
        let mut known = std::collections::HashSet::new();
        for frame in frames.iter().filter(|f| known.insert(f[..6].to_vec())) {
            let mac: Vec<String> = frame[..6].iter().map(|b| format!("{b:02x}")).collect();
            _ = writeln!(flows, "dl_dst={},actions=output:2", mac.join(":"));
        }
        let about = format!("L2: {macs} flows by destination address");
        Job { about, workload: format!("l2-{macs}"), frames, flows }
    });
    let rules = [10, 100, 1000].map(|rules: u32| {
        let mut flows = String::new();
        for i in 1..rules {
            _ = writeln!(
                flows,
                "priority={},udp,nw_src=172.16.{}.{},tp_dst={},actions=drop",
                20_000 - i,
                i / 250,
                i % 250 + 1,
                1000 + i
            );
        }
        flows += "priority=1,udp,tp_dst=53,actions=output:2\n";
        let about = format!("rules: the last of {rules} matches");
        Job { about, workload: format!("rules-last-{rules}"), frames: last_frames(), flows }
    });
    switches.into_iter().chain(rules).collect()
}

/// The switch with its data base, ended in the order of the fields.
struct Ovs<'a> {
    switch: Running,
    _database: Running,
    folder: &'a Folder,
}

impl<'a> Ovs<'a> {
    fn start(folder: &'a Folder, switchd: &std::path::Path, huge: bool) -> Result<Ovs<'a>> {
        let file = |name: &str| folder.file(name).display().to_string();
        let socket = format!("unix:{}", file("db.sock"));
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        run(command(folder, "ovsdb-tool").args(["create", &file("conf.db"), schema]), "")?;
        let mut database = command(folder, "ovsdb-server");
        database.args([
            file("conf.db"),
            format!("--remote=p{socket}"),
            format!("--log-file={}", file("db.log")),
        ]);
        let _database = Running::start(&mut database)?;
        wait_for(folder, "db.sock")?;
        let memory = if huge { "-m 512" } else { "--no-huge --legacy-mem -m 512" };
        let extra =
            format!("--no-pci --no-telemetry --file-prefix=weir-bench-{} {memory}", std::process::id());
        let vsctl = |folder| {
            let mut vsctl = command(folder, "ovs-vsctl");
            vsctl.args([&format!("--db={socket}"), "--timeout=30"]);
            vsctl
        };
        run(vsctl(folder).args(["--no-wait", "init"]), "")?;
        run(
            vsctl(folder)
                .args(["--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true"])
                .args(["other_config:pmd-cpu-mask=0x2", "other_config:dpdk-lcore-mask=0x1"])
                .arg(format!("other_config:dpdk-extra=\"{extra}\"")),
            "",
        )?;
        let mut switch = Command::new(switchd);
        environment(folder, &mut switch).arg(&socket);
        switch.args([format!("--unixctl={}", file("ctl")), format!("--log-file={}", file("switch.log"))]);
        switch.arg("-vconsole:off");
        let switch = Running::start(&mut switch)?;
        wait_for(folder, "ctl")?;
        run(vsctl(folder).args(["add-br", "b", "--", "set", "bridge", "b", "datapath_type=netdev"]), "")?;
        let sink = "options:dpdk-devargs=net_null1,size=64,no-rx=1";
        run(
            vsctl(folder)
                .args(["add-port", "b", "out", "--", "set", "Interface", "out", "type=dpdk"])
                .args(["ofport_request=2", sink]),
            "",
        )?;
        Ok(Ovs { switch, _database, folder })
    }

    fn measure(&mut self, job: &Job, effort: Effort) -> Result<Spread> {
        let pcap = self.folder.file("frames.pcap");
        write_pcap(&job.frames, &pcap)?;
        let bridge = self.folder.file("b.mgmt").display().to_string();
        run(self.tool("ovs-ofctl").args(["del-flows", &bridge]), "")?;
        run(self.tool("ovs-ofctl").args(["add-flows", &bridge, "-"]), &job.flows)?;
        let source = format!("options:dpdk-devargs=net_pcap0,rx_pcap={},infinite_rx=1", pcap.display());
        let socket = format!("--db=unix:{}", self.folder.file("db.sock").display());
        run(
            self.tool("ovs-vsctl")
                .args([&socket, "--timeout=30", "add-port", "b", "in"])
                .args(["--", "set", "Interface", "in", "type=dpdk", "ofport_request=1"])
                .arg(&source),
            "",
        )?;
        let nanos = self.samples(effort);
        run(self.tool("ovs-vsctl").args([&socket, "--timeout=30", "del-port", "in"]), "")?;
        nanos
    }

    fn samples(&mut self, effort: Effort) -> Result<Spread> {
        sleep(Duration::from_millis(500));
        let time = Duration::from_millis(if effort.quick { 200 } else { 500 });
        let mut samples = Vec::new();
        let mut last = self.look()?;
        for _ in 0..effort.samples {
            sleep(time);
            let (cpu, packets) = self.look()?;
            ensure!(packets > last.1, "no packets were forwarded");
            samples.push((cpu - last.0).as_nanos() as f64 / (packets - last.1) as f64);
            last = (cpu, packets);
        }
        Ok(Spread::of(samples))
    }

    /// Processor time of the worker and packets that left on port 2.
    fn look(&self) -> Result<(Duration, u64)> {
        let ctl = self.folder.file("ctl").display().to_string();
        let text = run(self.tool("ovs-appctl").args(["-t", &ctl, "dpctl/show", "-s"]), "")?;
        let cpu = self.switch.thread_time(WORKER)?;
        let port = text.split_once(": out (").context("dpctl/show does not show the port")?.1;
        let sent = port.split_once("TX packets:").and_then(|(_, rest)| rest.split_whitespace().next());
        let sent = sent.and_then(|n| n.parse().ok()).context("dpctl/show shows no packets")?;
        Ok((cpu, sent))
    }

    fn tool(&self, name: &str) -> Command {
        command(self.folder, name)
    }
}

fn command(folder: &Folder, name: &str) -> Command {
    let mut command = Command::new(name);
    environment(folder, &mut command);
    command
}

fn environment<'c>(folder: &Folder, command: &'c mut Command) -> &'c mut Command {
    let names = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"];
    command.envs(names.map(|name| (name, folder.path())))
}

fn wait_for(folder: &Folder, name: &str) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(20);
    while !folder.file(name).exists() {
        ensure!(Instant::now() < end, "{name} did not appear: see the logs of Open vSwitch");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
