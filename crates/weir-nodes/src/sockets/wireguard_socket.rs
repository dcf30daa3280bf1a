use std::net::{Ipv4Addr, SocketAddrV4};

use weir_elements::FromArg;
use weir_io::PortSpec;
use weir_io::wireguard::{KEY_FILE, Options};
use weir_net::WireGuardKey;

use crate::common::sending::{Sending, sends};
use crate::prelude::*;
use weir_io::with_causes;

engine_node! {
    /// Exchanges IPv4 packets with one other host, encrypted by WireGuard.
    ///
    /// Packets that come in have the address of the other host as their source, and that of this host as their destination: the key of
    /// the other host proves it. They leave by the output, from the IP header on, with the marks `net` and `transport`. Packets that
    /// come in at the input are sent to the other host, whatever their addresses; that one drops those that are not from here to there.
    ///
    /// The first packet begins a handshake. Up to 256 packets wait for its end; more of them, and those that wait for 90 seconds, end
    /// here (`DeviceDown`), as do packets that are longer than the MTU of the route lets them be (60 bytes less; `TooLong`). Those that
    /// the host does not take in time are dropped (`Full`). A hot swap keeps the tunnel.
    ///
    /// The private key of this host is in the file `KEY`, in base64 as `wg genkey` prints it; a relative path is one in the folder of
    /// the process's ports, where a node has its own.
    WireGuardSocket: "0-1/0-1", "a/h", Source, Sockets;
    example "WireGuardSocket(10.0.0.1, 51820, 10.0.0.2, \"HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=\") -> CheckIPHeader -> Discard;";
    params {
        /// Address of this host.
        pos local: Ipv4Addr,
        /// UDP port of both hosts.
        pos port: u16,
        /// Address of the other host.
        pos remote: Ipv4Addr,
        /// Public key of the other host, in base64, in quotes: `//` in it would begin a comment.
        pos peer: Peer,
        /// The file of this host's private key.
        key key: Option<String> = None,
        /// Whether the graph starts without the address or the key, and takes the port when that is possible.
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

/// A public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(WireGuardKey);

impl FromArg for Peer {
    const SYNTAX: &'static str = "a key in base64";
    fn from_arg(text: &str) -> Result<Peer, String> {
        text.trim().parse().map(Peer).map_err(|e: weir_net::NoWireGuardKey| e.to_string())
    }
}

impl Behavior for WireGuardSocket {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        if self.port == 0 {
            return Err("PORT: give a port of UDP (WireGuard has 51820)".to_owned());
        }
        let spec = PortSpec::WireGuard(Options {
            local: SocketAddrV4::new(self.local, self.port),
            remote: SocketAddrV4::new(self.remote, self.port),
            peer: self.peer.0,
            key_file: self.key.as_deref().unwrap_or(KEY_FILE).into(),
        });
        let open = if self.wait { env.devices.open_later(&spec) } else { env.devices.open(&spec) };
        self.state.device = Some(open.map_err(|e| with_causes(&e))?);
        Ok(())
    }

    fn reads_device(&self) -> Option<usize> {
        self.state.device
    }

    sends!(WireGuardSocket, |node| node.burst);
}
