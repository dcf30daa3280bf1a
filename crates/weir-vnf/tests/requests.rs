//! Several requests of one connection are under way at once; a callback that holds up its core is reported.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use weir_vnf::{Buffer, Connection, Core, Function, Protocol, RequestId, Vnf};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Takes each byte for a request, asks C for each on a connection of its own, and answers with the byte and C's reply.
struct B {
    c: SocketAddr,
    left: Sender<usize>,
}

impl B {
    fn finish(&mut self, core: &mut Core<Self>, c: Connection, request: RequestId, reply: u8) {
        let (a, question) = *core.get(request).expect("it is linked");
        core.send_bytes(a, &[question, reply]).expect("A is open");
        core.unlink(c, request).expect("it is linked");
        core.unlink(a, request).expect("it is linked");
        core.close(c).expect("C's connection is open");
        self.left.send(core.requests()).expect("the test waits");
    }
}

impl Function for B {
    type Request = (Connection, u8);

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        if core.server(connection).expect("it is open").is_none() {
            let request = core.request(connection).expect("it is open").expect("linked to C");
            return self.finish(core, connection, request, data[0]);
        }
        for question in data.iter() {
            let before = core.linked(connection).expect("it is open").len();
            let request = core.attach(connection, (connection, *question)).expect("it is open");
            let linked = core.linked(connection).expect("it is open");
            assert_eq!((linked.len(), linked.last()), (before + 1, Some(&request)));
            let c = core.connect(self.c, Protocol::Tcp).expect("loopback takes connections");
            core.link(c, request).expect("both are open");
            core.send_bytes(c, &[*question]).expect("nothing was sent yet");
        }
    }
}

#[test]
fn several_requests_of_a_connection_are_answered_in_any_order() {
    let listener = TcpListener::bind(ANY_PORT).expect("loopback is there");
    let c = listener.local_addr().expect("it is bound");
    let mut vnf = Vnf::new(1);
    let (_, address) = vnf.server(ANY_PORT, Protocol::Tcp, None).expect("loopback is there");
    let (left, lefts) = channel();
    let runs = vnf.start(move || B { c, left: left.clone() }).expect("threads start");
    let mut a = TcpStream::connect(address).expect("B listens");
    a.set_read_timeout(Some(Duration::from_secs(20))).expect("not zero");
    a.write_all(b"123").expect("B reads");
    let mut asked: Vec<(TcpStream, u8)> = (0..3)
        .map(|_| {
            let (mut stream, _) = listener.accept().expect("B asks");
            let mut question = [0];
            stream.read_exact(&mut question).expect("B sends");
            (stream, question[0])
        })
        .collect();
    asked.sort_by_key(|(_, question)| *question);
    for (stream, question) in asked.iter_mut().rev() {
        stream.write_all(&[*question + 1]).expect("B reads");
        let mut answer = [0; 2];
        a.read_exact(&mut answer).expect("B answers");
        assert_eq!(answer, [*question, *question + 1]);
    }
    runs.stop().expect("the loop runs");
    assert_eq!(lefts.iter().collect::<Vec<_>>(), [2, 1, 0]);
}

/// Sleeps, and sends back what it got when that is reported.
struct Sleeper;

impl Function for Sleeper {
    type Request = ();

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        std::thread::sleep(10 * Duration::from_millis(data[0].into()));
        core.send(connection, data).expect("nothing was sent yet");
    }

    fn blocked(&mut self, core: &mut Core<Self>, connection: Option<Connection>, took: Duration) {
        assert!(took >= Duration::from_millis(100));
        let connection = connection.expect("data came on one");
        core.send_bytes(connection, b"!").expect("it is open");
    }
}

#[test]
fn a_callback_that_blocks_is_reported_with_its_connection() {
    let mut vnf = Vnf::new(1);
    vnf.set_callback_limit(Duration::from_millis(100));
    let (stuck, reports) = channel();
    vnf.report_stuck(move |core, took| stuck.send((core, took)).expect("the test waits"));
    let (_, address) = vnf.server(ANY_PORT, Protocol::Tcp, None).expect("loopback is there");
    let _runs = vnf.start(|| Sleeper).expect("threads start");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("not zero");
    stream.write_all(&[200]).expect("it reads");
    // While it blocks, and once.
    let (core, took) = reports.recv_timeout(Duration::from_secs(20)).expect("it blocks for long enough");
    assert_eq!(core, 0);
    assert!(took > Duration::from_millis(100));
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).expect("it answers");
    assert_eq!(answer, [200, b'!']);
    assert!(reports.try_recv().is_err());
}
