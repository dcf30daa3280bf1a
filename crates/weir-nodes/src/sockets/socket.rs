use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use weir_elements::FromArg;
use weir_io::PortSpec;
use weir_io::socket::{Kind, Options};

use crate::common::sending::Sending;
use crate::node::Neighbours;
use crate::prelude::*;
use weir_io::with_causes;

engine_node! {
    /// Exchanges packets with other programs by a socket: `Socket(TCP, IP, PORT [, LOCALIP, LOCALPORT])`,
    /// `Socket(UDP, …)`, `Socket(UNIX, FILE [, LOCALFILE])` or `Socket(UNIX_DGRAM, …)`.
    ///
    /// Packets that come in are sent; what is received leaves by the output. A packet is a datagram, or what a stream gives
    /// at a time. A server is at the address; it has one client at a time (`TCP`, `UNIX`), or answers whom it heard last
    /// (`UDP`, `UNIX_DGRAM`). A client talks to the address, and a UDP client with the address 0.0.0.0 to each packet's
    /// destination address annotation. Packets that nobody takes are counted as not sent by the device; those that the
    /// socket does not take in time are dropped (`Full`).
    ///
    /// A hot swap keeps a socket with the same arguments, and its connection.
    Socket: "0-1/0-1", "a/h", Source, Sockets;
    example "Socket(UDP, 127.0.0.1, 5000) -> Discard;";
    example "Idle -> Socket(UDP, 127.0.0.1, 5000);";
    params {
        /// `TCP`, `UDP`, `UNIX` or `UNIX_DGRAM`.
        pos r#type: String,
        /// Address, or name of a file.
        pos address: String,
        /// Port; for files, the name of the local file.
        pos port: String = String::new(),
        /// Address that a client has.
        pos local_address: Option<Ipv4Addr> = None,
        /// Port that a client has.
        pos local_port: u16 = 0,
        /// Whether it is a client. Default: if it has no output, or a local address or file.
        key client: Option<bool> = None,
        /// Longest packet that is received, in bytes.
        key snaplen: u32 = 2048,
        /// Whether small packets go out at once (TCP).
        key nodelay: bool = true,
        /// Size of the kernel's buffer for sending, in bytes.
        key sndbuf: Option<u32> = None,
        /// Size of the kernel's buffer for receiving, in bytes.
        key rcvbuf: Option<u32> = None,
        /// Whether packets bear the time at which they came.
        key timestamp: bool = true,
        /// Most packets that are pulled at a time.
        key burst: u32 = 32,
        /// Accepted for Click's sake: clients that come and go are not reported.
        key verbose: bool = false,
        /// Accepted for Click's sake: packets have 128 bytes of headroom.
        key headroom: u32 = 128,
    }
    handlers {
        /// Number of packets that were sent.
        read count = |s, _| Ok(s.state.sending.sent.to_string()),
        /// Number of packets that were dropped because the socket took no more.
        read drops = |s, _| Ok(s.state.sending.drops.to_string()),
    }
    state Open;
}

#[derive(Default)]
struct Open {
    sending: Sending,
    /// Connected inputs and outputs.
    ports: (u32, u32),
}

impl Socket {
    fn kind(&self) -> Result<Kind, String> {
        let (inputs, outputs) = self.state.ports;
        let has_local = self.local_address.is_some();
        let is_client = |local: bool| self.client.unwrap_or((outputs == 0 || local) && inputs > 0);
        let file = || PathBuf::from(&self.address);
        let local_file = Some(&self.port).filter(|p| !p.is_empty()).map(PathBuf::from);
        match self.r#type.to_ascii_uppercase().as_str() {
            "TCP" if is_client(has_local) => Ok(Kind::TcpClient(self.remote()?, self.local())),
            "TCP" => Ok(Kind::TcpServer(self.remote()?)),
            "UDP" if is_client(has_local) => Ok(Kind::UdpClient(self.remote()?, self.local())),
            "UDP" => Ok(Kind::UdpServer(self.remote()?)),
            "UNIX" if is_client(local_file.is_some()) => Ok(Kind::UnixClient(file())),
            "UNIX" => Ok(Kind::UnixServer(file())),
            "UNIX_DGRAM" if is_client(local_file.is_some()) => {
                Ok(Kind::UnixDatagramClient(file(), local_file))
            }
            "UNIX_DGRAM" => Ok(Kind::UnixDatagramServer(file())),
            other => Err(format!("TYPE: '{other}' is no kind of socket: write TCP, UDP, UNIX or UNIX_DGRAM")),
        }
    }

    fn remote(&self) -> Result<SocketAddrV4, String> {
        let address = Ipv4Addr::from_arg(&self.address).map_err(|e| format!("ADDRESS: {e}"))?;
        let port = u16::from_arg(&self.port).map_err(|e| format!("PORT: {e}"))?;
        Ok(SocketAddrV4::new(address, port))
    }

    fn local(&self) -> Option<SocketAddrV4> {
        self.local_address.map(|address| SocketAddrV4::new(address, self.local_port))
    }
}

impl Behavior for Socket {
    fn place(&mut self, here: &Neighbours<'_>) -> Result<(), String> {
        self.state.ports = here.ports();
        Ok(())
    }

    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let options = Options {
            snaplen: self.snaplen as usize,
            send_buffer: self.sndbuf.map(|n| n as usize),
            receive_buffer: self.rcvbuf.map(|n| n as usize),
            nodelay: self.nodelay,
            timestamp: self.timestamp,
            ..Options::new(self.kind()?)
        };
        let device = env.devices.open(&PortSpec::Socket(options)).map_err(|e| with_causes(&e))?;
        self.state.sending.device = Some(device);
        Ok(())
    }

    fn reads_device(&self) -> Option<usize> {
        self.state.sending.device.filter(|_| self.state.ports.1 > 0)
    }

    fn writes_device(&self) -> Option<usize> {
        self.state.sending.device
    }

    fn lost(&mut self, packets: u64) {
        self.state.sending.lost(packets);
    }

    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        self.state.sending.push(packets, cx);
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        if cx.ports().0 == 0 { Ran::Idle } else { self.state.sending.pull(self.burst, cx) }
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        let Some(old) = old.as_any().downcast_mut::<Socket>() else { return };
        self.state.sending.adopt(&old.state.sending);
    }
}
