use std::net::Ipv4Addr;

use weir_io::PortSpec;
use weir_io::tap::{Kind, Options};
use weir_net::EtherAddr;

use crate::common::sending::{Sending, sends};
use crate::host::host_address::{HostAddress, gateway};
use crate::prelude::*;
use weir_io::with_causes;

engine_node! {
    /// Exchanges Ethernet frames with the kernel's own stack, by a virtual interface that it makes (TAP).
    ///
    /// The kernel has the address `ADDR` on the interface, and sends packets for the rest of the network there: they leave
    /// by the output. It asks for Ethernet addresses by ARP, which the graph has to answer. Frames that come in go to the
    /// kernel; it takes those for its Ethernet address, `ETHER`. Packets may come in unfinished and up to 64 KB long, as
    /// with `FromDevice`.
    ///
    /// The interface goes away with the graph; a hot swap keeps it if its arguments are the same. Frames that the
    /// interface does not take in time are dropped (`Full`).
    KernelTap: "0-1/1", "a/h", Source, Devices;
    example "tap :: KernelTap(10.9.9.1/24) -> ARPResponder(0.0.0.0/0 02:00:00:00:00:02) -> tap;";
    params {
        /// Address of the kernel, and prefix of the network that is reached by the interface.
        pos addr: HostAddress,
        /// Where the kernel shall send packets by default; 0.0.0.0: no change.
        pos gateway: Ipv4Addr = Ipv4Addr::UNSPECIFIED,
        /// Ethernet address of the kernel.
        key ether: EtherAddr = EtherAddr([0, 1, 2, 3, 4, 5]),
        /// Largest payload of a frame in bytes.
        key mtu: u32 = 1500,
        /// Name of the interface; empty: the kernel chooses.
        key devname: String = String::new(),
        /// Most packets that are pulled at a time.
        key burst: u32 = 32,
        /// Accepted for Click's sake: packets have 128 bytes of headroom.
        key headroom: u32 = 128,
        /// Accepted for Click's sake: errors are counted, not printed.
        key ignore_queue_overflows: bool = false,
    }
    handlers {
        /// Name of the interface.
        read dev_name = |d, env| name(d.state.device, env),
        /// Number of packets that came from the kernel.
        read packets = |d, env| packets(d.state.device, env),
        /// Number of packets that went to the kernel.
        read count = |d, _| Ok(d.state.sent.to_string()),
        /// Number of packets that were dropped because the interface took no more.
        read drops = |d, _| Ok(d.state.drops.to_string()),
    }
    state Sending;
}

/// Opens a virtual interface.
pub(crate) fn open(name: &str, options: &Options, env: &mut Env) -> Result<Option<usize>, String> {
    let spec = PortSpec::Tap { name: name.to_owned(), options: options.clone() };
    env.devices.open(&spec).map(Some).map_err(|e| with_causes(&e))
}

/// Opens the virtual interface of that name, which has to be given.
pub(crate) fn open_named(
    name: &str,
    example: &str,
    options: &Options,
    env: &mut Env,
) -> Result<Option<usize>, String> {
    if name.is_empty() {
        return Err(format!("DEVNAME: give the name of an interface (like {example})"));
    }
    open(name, options, env)
}

/// Name of the interface of a device.
pub(crate) fn name(device: Option<usize>, env: &Env) -> Result<String, String> {
    let name = device.and_then(|d| env.devices.name(d));
    name.map(str::to_owned).ok_or_else(|| "the device is closed".to_owned())
}

/// Packets that a device received.
pub(crate) fn packets(device: Option<usize>, env: &Env) -> Result<String, String> {
    let figures = device.and_then(|d| env.devices.received(d));
    figures.map(|f| f.0.to_string()).ok_or_else(|| "the device is closed".to_owned())
}

impl Behavior for KernelTap {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options {
            kind: Kind::Tap,
            address: Some((self.addr.0, self.addr.1)),
            gateway: gateway(self.gateway, Some(self.addr))?,
            ether: Some(self.ether),
            mtu: Some(self.mtu),
            ..Options::default()
        };
        self.state.device = open(&self.devname, &options, env)?;
        Ok(())
    }

    fn reads_device(&self) -> Option<usize> {
        self.state.device
    }

    sends!(KernelTap, |node| node.burst);
}
