//! Devices: ports that graphs open by name and share.

mod busy_poll;
mod direct;
mod figures;
mod hand_over;
mod losses;
mod share;
mod trouble;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_io::interface::{Method, Options, Share};
use weir_io::{Lost, Poller, Port, PortError, PortSpec, PortStats, Waker};
use weir_packet::Packet;

use busy_poll::BusyPoll;
pub use direct::Join;
use direct::{Joints, Past};
use figures::add;
pub use hand_over::Given;
pub use losses::{Loss, Sender, between};
use losses::{Waiting, left_behind, note};
use share::Lent;
use trouble::{close, drain};

use super::links::Entrance;

/// Packets that wait for a device which takes none now; more are dropped.
pub const TX_WAITING: usize = 1024;
/// Packets that are sent at once.
const TX_BATCH: usize = 64;
/// How long a full device is left alone, in nanoseconds.
const TX_PAUSE: u64 = 100_000;
/// The folder of sockets that are named without one, unless another was said.
const PORTS: &str = "/run/weir/ports";
/// How often, and how long each time, is waited for what a closed port leaves in use.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Opens the port of a device. Tests replace the default, [`PortSpec::open`].
pub type Opener = dyn FnMut(&PortSpec) -> Result<Box<dyn Port>, PortError> + Send;

/// Makes an opener for each of several workers.
pub type Openers = dyn Fn() -> Box<Opener> + Send + Sync;

/// A change of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It was opened, and how.
    Opened(String),
    /// It works again.
    Up(String),
    /// It works no more, and why.
    Down(String),
}

struct Device {
    name: String,
    /// As it was asked for.
    spec: PortSpec,
    /// `None` while the interface is gone.
    port: Option<Box<dyn Port>>,
    /// What is wrong with it; empty if it is up.
    trouble: String,
    /// Figures of ports that are gone.
    before: PortStats,
    /// All figures, as of the last look.
    seen: PortStats,
    /// Packets to send.
    tx: Vec<Waiting>,
    /// Whether there may be something to receive.
    readable: bool,
    /// Whether the poller watches the port.
    watched: bool,
    /// When to send again, after the port took nothing.
    send_again: Option<u64>,
    /// When to open the port again, while there is trouble.
    reopen: Option<u64>,
    /// Received while the port was exchanged.
    pending: Vec<Packet>,
    readers: Vec<Entrance>,
    /// Ports on the same interface that were opened for the other workers, in their order, until these take them.
    others: Vec<Option<Box<dyn Port>>>,
    /// Whether all workers have a port.
    everywhere: bool,
    past: Past,
}

impl Device {
    /// How many packets wait to be sent.
    fn waiting(&self) -> usize {
        self.tx.iter().map(|w| w.packets.len()).sum()
    }
}

/// All devices of an engine. They are numbered; numbers of closed ones are used again.
pub struct Devices {
    list: Vec<Option<Device>>,
    opener: Box<Opener>,
    /// The method for devices whose elements name none.
    method: Method,
    /// Where sockets are that are named without a folder.
    folder: PathBuf,
    poller: Poller,
    /// What devices did since someone looked here.
    pub changes: Vec<Change>,
    /// Packets that have ended since someone looked here.
    pub losses: Vec<Loss>,
    keys: Vec<u64>,
    /// On the first of several workers: how their ports share the packets of an interface. The number of the group follows
    /// from this one and the name.
    share: Option<Share>,
    /// On other workers than the first: the interfaces that may be opened.
    only: Option<BTreeMap<String, Lent>>,
    busy_poll: BusyPoll,
    /// Whether who uses and reads devices has changed.
    pub stale: bool,
    /// Whether nothing is received.
    paused: bool,
    joints: Joints,
}

