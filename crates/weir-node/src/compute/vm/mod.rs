//! Virtual machines, run by QEMU, on vhost-user: the graph's data plane is their network cards (COMPOSER paper, section 6.1).

mod qmp;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};
use weir_model::template::{self, Accelerator, expand};

use super::cgroup::Cgroup;
use super::hosted::{ANSWER, Context, Hang, Main, Paths, Workload, halted};
use super::launch::{Launch, is_installed};
use super::sockets::Sockets;
use super::{ComputeError, netns};
use crate::instance::{Kind, PortNames, Spec, Work};
use crate::process::Process;
use qmp::Qmp;

/// The program that runs machines, and its Debian package.
const QEMU: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";
/// The control socket, beside those of the ports. It is no name of a port.
const CONTROL: &str = ".qmp";
/// Places for network cards that come while the machine runs.
const SPARE: usize = 4;
/// How long a kernel may take under KVM until it says something, before it is taken for one that cannot run so: a machine in a
/// machine may lack what it needs.
const TRIAL: Duration = Duration::from_secs(8);
/// How long after a trial that came to nothing it is tried again, when a machine of the image is started; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// The longest such time: a trial delays the start.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);
/// How often that is looked at.
const STEP: Duration = Duration::from_millis(50);
/// What a Linux kernel says first.
const FIRST_WORDS: &str = "Linux version";
/// What firmware says is less than this, in bytes.
const MORE_THAN_FIRMWARE: usize = 4096;
/// How long the data plane may take until it opens a port.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long QEMU may take for its control socket.
const TIME: Duration = Duration::from_secs(10);

/// What runs virtual machines.
#[derive(Debug)]
pub struct Vm {
    /// The folder of all functions.
    functions: PathBuf,
    sockets: Sockets,
    /// The command line that leads to [`Launch::exec`], without its last argument.
    launcher: Vec<OsString>,
    /// Which images run under KVM, by their digests.
    kvm: Mutex<BTreeMap<String, Trial>>,
}

/// Whether an image runs under KVM.
#[derive(Debug, Clone, Copy)]
struct Trial {
    runs: bool,
    /// When to try again: it may only have been slow.
    again: Instant,
    /// How long after this trial that is.
    pause: Duration,
}

impl Vm {
    /// With functions in a folder, and the folder of sockets; `launcher` is the command line that leads to [`Launch::exec`].
    pub fn new(functions: PathBuf, sockets: Sockets, launcher: Vec<OsString>) -> Vm {
        Vm { functions, sockets, launcher, kvm: Mutex::default() }
    }

    fn launch(cx: &Context<'_>, command: Vec<String>) -> Launch {
        let mut launch = cx.launch(command, false);
        // What a guest writes to its disk.
        launch.environment.push(("TMPDIR".to_owned(), cx.paths.state().display().to_string()));
        launch
    }

    fn control(&self, cx: &Context<'_>) -> PathBuf {
        self.sockets.of(cx.paths).join(CONTROL)
    }

    fn socket(&self, cx: &Context<'_>, port: &PortNames) -> String {
        self.sockets.of(cx.paths).join(&port.inside).display().to_string()
    }

    async fn qmp(&self, cx: &Context<'_>) -> Result<Qmp, ComputeError> {
        Qmp::open(&self.control(cx)).await.map_err(ComputeError::system("cannot speak to QEMU"))
    }

    fn command(&self, cx: &Context<'_>, vm: &template::Vm, accelerator: &str) -> Vec<String> {
        let file = |name: &String| cx.paths.image(&cx.spec.digest).join(name).display().to_string();
        let megabytes = vm.memory >> 20;
        // The cards' other side sees the guest's memory. No interrupts by messages: QEMU's own processor cannot take them here.
        let text = format!(
            "{QEMU} -machine q35,memory-backend=ram -accel {accelerator} -smp {} -m {megabytes}M \
             -object memory-backend-memfd,id=ram,size={megabytes}M,share=on,seal=on \
             -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny \
             -nodefaults -no-user-config -display none -no-reboot -chardev stdio,id=console,signal=off -serial chardev:console",
            vm.processors
        );
        let mut line: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let mut option = |name: &str, value: String| line.extend([name.to_owned(), value]);
        option("-qmp", format!("unix:{},server=on,wait=off", self.control(cx).display()));
        if let Some(kernel) = &vm.kernel {
            option("-kernel", file(kernel));
            option("-append", expand(&vm.arguments, &cx.spec.params));
        }
        if let Some(initrd) = &vm.initrd {
            option("-initrd", file(initrd));
        }
        if let Some(disk) = &vm.disk {
            option("-drive", format!("file={},if=virtio,snapshot=on", file(disk)));
        }
        for place in 0..cx.spec.ports.len() + SPARE {
            option("-device", format!("pcie-root-port,id=p{place},chassis={place},slot={place}"));
        }
        for (place, port) in cx.spec.ports.iter().enumerate() {
            let name = &port.inside;
            option("-chardev", format!("socket,id=c-{name},path={},reconnect=1", self.socket(cx, port)));
            option("-netdev", format!("vhost-user,id=n-{name},chardev=c-{name}"));
            option(
                "-device",
                format!(
                    "virtio-net-pci,id=d-{name},netdev=n-{name},bus=p{place},mac={},vectors=0",
                    mac(&port.outside)
                ),
            );
        }
        line
    }

