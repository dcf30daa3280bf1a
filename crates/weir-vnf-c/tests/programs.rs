//! Programs in C and C++ that use the library: compiled with AddressSanitizer, run, and talked to by real sockets.

#[path = "../../weir-vnf/tests/port/mod.rs"]
mod port;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How a program gets the library.
#[derive(Debug, Clone, Copy)]
enum Link {
    Shared,
    Static,
}

/// The folder where cargo has put the library.
fn libraries() -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    this.parent().expect("it is in a folder").to_owned()
}

/// Compiles `tests/c/NAME`.
fn compile(name: &str, link: Link, to: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = to.join(name.replace('.', "-"));
    let (compiler, standard) =
        if name.ends_with(".cc") { ("c++", "-std=c++11") } else { ("cc", "-std=gnu11") };
    let mut command = Command::new(compiler);
    command.args([standard, "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]);
    command
        .arg("-I")
        .arg(root.join("../../include"))
        .arg(root.join("tests/c").join(name))
        .arg("-o")
        .arg(&program);
    match link {
        Link::Shared => command.arg("-L").arg(libraries()).arg("-lweirvnf"),
        Link::Static => command.arg(libraries().join("libweirvnf.a")).args(["-lpthread", "-ldl", "-lm"]),
    };
    let out = command.output().expect("there is a compiler");
    assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
    program
}

/// A program that runs. It must end well: a sanitizer's finding fails the test.
struct Program {
    child: Child,
    out: BufReader<ChildStdout>,
    port: u16,
}

impl Program {
    fn start(program: &Path, arguments: &[String], cores: usize) -> Self {
        Self::start_with(program, arguments, cores, &[])
    }

    fn start_with(
        program: &Path,
        arguments: &[String],
        cores: usize,
        environment: &[(&str, String)],
    ) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .env("LD_LIBRARY_PATH", libraries())
            .env("WEIR_VNF_CORES", cores.to_string())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was compiled");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut port = String::new();
        out.read_line(&mut port).expect("it prints its port");
        let port = port.trim().parse().expect("its port is a number");
        Self { child, out, port }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("not zero");
        stream
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("it prints text");
        line
    }

    /// Ends the program; what it has printed and nobody has read.
    fn stop(mut self) -> String {
        self.signal(Signal::SIGTERM);
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("it prints text");
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "{status}");
        rest
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn chain(link: Link) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let c = Program::start(&compile("c.c", link, folder.path()), &[], 1);
    let b = compile("listing1.cc", link, folder.path());
    let b = Program::start(&b, &[c.port.to_string()], 2);
    let mut clients: Vec<TcpStream> = (0..10).map(|_| b.connect()).collect();
    for round in 0..20u8 {
        for (n, a) in clients.iter_mut().enumerate() {
            a.write_all(&[round * 10 + n as u8; 32]).expect("B reads");
        }
        for (n, a) in clients.iter_mut().enumerate() {
            let (sent, mut reply) = (round * 10 + n as u8, [0; 32]);
            a.read_exact(&mut reply).expect("B answers");
            assert_eq!(reply, [sent ^ (sent + 1); 32]);
        }
    }
    let mut last = b.connect();
    last.write_all(&[5; 32]).expect("B reads");
    last.shutdown(Shutdown::Write).expect("it is open");
    let mut reply = Vec::new();
    last.read_to_end(&mut reply).expect("B answers and closes");
    assert_eq!(reply, [5 ^ 6; 32]);
    drop(clients);
    // The listing's B has no way to end but a signal that it does not catch.
    b.signal(Signal::SIGKILL);
    assert_eq!(c.stop(), "");
}

#[test]
fn listing_1_of_the_paper_runs_the_chain_of_figure_2_with_the_shared_library() {
    chain(Link::Shared);
}

#[test]
fn listing_1_of_the_paper_runs_the_chain_of_figure_2_with_the_static_library() {
    chain(Link::Static);
}

/// What `misuse.c` prints, but for its port.
const MISUSE: &str = include_str!("c/misuse.txt");

#[test]
fn misuse_is_an_error_with_a_name() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut program = Program::start(&compile("misuse.c", Link::Static, folder.path()), &[], 1);
    let mut a = program.connect();
    a.write_all(b"1").expect("it reads");
    let mut reply = [0; 5];
    a.read_exact(&mut reply).expect("it answers");
    assert_eq!(&reply, b"sent\n");
    a.write_all(b"2").expect("it reads");
    let mut said = String::new();
    while !said.contains("VNF_BLOCKED") {
        said += &program.line();
    }
    a.write_all(b"3").expect("it reads");
    assert_eq!(a.read(&mut reply).expect("it closes"), 0);
    while !said.contains("VNF_LEAKED") {
        said += &program.line();
    }
    said += &program.stop();
    if std::env::var_os("BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/misuse.txt");
        std::fs::write(path, &said).expect("it can be written");
    } else {
        assert_eq!(said, MISUSE);
    }
}

