//! Peers of two devices that are joined: their packets go past the engine, and each comes once, in its turn, whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_engine::{Worker, WorkerOptions};
use weir_io::memif::MemifPort;
use weir_io::{Poller, Port, PortError};
use weir_net::build;
use weir_packet::Packet;
use weir_plan::Classes;
use weir_protocol::{Answer, Command as Ask, DeviceStatus, DirectStatus, Event, GraphStatus};

/// Most packets in flight: no queue is full then.
const WINDOW: u32 = 400;

struct Engine {
    worker: Option<Worker>,
    /// The names of its two devices.
    devices: [String; 2],
    folder: tempfile::TempDir,
}

impl Engine {
    fn start(workers: usize) -> Engine {
        let options = WorkerOptions { workers, ..WorkerOptions::default() };
        let worker = Worker::start(Arc::new(Classes::default()), options, |_| {}).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let devices =
            ["left", "right"].map(|n| format!("memif:{}?role=master", folder.path().join(n).display()));
        Engine { worker: Some(worker), devices, folder }
    }

    /// Runs a graph in which all of the one goes to the other; `more` stands in it, too, with the devices as `LEFT` and `RIGHT`.
    fn load(&self, more: &str) {
        let config = format!(
            "FromDevice(LEFT, WAIT true) -> there :: Counter -> Queue(1000) -> out :: ToDevice(RIGHT, WAIT true);\n\
             FromDevice(RIGHT, WAIT true) -> back :: Counter -> Queue(1000) -> ToDevice(LEFT, WAIT true);\n{more}"
        );
        self.call(Ask::Load {
            graph: "g".into(),
            config: config.replace("LEFT", &self.devices[0]).replace("RIGHT", &self.devices[1]),
            file: "t".into(),
            tag: String::new(),
            scope: None,
            memory: None,
        });
    }

    fn call(&self, command: Ask) -> Answer {
        self.worker.as_ref().unwrap().handle().call(command).unwrap()
    }

    fn status(&self) -> GraphStatus {
        let Answer::Status { status } = self.call(Ask::Status { graph: "g".into() }) else { panic!() };
        status
    }

    fn device(&self, at: usize) -> DeviceStatus {
        self.status().devices.into_iter().find(|d| d.name == self.devices[at]).unwrap()
    }

    fn direct(&self, at: usize) -> DirectStatus {
        self.device(at).direct.unwrap_or_default()
    }

    /// Waits until packets from that device go directly, or not.
    fn until_direct(&self, at: usize, wanted: bool) {
        let done = wait(|| self.direct(at).to.is_some() == wanted);
        assert!(done, "waited in vain for {at} to be direct: {wanted}: {:?}", self.status());
    }

    fn count(&self, element: &str) -> u64 {
        let handler = format!("{element}.count");
        let Answer::Text { text } = self.call(Ask::Read { graph: "g".into(), handler }) else { panic!() };
        text.parse().unwrap()
    }

    /// Packets that ended in the engine.
    fn drops(&self) -> u64 {
        self.status().drops.values().flat_map(|of| of.values()).sum()
    }

    fn peer(&self, at: usize) -> MemifPort {
        let path = self.folder.path().join(["left", "right"][at]);
        MemifPort::open(&format!("memif:{}?direct=true", path.display()).parse().unwrap()).unwrap()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(worker) = self.worker.take() else { return };
        let _ = worker.handle().call(Ask::Shutdown);
        worker.join();
    }
}

fn wait(mut holds: impl FnMut() -> bool) -> bool {
    (0..4000).any(|i| {
        if i > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        holds()
    })
}

#[track_caller]
fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(wait(holds), "waited in vain for {what}");
}

const BOTH: &str = "DirectLink(LEFT, RIGHT); DirectLink(RIGHT, LEFT);";

