use std::net::{Ipv4Addr, SocketAddrV4};

use weir_io::PortSpec;
use weir_io::socket::{Kind, Options};

use crate::common::sending::{Sending, sends};
use crate::prelude::*;
use weir_io::with_causes;

engine_node! {
    /// Exchanges packets with a multicast group, each in a UDP datagram.
    ///
    /// With a source address, packets are sent from it and received on its interface, and what comes back of them is
    /// ignored. Without one, the system's routes give the interface, and packets come back if LOOP is true. Packets that
    /// the socket does not take in time are dropped (`Full`). A hot swap keeps a socket with the same arguments.
    McastSocket: "0-1/0-1", "a/h", Source, Sockets;
    example "socket :: McastSocket(239.0.0.1, 1234, 127.0.0.1); Idle -> socket -> Discard;";
    params {
        /// Address of the group.
        pos mcastip: Ipv4Addr,
        /// Port of the group.
        pos mcastport: u16,
        /// Address of this end.
        pos sourceip: Option<Ipv4Addr> = None,
        /// Port of this end; 0: the system chooses one.
        pos sourceport: u16 = 0,
        /// Whether programs on this machine receive what is sent.
        key r#loop: bool = true,
        /// Longest packet that is received, in bytes.
        key snaplen: u32 = 2048,
        /// Size of the kernel's buffer for sending, in bytes.
        key sndbuf: Option<u32> = None,
        /// Size of the kernel's buffer for receiving, in bytes.
        key rcvbuf: Option<u32> = None,
        /// Whether packets bear the time at which they came.
        key timestamp: bool = true,
        /// Most packets that are pulled at a time.
        key burst: u32 = 32,
        /// Accepted for Click's sake: packets have 128 bytes of headroom.
        key headroom: u32 = 128,
    }
    handlers {
        /// Number of packets that were sent.
        read count = |s, _| Ok(s.state.sent.to_string()),
        /// Number of packets that were dropped because the socket took no more.
        read drops = |s, _| Ok(s.state.drops.to_string()),
    }
    state Sending;
}

impl Behavior for McastSocket {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        if !self.mcastip.is_multicast() {
            return Err(format!("MCASTIP: {} is not a multicast address (224.0.0.0/4)", self.mcastip));
        }
        let kind = Kind::Multicast {
            group: SocketAddrV4::new(self.mcastip, self.mcastport),
            source: self.sourceip.map(|address| SocketAddrV4::new(address, self.sourceport)),
            local: self.r#loop,
        };
        let options = Options {
            snaplen: self.snaplen as usize,
            send_buffer: self.sndbuf.map(|n| n as usize),
            receive_buffer: self.rcvbuf.map(|n| n as usize),
            timestamp: self.timestamp,
            ..Options::new(kind)
        };
        self.state.device = Some(env.devices.open(&PortSpec::Socket(options)).map_err(|e| with_causes(&e))?);
        Ok(())
    }

    fn reads_device(&self) -> Option<usize> {
        self.state.device
    }

    sends!(McastSocket, |node| node.burst);
}