#[test]
fn state_is_shared_by_cores_and_a_kept_value_outlives_its_key() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let program = Program::start(&compile("state.c", Link::Shared, folder.path()), &[], 2);
    // Enough connections that both cores have some.
    let mut clients: Vec<BufReader<TcpStream>> = (0..16).map(|_| BufReader::new(program.connect())).collect();
    let mut ask = |client: usize, line: &str| {
        let client = &mut clients[client];
        client.get_mut().write_all(format!("{line}\n").as_bytes()).expect("it reads");
        let mut answer = String::new();
        client.read_line(&mut answer).expect("it answers");
        answer
    };
    assert_eq!(ask(0, "g city"), "VNF_NO_KEY: there is no such key\n");
    assert_eq!(ask(0, "s city Rome"), "city\n");
    for n in 0..16 {
        assert_eq!(ask(n, "g city"), "Rome\n");
    }
    assert_eq!(ask(3, "k city"), "VNF_OK: no error\n");
    assert_eq!(ask(4, "g city"), "new\n");
    assert_eq!(ask(3, "u city"), "Rome\n");
    assert_eq!(ask(5, "d city"), "VNF_OK: no error\n");
    assert_eq!(ask(0, "g city"), "VNF_NO_KEY: there is no such key\n");
    assert_eq!(ask(0, "x city Rome Oslo"), "VNF_DIFFERS: the key has another value than was expected\n");
    assert_eq!(ask(1, "x city - Oslo"), "VNF_OK: no error\n");
    assert_eq!(ask(2, "x city Rome Bern"), "Oslo\n");
    assert_eq!(ask(6, "x city Oslo -"), "VNF_OK: no error\n");
    assert_eq!(ask(4, "g city"), "VNF_NO_KEY: there is no such key\n");
    assert_eq!(ask(4, "f city"), "VNF_NO_REMOTE: there is no remote state: set WEIR_VNF_REDIS\n");
    drop(clients);
    assert_eq!(program.stop(), "");
}

/// A Redis of the test.
struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    fn start() -> Self {
        let port = port::free_port();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is there");
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, port }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn remote_state_is_shared_by_replicas_in_c() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let redis = Redis::start();
    let program = compile("state.c", Link::Shared, folder.path());
    let environment =
        [("WEIR_VNF_REDIS", format!("127.0.0.1:{}", redis.port)), ("WEIR_VNF_REDIS_MS", "300".to_owned())];
    let [mut one, two] =
        [(); 2].map(|()| Program::start_with(&program, &["remote".to_owned()], 2, &environment));
    let [mut a, mut b] = [&one, &two].map(|replica| BufReader::new(replica.connect()));
    let ask = |client: &mut BufReader<TcpStream>, line: &str| {
        client.get_mut().write_all(format!("{line}\n").as_bytes()).expect("it reads");
        let mut answer = String::new();
        client.read_line(&mut answer).expect("it answers");
        answer.trim().to_owned()
    };
    assert_eq!(ask(&mut a, "g city"), "VNF_NO_KEY: there is no such key");
    assert_eq!(ask(&mut a, "s city Rome"), "city");
    assert_eq!(ask(&mut b, "g city"), "Rome");
    assert_eq!(ask(&mut a, "x city Rome Oslo"), "VNF_OK: no error");
    assert_eq!(ask(&mut b, "f city"), "Rome");
    assert_eq!(ask(&mut b, "x city Rome Bern"), "Oslo");
    assert_eq!(ask(&mut b, "f city"), "Oslo");
    // Keeps the value, deletes the key, and sets another.
    assert_eq!(ask(&mut b, "k city"), "VNF_OK: no error");
    assert_eq!(ask(&mut b, "g city"), "new");
    assert_eq!(ask(&mut a, "g city"), "new");
    assert_eq!(ask(&mut b, "u city"), "Oslo");
    let mut second = String::new();
    b.read_line(&mut second).expect("it answers twice");
    assert_eq!(second, "VNF_OK: no error\n");
    assert_eq!(ask(&mut a, "x city new -"), "VNF_OK: no error");
    drop(redis);
    let failed = ask(&mut a, "g city");
    assert!(failed.starts_with("VNF_REMOTE_"), "{failed}");
    assert!(ask(&mut a, "s city Bern").starts_with("VNF_REMOTE_TIMEOUT"));
    assert_eq!(ask(&mut a, "d city"), "VNF_OK: no error");
    assert!(one.line().starts_with("0: VNF_REMOTE_TIMEOUT"));
    drop((a, b));
    assert_eq!([one.stop(), two.stop()], ["", ""]);
}

