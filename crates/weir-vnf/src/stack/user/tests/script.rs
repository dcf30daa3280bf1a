//! Scripts of what a peer sends and has to get, in `scripts/`, one a file:
//!
//! ```text
//! +10 < P. 1:6(5) ack 1 win 500     10 ms later the peer sends this (numbers count from each side's first)
//!     > . 1:1(0) ack 6              this was sent (options and window only if they are written here)
//!     nothing                       nothing else was sent
//!     server | connect | accept | read 5 | write 5 | end | close | error ECONNRESET | blocked | gone 1
//! ```

use std::fmt::Write;

use smoltcp::wire::{TcpControl, TcpPacket, TcpRepr, TcpSeqNumber, TcpTimestampRepr};

use super::*;

const PEER: u32 = 0xffff_ff00;
const PORT: u16 = 80;

struct Run {
    stack: Stack,
    now: Micros,
    sent: std::collections::VecDeque<Vec<u8>>,
    key: Option<Key>,
    /// Our first sequence number.
    ours: u32,
    /// The peer's port, and ours.
    ports: (u16, u16),
    read: usize,
    written: usize,
}

impl Run {
    fn new() -> Self {
        let mut stack = Stack::new(config(1), 7_000_000);
        introduce(&mut stack, 2, 7_000_000);
        let (now, sent) = (7_000_000, std::collections::VecDeque::new());
        Self { stack, now, sent, key: None, ours: 0, ports: (4000, PORT), read: 0, written: 0 }
    }

    fn poll(&mut self) {
        while self.stack.ready().is_some() {}
        for frame in on_the_link(self.stack.poll(self.now)) {
            // The peer answers when it is asked where it is.
            if frame[12..14] == [8, 6] {
                introduce(&mut self.stack, 2, self.now);
            } else {
                self.sent.push_back(frame);
            }
        }
    }

    fn pass(&mut self, until: Micros) {
        self.poll();
        while let Some(next) = self.stack.next().filter(|&next| next <= until) {
            self.now = next.max(self.now);
            self.poll();
        }
        self.now = until;
        self.poll();
    }

