use weir_elements::FromArg;
use weir_elements::filter::{RuleList, View};
use weir_filter::Expr;
use weir_io::PortSpec;
use weir_io::interface::{Method, Options};
use weir_ir::{Builder, Layer, Program};

use crate::prelude::*;
use weir_io::with_causes;

engine_node! {
    /// Reads packets from a network device.
    ///
    /// Packets are Ethernet frames, as they arrive; those for other hosts too. All elements for one device share its
    /// port. If the interface vanishes, the graph runs on, and the port is opened again when it is back. Frames that are cut,
    /// longer than a packet can be, or come with offload data that makes no sense, end here (`Malformed`).
    ///
    /// `METHOD` says how packets come from the kernel. `PACKET`: by packet sockets, for the kernel as well as for Weir;
    /// packets of senders on the same machine pass unsegmented, up to 64 KB each, with their checksums unfinished. `XDP`: by
    /// AF_XDP sockets, fastest for small packets; the kernel does not see them any more. `AUTO`: `XDP` if the interface
    /// leads to a wire, the kernel has no address on it (or `SNIFFER` is false) and its driver supports it, else
    /// `PACKET`. The handler `method` says what was chosen, and why. Click's `PCAP` and `LINUX` mean `PACKET`.
    ///
    /// With several workers, each has a port of its own. By packet sockets, the kernel gives each flow to one of them. By
    /// AF_XDP, the queues of the interface are dealt to the workers in turn, so that its hardware (or, over veth, the
    /// sender) spreads the packets; an interface with fewer queues than workers is read and written by the first worker,
    /// which spreads packets by flow. `method` lists the queues by worker: `queues 0 2 | 1 3 for 2 workers`. Queues that an
    /// interface gets later (`ethtool -L`) are used when it is opened again.
    ///
    /// A device can also be memory that is shared with another process (memif, version 2.0, as VPP and DPDK's `net_memif`
    /// have it): `memif:/path/of.sock`, `memif:@name` for an abstract socket, or `memif:name` for one in the data plane's folder of
    /// ports (`/run/weir/ports`; that of `weir engine` is its control socket with the ending `.ports`), as the side that
    /// connects and makes the memory.
    /// What is to be otherwise follows after `?`, with `&` between: `role=master` (it listens, and the other side makes the
    /// memory), `id=N` (number of the interface), `ring=N` (packets in a ring, a power of two, 1024), `buffer=N` (bytes, 2048; a
    /// longer packet takes several), `secret=…`, `unsealed=true` (as master: to take memory that its maker can shrink,
    /// which only one that is trusted may), and `direct=true` (as the side that connects: to take part in a `DirectLink` of the master,
    /// which is trusted). Packets come without system calls while both sides are busy. The device waits for its
    /// peer, and for its next one when it goes away; packets for it end meanwhile (`DeviceDown`). Of several workers, the
    /// first has it.
    ///
    /// Or it is the network card of a virtual machine, or of a program with a network driver of its own (vhost-user, as QEMU and
    /// DPDK's `net_virtio_user` speak it): `vhost-user:/path/of.sock`, or another name of a socket as above, where the device listens
    /// and the machine connects. What is to be otherwise follows after `?`: `role=client` (it connects), `queue=N` (most packets in a
    /// ring, a power of two, 1024),
    /// `memory=N` (most megabytes that the machine may share, 1024), and `unsealed=true` (to take memory that its owner can shrink,
    /// which only one that is trusted may; DPDK needs it). It has one pair of queues. Checksums and segmentation of TCP are left to
    /// whoever comes later, if the driver knows that. As above, the device waits for its peer and for the next, and the first of
    /// several workers has it.
    FromDevice: "0/1", "h/h", Source, Devices;
    example "FromDevice(eth0) -> Discard;";
    example "FromDevice(memif:/run/function.sock) -> Discard;";
    example "FromDevice(vhost-user:/run/machine.sock) -> Discard;";
    params {
        /// Interface, or `memif:` or `vhost-user:` and what follows it.
        pos devname: String,
        /// Whether to receive packets for other hosts.
        pos promisc: bool = true,
        /// Accepted for Click's sake: packets are never cut.
        pos snaplen: u32 = 65_535,
        /// Whether the kernel is to see the packets too, if it has an address on the interface; it matters for `AUTO`.
        key sniffer: bool = true,
        /// How packets come from the kernel: `AUTO`, `PACKET` or `XDP`.
        key method: String = String::from("AUTO"),
        /// Whether the graph starts without an interface that is not there, and takes it when it comes.
        key wait: bool = false,
        /// Accepted for Click's sake: at most 32 packets are taken at a time.
        key burst: u32 = 32,
        /// Accepted for Click's sake: packets have 128 bytes of headroom.
        key headroom: u32 = 128,
        /// Accepted for Click's sake: packets always bear their time of arrival.
        key timestamp: bool = true,
        /// Accepted for Click's sake: frames that this host sends are never received.
        key outbound: bool = false,
        /// Which frames are taken, in the filter language of `IPFilter` and `--match`; all, if it is left out. Others are
        /// dropped (`Filtered`).
        key bpf_filter: Filter = Filter(None),
    }
    handlers {
        /// Number of packets received by the device.
        read count = |d, env| Ok(figures(d.state, env)?.0.to_string()),
        /// Number of packets that the kernel dropped because Weir did not take them in time.
        read kernel_drops = |d, env| Ok(figures(d.state, env)?.1.to_string()),
        /// `up`, or what is wrong with the device.
        read state = |d, env| env.devices.state(d.state.unwrap_or(usize::MAX)).ok_or("the device is closed".into()),
        /// How packets come from the kernel, and why so.
        read method = |d, env| env.devices.method(d.state.unwrap_or(usize::MAX)).ok_or("the device is closed".into()),
    }
    state Option<usize>;
}

