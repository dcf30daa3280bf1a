//! UDP: datagrams and their peers, clients, what is too long, ports where nobody listens.

#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use weir_vnf::{BUFFER_SIZE, Buffer, Connection, Core, Error, Function, Protocol, ServerId, Vnf};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Asks C for each datagram, and answers with the datagram and C's reply.
struct B {
    c: SocketAddr,
    events: Sender<String>,
}

struct Pending {
    a: Connection,
    question: Buffer,
}

impl Function for B {
    type Request = Pending;

    fn accept(&mut self, _: &mut Core<Self>, _: Connection, _: ServerId) {
        self.events.send("accept".to_owned()).expect("the test waits");
    }

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        if core.server(connection).expect("it is open").is_some() {
            let question = data.to_vec();
            if question == b"forget" {
                core.send(connection, data).expect("the kernel takes it");
                return;
            }
            let request =
                core.attach(connection, Pending { a: connection, question: data }).expect("it is open");
            let c = core.connect(self.c, Protocol::Udp).expect("loopback takes connections");
            core.link(c, request).expect("both are open");
            core.send_bytes(c, &question).expect("the kernel takes it");
            return;
        }
        let request = core.request(connection).expect("it is open").expect("linked to C");
        let pending = core.get(request).expect("it is linked");
        let (a, mut reply) = (pending.a, pending.question.to_vec());
        reply.extend_from_slice(&data);
        core.send_bytes(a, &reply).expect("the peer lasts as long as its request");
        core.close(connection).expect("it is open");
        core.unlink(a, request).expect("it is linked");
        let known = core.server(a).is_ok();
        let _ = self.events.send(format!(
            "{} requests, {} connections, known {known}",
            core.requests(),
            core.connections()
        ));
    }

    fn error(&mut self, core: &mut Core<Self>, connection: Connection, error: &Error) {
        let mut text = error.to_string();
        if let Error::Io { source, .. } = error {
            text += &format!(": {:?}", source.kind());
            let request = core.request(connection).expect("it is open").expect("linked to C");
            let a = core.get(request).expect("it is linked").a;
            core.send_bytes(a, b"C is down").expect("the peer lasts as long as its request");
            core.unlink(a, request).expect("it is linked");
        }
        let _ = self.events.send(text);
    }
}

fn client(server: SocketAddr) -> UdpSocket {
    let any: SocketAddr = if server.is_ipv4() { ANY_PORT } else { (Ipv6Addr::LOCALHOST, 0).into() };
    let socket = UdpSocket::bind(any).expect("loopback is there");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("not zero");
    socket.connect(server).expect("loopback is there");
    socket
}

fn ask(client: &UdpSocket, question: &[u8]) -> Vec<u8> {
    client.send(question).expect("loopback takes it");
    let mut answer = [0; 4096];
    let length = client.recv(&mut answer).expect("it answers");
    answer[..length].to_vec()
}

#[test]
fn a_peer_is_a_connection_as_long_as_it_has_requests() {
    let c = UdpSocket::bind(ANY_PORT).expect("loopback is there");
    let (c_address, (events, happened)) = (c.local_addr().expect("it is bound"), channel());
    for address in [ANY_PORT, (Ipv6Addr::LOCALHOST, 0).into()] {
        let events = events.clone();
        let mut vnf = Vnf::new(1);
        let (_, address) = vnf.server(address, Protocol::Udp, None).expect("loopback is there");
        let runs = vnf.start(move || B { c: c_address, events: events.clone() }).expect("threads start");
        let a = client(address);
        assert_eq!(ask(&a, b"forget"), b"forget");
        assert_eq!(ask(&a, b"forget"), b"forget");
        assert_eq!(ask(&a, b"forget"), b"forget");
        // Two requests of one peer, answered in the other order.
        a.send(b"one").expect("loopback takes it");
        a.send(b"two").expect("loopback takes it");
        let mut question = [0; 16];
        let mut asked: Vec<(Vec<u8>, SocketAddr)> = (0..2)
            .map(|_| {
                let (length, from) = c.recv_from(&mut question).expect("B asks");
                (question[..length].to_vec(), from)
            })
            .collect();
        asked.sort();
        for (question, from) in asked.iter().rev() {
            c.send_to(b"!", from).expect("loopback takes it");
            let mut answer = [0; 16];
            let length = a.recv(&mut answer).expect("B answers");
            assert_eq!(answer[..length], [question, &b"!"[..]].concat());
        }
        runs.stop().expect("the loop runs");
        let happened: Vec<String> = happened.try_iter().collect();
        let expected = [
            "accept",
            "accept",
            "accept",
            // Both requests are of one connection.
            "accept",
            "1 requests, 2 connections, known true",
            "0 requests, 0 connections, known false",
        ];
        assert_eq!(happened, expected);
    }
}

#[test]
fn a_port_where_nobody_listens_is_an_error_event() {
    let nobody = UdpSocket::bind(ANY_PORT).expect("loopback is there").local_addr().expect("it was bound");
    let (events, happened) = channel();
    let mut vnf = Vnf::new(1);
    let (_, address) = vnf.server(ANY_PORT, Protocol::Udp, None).expect("loopback is there");
    let runs = vnf.start(move || B { c: nobody, events: events.clone() }).expect("threads start");
    let a = client(address);
    assert_eq!(ask(&a, b"?"), b"C is down");
    runs.stop().expect("the loop runs");
    let happened: Vec<String> = happened.iter().collect();
    assert_eq!(happened.len(), 2);
    assert!(happened[1].ends_with("ConnectionRefused"), "{happened:?}");
}

#[test]
fn a_datagram_has_the_size_of_a_buffer_at_most() {
    let (events, happened) = channel();
    let mut vnf = Vnf::new(1);
    let (_, address) = vnf.server(ANY_PORT, Protocol::Udp, None).expect("loopback is there");
    let c = UdpSocket::bind(ANY_PORT).expect("loopback is there");
    let c_address = c.local_addr().expect("it is bound");
    let runs = vnf.start(move || B { c: c_address, events: events.clone() }).expect("threads start");
    let a = client(address);
    a.send(&[7; BUFFER_SIZE + 1]).expect("loopback takes it");
    a.send(&[7; 60_000]).expect("loopback takes it");
    a.send(&[]).expect("loopback takes it");
    a.send(&[7; BUFFER_SIZE]).expect("loopback takes it");
    let mut question = [0; 4096];
    assert_eq!(c.recv(&mut question).expect("B asks"), 0);
    assert_eq!(c.recv(&mut question).expect("B asks"), BUFFER_SIZE);
    runs.stop().expect("the loop runs");
    let too_long = Error::TooLong.to_string();
    assert_eq!(happened.iter().collect::<Vec<_>>(), ["accept", &too_long, "accept", &too_long, "accept"]);
}
