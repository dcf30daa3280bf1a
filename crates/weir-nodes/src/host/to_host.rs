use weir_io::tap::Options;

use crate::common::sending::{Sending, sends};
use crate::host::kernel_tap::{name, open_named};
use crate::prelude::*;

engine_node! {
    /// Gives Ethernet frames to the kernel's own stack, by the virtual interface of the `FromHost` of that name.
    ///
    /// Without such a `FromHost`, the interface is made, without an address. The kernel takes frames for its Ethernet
    /// address on the interface, and broadcasts. Frames that it does not take in time are dropped (`Full`).
    ToHost: "1/0", "h/h", Sink, Devices;
    example "FromHost(fake) -> Queue -> Unqueue -> ToHost(fake);";
    params {
        /// Name of the interface.
        pos devname: String,
    }
    handlers {
        /// Name of the interface.
        read dev_name = |d, env| name(d.state.device, env),
        /// Number of packets that went to the kernel.
        read count = |d, _| Ok(d.state.sent.to_string()),
        /// Number of packets that were dropped because the interface took no more.
        read drops = |d, _| Ok(d.state.drops.to_string()),
    }
    state Sending;
}

impl Behavior for ToHost {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        self.state.device = open_named(&self.devname, "fake", &Options::default(), env)?;
        Ok(())
    }

    sends!(ToHost, |_node| 32);
}
