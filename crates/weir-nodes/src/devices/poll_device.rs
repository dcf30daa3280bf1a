use weir_io::interface::Options;

use crate::devices::from_device::{figures, open};
use crate::prelude::*;

engine_node! {
    /// Reads packets from a network device: what `FromDevice` does, under the name that Click's Linux kernel driver has for
    /// it.
    ///
    /// The kernel's own stack sees the packets too if it has an address on the interface, as with `FromDevice`.
    PollDevice: "0/1", "h/h", Source, Devices;
    example "PollDevice(eth0) -> Discard;";
    params {
        /// Interface, or `memif:` or `vhost-user:` and what follows it, as with `FromDevice`.
        pos devname: String,
        /// Accepted for Click's sake: at most 32 packets are taken at a time.
        pos burst: u32 = 8,
        /// Accepted for Click's sake: packets have 128 bytes of headroom.
        key headroom: u32 = 128,
        /// Accepted for Click's sake.
        key length: u32 = 0,
        /// Whether to receive packets for other hosts.
        key promisc: bool = true,
        /// Accepted for Click's sake: packets always bear their time of arrival.
        key timestamp: bool = true,
        /// Accepted for Click's sake: a device that is down is waited for.
        key quiet: bool = false,
        /// Accepted for Click's sake: a device that is not there is an error.
        key allow_nonexistent: bool = false,
    }
    handlers {
        /// Number of packets received by the device.
        read count = |d, env| Ok(figures(d.state, env)?.0.to_string()),
        /// Number of packets that the kernel dropped because Weir did not take them in time.
        read kernel_drops = |d, env| Ok(figures(d.state, env)?.1.to_string()),
    }
    state Option<usize>;
}

impl Behavior for PollDevice {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options { promiscuous: self.promisc, ..Options::default() };
        self.state = Some(open(&self.devname, options, false, env)?);
        Ok(())
    }

    fn on_every_worker(&self) -> bool {
        true
    }

    fn reads_device(&self) -> Option<usize> {
        self.state
    }
}
