//! A client that asks again at each answer: packets have their turn between one question and the next, also where both
//! have but one CPU. The test has a file, and so a process, of its own: other threads on that CPU would hide the fault.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use weir_engine::{Worker, WorkerOptions};
use weir_plan::Classes;
use weir_protocol::Command;

const PACKETS: u64 = 2000;
/// Whether the asking thread always comes first depends on the scheduler, and does in half of the cases.
const TIMES: usize = 8;

/// The calling thread, and those that it starts, have one CPU from now on.
fn on_one_cpu() {
    let me = Pid::from_raw(0);
    let all = sched_getaffinity(me).unwrap();
    let first = (0..CpuSet::count()).find(|&cpu| all.is_set(cpu).unwrap()).unwrap();
    let mut one = CpuSet::new();
    one.set(first).unwrap();
    sched_setaffinity(me, &one).unwrap();
}

/// The number of packets, by a connection of its own.
fn count(socket: &Path) -> u64 {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"read i.count\nquit\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, data) = answer.split_once("DATA ").unwrap_or_else(|| panic!("{answer}"));
    let (length, value) = data.split_once("\r\n").unwrap();
    value[..length.parse().unwrap()].parse().unwrap()
}

#[test]
fn clients_do_not_hold_packets_up() {
    on_one_cpu();
    for _ in 0..TIMES {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let worker = Worker::start(Arc::new(Classes::default()), WorkerOptions::default(), |_| {}).unwrap();
        // Printing takes long enough for many questions.
        let config = format!(
            "ControlSocket(UNIX, {});
             i :: InfiniteSource(LENGTH 500, LIMIT {PACKETS}, ACTIVE false) -> Print(x, 500) -> Discard;",
            socket.display()
        );
        let (graph, file, tag) = ("g".to_owned(), "test".to_owned(), String::new());
        worker.handle().call(Command::Load { graph, config, file, tag, scope: None, memory: None }).unwrap();
        let (graph, handler, value) = ("g".to_owned(), "i.active".to_owned(), "true".to_owned());
        worker.handle().call(Command::Write { graph, handler, value }).unwrap();
        let start = Instant::now();
        let mut come = 0;
        while come < PACKETS {
            come = count(&socket);
            assert!(start.elapsed() < Duration::from_secs(60), "{come} packets have come, and no more come");
        }
    }
}
