use weir_io::tap::{Kind, Options};

use crate::common::sending::{Sending, sends};
use crate::host::kernel_tap::{name, open_named};
use crate::prelude::*;

engine_node! {
    /// Gives IP packets of a processing module back to the platform, by the virtual interface of the `FromNetfront` of that
    /// name.
    ///
    /// Packets begin with the IP header; what is neither IPv4 nor IPv6 is refused, and counted as not sent by the device.
    /// Packets may be pushed, or are pulled as fast as the interface takes them; those that it does not take in time are
    /// dropped (`Full`).
    ToNetfront: "1/0", "a/h", Sink, Devices;
    example "FromNetfront() -> Queue -> ToNetfront();";
    params {
        /// Name of the interface.
        pos devname: String = String::from("netfront0"),
        /// Most packets that are pulled at a time.
        key burst: u32 = 32,
    }
    handlers {
        /// Name of the interface.
        read dev_name = |d, env| name(d.state.device, env),
        /// Number of packets that went to the platform.
        read count = |d, _| Ok(d.state.sent.to_string()),
        /// Number of packets that were dropped because the interface took no more.
        read drops = |d, _| Ok(d.state.drops.to_string()),
    }
    state Sending;
}

impl Behavior for ToNetfront {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options { kind: Kind::Tun, ..Options::default() };
        self.state.device = open_named(&self.devname, "netfront0", &options, env)?;
        Ok(())
    }

    sends!(ToNetfront, |node| node.burst);
}