impl Devices {
    /// None yet.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Devices> {
        Ok(Devices {
            list: Vec::new(),
            opener: Box::new(PortSpec::open),
            method: Method::Auto,
            folder: PORTS.into(),
            poller: Poller::new()?,
            changes: Vec::new(),
            losses: Vec::new(),
            keys: Vec::new(),
            share: None,
            only: None,
            busy_poll: BusyPoll::default(),
            stale: false,
            paused: false,
            joints: Joints::default(),
        })
    }

    /// Replaces how ports are opened.
    pub fn set_opener(&mut self, opener: Box<Opener>) {
        self.opener = opener;
    }

    /// Ends a [`sleep`](Devices::sleep), from any thread.
    pub fn waker(&self) -> Waker {
        self.poller.waker()
    }

    /// Says how interfaces are opened whose elements name no method.
    pub fn set_method(&mut self, method: Method) {
        self.method = method;
    }

    /// Says how long the next packet is waited for awake where packets come more often than that; zero: never. Without it, it is a moment
    /// that costs no processor.
    pub fn set_busy_poll(&mut self, bound: Duration) {
        self.busy_poll = BusyPoll::bounded(bound);
    }

    /// Says where sockets are that are named without a folder.
    pub fn set_folder(&mut self, folder: PathBuf) {
        self.folder = folder;
    }

    /// Opens a device, or finds it if it is open. Options that say something replace those of before; of an interface, the
    /// first to open it decides them, but who asks for a method gets it: the port is exchanged.
    pub fn open(&mut self, spec: &PortSpec) -> Result<usize, PortError> {
        self.stale = true;
        if let PortSpec::Interface { name, options } = spec {
            return self.open_interface(name, options);
        }
        if self.only.is_some() && spec.is_shared_memory() {
            // It cannot be shared: the first worker has it, and spreads its packets.
            return Err(PortError::NotFound { name: spec.name(), similar: Vec::new() });
        }
        match self.find_port(spec) {
            Some(id) if self.device(id).is_some_and(|d| spec.is_met_by(&d.spec)) => Ok(id),
            open => self.open_or_exchange(open, spec.clone()),
        }
    }

    fn open_interface(&mut self, name: &str, options: &Options) -> Result<usize, PortError> {
        let mut options = options.clone();
        let mut port = None;
        if let Some(only) = &mut self.only {
            let not_here = || PortError::NotFound { name: name.to_owned(), similar: Vec::new() };
            let lent = only.get_mut(name).ok_or_else(not_here)?;
            options = lent.options.clone();
            port = lent.port.take();
        }
        let open = self.find(name);
        match open.and_then(|id| Some((id, self.device_mut(id)?))) {
            Some((id, d)) => {
                // A virtual interface of this engine: its other end is the kernel's. Or a socket.
                let PortSpec::Interface { options: old, .. } = &d.spec else { return Ok(id) };
                let method = if options.method == Method::Auto { old.method } else { options.method };
                let exclusive = options.exclusive || old.exclusive;
                options = Options { method, exclusive, ..old.clone() };
                let xdp = d.port.as_ref().is_some_and(|p| p.method().starts_with("AF_XDP"));
                if port.is_none() && (options == *old || (xdp && method != Method::Packet)) {
                    d.spec = interface(name, options);
                    return Ok(id);
                }
            }
            None if options.method == Method::Auto => options.method = self.method,
            None => {}
        }
        if self.only.is_some() {
            let spec = interface(name, options);
            let port = port.map_or_else(|| self.open_port(&spec), Ok)?;
            return Ok(self.put(open, spec, port));
        }
        self.open_for_all(open, name, &options)
    }

    /// As [`open`](Devices::open), but a device that cannot be opened now is opened as soon as it can be.
    pub fn open_later(&mut self, spec: &PortSpec) -> Result<usize, PortError> {
        let name = spec.name();
        // What the first worker does not share is not for this one.
        let is_shared = !(spec.is_shared_memory() || matches!(spec, PortSpec::Interface { .. }))
            || self.only.as_ref().is_none_or(|only| only.contains_key(&name));
        let refused = match self.open(spec) {
            Err(e) if is_shared && self.find(&name).is_none() => e,
            done => return done,
        };
        let mut spec = spec.clone();
        if let PortSpec::Interface { options, .. } = &mut spec {
            let lent = self.only.as_ref().and_then(|only| only.get(&name)).map(|lent| lent.options.clone());
            let share = self.share_of(&name);
            let method = if options.method == Method::Auto { self.method } else { options.method };
            *options = lent.unwrap_or(Options { method, share, ..options.clone() });
        }
        let id = self.put_without_port(&name, spec);
        self.fails(id, &refused, self.busy_poll.came_at());
        Ok(id)
    }

    /// Names of the open devices.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().flatten().map(|d| d.name.as_str())
    }

    /// The device of a port; one whose name the kernel chooses is found by all that was asked for.
    fn find_port(&self, spec: &PortSpec) -> Option<usize> {
        match spec.name() {
            name if name.is_empty() => {
                self.list.iter().position(|d| d.as_ref().is_some_and(|d| d.spec == *spec))
            }
            name => self.find(&name),
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|d| d.as_ref().is_some_and(|d| d.name == name))
    }

    /// Opens the port of a new device, or exchanges that of an open one.
    fn open_or_exchange(&mut self, open: Option<usize>, spec: PortSpec) -> Result<usize, PortError> {
        let port = self.open_port(&spec)?;
        Ok(self.put(open, spec, port))
    }

    /// Gives a port to a new device, or to an open one in place of its own.
    fn put(&mut self, open: Option<usize>, spec: PortSpec, port: Box<dyn Port>) -> usize {
        let name = match spec.name() {
            name if name.is_empty() => port.name().to_owned(),
            name => name,
        };
        if !port.method().is_empty() {
            self.changes.push(Change::Opened(format!("{name} is open by {}", port.method())));
        }
        if let Some(id) = open {
            if let Some(d) = &mut self.list[id] {
                drain(d);
                close(d);
                d.spec = spec;
            }
            self.install(id, port);
            return id;
        }
        let id = self.put_without_port(&name, spec);
        self.install(id, port);
        id
    }

    /// A new device, whose port is still to come.
    fn put_without_port(&mut self, name: &str, spec: PortSpec) -> usize {
        let id = self.list.iter().position(Option::is_none).unwrap_or(self.list.len());
        let device = Device {
            name: name.to_owned(),
            spec,
            port: None,
            trouble: String::new(),
            before: PortStats::default(),
            seen: PortStats::default(),
            tx: Vec::new(),
            readable: true,
            watched: false,
            send_again: None,
            reopen: None,
            pending: Vec::new(),
            readers: Vec::new(),
            others: Vec::new(),
            everywhere: false,
            past: Past::default(),
        };
        if id == self.list.len() {
            self.list.push(None);
        }
        self.list[id] = Some(device);
        id
    }

    /// Opens a port. The kernel lets go of a port that was closed just now only after a moment: that long is waited for.
    fn open_port(&mut self, spec: &PortSpec) -> Result<Box<dyn Port>, PortError> {
        let spec = &spec.in_folder(&self.folder);
        for _ in 0..BUSY_TRIES {
            match (self.opener)(spec) {
                Err(PortError::Busy { .. }) => std::thread::sleep(BUSY_PAUSE),
                other => return other,
            }
        }
        (self.opener)(spec)
    }

    fn install(&mut self, id: usize, port: Box<dyn Port>) {
        if let Some(d) = &mut self.list[id] {
            d.port = Some(port);
            d.readable = true;
            d.watched = false;
        }
        self.watch(id);
    }

    /// Watches a device exactly if someone reads it: packets that nobody takes would keep the poller awake.
    fn watch(&mut self, id: usize) {
        let Some(d) = &mut self.list[id] else { return };
        let wanted = !d.readers.is_empty();
        let Some(port) = d.port.as_mut().filter(|_| wanted != d.watched) else { return };
        let Some(fd) = port.fd() else { return };
        let done = if wanted { self.poller.add(id as u64, fd) } else { self.poller.remove(fd) };
        d.watched = wanted;
        d.readable = true;
        if let Err(e) = done {
            self.changes.push(Change::Down(format!("{}: cannot be watched: {e}", d.name)));
        }
    }

    /// Says where packets of each device enter, and which devices are to be joined, and closes devices that none of `used` names.
    pub fn assign(&mut self, used: &[usize], readers: &[(usize, Entrance)], joins: &[Join]) {
        self.join(joins, used);
        for id in 0..self.list.len() {
            let Some(d) = &mut self.list[id] else { continue };
            if used.contains(&id) {
                d.readers = readers.iter().filter(|(device, _)| *device == id).map(|(_, e)| *e).collect();
                // Elements that gave packets may be gone.
                d.tx.retain(|w| !w.packets.is_empty());
                self.watch(id);
            } else {
                self.list[id] = None;
            }
        }
    }

    /// Number of devices that were ever open at a time.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Where packets of a device enter.
    pub fn readers(&self, id: usize) -> &[Entrance] {
        self.device(id).map_or(&[], |d| &d.readers)
    }

    /// Whether some device can bring packets, now or later.
    pub fn may_receive(&self) -> bool {
        self.list
            .iter()
            .flatten()
            .any(|d| !d.readers.is_empty() && d.port.as_ref().is_none_or(|p| !p.ended()))
    }

    fn device(&self, id: usize) -> Option<&Device> {
        self.list.get(id)?.as_ref()
    }

    fn device_mut(&mut self, id: usize) -> Option<&mut Device> {
        self.list.get_mut(id)?.as_mut()
    }

    /// Receives at most `max` packets of a device that has readers.
    pub fn receive(&mut self, id: usize, out: &mut Vec<Packet>, max: usize, now: u64) {
        let Some(d) = self.list.get_mut(id).and_then(Option::as_mut) else { return };
        if !d.readable || d.readers.is_empty() {
            return;
        }
        out.append(&mut d.pending);
        if self.paused {
            return;
        }
        let Some(port) = &mut d.port else { return };
        let before = port.lost();
        let received = port.receive(out, max);
        note(&mut self.losses, id, None, before, port.lost());
        match received {
            Ok(n) => {
                // A port without a descriptor is asked each time; it never keeps a receiver waiting.
                d.readable = n == max || (port.fd().is_none() && !port.ended());
                let back = !d.trouble.is_empty() && port.is_up() == Some(true);
                if n > 0 {
                    self.busy_poll.came(n, now);
                }
                if n > 0 || back {
                    self.works(id);
                }
            }
            Err(e) => self.fails(id, &e, now),
        }
    }

    /// How many packets the device takes now.
    pub fn space(&self, id: usize) -> usize {
        self.device(id).map_or(0, |d| TX_WAITING.saturating_sub(d.waiting()))
    }

    /// When a device that took no packets is tried again.
    pub fn sends_again(&self, id: usize) -> u64 {
        self.device(id).and_then(|d| d.send_again).unwrap_or(0)
    }

    /// Packets received by a device, and packets that its ring lost, as of the last look.
    pub fn received(&self, id: usize) -> Option<(u64, u64)> {
        self.device(id).map(|d| (d.seen.rx_packets, d.seen.rx_dropped))
    }

    /// The name of a device.
    pub fn name(&self, id: usize) -> Option<&str> {
        self.device(id).map(|d| d.name.as_str())
    }

    /// How packets pass between a device and the kernel, and why so.
    pub fn method(&self, id: usize) -> Option<String> {
        self.device(id).map(|d| d.port.as_ref().map_or(String::new(), |p| p.method().to_owned()))
    }

    /// Packets that have ended in the device's port by now.
    pub fn lost(&self, id: usize) -> Lost {
        self.device(id).and_then(|d| d.port.as_ref()).map_or(Lost::default(), |port| port.lost())
    }

    /// Whether everything that was given to the device is sent.
    pub fn is_sent(&self, id: usize) -> bool {
        self.device(id).is_some_and(|d| d.waiting() == 0)
    }

    /// Gives packets of an element to a device, as many as it has [`space`](Devices::space) for; the rest stays in `packets`.
    pub fn send(&mut self, id: usize, sender: Sender, packets: &mut Vec<Packet>, now: u64) {
        while !packets.is_empty() {
            let n = packets.len().min(self.space(id));
            if n == 0 {
                return;
            }
            let Some(d) = self.device_mut(id) else { return };
            let at = d.tx.iter().position(|w| w.sender == sender).unwrap_or_else(|| {
                d.tx.push(Waiting { sender, packets: Vec::new() });
                d.tx.len() - 1
            });
            d.tx[at].packets.extend(packets.drain(..n));
            if d.waiting() >= TX_BATCH {
                self.flush(id, now);
            }
        }
    }

    /// Sends what waits.
    pub fn flush(&mut self, id: usize, now: u64) {
        let Devices { list, losses, .. } = self;
        let Some(d) = list.get_mut(id).and_then(Option::as_mut) else { return };
        if d.waiting() == 0 || (d.port.is_some() && d.send_again.is_some_and(|t| t > now)) {
            return;
        }
        d.send_again = None;
        let (mut sent, mut failure) = (0, None);
        for Waiting { sender, packets } in d.tx.iter_mut().filter(|w| !w.packets.is_empty()) {
            let (result, before, mut after) = match &mut d.port {
                Some(port) => {
                    let before = port.lost();
                    (port.send(packets).map_err(Some), before, port.lost())
                }
                // Nothing will take these: the interface is gone.
                None => (Err(None), Lost::default(), Lost::default()),
            };
            match result {
                Ok(n) => sent += n,
                Err(error) => {
                    let behind = left_behind(packets.len(), error.as_ref());
                    packets.clear();
                    for sum in [&mut d.before.tx_errors, &mut after.tx] {
                        sum.down += behind.down;
                        sum.refused += behind.refused;
                    }
                    failure = error.or(failure);
                }
            }
            note(losses, id, Some(*sender), before, after);
            if !packets.is_empty() {
                d.send_again = Some(now + TX_PAUSE);
                break;
            }
        }
        match failure {
            Some(e) => self.fails(id, &e, now),
            None if sent > 0 => self.works(id),
            None => {}
        }
    }

    /// Whether packets wait to be sent.
    pub fn is_sending(&self) -> bool {
        self.list.iter().flatten().any(|d| d.waiting() > 0)
    }

    /// When a device has something to do again.
    pub fn wake(&self) -> Option<u64> {
        let devices = self.list.iter().flatten().flat_map(|d| [d.send_again, d.reopen]).flatten();
        devices.chain(self.joins_wake()).min()
    }

    /// Whether a device has packets to receive, as far as is known.
    pub fn any_readable(&self) -> bool {
        !self.paused
            && self.list.iter().flatten().any(|d| d.readable && d.port.is_some() && !d.readers.is_empty())
    }

    /// Sleeps until a device has packets, the waker was used since the last sleep, or `timeout` has passed (`None`: for
    /// ever).
    ///
    /// While packets come thick and fast ([`set_busy_poll`](Devices::set_busy_poll)), the next is waited for awake for a moment: going to
    /// sleep and being woken, which the sender pays for, would cost more. A moment without packets ends that until traffic is dense again.
    pub fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if let Some(awake) = self.busy_poll.time() {
            let start = Instant::now();
            let most = timeout.map_or(awake, |t| t.min(awake));
            while start.elapsed() < most && !self.poller.is_woken() {
                self.poll()?;
                if self.any_readable() {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            if !self.poller.is_woken() {
                self.busy_poll.in_vain();
            }
        }
        self.ask_poller(|poller, keys| poller.sleep(timeout, keys))
    }

    /// Looks which devices have packets now.
    pub fn poll(&mut self) -> io::Result<()> {
        self.ask_poller(Poller::poll)
    }

    fn ask_poller(&mut self, ask: impl FnOnce(&Poller, &mut Vec<u64>) -> io::Result<()>) -> io::Result<()> {
        let mut keys = std::mem::take(&mut self.keys);
        let done = ask(&self.poller, &mut keys);
        for &key in &keys {
            if let Some(d) = self.device_mut(key as usize) {
                d.readable = true;
            }
        }
        self.keys = keys;
        done
    }
}

fn interface(name: &str, options: Options) -> PortSpec {
    PortSpec::Interface { name: name.to_owned(), options }
}