    fn segment(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let flags = words.next().expect("flags");
        let (range, len) =
            words.next().and_then(|w| w.trim_end_matches(')').split_once('(')).expect("a:b(c)");
        let seq: u32 = range.split_once(':').expect("a:b").0.parse().expect("a number");
        let payload: Vec<u8> = (0..len.parse().expect("a length")).map(|i| byte(seq as usize + i)).collect();
        let mut repr = TcpRepr {
            src_port: self.ports.0,
            dst_port: self.ports.1,
            control: TcpControl::None,
            seq_number: TcpSeqNumber(PEER.wrapping_add(seq) as i32),
            ack_number: None,
            window_len: 65_535,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &payload,
        };
        for flag in flags.chars() {
            match flag {
                'S' => repr.control = TcpControl::Syn,
                'F' => repr.control = TcpControl::Fin,
                'R' => repr.control = TcpControl::Rst,
                'P' => repr.control = TcpControl::Psh,
                _ => {}
            }
        }
        let rest: Vec<&str> = words.collect();
        let number = |name: &str| -> Option<u32> {
            let at = rest.iter().position(|w| w.trim_start_matches('<') == name)?;
            rest[at + 1].trim_end_matches([',', '>']).parse().ok()
        };
        repr.ack_number = number("ack").map(|n| TcpSeqNumber(self.ours.wrapping_add(n) as i32));
        repr.window_len = number("win").map_or(65_535, |n| n as u16);
        repr.max_seg_size = number("mss").map(|n| n as u16);
        repr.window_scale = number("scale").map(|n| n as u8);
        repr.sack_permitted = line.contains("sack");
        repr.timestamp = number("ts").map(|n| TcpTimestampRepr::new(n, 0));
        let (peer, own) = (IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 1]));
        let mut packet = wire::segment(peer, own, &repr).expect("it is short");
        wire::address(&mut packet, EtherAddr([2, 0, 0, 0, 0, 1]), EtherAddr([2, 0, 0, 0, 0, 2]));
        for frame in on_the_link(&mut vec![packet]) {
            self.stack.input(super::packet(&frame), self.now);
        }
    }

    /// What was sent first, as scripts have it; `like` says which parts.
    fn shown(&mut self, like: &str) -> Option<String> {
        self.poll();
        let frame = self.sent.pop_front()?;
        let d = wire::datagram(&frame).expect("ours are right");
        assert!(wire::is_intact(&packet(&frame), &d), "its checksum is right");
        let tcp = TcpPacket::new_checked(&frame[d.transport..d.end]).expect("ours are right");
        let ignored = smoltcp::phy::ChecksumCapabilities::ignored();
        let s = TcpRepr::parse(&tcp, &d.source.into(), &d.target.into(), &ignored).expect("ours are right");
        if s.control == TcpControl::Syn {
            self.ours = s.seq_number.0 as u32;
            self.ports = (s.dst_port, s.src_port);
        }
        let flag = match s.control {
            TcpControl::Syn => "S",
            TcpControl::Fin => "F",
            TcpControl::Rst => "R",
            TcpControl::Psh => "P",
            TcpControl::None => "",
        };
        let seq = if s.control == TcpControl::Rst && like.contains(" 0:0(0)") { 0 } else { self.ours };
        let seq = (s.seq_number.0 as u32).wrapping_sub(seq);
        let len = s.payload.len();
        assert!(s.payload.iter().enumerate().all(|(i, &b)| b == byte(seq as usize + i)), "the right bytes");
        let mut text = format!("{flag}{} ", if s.ack_number.is_some() { "." } else { "" });
        write!(text, "{seq}:{}({len})", seq as usize + len).expect("memory");
        if let Some(ack) = s.ack_number {
            write!(text, " ack {}", (ack.0 as u32).wrapping_sub(PEER)).expect("memory");
        }
        if like.contains("win") {
            write!(text, " win {}", s.window_len).expect("memory");
        }
        let mut options = Vec::new();
        options.extend(s.max_seg_size.map(|n| format!("mss {n}")));
        options.extend(s.window_scale.map(|n| format!("scale {n}")));
        options.extend(s.sack_permitted.then(|| "sack".to_owned()));
        options.extend(
            s.sack_ranges
                .iter()
                .flatten()
                .map(|(a, b)| format!("got {}-{}", a.wrapping_sub(PEER), b.wrapping_sub(PEER))),
        );
        options.extend(s.timestamp.map(|t| format!("echo {}", t.tsecr)));
        if like.contains('<') {
            write!(text, " <{}>", options.join(", ")).expect("memory");
        }
        Some(text)
    }

    fn line(&mut self, line: &str) {
        let mut rest = line.trim();
        if let Some((ms, after)) = rest.strip_prefix('+').and_then(|r| r.split_once(' ')) {
            self.pass(self.now + ms.parse::<u64>().expect("milliseconds") * 1000);
            rest = after.trim();
        }
        let (word, argument) = rest.split_once(' ').map_or((rest, ""), |(a, b)| (a, b.trim()));
        let number = argument.parse::<usize>();
        match word {
            "<" => self.segment(argument),
            ">" => {
                let shown = self.shown(argument);
                assert_eq!(shown.as_deref(), Some(argument));
            }
            "nothing" => assert_eq!(self.shown("win <"), None),
            "server" => {
                self.stack.listen(ServerId(0), ([10, 0, 0, 1], PORT).into(), Protocol::Tcp).expect("free");
            }
            "connect" => {
                let to = ([10, 0, 0, 2], PORT).into();
                let key = self.stack.connect(to, Protocol::Tcp, self.now).expect("near");
                self.stack.own(key, Protocol::Tcp, 0, self.now);
                self.key = Some(key);
            }
            "accept" => {
                let (key, _) = self.stack.accept(ServerId(0)).expect("a connection came");
                self.stack.own(key, Protocol::Tcp, 0, self.now);
                (self.key, self.read, self.written) = (Some(key), 0, 0);
            }
            "read" => {
                let mut memory = vec![0; number.clone().expect("a length") + 1];
                let n = self.stack.read(self.key.expect("open"), Protocol::Tcp, &mut memory).expect("data");
                assert_eq!(Ok(n), number);
                let first = self.read;
                assert!(memory[..n].iter().enumerate().all(|(i, &b)| b == byte(1 + first + i)));
                self.read += n;
            }
            "write" => {
                let data: Vec<u8> =
                    (0..number.expect("a length")).map(|i| byte(1 + self.written + i)).collect();
                assert_eq!(self.stack.write(self.key.expect("open"), &data).expect("space"), data.len());
                self.written += data.len();
            }
            "end" => {
                assert_eq!(self.stack.read(self.key.expect("open"), Protocol::Tcp, &mut [0]).ok(), Some(0));
            }
            "blocked" => {
                let read = self.stack.read(self.key.expect("open"), Protocol::Tcp, &mut [0]);
                assert_eq!(read.expect_err("nothing there").kind(), io::ErrorKind::WouldBlock);
            }
            "error" => {
                let read = self.stack.read(self.key.expect("open"), Protocol::Tcp, &mut [0]);
                let number = read.expect_err("it failed").raw_os_error().expect("an error of the system's");
                assert_eq!(format!("{:?}", Errno::from_raw(number)), argument);
            }
            "close" => self.stack.close(self.key.take().expect("open"), Protocol::Tcp),
            "gone" => {
                self.poll();
                let (connections, half_open, ended) = self.stack.tcp.sizes();
                assert_eq!((connections, half_open, Ok(ended)), (0, 0, number));
            }
            _ => panic!("no such line"),
        }
    }
}

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

#[test]
fn the_stack_does_what_the_scripts_say() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stack/user/tests/scripts");
    let files = std::fs::read_dir(&folder).expect("scripts are there");
    let mut paths: Vec<_> = files.map(|f| f.expect("readable").path()).collect();
    paths.sort();
    assert!(paths.len() > 10);
    let mut failed = Vec::new();
    for path in paths {
        let script = std::fs::read_to_string(&path).expect("readable");
        let mut run = Run::new();
        for (n, line) in script.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.line(line)));
            if outcome.is_err() {
                failed.push(format!("{}:{}: {line}", path.display(), n + 1));
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
