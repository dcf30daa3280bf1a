use weir_io::tap::{Kind, Options};

use super::kernel_tap::name;
use super::prelude::*;
use super::sending::Sending;
use crate::device::with_causes;

engine_node! {
    /// Gives IP packets of a processing module back to the platform, by the virtual interface of the `FromNetfront` of that
    /// name.
    ///
    /// Packets begin with the IP header; what is neither IPv4 nor IPv6 is refused, and counted as not sent by the device.
    /// Packets may be pushed, or are pulled as fast as the interface takes them; those that it does not take in time are
    /// dropped (`Full`).
    ToNetfront: "1/0", "a/h", Sink;
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
        if self.devname.is_empty() {
            return Err("DEVNAME: give the name of an interface (like netfront0)".to_owned());
        }
        let options = Options { kind: Kind::Tun, ..Options::default() };
        let device = env.devices.open_tap(&self.devname, &options).map_err(|e| with_causes(&e))?;
        self.state.device = Some(device);
        Ok(())
    }

    fn writes_device(&self) -> Option<usize> {
        self.state.device
    }

    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        self.state.push(packets, cx);
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        self.state.pull(self.burst, cx)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        let Some(old) = old.as_any().downcast_mut::<ToNetfront>() else { return };
        self.state.adopt(&old.state);
    }
}
