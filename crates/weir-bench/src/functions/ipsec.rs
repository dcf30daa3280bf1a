//! An IPsec client (COMPOSER paper, figure 22 and table 8): strongSwan with ESP in user space, between hosts and a VPN server, by itself
//! in a namespace, as a native function and in a container. TCP passes through each in one run.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Figure, Node, figure, within};
use crate::Effort;
use crate::ports::lab::Lab;
use crate::references::process::{Folder, program, run};

/// Names of figures.
const RATE: &str = "IPsec client, Mbit/s";
const READY: &str = "IPsec client, ms until packets pass";
const SIZE: &str = "IPsec client, MB of its image";
/// The kinds of client, in the order of columns.
const KINDS: [&str; 3] = ["alone", "native", "container"];
/// How long is waited for a tunnel.
const PATIENCE: Duration = Duration::from_secs(60);
/// Packets that the tunnel takes as they are.
const SEGMENT: &str = "1240";

/// The settings of charon at both ends.
const SETTINGS: &str = "charon {
  load = random nonce openssl hmac kdf aes sha1 sha2 gcm kernel-libipsec kernel-netlink socket-default vici
  threads = 16
  install_virtual_ip = no
  plugins { kernel-libipsec { load = yes }
    vici { socket = unix:///run/vici } }
}
swanctl { load = random openssl }
";

const SERVER: &str = "connections { home {
  version = 2
  local_addrs = 10.7.0.2
  local { auth = psk
    id = vpn.example.org }
  remote { auth = psk
    id = home@example.org }
  children { net { local_ts = 10.20.0.0/24
    remote_ts = 10.0.0.0/24 } } } }
secrets { ike-home { id = home@example.org
  secret = \"a long secret\" } }
";

const CLIENT: &str = "connections { home {
  version = 2
  local_addrs = 10.7.0.1
  remote_addrs = 10.7.0.2
  encap = yes
  local { auth = psk
    id = home@example.org }
  remote { auth = psk
    id = vpn.example.org }
  children { net { local_ts = 10.0.0.0/24
    remote_ts = 10.20.0.0/24
    start_action = start } } } }
