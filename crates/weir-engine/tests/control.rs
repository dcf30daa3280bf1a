//! Control sockets and clients.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_engine::{Engine, Until};
use weir_plan::{Classes, Plan};

/// An engine that runs in a thread, with a control socket.
struct Served {
    directory: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    waker: weir_io::Waker,
    thread: Option<JoinHandle<()>>,
}

fn config(socket: &Path, rest: &str) -> String {
    format!("ControlSocket(UNIX, {}); {rest}", socket.display())
}

impl Served {
    fn new(rest: &str) -> Served {
        let directory = tempfile::tempdir().unwrap();
        let text = config(&directory.path().join("s"), rest);
        let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
        engine.allow_reconfigure(Box::new(|classes, text| Plan::new(classes, text, "hotconfig")));
        engine.load("g", &text, "test").unwrap();
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), engine.waker());
        let until = Until { flag: Some(stop.clone()), ..Until::default() };
        let thread = thread::spawn(move || _ = engine.run(&until).unwrap());
        Served { directory, stop, waker, thread: Some(thread) }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("s")
    }

    fn client(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends all this and `QUIT`, and gives what comes back.
    fn talk(&self, text: &str) -> String {
        let mut stream = self.client();
        stream.write_all(format!("{text}QUIT\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.take().unwrap().join().unwrap();
        assert!(!self.socket().exists(), "the socket's name is removed");
    }
}

const SWITCH: &str = "s :: Switch(0); Idle -> s; s [0] -> Discard; s [1] -> Discard;";

#[test]
fn handlers_are_read_and_written() {
    let s = Served::new(SWITCH);
    let answer = s.talk(
        "read s.class\nwrite s.switch 1\r\nread s.switch\r\nREADDATA 2.class 0\nCHECKREAD s.switch\nread driver\nread s.x\nread t.x\nfly\n",
    );
    for part in [
        "Click::ControlSocket/1.3\r\n200 Read handler 's.class' OK\r\nDATA 6\r\nSwitch",
        "511 No handler named 's.x'\r\n510 No element named 't'\r\n501 Command 'fly' unimplemented\r\n",
        "200 Read handler 's.switch' OK\r\n",
        "200 Read handler 'driver' OK\r\nDATA 9\r\nuserlevel",
    ] {
        assert!(answer.contains(part), "{part:?} is missing in {answer:?}");
    }
    assert!(answer.ends_with("200 Goodbye!\r\n"), "{answer:?}");
}

#[test]
fn data_comes_by_length_or_until_a_line() {
    let s = Served::new(SWITCH);
    let answer =
        s.talk("WRITEDATA s.switch 1\n1read s.switch\nWRITEUNTIL s.switch END\n0\nEND\nread s.switch\n");
    assert!(answer.contains("DATA 1\r\n1") && answer.contains("DATA 1\r\n0"), "{answer:?}");
    let refused = s.talk("WRITE s.switch many\n");
    assert!(refused.contains("520-Write handler 's.switch' error:\r\n520 "), "{refused:?}");
}

#[test]
fn private_handlers_are_hidden() {
    let s = Served::new("s :: Script(TYPE PASSIVE, return 1); Idle -> Discard;");
    let answer = s.talk("read s.add 1 1\nread s.cat /etc/hostname\n");
    assert!(answer.contains("DATA 1\r\n2511 No handler named 's.cat'"), "{answer:?}");
}

#[test]
fn clients_do_not_wait_for_each_other() {
    let s = Served::new(SWITCH);
    let mut slow = s.client();
    slow.write_all(b"READDATA s.class 100\nonly a part").unwrap();
    let mut flood = s.client();
    // It is cut off, so that this may fail.
    let _ = flood.write_all(&vec![b'x'; 3 << 20]);
    let many: Vec<UnixStream> = (0..100).map(|_| s.client()).collect();
    drop(many);
    // Those have to be seen to be gone before there is space again.
    let served = (0..600).any(|_| {
        let mut client = s.client();
        let mut text = Vec::new();
        let sent = client.write_all(b"read s.class\nQUIT\n").is_ok();
        thread::sleep(Duration::from_millis(10));
        sent && client.read_to_end(&mut text).is_ok() && text.ends_with(b"Goodbye!\r\n")
    });
    assert!(served);
}

#[test]
fn a_client_outlives_a_swap() {
    let s = Served::new(SWITCH);
    let new = config(&s.socket(), &SWITCH.replace("Switch(0)", "Switch(1)"));
    let mut client = s.client();
    client.write_all(format!("read s.config\nwrite hotconfig {new}\n").as_bytes()).unwrap();
    let mut first = Vec::new();
    while !String::from_utf8_lossy(&first).contains("'hotconfig' OK\r\n") {
        let mut bytes = [0; 256];
        let n = client.read(&mut bytes).unwrap();
        assert!(n > 0, "{:?}", String::from_utf8_lossy(&first));
        first.extend_from_slice(&bytes[..n]);
    }
    client
        .write_all(b"read s.config\nwrite hotconfig Print\nwrite hotconfig Nothing\nread s.config\nQUIT\n")
        .unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    let answer = String::from_utf8_lossy(&first).into_owned() + &rest;
    assert_eq!(answer.matches("200 Read handler 's.config' OK\r\nDATA 1\r\n").count(), 3, "{answer:?}");
    assert!(answer.contains("200 Write handler 'hotconfig' OK"), "{answer:?}");
    let refused = "DATA 1\r\n1520-Write handler 'hotconfig' error:\r\n520-hotconfig:1: 'Print@1 :: Print' input 0 unused\r\n\
                   520-hotconfig:1: 'Print@1 :: Print' output 0 unused\r\n520 Router could not be initialized!\r\n";
    assert!(answer.contains(refused), "{answer:?}");
    assert!(answer.contains("520 hotconfig:1: undeclared element 'Nothing'"), "{answer:?}");
}

#[test]
fn what_comes_behind_a_swap_asks_the_graph_that_took_the_place() {
    let s = Served::new(SWITCH);
    let new = config(&s.socket(), &SWITCH.replace("Switch(0)", "Switch(1)"));
    let answer = s.talk(&format!("read s.config\nwrite hotconfig {new}\nread s.config\n"));
    let data: Vec<&str> = answer.split("DATA 1\r\n").skip(1).map(|d| &d[..1]).collect();
    assert_eq!(data, ["0", "1"], "{answer:?}");
}

/// Reads from a stream until it has this many lines.
fn lines(stream: &mut UnixStream, count: usize) -> String {
    let mut text = String::new();
    while text.matches("\r\n").count() < count {
        let mut bytes = [0; 256];
        let n = stream.read(&mut bytes).unwrap();
        assert!(n > 0, "it ends after {text:?}");
        text.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    text
}

#[test]
fn a_chatter_socket_says_what_is_printed_and_outlives_a_swap() {
    let directory = tempfile::tempdir().unwrap();
    let chatter = directory.path().join("chatter");
    let rest = |word: &str| {
        format!(
            "ChatterSocket(UNIX, {}); ChatterSocket(UNIX, {}, CHANNEL debug);
             i :: InfiniteSource(DATA x, LIMIT 1, ACTIVE false) -> Print({word}) -> Discard;",
            chatter.display(),
            directory.path().join("other").display()
        )
    };
    let s = Served::new(&rest("one"));
    let mut client = UnixStream::connect(&chatter).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(lines(&mut client, 1), "Click::ChatterSocket/1.0\r\n");
    let gone = UnixStream::connect(&chatter).unwrap();
    drop(gone);
    s.talk("write i.active true\n");
    assert_eq!(lines(&mut client, 1), "one:    1 | 78\r\n");
    let new = config(&s.socket(), &rest("two")).replace('\n', " ");
    s.talk(&format!("write hotconfig {new}\nwrite i.reset\nwrite i.active true\n"));
    assert_eq!(lines(&mut client, 1), "two:    1 | 78\r\n");
    assert!(!directory.path().join("other").exists(), "nothing is said on other channels");
    drop(s);
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "the socket ends with the graph");
    assert!(!chatter.exists());
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let chatter = directory.path().join("chatter");
    let s = Served::new(&format!(
        "ChatterSocket(UNIX, {});
         i :: InfiniteSource(LENGTH 500, LIMIT 2000, ACTIVE false) -> Print(x, 500) -> Discard;",
        chatter.display()
    ));
    let mut client = UnixStream::connect(&chatter).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(lines(&mut client, 1), "Click::ChatterSocket/1.0\r\n");
    // 2 MB, of which neither the socket nor the backlog holds all.
    s.talk("write i.active true\n");
    while !s.talk("read i.count\n").contains("\r\n2000") {}
    let mut text = Vec::new();
    // How a connection that was cut off ends does not matter.
    let _ = client.read_to_end(&mut text);
    assert!(text.len() < 2_000_000, "{} bytes came", text.len());
    // Nothing has come if all was printed before the thread that writes had its turn.
    let begin = &text[..10.min(text.len())];
    assert!(begin.is_empty() || begin == b"x:  500 | ", "{}", String::from_utf8_lossy(begin));
}