    /// Starts QEMU, and waits until it can be spoken to.
    async fn run(
        &self,
        cx: &Context<'_>,
        vm: &template::Vm,
        accelerator: &str,
    ) -> Result<Child, ComputeError> {
        _ = fs::remove_file(self.control(cx));
        let command = Self::launch(cx, self.command(cx, vm, accelerator));
        let mut child = cx.start(Self::MAIN, cx.launched(&self.launcher, &command)?)?;
        let until = Instant::now() + TIME;
        // It waits for the data plane to take its cards before it listens to anybody; that its socket is there is enough.
        while matches!(child.try_wait(), Ok(None)) && !self.control(cx).exists() && Instant::now() < until {
            sleep(STEP).await;
        }
        Ok(child)
    }

    /// Whether a guest runs under KVM: whether it comes further than its firmware, in a machine without network cards (which would
    /// wait for the data plane).
    async fn runs_under_kvm(&self, cx: &Context<'_>, vm: &template::Vm) -> Result<bool, ComputeError> {
        if !Path::new("/dev/kvm").exists() {
            return Ok(false);
        }
        let known = self.kvm().get(&cx.spec.digest).copied();
        if let Some(known) = known.filter(|k| k.runs || Instant::now() < k.again) {
            return Ok(known.runs);
        }
        let spec = Spec { ports: Vec::new(), ..cx.spec.clone() };
        let alone = Context { spec: &spec, ..*cx };
        let launch = Self::launch(&alone, self.command(&alone, vm, "kvm"));
        let mut command = alone.launched(&self.launcher, &launch)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(ComputeError::system(format!("cannot start {QEMU}")))?;
        let mut out = child.stdout.take();
        let comes_further = async {
            let mut said = Vec::new();
            let mut part = [0; 1024];
            while let Some(out) = &mut out
                && let Ok(n) = out.read(&mut part).await
                && n > 0
            {
                said.extend_from_slice(&part[..n]);
                if said.len() > MORE_THAN_FIRMWARE
                    || said.windows(FIRST_WORDS.len()).any(|w| w == FIRST_WORDS.as_bytes())
                {
                    return true;
                }
            }
            false
        };
        let runs = timeout(TRIAL, comes_further).await.unwrap_or(false);
        // It is gone, if this fails.
        _ = child.kill().await;
        if !runs {
            tracing::info!("the image '{}' does not run under KVM here; QEMU runs it itself", cx.spec.image);
        }
        let pause = known.map_or(FIRST_PAUSE, |k| k.pause * 2).min(LONGEST_PAUSE);
        self.kvm().insert(cx.spec.digest.clone(), Trial { runs, again: Instant::now() + pause, pause });
        Ok(runs)
    }

    fn kvm(&self) -> MutexGuard<'_, BTreeMap<String, Trial>> {
        self.kvm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a card from a machine that runs: the guest has to let it go.
    async fn unplug(qmp: &mut Qmp, port: &PortNames) -> io::Result<()> {
        let device = format!("d-{}", port.inside);
        qmp.ask("device_del", json!({"id": device})).await?;
        qmp.event("DEVICE_DELETED", &device).await?;
        qmp.ask("netdev_del", json!({"id": format!("n-{}", port.inside)})).await?;
        qmp.ask("chardev-remove", json!({"id": format!("c-{}", port.inside)})).await.map(drop)
    }
}

/// A network card that is to come while its machine runs.
struct Card {
    name: String,
    mac: String,
    /// Its socket, which the data plane makes.
    socket: PathBuf,
    /// Its place on the bus.
    place: usize,
}

impl Card {
    /// Adds it, as soon as the data plane is there: QEMU stands still until then.
    async fn plug(&self, control: &Path) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.socket.exists() {
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the data plane does not open its port"));
            }
            sleep(STEP).await;
        }
        // Not before: who else has something to ask would wait.
        let mut qmp = Qmp::open(control).await?;
        let name = &self.name;
        let backend = json!({"type": "socket", "data": {
            "addr": {"type": "unix", "data": {"path": self.socket}}, "server": false, "reconnect": 1}});
        qmp.ask("chardev-add", json!({"id": format!("c-{name}"), "backend": backend})).await?;
        let netdev = json!({"type": "vhost-user", "id": format!("n-{name}"), "chardev": format!("c-{name}")});
        qmp.ask("netdev_add", netdev).await?;
        let device = json!({"driver": "virtio-net-pci", "id": format!("d-{name}"), "netdev": format!("n-{name}"),
            "bus": format!("p{}", self.place), "mac": self.mac, "vectors": 0});
        qmp.ask("device_add", device).await.map(drop)
    }
}

fn vm(spec: &Spec) -> Result<&template::Vm, ComputeError> {
    match &spec.work {
        Work::Vm { vm, .. } => Ok(vm),
        _ => Err(ComputeError::NoDriver(spec.kind())),
    }
}

