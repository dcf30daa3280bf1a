use weir_io::PortSpec;
use weir_io::interface::Options;
use weir_io::with_causes;

use crate::prelude::*;

engine_node! {
    /// Lets all that one device receives go to another without passing here. It has no ports.
    ///
    /// Both devices are memory that is shared with another process (`memif:`), with this side as the master, and both other sides are
    /// data planes whose devices say `direct=true`. They get a ring of their own: what the one sends, the other receives, and the
    /// packets pass here only while that ring comes and goes. None is lost, none comes twice, and none overtakes another.
    ///
    /// Elsewhere in the graph, all packets of `FROM` have to go to `TO` as they are, and nothing else may. While one of the
    /// other sides is not there, and while the graph is watched (by a trace or capture), they do.
    DirectLink: "0/0", "a/a", Sink, Devices;
    example "DirectLink(memif:a?role=master, memif:b?role=master); FromDevice(memif:a?role=master, WAIT true) -> Queue -> ToDevice(memif:b?role=master, WAIT true);";
    params {
        /// The device that packets come from.
        pos from: String,
        /// The device that they go to.
        pos to: String,
    }
    handlers {
        /// `true` while packets go directly.
        read active = |d, env| Ok(d.state.is_some_and(|(from, to)| env.devices.is_joined(from, to)).to_string()),
    }
    state Option<(usize, usize)>;
}

impl Behavior for DirectLink {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let mut open = |name: &str| {
            let spec = PortSpec::device(name, Options::default()).map_err(|e| e.to_string())?;
            if !spec.is_shared_memory() {
                return Err(format!(
                    "{name}: only memory that is shared with another process (memif:) can be joined"
                ));
            }
            env.devices.open_later(&spec).map_err(|e| with_causes(&e))
        };
        self.state = Some((open(&self.from)?, open(&self.to)?));
        Ok(())
    }

    fn on_every_worker(&self) -> bool {
        true
    }

    fn joins_devices(&self) -> Option<(usize, usize)> {
        self.state
    }
}