const LEAKED: &str =
    "0 keep-1 VNF_LEAKED: a buffer was still kept when the request object that it belonged to was gone\n";

#[test]
fn udp_requests_failures_and_leaks_of_a_relay_in_c() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let c = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
    let c_port = c.local_addr().expect("it is bound").port();
    let program = compile("relay.c", Link::Static, folder.path());
    let mut relay = Program::start(&program, &[c_port.to_string(), "udp".to_owned()], 2);
    let a = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
    a.connect((Ipv4Addr::LOCALHOST, relay.port)).expect("loopback is there");
    a.set_read_timeout(Some(Duration::from_secs(60))).expect("not zero");
    let receive = || {
        let mut answer = [0; 256];
        let length = a.recv(&mut answer).expect("it answers");
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    // Three of one peer at once, answered in the other order.
    let mut question = [0; 256];
    let mut asked: Vec<(String, _)> = ["one", "two", "three"]
        .iter()
        .map(|text| {
            a.send(text.as_bytes()).expect("loopback takes it");
            let (length, from) = c.recv_from(&mut question).expect("it asks");
            (String::from_utf8_lossy(&question[..length]).into_owned(), from)
        })
        .collect();
    asked.reverse();
    for (text, from) in &asked {
        c.send_to(format!("{text}!").as_bytes(), from).expect("loopback takes it");
        assert_eq!(receive(), format!("{text}!"));
    }
    a.send(b"keep-1").expect("loopback takes it");
    let (_, from) = c.recv_from(&mut question).expect("it asks");
    c.send_to(b"kept", from).expect("loopback takes it");
    assert_eq!(receive(), "kept");
    assert_eq!(relay.line(), LEAKED);
    a.send(&[b'x'; 3000]).expect("loopback takes it");
    assert_eq!(receive(), "VNF_TOO_LONG: a datagram of more than VNF_BUFFER_SIZE bytes was thrown away");
    drop(c);
    a.send(b"nobody").expect("loopback takes it");
    assert_eq!(receive(), "Connection refused");
    assert_eq!(relay.stop(), "");
}

#[test]
fn tcp_connections_that_fail_are_errors_of_a_relay_in_c() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let c = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
    let c_port = c.local_addr().expect("it is bound").port();
    let program = compile("relay.c", Link::Shared, folder.path());
    let mut relay = Program::start(&program, &[c_port.to_string(), "tcp".to_owned()], 1);
    let mut ask = |answer: &str| {
        let mut stream = relay.connect();
        stream.write_all(b"keep-1").expect("it reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        match answer {
            "reset" => {
                let (accepted, _) = c.accept().expect("it asks");
                socket2::SockRef::from(&accepted).set_linger(Some(Duration::ZERO)).expect("it is open");
            }
            "end" => drop(c.accept().expect("it asks").0.read_exact(&mut [0; 6])),
            answer => c.accept().expect("it asks").0.write_all(answer.as_bytes()).expect("it reads"),
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers and closes");
        (text, if answer == "fine" { relay.line() } else { String::new() })
    };
    assert_eq!(ask("reset"), ("Connection reset by peer".to_owned(), String::new()));
    assert_eq!(ask("end"), ("VNF_PEER_CLOSED: the peer will send nothing more".to_owned(), String::new()));
    assert_eq!(ask("fine"), ("fine".to_owned(), LEAKED.to_owned()));
    drop(c);
    let mut stream = relay.connect();
    stream.write_all(b"nobody").expect("it reads");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers and closes");
    assert_eq!(text, "Connection refused");
    assert_eq!(relay.stop(), "");
}

