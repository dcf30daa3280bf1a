//! What the programs of `examples/vnf` promise, in any language: also used by the tests of `weir-vnf-c`.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::port::free_port;

/// Where a program runs.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its address.
    pub address: IpAddr,
    /// Of a stack in user space: its network namespace, and what `WEIR_VNF_STACK` says there.
    pub user: Option<(String, String)>,
}

impl Host {
    /// This one, and the kernel's stack.
    pub fn this() -> Self {
        Self { address: Ipv4Addr::LOCALHOST.into(), user: None }
    }

    fn command(&self, program: &Path) -> Command {
        let Some((namespace, stack)) = &self.user else { return Command::new(program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(program).env("WEIR_VNF_STACK", stack);
        command
    }
}

/// A server that runs.
pub struct Server(Child);

impl Server {
    /// Starts a program whose first argument is its port, and waits until it listens.
    pub fn start(host: &Host, program: &Path, arguments: &[&dyn ToString]) -> Self {
        let mut command = host.command(program);
        let arguments: Vec<String> = arguments.iter().map(|a| a.to_string()).collect();
        let child = command.args(&arguments).spawn();
        let server = Self(child.unwrap_or_else(|e| panic!("{} was built: {e}", program.display())));
        let address = SocketAddr::new(host.address, arguments[0].parse().expect("a port"));
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} listens", program.display());
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The chain of figure 2: each request has its answer; when C is down, A hears of it, and when C is back, it has answers again.
pub fn chain([a, b, c]: [&Path; 3], [on_a, on_b, on_c]: [&Host; 3]) {
    let (b_port, c_port) = (free_port(), free_port());
    let run = || {
        let mut a = on_a.command(a);
        a.args([&b_port.to_string(), "8", "2000", &on_b.address.to_string()]).output().expect("A was built")
    };
    let b = Server::start(on_b, b, &[&b_port, &c_port, &on_b.address, &on_c.address]);
    let without_c = run();
    assert!(!without_c.status.success(), "A has no answers");
    for _ in 0..2 {
        let c = Server::start(on_c, c, &[&c_port, &on_c.address]);
        let out = run();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "2000 right answers\n");
        assert!(out.status.success());
        drop(c);
    }
    drop(b);
}

fn curl(arguments: &[&str]) -> (String, Vec<u8>) {
    let out = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--write-out", "%{stderr}%{http_code}"])
        .args(arguments)
        .output()
        .expect("curl is there");
    (String::from_utf8_lossy(&out.stderr).into_owned(), out.stdout)
}

fn talk(proxy: SocketAddr, parts: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(proxy).expect("it listens");
    stream.set_nodelay(true).expect("it is open");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("not zero");
    for part in parts {
        stream.write_all(part).expect("it reads");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The reverse proxy, between curl and a web server, and between peers that behave badly.
/// The web server is at an address of this host.
pub fn proxy(program: &Path, host: &Host, web_address: IpAddr) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    // More than what the library keeps for a slow reader.
    let large: Vec<u8> = (0..20_000_000u32).flat_map(|n| (n as u8 ^ (n >> 8) as u8).to_le_bytes()).collect();
    std::fs::write(folder.path().join("large"), &large).expect("it can be written");
    std::fs::write(folder.path().join("small"), "hello\n").expect("it can be written");
    let (port, web_port) = (free_port(), free_port());
    let _proxy = Server::start(host, program, &[&port, &web_port, &host.address, &web_address]);
    let proxy = SocketAddr::new(host.address, port);
    let url = |path: &str| format!("http://{proxy}/{path}");

    assert_eq!(curl(&[&url("small")]), ("502".to_owned(), vec![]));
    let web = Command::new("python3")
        .args(["-m", "http.server", "--bind", &web_address.to_string(), &web_port.to_string(), "--directory"])
        .arg(folder.path())
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("python3 is there");
    let web = Server(web);
    while TcpStream::connect((web_address, web_port)).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(curl(&[&url("small")]), ("200".to_owned(), b"hello\n".to_vec()));
    assert_eq!(curl(&[&url("none")]).0, "404");
    assert_eq!(curl(&["--head", &url("small")]).0, "200");
    assert_eq!(curl(&["--http1.0", &url("small")]).1, b"hello\n");
    let (status, body) = curl(&[&url("large")]);
    assert!(status == "200" && body == large, "{status}, {} bytes", body.len());
    // A client that reads nothing for a while holds up the server, and loses nothing.
    let mut slow = TcpStream::connect(proxy).expect("it listens");
    slow.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
    slow.shutdown(Shutdown::Write).expect("it is open");
    slow.set_read_timeout(Some(Duration::from_secs(60))).expect("not zero");
    let fast = curl(&[&url("large")]);
    assert!(fast.1 == large, "others go on");
    std::thread::sleep(Duration::from_millis(300));
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).expect("the rest comes");
    assert!(answer.ends_with(&large) && answer.len() < large.len() + 1000);

    // A head in pieces; a head that is too long; one that is none; a client that gives up.
    let pieces: Vec<&[u8]> =
        b"GET /small HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n".chunks(7).collect();
    assert!(talk(proxy, &pieces).ends_with("\r\n\r\nhello\n"));
    let long = [&b"GET / HTTP/1.1\r\nX: "[..], &[b'x'; 16384]].concat();
    assert!(talk(proxy, &[&long]).starts_with("HTTP/1.1 431 "));
    assert!(talk(proxy, &[b"GET /\0 HTTP/1.1\r\n\r\n"]).starts_with("HTTP/1.1 400 "));
    drop(TcpStream::connect(proxy).expect("it listens"));
    drop(web);

    // What the server gets, and a body that goes on behind the head.
    let server = TcpListener::bind((web_address, web_port)).expect("the port is free again");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("the proxy asks");
        let mut request = Vec::new();
        while !request.ends_with(b"0123456789") {
            let mut part = [0; 4096];
            let length = stream.read(&mut part).expect("the proxy sends");
            assert!(length > 0, "the proxy sends all");
            request.extend_from_slice(&part[..length]);
        }
        stream.write_all(b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\nmade").expect("the proxy reads");
        String::from_utf8(request).expect("it is text")
    });
    let request: [&[u8]; 3] = [
        b"POST /new HTTP/1.1\r\nHost: x\r\nCONNECTION: Keep-Alive\r\nContent-Length: 15\r\n\r\nabcde",
        b"01234",
        b"56789",
    ];
    assert!(talk(proxy, &request).ends_with("\r\n\r\nmade"));
    let got = server.join().expect("the server ends well");
    let expected = "POST /new HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\nVia: 1.1 weir\r\nConnection: close\r\n\r\nabcde0123456789";
    assert_eq!(got, expected);
}

/// What a client of the load balancer hears: the address of the replica that it was given to, or nothing.
fn replica_of(port: u16) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("not zero");
    stream.write_all(b"who?").expect("it reads");
    let mut answer = String::new();
    // The balancer ends a connection that no replica takes.
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// A replica: answers each connection with its own address, behind what it was sent, and ends it.
fn replica(address: Ipv4Addr, port: u16) {
    let listener = TcpListener::bind((address, port)).expect("all of 127.0.0.0/8 is loopback");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut question = [0; 4];
            if stream.read_exact(&mut question).is_ok() {
                let _ =
                    stream.write_all(format!("{}{address}", String::from_utf8_lossy(&question)).as_bytes());
            }
        }
    });
}

