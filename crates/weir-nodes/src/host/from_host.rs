use std::net::Ipv4Addr;

use weir_io::tap::{Kind, Options};
use weir_net::EtherAddr;

use crate::host::host_address::{HostAddress, HostAddress6, gateway};
use crate::host::kernel_tap::{name, open_named, packets};
use crate::prelude::*;

engine_node! {
    /// Takes Ethernet frames that the kernel's own stack sends to a virtual interface, which it makes (TAP).
    ///
    /// `ToHost` with the same name gives frames to the kernel; `KernelTap` does both. The kernel asks for Ethernet
    /// addresses by ARP, which the graph has to answer.
    FromHost: "0/1", "h/h", Source, Devices;
    example "FromHost(fake, 10.9.9.1/24) -> ARPResponder(0.0.0.0/0 02:00:00:00:00:02) -> ToHost(fake);";
    params {
        /// Name of the interface.
        pos devname: String,
        /// Address of the kernel, and prefix of the network that is reached by the interface; without it, give the
        /// interface an address by other means.
        pos dst: Option<HostAddress> = None,
        /// Where the kernel shall send packets by default; 0.0.0.0: no change.
        key gateway: Ipv4Addr = Ipv4Addr::UNSPECIFIED,
        /// Ethernet address of the kernel; without it, the kernel chooses.
        key ether: Option<EtherAddr> = None,
        /// IPv6 address of the kernel, with prefix.
        key dst6: Option<HostAddress6> = None,
        /// Largest payload of a frame in bytes.
        key mtu: Option<u32> = None,
        /// Accepted for Click's sake: packets have 128 bytes of headroom.
        key headroom: u32 = 128,
    }
    handlers {
        /// Name of the interface.
        read dev_name = |d, env| name(d.state, env),
        /// Number of packets that came from the kernel.
        read count = |d, env| packets(d.state, env),
    }
    state Option<usize>;
}

impl Behavior for FromHost {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options {
            kind: Kind::Tap,
            address: self.dst.map(|a| (a.0, a.1)),
            address6: self.dst6.map(|a| (a.0, a.1)),
            gateway: gateway(self.gateway, self.dst)?,
            ether: self.ether,
            mtu: self.mtu,
        };
        self.state = open_named(&self.devname, "fake", &options, env)?;
        Ok(())
    }

    fn reads_device(&self) -> Option<usize> {
        self.state
    }
}
