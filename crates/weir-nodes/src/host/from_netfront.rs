use weir_io::tap::{Kind, Options};

use crate::host::kernel_tap::{name, open_named, packets};
use crate::prelude::*;

engine_node! {
    /// Takes the IP packets that a platform hands to a processing module.
    ///
    /// The platform's side is a virtual interface of the kernel (TUN), which is made if it is not there: what is routed to
    /// it leaves by the output, its network and transport headers marked. `ToNetfront` with the same name gives packets
    /// back. Packets may be unfinished and up to 64 KB long, as with `FromDevice`.
    FromNetfront: "0/1", "h/h", Source, Devices;
    example "FromNetfront() -> IPFilter(allow udp dst port 1500) -> ToNetfront();";
    params {
        /// Name of the interface.
        pos devname: String = String::from("netfront0"),
        /// Largest packet in bytes.
        key mtu: Option<u32> = None,
    }
    handlers {
        /// Name of the interface.
        read dev_name = |d, env| name(d.state, env),
        /// Number of packets that came in.
        read count = |d, env| packets(d.state, env),
    }
    state Option<usize>;
}

impl Behavior for FromNetfront {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options { kind: Kind::Tun, mtu: self.mtu, ..Options::default() };
        self.state = open_named(&self.devname, "netfront0", &options, env)?;
        Ok(())
    }

    fn reads_device(&self) -> Option<usize> {
        self.state
    }
}
