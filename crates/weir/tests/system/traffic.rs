//! Programs that make traffic and tell what became of it.

use serde_json::Value;

use crate::lab::{Lab, PYTHON, Process, until};

/// Sends numbered datagrams until its standard input says `stop`, then prints how many it sent.
const SENDER: &str = r#"
import select, socket, sys, time
address, port, rate, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((address, port))
start, n = time.monotonic(), 0
while n < most:
    while n < most and n <= (time.monotonic() - start) * rate:
        try:
            s.send(n.to_bytes(8, 'big') + bytes(92))
        except ConnectionRefusedError:
            continue
        n += 1
    if select.select([sys.stdin], [], [], 0.5 / rate)[0]:
        break
print(n, flush=True)
"#;

/// Counts numbered datagrams. Its standard input says how many were sent; it then waits until all came, or until none
/// came for two seconds.
const RECEIVER: &str = r#"
import json, select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
s.bind(('', int(sys.argv[1])))
print('ready', flush=True)
seen, twice, disordered, last, sent, sources, endpoints = set(), 0, 0, -1, None, set(), set()
while sent is None or len(seen) < sent:
    ready = select.select([s] if sent is not None else [s, sys.stdin], [], [], 2)[0]
    if not ready and sent is not None:
        break
    if s in ready:
        data, source = s.recvfrom(2048)
        n = int.from_bytes(data[:8], 'big')
        twice += n in seen
        disordered += n < last
        last = max(last, n)
        seen.add(n)
        sources.add(source[0])
        endpoints.add(source)
        if len(seen) == 1:
            print('first', flush=True)
    if sys.stdin in ready:
        sent = int(sys.stdin.readline() or 0)
lost = sorted(set(range(sent)) - seen)
print(json.dumps(dict(sent=sent, received=len(seen), lost=len(lost), first_lost=lost[:20], twice=twice,
                      disordered=disordered, sources=sorted(sources), endpoints=len(endpoints))), flush=True)
"#;

/// A stream of numbered datagrams.
pub struct Stream {
    sender: Process,
    receiver: Process,
}

/// The figures of a stream that was received.
#[derive(Debug)]
pub struct Received {
    /// Number of datagrams sent.
    pub sent: u64,
    /// How many never came.
    pub lost: u64,
    /// How many came again.
    pub twice: u64,
    /// Source addresses that the receiver saw.
    pub sources: Vec<String>,
    /// The receiver's whole account.
    pub account: Value,
}

impl Stream {
    /// Starts a stream from a namespace to an address and port of another, of `rate` datagrams a second, and waits until
    /// the first came. It stops by itself after 40,000.
    pub fn start(lab: &Lab, from: &str, to: &str, address: &str, port: u16, rate: u32) -> Stream {
        let port = port.to_string();
        let receiver = lab.ns(to).spawn(&[PYTHON, "-c", RECEIVER, &port]);
        until("the receiver", || receiver.stdout().contains("ready"));
        let sender = lab.ns(from).spawn(&[PYTHON, "-c", SENDER, address, &port, &rate.to_string(), "40000"]);
        until("the first datagram", || receiver.stdout().contains("first"));
        Stream { sender, receiver }
    }

    /// Stops sending and waits for what is still on its way.
    pub fn stop(mut self) -> Received {
        if self.sender.runs() {
            self.sender.say("stop");
        }
        let sent = self.sender.wait().ok();
        self.receiver.say(sent.trim());
        let text = self.receiver.wait().ok();
        let account: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let number = |key: &str| account[key].as_u64().unwrap();
        let sources =
            account["sources"].as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect();
        Received { sent: number("sent"), lost: number("lost"), twice: number("twice"), sources, account }
    }

    /// Stops, and holds that every datagram came once.
    #[track_caller]
    pub fn all_came_once(self) -> Received {
        let r = self.stop();
        assert!(r.sent > 0 && r.lost == 0 && r.twice == 0, "{}", r.account);
        r
    }
}

/// Starts a web server in a namespace that serves a directory of the lab, and waits until it answers. Its log is on
/// standard error: each line begins with the address of the client.
pub fn web_server(lab: &Lab, namespace: &str, port: u16, directory: &str) -> Process {
    let server =
        lab.ns(namespace).spawn(&[PYTHON, "-m", "http.server", &port.to_string(), "--directory", directory]);
    let listens = format!("sport = :{port}");
    until("the web server", || !lab.ns(namespace).run(&["ss", "-Htln", &listens]).stdout.is_empty());
    server
}

/// A file of bytes that do not repeat, and its SHA-256.
pub fn big_file(lab: &Lab, name: &str, size: usize) -> (String, String) {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        // xorshift64, Marsaglia 2003.
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend(x.to_le_bytes());
    }
    bytes.truncate(size);
    let path = lab.write(name, bytes);
    let sum = sha256(&path);
    (path, sum)
}

/// The SHA-256 of a file.
pub fn sha256(path: &str) -> String {
    let line = crate::lab::host(&["sha256sum", path]).ok();
    line.split_whitespace().next().unwrap().to_owned()
}
