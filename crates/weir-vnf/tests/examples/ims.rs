//! What the IMS of `examples/vnf/ims` promises, in any language: SIPp and kamailio are the users.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::port::free_port;

const USERS: usize = 1000;

/// A program that runs.
struct Runs(Child);

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Runs {
    /// Starts a program, and waits until it listens.
    fn start(command: &mut Command, port: u16) -> Self {
        let runs = Self(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")));
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{command:?} listens");
            std::thread::sleep(Duration::from_millis(20));
        }
        runs
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vnf/ims").join(name)
}

/// SIPp, as so many users.
struct Users<'a> {
    folder: &'a Path,
    port: u16,
    scenario: &'a str,
    passwords: &'a str,
    expires: u32,
    transport: &'a str,
    count: usize,
}

impl Users<'_> {
    fn command(&self) -> Command {
        let errors = self.folder.join("errors");
        let mut command = Command::new("sipp");
        command.arg("-sf").arg(example(self.scenario)).arg("-inf").arg(self.folder.join(self.passwords));
        command.args(["-key", "expires", &self.expires.to_string(), "-t", self.transport]);
        command.args(["-m", &self.count.to_string(), "-r", "250", "-i", "127.0.0.1", "-nostdin"]);
        command
            .args(["-max_socket", "1000", "-timeout", "120", "-timeout_error", "-trace_err", "-error_file"])
            .arg(errors);
        command.arg(format!("127.0.0.1:{}", self.port)).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// All of them have the outcome that the scenario wants.
    fn succeed(&self) {
        let status = self.command().status().expect("sipp is there");
        let errors = fs::read_to_string(self.folder.join("errors")).unwrap_or_default();
        assert!(status.success(), "{} {}: {errors}", self.scenario, self.transport);
    }
}

