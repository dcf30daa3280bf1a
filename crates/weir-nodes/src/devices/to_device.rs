use weir_io::interface::Options;

use crate::common::sending::{Sending, sends};
use crate::devices::from_device::{method, open};
use crate::prelude::*;

engine_node! {
    /// Sends packets to a network device.
    ///
    /// Packets are Ethernet frames. They may be pushed, and are dropped (`Full`) if the device does not take them in
    /// time; or they are pulled, as fast as the device takes them. All elements for one device share its port.
    ///
    /// What the device can not send ends here too: frames that are longer than its MTU allows (`TooLong`), those for an
    /// interface that is down or gone, or for shared memory without a peer (`DeviceDown`), those whose checksum or
    /// segmentation data does not fit their bytes (`BadOffload`), and those that the kernel refuses for another reason
    /// (`Refused`), as when they are shorter than a header.
    ToDevice: "1/0", "a/h", Sink, Devices;
    example "FromDevice(eth0) -> Queue -> ToDevice(eth1);";
    params {
        /// Interface, or `memif:` or `vhost-user:` and what follows it, as with `FromDevice`.
        pos devname: String,
        /// Most packets that are pulled at a time.
        key burst: u32 = 32,
        /// How packets go to the kernel: `AUTO`, `PACKET` or `XDP`, as with `FromDevice`.
        key method: String = String::from("AUTO"),
        /// Whether the graph starts without an interface that is not there, and takes it when it comes.
        key wait: bool = false,
        /// Accepted for Click's sake: errors are counted, not printed.
        key debug: bool = false,
    }
    handlers {
        /// Number of packets that the device took from this element.
        read count = |d, _| Ok(d.state.sent.to_string()),
        /// Number of packets that were dropped because the device took no more, or could not send them.
        read drops = |d, _| Ok(d.state.drops.to_string()),
        /// Number of packets that wait for the device, or that a peer with shared memory has not taken from there.
        read unread = |d, env| env.devices.unread(d.state.device.unwrap_or(usize::MAX)).map(|n| n.to_string()).ok_or("the device is closed".into()),
        /// Sets the counts to zero.
        write reset_counts = |d, _, _| {
            d.state.sent = 0;
            d.state.drops = 0;
            Ok(())
        },
    }
    state Sending;
}

impl Behavior for ToDevice {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options { method: method(&self.method)?, ..Options::default() };
        self.state.device = Some(open(&self.devname, options, self.wait, env)?);
        Ok(())
    }

    fn on_every_worker(&self) -> bool {
        true
    }

    sends!(ToDevice, |node| node.burst);
}
