use std::net::Ipv4Addr;

use weir_elements::FromArg;
use weir_io::PortSpec;
use weir_io::tunnel::{Carrier, Options};

use crate::common::sending::{Sending, sends};
use crate::prelude::*;
use weir_io::with_causes;

engine_node! {
    /// Exchanges the outer packets of tunnels with other hosts: IPv4 packets, of GRE or of one UDP port.
    ///
    /// What comes for the address of this host leaves by the output, from the IP header on, with the marks `net` and `transport`;
    /// whoever it is from. Fragments are not put together. Packets may come unfinished and up to 64 KB long, as with
    /// `FromDevice`. Packets that come in are sent as they are, along the host's routes.
    ///
    /// What the host cannot send ends here: packets that are longer than the MTU of their route (`TooLong`), those for an interface
    /// that is down (`DeviceDown`), and those that the kernel refuses for another reason (`Refused`), as without a route. Those that
    /// it does not take in time are dropped (`Full`). A hot swap keeps the port.
    TunnelSocket: "0-1/0-1", "a/h", Source, Sockets;
    example "TunnelSocket(GRE, 10.0.0.1) -> CheckIPHeader -> GREDecap(0x6558, KEY 42) -> Discard;";
    example "Idle -> VXLANEncap(10.0.0.1, 10.0.0.2, 42) -> TunnelSocket(UDP, 10.0.0.1, 4789);";
    params {
        /// `GRE` or `UDP`.
        pos r#type: Type,
        /// Address of this host.
        pos local: Ipv4Addr,
        /// Port of UDP.
        pos port: Option<u16> = None,
        /// Whether the graph starts without the address, or while another program has the port, and takes it when that is possible.
        key wait: bool = false,
        /// Most packets that are pulled at a time.
        key burst: u32 = 32,
    }
    handlers {
        /// Number of packets that were sent.
        read count = |s, _| Ok(s.state.sent.to_string()),
        /// Number of packets that were dropped because they could not be sent.
        read drops = |s, _| Ok(s.state.drops.to_string()),
    }
    state Sending;
}

/// The protocol that carries tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Gre,
    Udp,
}

impl FromArg for Type {
    const SYNTAX: &'static str = "GRE or UDP";
    fn from_arg(text: &str) -> Result<Type, String> {
        match text.trim() {
            "GRE" => Ok(Type::Gre),
            "UDP" => Ok(Type::Udp),
            other => Err(format!("'{other}' carries no tunnels here: write GRE or UDP")),
        }
    }
}

impl Behavior for TunnelSocket {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let carrier = match (self.r#type, self.port) {
            (Type::Gre, None) => Carrier::Gre,
            (Type::Udp, Some(port)) if port > 0 => Carrier::Udp(port),
            (Type::Gre, Some(_)) => return Err("PORT: GRE has no ports".to_owned()),
            (Type::Udp, _) => return Err("PORT: give the port of UDP (VXLAN has 4789)".to_owned()),
        };
        let spec = PortSpec::Tunnel(Options { local: self.local, carrier });
        let open = if self.wait { env.devices.open_later(&spec) } else { env.devices.open(&spec) };
        self.state.device = Some(open.map_err(|e| with_causes(&e))?);
        Ok(())
    }

    fn reads_device(&self) -> Option<usize> {
        self.state.device
    }

    sends!(TunnelSocket, |node| node.burst);
}