/// The traffic of one direction.
#[derive(Default)]
struct Direction {
    /// Packets that the sender gave to its port.
    sent: AtomicU32,
    /// The number behind that of the last packet that came.
    came: AtomicU32,
    /// How many came.
    packets: AtomicU32,
    /// Whether no more are to be sent.
    stop: AtomicBool,
    /// Whether one may overtake another.
    loose: AtomicBool,
}

impl Direction {
    fn get(of: &AtomicU32) -> u32 {
        of.load(Ordering::SeqCst)
    }
}

fn packet(number: u32) -> Packet {
    let at = |host| std::net::Ipv4Addr::new(10, 9, 0, host);
    Packet::from_bytes(&build::udp4((at(1), 7), (at(2), 9), &number.to_be_bytes())).unwrap()
}

/// A peer: it sends in one direction and receives in the other, and sleeps when there is nothing to do.
struct Peer {
    leave: Arc<AtomicBool>,
    /// Whether it does nothing.
    sleeps: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    fn start(mut port: MemifPort, [to, from]: [Arc<Direction>; 2]) -> Peer {
        let leave = Arc::new(AtomicBool::new(false));
        let sleeps = Arc::new(AtomicBool::new(false));
        let (left, asleep) = (leave.clone(), sleeps.clone());
        let thread = std::thread::spawn(move || {
            let poller = Poller::new().unwrap();
            poller.add(0, port.fd().unwrap()).unwrap();
            let (mut batch, mut out) = (Vec::new(), Vec::new());
            let mut next = Direction::get(&to.sent);
            while !left.load(Ordering::Relaxed) {
                if asleep.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                let ahead = || Direction::get(&to.sent).wrapping_sub(Direction::get(&to.came));
                while !to.stop.load(Ordering::Relaxed)
                    && batch.len() < 16
                    && ahead() + (batch.len() as u32) < WINDOW
                {
                    batch.push(packet(next));
                    next += 1;
                }
                match port.send(&mut batch) {
                    Ok(_) | Err(PortError::NoPeer { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
                to.sent.store(next - batch.len() as u32, Ordering::SeqCst);
                let received = port.receive(&mut out, 32).unwrap_or(0);
                for p in out.drain(..) {
                    let number = u32::from_be_bytes(p.bytes()[42..46].try_into().unwrap());
                    let expected = from.came.fetch_max(number + 1, Ordering::SeqCst);
                    let loose = from.loose.load(Ordering::SeqCst);
                    assert!(number >= expected || loose, "{number} comes after {expected}");
                    from.packets.fetch_add(1, Ordering::SeqCst);
                }
                if received == 0 {
                    poller.sleep(Some(Duration::from_millis(1)), &mut Vec::new()).unwrap();
                }
            }
        });
        Peer { leave, sleeps, thread: Some(thread) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.leave.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the peer failed");
        }
    }
}

/// Both peers, at work, and the two ways between them.
fn pair(engine: &Engine, ports: [MemifPort; 2]) -> ([Peer; 2], [Arc<Direction>; 2]) {
    let [there, back]: [Arc<Direction>; 2] = [Arc::default(), Arc::default()];
    for direction in [&there, &back] {
        // Nothing is lost before both are there.
        direction.stop.store(true, Ordering::SeqCst);
    }
    let [left, right] = ports;
    let left = Peer::start(left, [there.clone(), back.clone()]);
    let right = Peer::start(right, [back.clone(), there.clone()]);
    until("both peers", || (0..2).all(|at| engine.device(at).state == "up"));
    for direction in [&there, &back] {
        direction.stop.store(false, Ordering::SeqCst);
    }
    ([left, right], [there, back])
}

/// Lets some packets pass.
fn more(direction: &Direction) {
    let from = Direction::get(&direction.came);
    until("packets", || Direction::get(&direction.came) > from + 2 * WINDOW);
}

/// Waits until all that was sent has come, or was lost.
fn rest(direction: &Direction, lost: impl Fn() -> u32) {
    direction.stop.store(true, Ordering::SeqCst);
    until("the rest", || Direction::get(&direction.packets) + lost() == Direction::get(&direction.sent));
}

#[test]
fn rings_come_and_go_under_traffic_and_each_packet_comes_once_in_its_turn() {
    for workers in [1, 2] {
        let engine = Engine::start(workers);
        engine.load("");
        let (_peers, [there, back]) = pair(&engine, [engine.peer(0), engine.peer(1)]);
        more(&there);
        assert_eq!(engine.device(0).direct, None, "nobody asked for it");
        let mut micros = Vec::new();
        for i in 0..30 {
            engine.load(BOTH);
            if i % 3 > 0 {
                engine.until_direct(0, true);
                engine.until_direct(1, true);
                micros.push(engine.direct(0).micros);
                let passed = engine.count("there");
                more(&there);
                more(&back);
                assert_eq!(engine.count("there"), passed, "nothing passes here");
            }
            engine.load(if i % 2 > 0 { "" } else { "DirectLink(RIGHT, LEFT);" });
            if i % 5 > 0 {
                engine.until_direct(0, false);
                more(&there);
            }
        }
        rest(&there, || 0);
        rest(&back, || 0);
        engine.load("");
        engine.until_direct(1, false);
        // Together they are all.
        let direct = engine.direct(0);
        assert!(direct.sent_packets > 0 && direct.sent_bytes == 46 * direct.sent_packets, "{direct:?}");
        assert_eq!(engine.count("there") + direct.sent_packets, u64::from(Direction::get(&there.sent)));
        let direct = engine.direct(1);
        assert_eq!(engine.count("back") + direct.sent_packets, u64::from(Direction::get(&back.sent)));
        assert_eq!(direct.received_packets, engine.direct(0).sent_packets);
        assert_eq!(engine.drops(), 0);
        micros.sort_unstable();
        println!("{workers} workers: joined after {micros:?} µs");
    }
}

#[test]
fn who_watches_a_graph_sees_all_packets() {
    let engine = Engine::start(1);
    engine.load(BOTH);
    let (_peers, [there, back]) = pair(&engine, [engine.peer(0), engine.peer(1)]);
    let handle = engine.worker.as_ref().unwrap().handle();
    let watch = |key, command| -> Receiver<Event> {
        let (events, seen) = channel();
        handle.stream(key, command, Box::new(move |event| events.send(event).is_ok())).unwrap();
        seen
    };
    for key in 1..10 {
        engine.until_direct(0, true);
        more(&there);
        let command = match key % 2 {
            0 => Ask::Trace { graph: "g".into(), filter: "udp".into(), count: 3, functions: Vec::new() },
            _ => Ask::Capture {
                graph: "g".into(),
                points: vec!["there".into()],
                filter: String::new(),
                snaplen: 64,
                count: 3,
            },
        };
        let seen = watch(key, command);
        let events = || seen.recv_timeout(Duration::from_secs(20)).unwrap();
        (0..3).for_each(|_| assert_ne!(events(), Event::End));
        assert_eq!(events(), Event::End);
    }
    rest(&there, || 0);
    rest(&back, || 0);
    assert_eq!(engine.drops(), 0);
}

#[test]
fn the_end_of_one_side_leaves_the_other_at_work_and_what_was_lost_is_counted() {
    let engine = Engine::start(1);
    engine.load(BOTH);
    let [there, back]: [Arc<Direction>; 2] = [Arc::default(), Arc::default()];
    back.stop.store(true, Ordering::SeqCst);
    let left = Peer::start(engine.peer(0), [there.clone(), back.clone()]);
    let lost = || engine.status().drops.get("out").map_or(0, |of| of.values().sum::<u64>() as u32);
    for i in 0..4 {
        // All that was sent so far has come or is lost.
        rest(&there, lost);
        there.came.store(Direction::get(&there.sent), Ordering::SeqCst);
        let right = Peer::start(engine.peer(1), [back.clone(), there.clone()]);
        engine.until_direct(0, true);
        there.stop.store(false, Ordering::SeqCst);
        more(&there);
        if i < 3 {
            let before = lost();
            drop(right);
            // The sender sends by the engine again, which says that nobody is there.
            until("the drops", || lost() > before && engine.direct(0).to.is_none());
            continue;
        }
        // The end of the sender loses nothing.
        let before = lost();
        drop(left);
        until("the rest", || Direction::get(&there.packets) + before == Direction::get(&there.sent));
        assert_eq!(lost(), before);
        until("the end of the ring", || engine.direct(0).to.is_none());
        return;
    }
}

#[test]
fn who_sleeps_holds_up_nobody_for_long() {
    let engine = Engine::start(1);
    engine.load(BOTH);
    let ([_left, right], [there, back]) = pair(&engine, [engine.peer(0), engine.peer(1)]);
    engine.until_direct(0, true);
    // It does not take the rest of its ring when that is to go. The sender's packets wait for that, but not for ever.
    there.loose.store(true, Ordering::SeqCst);
    right.sleeps.store(true, Ordering::SeqCst);
    let (events, seen) = channel();
    let capture = Ask::Capture {
        graph: "g".into(),
        points: vec!["there".into()],
        filter: String::new(),
        snaplen: 64,
        count: 1,
    };
    let handle = engine.worker.as_ref().unwrap().handle();
    handle.stream(1, capture, Box::new(move |event| events.send(event).is_ok())).unwrap();
    until("its ring's end", || engine.direct(0).to.is_none());
    there.came.store(Direction::get(&there.sent), Ordering::SeqCst);
    assert_ne!(seen.recv_timeout(Duration::from_secs(20)).unwrap(), Event::End);
    // When it is awake, all is as before, and nothing was lost.
    right.sleeps.store(false, Ordering::SeqCst);
    engine.until_direct(0, true);
    more(&there);
    rest(&there, || 0);
    rest(&back, || 0);
    assert_eq!(engine.drops(), 0);
}

#[test]
fn a_ring_that_is_not_used_yet_is_given_up_as_well() {
    let engine = Engine::start(1);
    engine.load("");
    let ([left, right], [there, back]) = pair(&engine, [engine.peer(0), engine.peer(1)]);
    for (sleeper, sends) in [(&left, true), (&right, false)] {
        // A sender that sleeps does not take its ring into use; a receiver that sleeps takes nothing from it.
        sleeper.sleeps.store(true, Ordering::SeqCst);
        engine.load("DirectLink(LEFT, RIGHT);");
        std::thread::sleep(Duration::from_millis(100));
        assert!(!sends || engine.direct(0).to.is_none());
        engine.load("");
        until("the end of the ring", || engine.direct(0).to.is_none());
        // Longer than its packets wait for the other one.
        std::thread::sleep(Duration::from_millis(1500));
        there.loose.store(!sends, Ordering::SeqCst);
        sleeper.sleeps.store(false, Ordering::SeqCst);
        let passed = engine.count("there");
        until("packets through the engine", || engine.count("there") > passed + u64::from(WINDOW));
    }
    engine.load("DirectLink(LEFT, RIGHT);");
    engine.until_direct(0, true);
    more(&there);
    rest(&there, || 0);
    rest(&back, || 0);
    assert_eq!(engine.drops(), 0);
}

#[test]
fn peers_that_do_not_know_it_are_left_alone() {
    let engine = Engine::start(1);
    engine.load(BOTH);
    let path = engine.folder.path().join("left");
    let plain = MemifPort::open(&format!("memif:{}", path.display()).parse().unwrap()).unwrap();
    let (_peers, [there, back]) = pair(&engine, [plain, engine.peer(1)]);
    more(&there);
    more(&back);
    assert_eq!((engine.device(0).direct, engine.device(1).direct), (None, None));
    rest(&there, || 0);
}