/// The load balancer, for which this is the orchestrator.
pub fn balancer(program: &Path) {
    let orchestrator = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
    let orchestrator_port = orchestrator.local_addr().expect("it is bound").port();
    let (port, replica_port) = (free_port(), free_port());
    let [a, b, c] = [2, 3, 4].map(|n| Ipv4Addr::new(127, 0, 0, n));
    [a, b, c].iter().for_each(|address| replica(*address, replica_port));
    let _balancer = Server::start(&Host::this(), program, &[&port, &replica_port, &orchestrator_port]);
    assert_eq!(replica_of(port), "", "there is no replica yet");
    let mut follower = {
        let (mut stream, _) = orchestrator.accept().expect("it asks");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("it asks");
            request.push(byte[0]);
        }
        assert!(request.starts_with(b"GET /replicas HTTP/1.0\r\n"));
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").expect("it reads");
        stream
    };
    let mut say = |task: &str, address: Ipv4Addr| {
        let line = format!(
            "{{\"task\":\"{task}\",\"name\":\"b\",\"address\":\"{address}\",\"reason\":\"overload\"}}\n"
        );
        follower.write_all(line.as_bytes()).expect("it reads");
    };
    // It follows soon, each core for itself: whom a while's clients are given to.
    let settles = |wanted: &[Ipv4Addr]| {
        let wanted: std::collections::BTreeSet<String> = wanted.iter().map(|a| format!("who?{a}")).collect();
        let begun = Instant::now();
        loop {
            let seen = (0..40).map(|_| replica_of(port)).collect::<std::collections::BTreeSet<_>>();
            if seen == wanted {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{seen:?}, not {wanted:?}");
        }
    };
    say("add", a);
    settles(&[a]);
    say("add", b);
    say("add", c);
    say("add", b);
    settles(&[a, b, c]);
    say("remove", a);
    settles(&[b, c]);
    say("remove", c);
    say("remove", b);
    let begun = Instant::now();
    while (0..40).any(|_| !replica_of(port).is_empty()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody is left");
    }
    // The orchestrator is gone: its last word holds.
    say("add", c);
    settles(&[c]);
    drop(follower);
    settles(&[c]);
}

/// Hosts on a link: this one's address, and others, each a namespace with an interface that a program has a stack in user space on.
pub struct Lan {
    here: weir_testkit::Namespace,
    there: Vec<weir_testkit::Namespace>,
}

impl Lan {
    /// One with so many others.
    pub fn new(others: usize) -> Self {
        let here = weir_testkit::Namespace::new("here");
        here.ip("link add lan type bridge");
        here.ip("addr add 10.9.0.1/24 dev lan");
        here.ip("link set lan up");
        let mut there = Vec::new();
        for n in 0..others {
            let namespace = weir_testkit::Namespace::new("there");
            let port = format!("port{n}");
            weir_testkit::link((&here, &port), (&namespace, "eth0"));
            here.ip(&format!("link set {port} master lan"));
            there.push(namespace);
        }
        Self { here, there }
    }

    /// The address of this host.
    pub fn address() -> IpAddr {
        [10, 9, 0, 1].into()
    }

    /// A host that a program runs on, by a method of weir-io.
    pub fn host(&self, n: usize, method: &str) -> Host {
        let address = [10, 9, 0, 10 + n as u8].into();
        if method == "xdp" {
            // Its peers cut what they send themselves.
            self.here.exec(&format!("ethtool -K port{n} tso off"));
        }
        let stack = format!("user,device={method}:eth0,address={address}/24");
        Host { address, user: Some((self.there[n].name().to_owned(), stack)) }
    }

    /// Has a test talk from this host.
    pub fn talk_from_here(&self, test: impl FnOnce() + Send) {
        let here = weir_io::Netns::Named(self.here.name().to_owned());
        here.run(test).expect("the namespace is there");
    }
}