#[test]
fn a_connection_is_unknown_on_other_cores() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let program = Program::start(&compile("state.c", Link::Static, folder.path()), &[], 2);
    let ask = |client: &mut BufReader<TcpStream>, line: &str| {
        client.get_mut().write_all(format!("{line}\n").as_bytes()).expect("it reads");
        let mut answer = String::new();
        client.read_line(&mut answer).expect("it answers");
        answer.trim().to_owned()
    };
    let mut clients: Vec<_> = (0..64).map(|_| BufReader::new(program.connect())).collect();
    let connections: Vec<(i32, String)> = clients
        .iter_mut()
        .map(|client| {
            let answer = ask(client, "n ");
            let (number, core) = answer.split_once(' ').expect("two numbers");
            (number.parse().expect("a number"), core.to_owned())
        })
        .collect();
    let (_, here) = &connections[0];
    let (other, _) =
        connections.iter().find(|(_, core)| core != here).expect("64 connections are on two cores");
    let (same, _) =
        &connections.iter().skip(1).find(|(_, core)| core == here).expect("the first is not alone");
    assert_eq!(ask(&mut clients[0], &format!("c {same}")), "VNF_OK: no error");
    let refused = "VNF_CONNECTION: no such connection on this core: closed, of another core, or never there";
    assert_eq!(ask(&mut clients[0], &format!("c {other}")), refused);
    drop(clients);
    assert_eq!(program.stop(), "");
}

#[test]
fn replicas_come_and_go_as_the_orchestrator_says() {
    let orchestrator = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
    let port = orchestrator.local_addr().expect("it is bound").port().to_string();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let program = compile("notices.c", Link::Shared, folder.path());
    let mut program = Program::start(&program, &[port], 2);
    let answer = |text: &str| {
        let (stream, _) = orchestrator.accept().expect("it asks");
        let mut stream = BufReader::new(stream);
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut request).expect("it asks in text") > 0);
        }
        assert!(request.starts_with("GET /replicas HTTP/1.0\r\n"), "{request}");
        stream.get_mut().write_all(text.as_bytes()).expect("it reads");
        stream.into_inner()
    };
    let mut stream =
        answer("HTTP/1.0 200 OK\r\n\r\n{\"task\":\"add\",\"name\":\"b\",\"address\":\"10.0.0.7\"}\n");
    // Each core calls back.
    assert_eq!([program.line(), program.line()], ["ADD b 10.0.0.7 UNKNOWN\n"; 2]);
    stream
        .write_all(
            b"\n{\"task\":\"remove\",\"name\":\"b\",\"address\":\"10.0.0.7\",\"reason\":\"failure\"}\n",
        )
        .expect("it reads");
    assert_eq!([program.line(), program.line()], ["REMOVE b 10.0.0.7 FAILURE\n"; 2]);
    drop(stream);
    let unreachable = "VNF_ORCHESTRATOR: an orchestrator cannot be reached, or its answer not understood\n";
    assert_eq!([program.line(), program.line()], [unreachable; 2]);
    // It asks again, and gets something else, of which there is one report for each core.
    drop(answer("HTTP/1.0 404 Not Found\r\n\r\n"));
    assert_eq!([program.line(), program.line()], [unreachable; 2]);
    drop(answer("HTTP/1.0 404 Not Found\r\n\r\n"));
    let _stream = answer(
        "HTTP/1.0 200 OK\r\n\r\n{\"task\":\"add\",\"name\":\"b\",\"address\":\"::1\",\"reason\":\"overload\"}\n",
    );
    assert_eq!([program.line(), program.line()], ["ADD b ::1 OVERLOAD\n"; 2]);
    assert_eq!(program.stop(), "");
}
