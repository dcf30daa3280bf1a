//! Virtual machines, run by QEMU (COMPOSER paper, section 6.1): the graph's data plane is their network cards (vhost-user), or they have
//! interfaces of the node (TAP).

mod cards;
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
use weir_model::template::{self, Accelerator, VmPorts, expand};

use super::cgroup::Cgroup;
use super::hosted::{ANSWER, Context, Hang, Main, Paths, Workload, halted};
use super::launch::Launch;
use super::sockets::Sockets;
use super::{ComputeError, missing};
use crate::instance::{Kind, Spec, Work};
use crate::process::Process;
use cards::{Card, free_places, plug_when_ready, unplug};
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
/// How long QEMU may take for its control socket.
const TIME: Duration = Duration::from_secs(10);

/// The driver of virtual machines.
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

    async fn qmp(&self, cx: &Context<'_>) -> Result<Qmp, ComputeError> {
        Qmp::open(&self.control(cx)).await.map_err(ComputeError::system("cannot speak to QEMU"))
    }

    fn command(&self, cx: &Context<'_>, vm: &template::Vm, accelerator: &str) -> Vec<String> {
        let file = |name: &String| cx.paths.image(&cx.spec.digest).join(name).display().to_string();
        let megabytes = vm.memory >> 20;
        let memory = match vm.ports {
            // The cards' other side sees the guest's memory.
            VmPorts::VhostUser => "memfd,share=on,seal=on",
            VmPorts::Tap => "ram",
        };
        let text = format!(
            "{QEMU} -machine q35,memory-backend=ram -accel {accelerator} -smp {} -m {megabytes}M \
             -object memory-backend-{memory},id=ram,size={megabytes}M \
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
        let cards = self.cards(cx);
        if cards.iter().any(|c| c.options().is_empty()) {
            // It waits for those.
            line.push("-S".to_owned());
        }
        line.extend(cards.iter().flat_map(Card::options));
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
        if vm.ports == VmPorts::Tap && matches!(child.try_wait(), Ok(None)) {
            let plugged = async {
                let mut qmp = Qmp::open(&self.control(cx)).await?;
                for card in self.cards(cx) {
                    card.plug(&mut qmp).await?;
                }
                qmp.ask("cont", json!({})).await
            };
            if let Err(e) = plugged.await
                && matches!(child.try_wait(), Ok(None))
            {
                _ = child.kill().await;
                return Err(ComputeError::system("cannot give the machine its network cards")(e));
            }
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

    /// The cards that a machine is started with.
    fn cards(&self, cx: &Context<'_>) -> Vec<Card> {
        let ports = cx.spec.ports.iter().enumerate();
        ports.map(|(place, port)| Card::new(port, place, &self.sockets, cx.paths)).collect()
    }

    /// Takes the cards from a machine that runs which it is not to have, and gives those that are to come, each with a place.
    async fn change(&self, cx: &Context<'_>, before: &Spec) -> io::Result<Vec<Card>> {
        let (old, new) = (&before.ports, &cx.spec.ports);
        let mut qmp = Qmp::open(&self.control(cx)).await?;
        for port in old.iter().filter(|p| !new.contains(p)) {
            unplug(&mut qmp, port).await?;
        }
        let mut free = free_places(&qmp.ask("query-pci", json!({})).await?).into_iter();
        let mut cards = Vec::new();
        for port in new.iter().filter(|p| !old.contains(p)) {
            let place = free.next().ok_or_else(|| io::Error::other("it has no place for another card"))?;
            let card = Card::new(port, place, &self.sockets, cx.paths);
            match port.is_interface() {
                true => card.plug(&mut qmp).await?,
                false => cards.push(card),
            }
        }
        Ok(cards)
    }
}

fn vm(spec: &Spec) -> Result<&template::Vm, ComputeError> {
    match &spec.work {
        Work::Vm { vm, .. } => Ok(vm),
        _ => Err(ComputeError::NoDriver(spec.kind())),
    }
}

#[async_trait]
impl Workload for Vm {
    const KIND: Kind = Kind::Vm;
    const PORTS: &'static [&'static str] = &["vhost-user", "tap"];
    const MAIN: &str = "the machine";
    const FRESH: bool = false;
    const TAP: bool = true;
    const NEEDS: &'static [(&'static str, &'static str)] = &[(QEMU, PACKAGE)];

    fn check(&self, spec: &Spec) -> Result<(), ComputeError> {
        if let Some(what) = missing(Self::NEEDS.iter().copied()) {
            return Err(ComputeError::Image { image: spec.image.clone(), what });
        }
        if vm(spec)?.accelerator == Accelerator::Kvm && !Path::new("/dev/kvm").exists() {
            let what =
                "it wants KVM, which this node does not have: say accelerator: auto, or tcg".to_owned();
            return Err(ComputeError::Image { image: spec.image.clone(), what });
        }
        if vm(spec)?.ports == VmPorts::Tap && !Path::new("/dev/net/tun").exists() {
            let what =
                "its ports are TAP interfaces, and this node has no /dev/net/tun: say ports: vhost-user"
                    .to_owned();
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
        if before.params != cx.spec.params {
            // It is told them when it starts.
            return Ok(false);
        }
        let cards = match self.change(cx, before).await {
            Ok(cards) => cards,
            Err(e) => {
                tracing::info!("function {} is started again for its cards: {e}", cx.id);
                return Ok(false);
            }
        };
        let (id, control) = (cx.id.clone(), self.control(cx));
        let cgroup = Cgroup::named(&cx.paths.name);
        let machine = cgroup.processes();
        // The data plane opens their sockets when this is done.
        tokio::spawn(async move {
            for card in cards {
                if let Err(e) = plug_when_ready(&card, &control).await
                    && cgroup.processes() == machine
                {
                    tracing::warn!("function {id} is started again to get its card {}: {e}", card.name());
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
