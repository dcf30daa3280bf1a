//! The service chain of the paper's figure 2: A (a client of the standard library) asks B, B asks C and answers A.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use weir_vnf::{Buffer, Connection, Core, Error, Function, Protocol, Running, SEND_LIMIT, Vnf};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Answers each byte with its double, and closes.
struct C;

impl Function for C {
    type Request = ();
    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        let doubled: Vec<u8> = data.iter().map(|b| b * 2).collect();
        core.send_bytes(connection, &doubled).expect("the connection is open");
        core.close(connection).expect("the connection is open");
    }
}

/// Asks C for each request, and answers with the request and C's reply.
struct B {
    c: SocketAddr,
    /// For each answer: the request objects that are left on this core, and the requests of all cores so far.
    done: Sender<(usize, u32)>,
}

struct Pending {
    a: Connection,
    question: Buffer,
}

impl Function for B {
    type Request = Pending;

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        if core.server(connection).expect("it is open").is_some() {
            let question = data.to_vec();
            let request =
                core.attach(connection, Pending { a: connection, question: data }).expect("it is open");
            let c = core.connect(self.c, Protocol::Tcp).expect("loopback takes connections");
            core.link(c, request).expect("both are open");
            core.send_bytes(c, &question).expect("nothing was sent yet");
            return;
        }
        let request = core.request(connection).expect("it is open").expect("linked to C");
        let pending = core.get(request).expect("it is linked");
        let (a, mut reply) = (pending.a, pending.question.to_vec());
        reply.extend_from_slice(&data);
        core.send_bytes(a, &reply).expect("A is kept while its request lives");
        assert!(core.unlink(connection, request).expect("linked").is_none(), "A holds it still");
        assert!(core.unlink(a, request).expect("linked").is_some(), "A was the last");
        let mut count = 0;
        core.store().update("count", b"requests", |old| {
            count = old.map_or(0, |o| u32::from_le_bytes(o.try_into().expect("four bytes"))) + 1;
            Some(count.to_le_bytes().to_vec())
        });
        self.done.send((core.requests(), count)).expect("the test waits");
        core.close(connection).expect("C's connection is open");
    }

    fn error(&mut self, core: &mut Core<Self>, connection: Connection, error: &Error) {
        let opened = core.server(connection).expect("it is open").is_none();
        if opened && matches!(error, Error::Io { .. }) {
            let request = core.request(connection).expect("it is open").expect("linked to C");
            let a = core.get(request).expect("it is linked").a;
            core.send_bytes(a, b"C is down").expect("A is open");
            core.close(a).expect("A is open");
        }
    }
}

fn start_b(c: SocketAddr) -> (Running, SocketAddr, Receiver<(usize, u32)>) {
    let mut vnf = Vnf::new(2);
    let (_, address) = vnf.server(ANY_PORT, Protocol::Tcp, None).expect("loopback is there");
    let (done, events) = channel();
    (vnf.start(move || B { c, done: done.clone() }).expect("threads start"), address, events)
}

fn client(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("not zero");
    stream
}

#[test]
fn every_request_is_answered_over_two_cores_and_no_request_object_is_left() {
    let mut vnf = Vnf::new(1);
    let (_, c) = vnf.server(ANY_PORT, Protocol::Tcp, None).expect("loopback is there");
    let c_runs = vnf.start(|| C).expect("threads start");
    let (b_runs, b, events) = start_b(c);
    let mut clients: Vec<_> = (0..20).map(|_| client(b)).collect();
    for round in 0..10u8 {
        for (n, a) in clients.iter_mut().enumerate() {
            a.write_all(&[round, n as u8]).expect("B reads");
        }
        for (n, a) in clients.iter_mut().enumerate() {
            let mut reply = [0; 4];
            a.read_exact(&mut reply).expect("B answers");
            assert_eq!(reply, [round, n as u8, round * 2, n as u8 * 2]);
        }
    }
    // A peer that closes its side behind its request has its answer, and then the end.
    let mut last = client(b);
    last.write_all(&[5]).expect("B reads");
    last.shutdown(Shutdown::Write).expect("it is open");
    let mut reply = Vec::new();
    last.read_to_end(&mut reply).expect("B answers and closes");
    assert_eq!(reply, [5, 10]);

    drop(clients);
    b_runs.stop().expect("B runs");
    c_runs.stop().expect("C runs");
    let done: Vec<(usize, u32)> = events.iter().collect();
    assert!(done.contains(&(0, 201)), "the last request leaves no request object: {done:?}");
    let mut counts: Vec<u32> = done.iter().map(|(_, count)| *count).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=201).collect::<Vec<u32>>(), "each core adds to the same count");
}

#[test]
fn a_server_that_is_down_is_an_error_event() {
    let unused = TcpListener::bind(ANY_PORT).expect("loopback is there");
    let c = unused.local_addr().expect("it is bound");
    drop(unused);
    let (_runs, b, _events) = start_b(c);
    let mut a = client(b);
    a.write_all(&[1]).expect("B reads");
    let mut reply = Vec::new();
    a.read_to_end(&mut reply).expect("B answers and closes");
    assert_eq!(reply, b"C is down");
}

/// Sends until the library refuses, tries every misuse, and says what came of it.
struct Misuse(Sender<(usize, Vec<String>)>);

impl Function for Misuse {
    type Request = u8;
    fn read(&mut self, core: &mut Core<Self>, connection: Connection, _: Buffer) {
        let mut errors = Vec::new();
        let mut note = |outcome: Result<(), Error>| errors.push(outcome.expect_err("misuse").to_string());
        let mut sent = 0;
        let full = loop {
            match core.send_bytes(connection, &[1; 100_000]) {
                Ok(()) => sent += 100_000,
                Err(error) => break error,
            }
        };
        note(Err(full));
        let request = core.attach(connection, 1).expect("it is open");
        note(core.link(connection, request));
        core.unlink(connection, request).expect("it is linked");
        note(core.unlink(connection, request).map(|_| ()));
        note(core.link(connection, request));
        note(core.get(request).map(|_| ()));
        core.attach(connection, 2).expect("it is open");
        core.close(connection).expect("it is open");
        assert_eq!(core.requests(), 0);
        note(core.send_bytes(connection, b"late"));
        note(core.close(connection));
        self.0.send((sent, errors)).expect("the test waits");
    }
}

#[test]
fn misuse_is_an_error_and_what_was_sent_before_a_close_arrives() {
    let mut vnf = Vnf::new(1);
    let (_, address) = vnf.server(ANY_PORT, Protocol::Tcp, None).expect("loopback is there");
    let (outcome, outcomes) = channel();
    let _runs = vnf.start(move || Misuse(outcome.clone())).expect("threads start");
    let mut a = client(address);
    a.write_all(b"go").expect("it reads");
    // Nothing is read until the library has refused to queue more.
    let (sent, errors) = outcomes.recv_timeout(Duration::from_secs(20)).expect("the callback ends");
    let expected = [
        Error::SendQueueFull,
        Error::Linked,
        Error::NotLinked,
        Error::UnknownRequest,
        Error::UnknownRequest,
        Error::UnknownConnection,
        Error::UnknownConnection,
    ];
    assert_eq!(errors, expected.map(|e| e.to_string()));
    assert!(sent >= SEND_LIMIT - 100_000);
    let mut received = Vec::new();
    a.read_to_end(&mut received).expect("it closes");
    assert_eq!(received.len(), sent);
}