secrets { ike-server { id = vpn.example.org
  secret = \"a long secret\" } }
";

/// Starts charon with the configuration of a folder, and has it loaded.
const RUN: &str = "#!/bin/sh
export STRONGSWAN_CONF=$1/strongswan.conf SWANCTL_DIR=$1
(until swanctl --load-all --noprompt --uri unix:///run/vici >/dev/null 2>&1; do sleep 0.05; done
touch $1/loaded) &
exec /usr/lib/ipsec/charon
";

/// The container, with the same settings.
const MANIFEST: &str = "name: ipsec-box
kind: container
ports: [inside, outside]
container:
  image: ./layout
  command: [sh, /etc/vpn/run, /etc/vpn]
  addresses: {inside: 10.0.0.1/24, outside: 10.7.0.1/24}
  capabilities: [NET_ADMIN, NET_RAW]
  devices: [/dev/net/tun]
  sysctls: {net.ipv4.ip_forward: '1'}
  memory: 128 MB
  processes: 64
";

const NATIVE: &str = "name: strongswan-client, params: {INSIDE_IP: 10.0.0.1, INSIDE_NET: 10.0.0.0/24, OUTSIDE_IP: 10.7.0.1, \
                      OUTSIDE_NET: 10.7.0.0/24, SERVER: 10.7.0.2, SERVER_ID: vpn.example.org, ID: home@example.org, \
                      REMOTE_NETS: 10.20.0.0/24, PSK: 'a long secret'}";

/// Programs that go away with this.
struct Running(Vec<Child>);

impl Running {
    fn start(&mut self, command: &mut Command) -> Result<()> {
        let shown = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.0.push(command.spawn().context(shown)?);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Measures all kinds of client.
pub(super) fn measure(
    effort: Effort,
    _: bool,
    all: &mut Vec<Figure>,
    skipped: &mut Vec<String>,
) -> Result<()> {
    for (name, package) in [("iperf3", "iperf3"), ("swanctl", "strongswan-swanctl"), ("umoci", "umoci")] {
        program(name, package)?;
    }
    for kind in KINDS {
        match through(kind, effort) {
            Ok(figures) => all.extend(figures),
            Err(e) => skipped.push(format!("functions: the IPsec client {kind}: {e:#}")),
        }
    }
    Ok(())
}

fn through(kind: &str, effort: Effort) -> Result<Vec<Figure>> {
    let folder = Folder::new(&format!("ipsec-{kind}"))?;
    let image = folder.path().join("images/ipsec-box");
    let (client, server) = (folder.path().join("client"), folder.path().join("server"));
    for (place, connection) in [(&client, CLIENT), (&server, SERVER)] {
        configure(place, connection)?;
    }
    let size = match kind {
        "container" => {
            fs::create_dir_all(&image)?;
            fs::write(image.join("function.yaml"), MANIFEST)?;
            let layout = image.join("layout");
            run(Command::new(repository().join("scripts/strongswan-image")).arg(&layout).arg(&client), "")?;
            size(&layout)
        }
        "native" => size(&repository().join("images/strongswan-client")),
        _ => 0.0,
    };
    let images = folder.path().join("images");
    let node = match kind {
        "alone" => None,
        kind => Some(Node::start_with((kind == "container").then_some(images.as_path()))?),
    };
    let own = if node.is_none() { Some(Lab::new()?) } else { None };
    let lab = own.as_ref().or(node.as_ref().map(|n| &n.lab)).context("a network")?;
    let mut running = Running(Vec::new());
    hosts(lab, &mut running, &server, folder.path())?;
    let start = Instant::now();
    match &node {
        Some(node) => {
            let says = if kind == "native" { NATIVE } else { "name: ipsec-box" };
            let sap = |name: &str| format!("type: interface, interface: {{if-name: {name}}}");
            node.apply(&[super::graph("vpn", &[(says, ["inside", "outside"])], &[sap("lan"), sap("wan")])])?;
        }
        None => {
            for (device, address) in [("lan", "10.0.0.1/24"), ("wan", "10.7.0.1/24")] {
                lab.ip("middle", &format!("addr add {address} dev {device}"))?;
            }
            run(within(lab, Path::new("sysctl")).args(["-qw", "net.ipv4.ip_forward=1"]), "")?;
            running.start(&mut charon(lab, "middle", &client, folder.path()))?;
        }
    }
    let ping = || lab.exec("sender", "ping -c1 -W1 -i0.2 10.20.0.1").is_ok();
    while !ping() {
        ensure!(start.elapsed() < PATIENCE, "there is no tunnel within {} seconds", PATIENCE.as_secs());
    }
    let ready = start.elapsed().as_secs_f64() * 1e3;
    let seconds = effort.time.as_secs().max(1).to_string();
    let mut rates = Vec::new();
    for _ in 0..effort.samples.min(5) {
        let line = format!("iperf3 -c 10.20.0.1 -t {seconds} -M {SEGMENT} --json");
        rates.push(rate(&lab.exec("sender", &line)?)?);
    }
    let mut figures = vec![figure(RATE, kind, rates), figure(READY, kind, [ready])];
    if size > 0.0 {
        figures.push(figure(SIZE, kind, [size]));
    }
    Ok(figures)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn configure(folder: &Path, connection: &str) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (name, text) in [("strongswan.conf", SETTINGS), ("swanctl.conf", connection), ("run", RUN)] {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// The host inside and the VPN server, each at its end.
fn hosts(lab: &Lab, running: &mut Running, server: &Path, folder: &Path) -> Result<()> {
    lab.ip("sender", "addr add 10.0.0.5/24 dev eth0")?;
    lab.ip("sender", "route add default via 10.0.0.1")?;
    lab.ip("sink", "addr add 10.7.0.2/24 dev eth0")?;
    lab.ip("sink", "link set lo up")?;
    lab.ip("sink", "addr add 10.20.0.1/24 dev lo")?;
    running.start(&mut charon(lab, "sink", server, folder))?;
    let start = Instant::now();
    // Before, it would refuse a client, which does not ask again.
    while !server.join("loaded").exists() {
        ensure!(start.elapsed() < PATIENCE, "the VPN server does not start");
        sleep(Duration::from_millis(20));
    }
    running.start(lab.command("sink", "iperf3").args(["-s", "-B", "10.20.0.1"]))
}

/// charon with the configuration of a folder, in a namespace, with a /run of its own.
fn charon(lab: &Lab, place: &str, configuration: &Path, folder: &Path) -> Command {
    let own = folder.join(format!("run-{place}"));
    let script = format!(
        "mkdir -p {own} && mount --bind {own} /run && exec sh {run} {configuration}",
        own = own.display(),
        run = configuration.join("run").display(),
        configuration = configuration.display(),
    );
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", lab.name(place)));
    command.args(["unshare", "-m", "sh", "-c", &script]);
    command
}

/// What iperf3 measured, in megabits a second.
fn rate(json: &str) -> Result<f64> {
    let value: serde_json::Value = serde_json::from_str(json).context("iperf3 gives no JSON")?;
    let bits = value["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.map(|b| b / 1e6).with_context(|| format!("iperf3 says: {}", value["error"]))
}

/// Megabytes of a folder.
fn size(folder: &Path) -> f64 {
    fn bytes(folder: &Path) -> u64 {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let each = entries.filter_map(|e| {
            let data = e.metadata().ok()?;
            Some(if data.is_dir() { bytes(&e.path()) } else { data.len() })
        });
        each.sum()
    }
    bytes(folder) as f64 / f64::from(1 << 20)
}

/// Whether a figure is one of these.
pub(super) fn is_own(f: &Figure) -> bool {
    [RATE, READY, SIZE].contains(&f.what.as_str())
}

/// The figures as a table, a column for each kind; nothing if there are none.
pub(super) fn markdown(figures: &[Figure]) -> String {
    let of = |what: &str, kind: &str| figures.iter().find(|f| f.what == what && f.kind == kind);
    if !figures.iter().any(is_own) {
        return String::new();
    }
    let mut out = "\n### An IPsec client\n\nstrongSwan with ESP in user space (kernel-libipsec) between two hosts: in a namespace without Weir, as the native function \
                   `strongswan-client`, and the same programs in a container. TCP of iperf3 through the tunnel, in one run; what counts is the \
                   proportion to *alone*. Table 8 of the COMPOSER paper has 1,094 Mbit/s native, 1,095 with Docker and 796 with KVM, with ESP of the kernel; 727 ms and 350 ms until they work, 154 ms alone.\n\n\
                   | | alone | native | container |\n|---|---:|---:|---:|\n"
        .to_owned();
    for what in [RATE, READY, SIZE] {
        _ = write!(out, "| {} |", what.trim_start_matches("IPsec client, "));
        for kind in KINDS {
            _ = write!(out, " {} |", of(what, kind).map_or("–".to_owned(), |f| f.value.show(1)));
        }
        out.push('\n');
    }
    _ = write!(out, "| of *alone* |");
    for kind in KINDS {
        let ratio =
            of(RATE, kind).zip(of(RATE, KINDS[0])).map(|(a, b)| a.value.median / b.value.median * 100.0);
        _ = write!(out, " {} |", ratio.map_or("–".to_owned(), |r| format!("{r:.0} %")));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_stand_side_by_side_with_their_proportion() {
        let figures =
            [figure(RATE, "alone", [200.0]), figure(RATE, "native", [150.0]), figure(SIZE, "native", [0.1])];
        let text = markdown(&figures);
        assert!(text.contains("| Mbit/s | 200.0 (200.0–200.0) | 150.0 (150.0–150.0) | – |"), "{text}");
        assert!(text.contains("| of *alone* | 100 % | 75 % | – |"), "{text}");
        assert!(text.contains("| MB of its image | – | 0.1 (0.1–0.1) | – |"), "{text}");
        assert_eq!(markdown(&[figure("else", "native", [1.0])]), "");
    }

    #[test]
    fn the_image_and_the_graphs_are_documents() {
        let template = weir_model::template::Template::parse(MANIFEST).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(template.ports.len(), 2);
        for says in [NATIVE, "name: ipsec-box"] {
            let sap = |name: &str| format!("type: interface, interface: {{if-name: {name}}}");
            let text =
                super::super::graph("vpn", &[(says, ["inside", "outside"])], &[sap("lan"), sap("wan")]);
            weir_model::graph::ServiceGraph::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        }
    }

    #[test]
    fn rates_are_read_and_failures_are_said() {
        assert_eq!(rate(r#"{"end": {"sum_received": {"bits_per_second": 2.5e6}}}"#).unwrap(), 2.5);
        let e = rate(r#"{"error": "unable to connect"}"#).unwrap_err().to_string();
        assert!(e.contains("unable to connect"), "{e}");
        assert!(rate("nonsense").is_err());
    }
}