/// A local Ethernet address made of a name, as text.
fn mac(name: &str) -> String {
    let bytes: Vec<String> = netns::address(name).iter().map(|b| format!("{b:02x}")).collect();
    bytes.join(":")
}

#[async_trait]
impl Workload for Vm {
    const KIND: Kind = Kind::Vm;
    const MAIN: &str = "the machine";
    const FRESH: bool = false;
    const NEEDS: &'static [(&'static str, &'static str)] = &[(QEMU, PACKAGE)];

    fn check(&self, spec: &Spec) -> Result<(), ComputeError> {
        if !is_installed(QEMU) {
            let (program, package) = (QEMU.to_owned(), PACKAGE.to_owned());
            return Err(ComputeError::Dependency { image: spec.image.clone(), program, package });
        }
        if vm(spec)?.accelerator == Accelerator::Kvm && !Path::new("/dev/kvm").exists() {
            let what =
                "it wants KVM, which this node does not have: say accelerator: auto, or tcg".to_owned();
            return Err(ComputeError::Image { image: spec.image.clone(), what });
        }
        Ok(())
    }

    async fn fetch(&self, cx: &Context<'_>) -> Result<(), ComputeError> {
        let Work::Vm { folder, .. } = &cx.spec.work else { return Ok(()) };
        cx.copy_image(folder)
    }

    fn sockets(&self) -> Option<&Sockets> {
        Some(&self.sockets)
    }

    async fn start(&self, cx: &Context<'_>) -> Result<Option<Main>, ComputeError> {
        let vm = vm(cx.spec)?;
        let accelerator = match vm.accelerator {
            Accelerator::Kvm => "kvm",
            Accelerator::Auto if self.runs_under_kvm(cx, vm).await? => "kvm",
            Accelerator::Tcg | Accelerator::Auto => "tcg",
        };
        self.run(cx, vm, accelerator).await.map(|child| Some(Main::Child(child)))
    }

    async fn update(&self, cx: &Context<'_>, before: &Spec) -> Result<bool, ComputeError> {
        let (old, new) = (&before.ports, &cx.spec.ports);
        if before.params != cx.spec.params {
            // It is told them when it starts.
            return Ok(false);
        }
        let control = self.control(cx);
        let mut qmp = self.qmp(cx).await?;
        for port in old.iter().filter(|p| !new.contains(p)) {
            if let Err(e) = Self::unplug(&mut qmp, port).await {
                tracing::info!("a card of function {} is not let go, it is started again: {e}", cx.id);
                return Ok(false);
            }
        }
        let cards = new.iter().enumerate().filter(|(_, p)| !old.contains(p)).map(|(place, port)| Card {
            name: port.inside.clone(),
            mac: mac(&port.outside),
            socket: self.sockets.of(cx.paths).join(&port.inside),
            place,
        });
        let (cards, id) = (cards.collect::<Vec<Card>>(), cx.id.clone());
        let cgroup = Cgroup::named(&cx.paths.name);
        let machine = cgroup.processes();
        drop(qmp);
        // The data plane opens their sockets when this is done.
        tokio::spawn(async move {
            for card in cards {
                if let Err(e) = card.plug(&control).await
                    && cgroup.processes() == machine
                {
                    tracing::warn!("function {id} is started again to get its card {}: {e}", card.name);
                    // Who watches it does so.
                    return cgroup.signal(Signal::SIGKILL);
                }
            }
        });
        Ok(true)
    }

    async fn hang(&self, cx: &Context<'_>, main: Option<Process>) -> Option<Hang> {
        if let Some(hang) = halted(Self::MAIN, cx, main) {
            return Some(hang);
        }
        // It answers to nobody while it waits for the data plane.
        let asked = async {
            let mut qmp = Qmp::open(&self.control(cx)).await.ok()?;
            qmp.ask("query-status", json!({})).await.ok()
        };
        let status = timeout(ANSWER, asked).await.ok().flatten()?;
        let word = status["status"].as_str().unwrap_or_default();
        // What stops it by itself lasts (QEMU's QMP reference, RunState); others begin or end with it.
        let lasts = ["guest-panicked", "internal-error", "io-error", "paused", "shutdown", "watchdog"];
        let what = format!("{} has stopped: QEMU says '{word}'", Self::MAIN);
        lasts.contains(&word).then_some(Hang { what, cure: word != "paused" })
    }

    async fn pause(&self, cx: &Context<'_>) -> Result<bool, ComputeError> {
        let stopped = self.qmp(cx).await?.ask("stop", json!({})).await;
        stopped.map(|_| true).map_err(ComputeError::system("cannot pause the machine"))
    }

    async fn resume(&self, cx: &Context<'_>) -> Result<bool, ComputeError> {
        let goes_on = self.qmp(cx).await?.ask("cont", json!({})).await;
        goes_on.map(|_| true).map_err(ComputeError::system("cannot go on with the machine"))
    }

    fn retain(&self, used: &BTreeSet<String>) {
        Paths::retain_images(&self.functions, used);
    }
}
