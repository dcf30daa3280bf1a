use std::net::Ipv4Addr;

use weir_io::tap::{Kind, Options};
use weir_net::EtherAddr;

use crate::common::sending::{Sending, sends};
use crate::host::host_address::{HostAddress, gateway};
use crate::host::kernel_tap::{name, open, packets};
use crate::prelude::*;

engine_node! {
    /// Exchanges IP packets with the kernel's own stack, by a virtual interface that it makes (TUN).
    ///
    /// The kernel has the address `ADDR` on the interface, and sends packets for the rest of the network there: they leave
    /// by output 0, their network and transport headers marked. Packets that come in go to the kernel; what is not IPv4 or
    /// IPv6 is refused, and counted as not sent by the device. Packets may come unfinished and up to 64 KB long, as with
    /// `FromDevice`. Linux hands over IP packets only, so that output 1, which Click has for others, gets none.
    ///
    /// The interface goes away with the graph; a hot swap keeps it if its arguments are the same. Packets that the
    /// interface does not take in time are dropped (`Full`).
    KernelTun: "0-1/1-2", "a/h", Source, Devices;
    example "tun :: KernelTun(10.9.9.1/24) -> IPClassifier(icmp type echo) -> ICMPPingResponder -> tun;";
    params {
        /// Address of the kernel, and prefix of the network that is reached by the interface.
        pos addr: HostAddress,
        /// Where the kernel shall send packets by default; 0.0.0.0: no change.
        pos gateway: Ipv4Addr = Ipv4Addr::UNSPECIFIED,
        /// Accepted for Click's sake: packets have no Ethernet header.
        key ether: EtherAddr = EtherAddr([0, 1, 2, 3, 4, 5]),
        /// Largest packet in bytes.
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

impl Behavior for KernelTun {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options {
            kind: Kind::Tun,
            address: Some((self.addr.0, self.addr.1)),
            gateway: gateway(self.gateway, Some(self.addr))?,
            mtu: Some(self.mtu),
            ..Options::default()
        };
        self.state.device = open(&self.devname, &options, env)?;
        Ok(())
    }

    fn reads_device(&self) -> Option<usize> {
        self.state.device
    }

    sends!(KernelTun, |node| node.burst);
}