/// Registers and de-registers users by UDP and TCP, by kamailio and without, refuses who has not the password, and lets a replica of the
/// S-CSCF fail.
pub fn ims(program: &Path) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let subscribers = folder.path().join("subscribers");
    let lines: String = (0..USERS).map(|n| format!("user{n} secret{n}\n")).collect();
    fs::write(&subscribers, lines).expect("it can be written");
    let sign = |n: usize| format!("user{n};[authentication username=user{n}@ims.example password=secret{n}]");
    let right = (0..USERS).map(|n| sign(n) + "\n").collect::<String>();
    fs::write(folder.path().join("right"), format!("SEQUENTIAL\n{right}")).expect("it can be written");
    let wrong = right.replace("secret", "guess");
    fs::write(folder.path().join("wrong"), format!("SEQUENTIAL\n{wrong}")).expect("it can be written");

    let [redis, hss, one, two, icscf, pcscf, proxy] = [(); 7].map(|()| free_port());
    let role = |arguments: &[&str], ports: &[u16]| {
        let mut command = Command::new(program);
        command.args(arguments).args(ports.iter().map(ToString::to_string));
        command.env("WEIR_VNF_REDIS", format!("127.0.0.1:{redis}")).env("WEIR_VNF_CORES", "2");
        command
    };
    let mut server = Command::new("redis-server");
    server.args(["--bind", "127.0.0.1", "--save", "", "--port", &redis.to_string()]).stdout(Stdio::null());
    let _redis = Runs::start(&mut server, redis);
    let _hss = Runs::start(role(&["hss"], &[hss]).arg(&subscribers), hss);
    let _one = Runs::start(&mut role(&["scscf"], &[one, hss]), one);
    let mut second = role(&["scscf"], &[two, hss]);
    let mut replica = Runs::start(&mut second, two);
    let _icscf = Runs::start(&mut role(&["icscf"], &[icscf, hss, one, two]), icscf);
    let _pcscf = Runs::start(&mut role(&["pcscf"], &[pcscf, icscf]), pcscf);
    let mut kamailio = Command::new("kamailio");
    kamailio.arg("-f").arg(example("kamailio.cfg")).args(["-DD", "-E", "-m", "64", "-M", "8"]);
    kamailio.args(["-A", &format!("PORT={proxy}")]);
    kamailio.args(["-A", &format!("PCSCF=\"sip:127.0.0.1:{pcscf};transport=tcp\"")]);
    kamailio.arg("-Y").arg(folder.path()).stderr(Stdio::null());
    let kamailio = Kamailio(Runs::start(&mut kamailio, proxy));

    let registered = || {
        let out = Command::new("redis-cli").args(["-p", &redis.to_string(), "hlen", "ims-places"]).output();
        let out = String::from_utf8(out.expect("redis-cli is there").stdout).expect("it is text");
        out.trim().parse::<usize>().expect("a number")
    };
    let users = |port, passwords, expires, transport, count| Users {
        folder: folder.path(),
        port,
        scenario: if passwords == "right" { "register.xml" } else { "refused.xml" },
        passwords,
        expires,
        transport,
        count,
    };
    [hss, one, icscf, pcscf].iter().for_each(|port| garbage(*port));
    for port in [pcscf, proxy] {
        for transport in ["u1", "t1", "tn"] {
            users(port, "right", 3600, transport, 50).succeed();
            assert_eq!(registered(), 50);
            users(port, "right", 0, transport, 50).succeed();
            assert_eq!(registered(), 0);
        }
    }
    drop(kamailio);
    users(pcscf, "wrong", 3600, "u1", 20).succeed();
    assert_eq!(registered(), 0);

    // A replica is killed in the middle: no user notices.
    for transport in ["u1", "t1"] {
        let mut sipp =
            Runs(users(pcscf, "right", 3600, transport, USERS).command().spawn().expect("sipp is there"));
        let errors = || fs::read_to_string(folder.path().join("errors")).unwrap_or_default();
        while registered() < USERS / 3 {
            let ended = sipp.0.try_wait().expect("it is ours");
            assert!(ended.is_none(), "it ended too soon: {ended:?}, {} users: {}", registered(), errors());
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(replica);
        let status = sipp.0.wait().expect("it is ours");
        assert!(status.success(), "{}", errors());
        assert_eq!(registered(), USERS);
        replica = Runs::start(&mut second, two);
        users(pcscf, "right", 0, transport, USERS).succeed();
        assert_eq!(registered(), 0);
    }
    drop(replica);
}

/// Sends what is neither SIP nor Diameter, or only nearly: users after it must not notice.
fn garbage(port: u16) {
    let register = "REGISTER sip:ims.example SIP/2.0\r\nVia: SIP/2.0/UDP x;branch=z9hG4bK1\r\nFrom: <sip:a@b>\r\nTo: <sip:a@b>\r\n";
    let texts: [Vec<u8>; 9] = [
        vec![0; 5000],
        vec![b'x'; 100_000],
        b"\x01\x00\x00\x14\x80\x00\x01\x2d".to_vec(),
        b"\x01\x00\x00\x1c\x80\x00\x01\x2d\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\xff\xff\xff".to_vec(),
        b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        format!("{register}\r\n").into_bytes(),
        format!("{register}Content-Length: -7\r\n\r\n").into_bytes(),
        format!("{register}Content-Length: 99999999\r\n\r\n").into_bytes(),
        format!("{register}Call-ID: 1\r\nCSeq: 1 REGISTER\r\nContact: *\r\nAuthorization: Digest é=\"\r\nl: 0\r\n\r\n").into_bytes(),
    ];
    for text in texts {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        // It may close the connection before all is sent.
        let _ = stream.write_all(&text);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
        let _ = socket.send_to(&text[..text.len().min(9000)], (Ipv4Addr::LOCALHOST, port));
    }
}

/// kamailio ends the processes that it is made of only if it is asked to.
struct Kamailio(Runs);

impl Drop for Kamailio {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.0.id().to_string()).status();
        let _ = self.0.0.wait();
    }
}