/// A filter expression, if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Filter(Option<Expr>);

impl FromArg for Filter {
    const SYNTAX: &'static str = "filter expression";
    fn from_arg(text: &str) -> Result<Filter, String> {
        let text = String::from_arg(text)?;
        if text.trim().is_empty() {
            return Ok(Filter(None));
        }
        Expr::parse(&text).map(|e| Filter(Some(e))).map_err(|e| e.to_string())
    }
}

/// The method of that name, also by Click's names.
pub(crate) fn method(name: &str) -> Result<Method, String> {
    match name.to_ascii_uppercase().as_str() {
        "" => Ok(Method::Auto),
        "PCAP" | "LINUX" | "NETMAP" => Ok(Method::Packet),
        _ => name.parse().map_err(|_| format!("METHOD {name}: give AUTO, PACKET or XDP")),
    }
}

/// Opens the device of that name; `wait`: even if it cannot be opened yet.
pub(crate) fn open(name: &str, options: Options, wait: bool, env: &mut Env) -> Result<usize, String> {
    let spec = PortSpec::device(name, options).map_err(|e| e.to_string())?;
    let open = if wait { env.devices.open_later(&spec) } else { env.devices.open(&spec) };
    open.map_err(|e| with_causes(&e))
}

pub(crate) fn figures(device: Option<usize>, env: &Env) -> Result<(u64, u64), String> {
    let figures = device.and_then(|d| env.devices.received(d));
    figures.ok_or_else(|| "the device is closed".to_owned())
}

impl Behavior for FromDevice {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options {
            method: method(&self.method)?,
            promiscuous: self.promisc,
            exclusive: !self.sniffer,
            ..Options::default()
        };
        self.state = Some(open(&self.devname, options, self.wait, env)?);
        Ok(())
    }

    fn on_every_worker(&self) -> bool {
        true
    }

    fn reads_device(&self) -> Option<usize> {
        self.state
    }

    fn filter(&self, name: &str) -> Option<Program> {
        let expr = self.bpf_filter.0.as_ref()?;
        let plan = RuleList::new(View::Ethernet, [(expr, 0)]);
        let mut b = Builder::new(name, 1, 1);
        b.input(0, |b| {
            let taken = plan.matches(b);
            b.unless(taken, |b| b.drop(Reason::new("Filtered")));
            // What the filter marked to read it is not marked in what a device gives.
            b.set_mark(Layer::Mac, Layer::Data, 0);
            [Layer::Net, Layer::Transport, Layer::Cursor].into_iter().for_each(|l| b.clear_mark(l));
            b.emit(0);
        });
        Some(b.finish())
    }
}
