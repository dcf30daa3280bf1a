//! AF_PACKET ports on veth links, with real traffic.

mod common;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Between, Forwarder, Namespace, link, receive_n};
use weir_io::af_packet::{AfPacketPort, Options};
use weir_io::{Port, PortError, offload};
use weir_net::build::{self, TcpFields};
use weir_net::{Headers, Ipv4, Udp, checksum};
use weir_packet::{Checksum, Gso, Packet, PacketType};

/// Sends `MB` megabytes that a seed determines from the left host to the right host and compares digests.
fn transfer(net: &Between, megabytes: u32) {
    let mut server = net.right_host.python(
        "import socket, hashlib\n\
         s = socket.create_server(('10.9.0.2', 5001)); print('ready', flush=True)\n\
         s.settimeout(30); c, _ = s.accept(); c.settimeout(30); h = hashlib.sha256(); n = 0\n\
         while d := c.recv(1 << 16): h.update(d); n += len(d)\n\
         c.close(); print(n, h.hexdigest())",
    );
    let mut line = [0; 6];
    server.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let client = net.left_host.python(&format!(
        "import socket, hashlib, random\n\
         r = random.Random(7); h = hashlib.sha256(); c = socket.create_connection(('10.9.0.2', 5001), 30)\n\
         for _ in range({megabytes}): d = r.randbytes(1 << 20); h.update(d); c.sendall(d)\n\
         c.shutdown(socket.SHUT_WR); c.recv(1); print({megabytes} << 20, h.hexdigest())",
    ));
    let sent = client.wait_with_output().unwrap();
    let received = server.wait_with_output().unwrap();
    assert!(sent.status.success() && received.status.success());
    assert_eq!(String::from_utf8_lossy(&sent.stdout), String::from_utf8_lossy(&received.stdout));
}

#[test]
fn tcp_with_offloads_passes_intact() {
    let net = Between::new();
    let ports = ["left", "right"].map(|name| net.middle.open(name, &Options::default()));
    let (large, partial) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (large.clone(), partial.clone());
    let forwarder = Forwarder::start(ports, move |p| {
        counts.0.fetch_add((p.gso != 0).into(), Ordering::Relaxed);
        counts.1.fetch_add((p.checksum() == Checksum::Partial).into(), Ordering::Relaxed);
    });
    transfer(&net, 50);
    let [mut left, mut right] = forwarder.stop();
    println!("{:?}\n{:?}", left.stats(), right.stats());
    assert!(large.load(Ordering::Relaxed) > 100, "large packets pass unsegmented");
    assert!(partial.load(Ordering::Relaxed) > 100);
    for port in [&mut left, &mut right] {
        assert_eq!(port.stats().tx_errors, Default::default());
        assert_eq!(port.stats().rx_malformed, 0);
    }
}
