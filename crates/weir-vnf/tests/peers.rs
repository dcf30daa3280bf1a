//! Peers that do not behave: they reset, read nothing, send a byte at a time, or only connect.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use weir_vnf::{Buffer, Connection, Core, Function, Protocol, Running, Vnf};

/// Answers `count` with the number of its core's connections, and anything else with more than the kernel takes; then closes.
struct Talker;

impl Function for Talker {
    type Request = Vec<u8>;
    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        let request = core.request(connection).expect("it is open");
        let request = request.unwrap_or_else(|| core.attach(connection, Vec::new()).expect("it is open"));
        let line = core.get(request).expect("attached");
        line.extend_from_slice(&data);
        if line.last() != Some(&b'\n') {
            return;
        }
        let reply =
            if line == b"count\n" { core.connections().to_string().into_bytes() } else { vec![1; 4_000_000] };
        core.send_bytes(connection, &reply).expect("nothing was sent before");
        core.close(connection).expect("it is open");
    }
}

fn start() -> (Running, SocketAddr) {
    let mut vnf = Vnf::new(1);
    let (_, address) =
        vnf.server((Ipv4Addr::LOCALHOST, 0).into(), Protocol::Tcp, None).expect("loopback is there");
    (vnf.start(|| Talker).expect("threads start"), address)
}

fn client(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("not zero");
    stream.set_nodelay(true).expect("it is open");
    stream
}

/// The connections that the server has, this one included.
fn count(to: SocketAddr) -> usize {
    let mut stream = client(to);
    for byte in b"count\n" {
        stream.write_all(&[*byte]).expect("the server reads");
    }
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("the server answers and closes");
    reply.parse().expect("a number")
}

/// Asks until the server has no connection but this one: it hears of a reset some time after it was sent.
fn settles(to: SocketAddr) -> bool {
    (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        count(to) == 1
    })
}

#[test]
fn resets_free_connections_that_are_read_and_connections_that_were_closed() {
    let (runs, address) = start();
    for request in ["x\n", "unfinished"] {
        for _ in 0..50 {
            let mut stream = client(address);
            stream.write_all(request.as_bytes()).expect("the server reads");
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("it is open");
        }
    }
    assert!(settles(address));
    runs.stop().expect("the loop runs");
}

#[test]
fn a_peer_that_reads_nothing_holds_up_no_one_and_may_read_later() {
    let (runs, address) = start();
    let mut slow: Vec<_> = (0..5).map(|_| client(address)).collect();
    for stream in &mut slow {
        stream.write_all(b"x\n").expect("the server reads");
    }
    let idle: Vec<_> = (0..200).map(|_| client(address)).collect();
    // All of them are accepted and answered meanwhile; how much the kernel takes of a reply that nobody reads is its own affair.
    let accepted = (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        (201..=206).contains(&count(address))
    });
    assert!(accepted);
    for stream in &mut slow {
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("the rest arrives");
        assert_eq!(reply.len(), 4_000_000);
    }
    drop((slow, idle));
    assert!(settles(address));
    runs.stop().expect("the loop runs");
}
