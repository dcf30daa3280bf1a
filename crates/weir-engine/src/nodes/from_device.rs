use weir_io::af_packet::Options;

use super::prelude::*;
use crate::device::with_causes;

engine_node! {
    /// Reads packets from a network device.
    ///
    /// Packets are Ethernet frames, as they arrive, for the kernel as well as for Weir; those for other hosts too. All
    /// elements for one device share its port. If the interface vanishes, the graph runs on, and the port is opened
    /// again when it is back.
    FromDevice: "0/1", "h/h", Source;
    example "FromDevice(eth0) -> Discard;";
    params {
        /// Interface.
        pos devname: String,
        /// Accepted for Click's sake: the kernel always sees the packets too.
        key sniffer: bool = true,
        /// Whether to receive packets for other hosts.
        key promisc: bool = true,
        /// Accepted for Click's sake: packets are never cut.
        key snaplen: u32 = 65_535,
        /// Accepted for Click's sake: AF_PACKET is the only way to receive.
        key method: String = String::new(),
        /// Accepted for Click's sake: at most 32 packets are taken at a time.
        key burst: u32 = 32,
        /// Accepted for Click's sake: packets have 128 bytes of headroom.
        key headroom: u32 = 128,
        /// Accepted for Click's sake: packets always bear their time of arrival.
        key timestamp: bool = true,
        /// Accepted for Click's sake: frames that this host sends are never received.
        key outbound: bool = false,
    }
    handlers {
        /// Number of packets received by the device.
        read count = |d, env| Ok(figures(d.state, env)?.0.to_string()),
        /// Number of packets that the kernel dropped because Weir did not take them in time.
        read kernel_drops = |d, env| Ok(figures(d.state, env)?.1.to_string()),
        /// `up`, or what is wrong with the device.
        read state = |d, env| env.devices.state(d.state.unwrap_or(usize::MAX)).ok_or("the device is closed".into()),
    }
    state Option<usize>;
}

fn figures(device: Option<usize>, env: &Env) -> Result<(u64, u64), String> {
    let figures = device.and_then(|d| env.devices.received(d));
    figures.ok_or_else(|| "the device is closed".to_owned())
}

impl Behavior for FromDevice {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options { promiscuous: self.promisc, ..Options::default() };
        self.state = Some(env.devices.open(&self.devname, &options).map_err(|e| with_causes(&e))?);
        Ok(())
    }

    fn reads_device(&self) -> Option<usize> {
        self.state
    }
}
