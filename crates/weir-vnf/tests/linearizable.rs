//! Remote state is linearizable: what replicas saw of a key while Redis was killed, paused or cut off is what they would have seen had each
//! command been carried out at one moment between its call and its outcome. A command without an outcome has such a moment any time later,
//! or never.

#![forbid(unsafe_code)]

mod port;
mod redis;

use std::collections::{HashSet, VecDeque};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use redis::Server;
use todc_utils::specifications::Specification;
use todc_utils::{Action, History, WGLChecker};
use weir_vnf::{Buffer, CacheUse, Connection, Core, Error, Function, Protocol, Redis, Running, Swapped, Vnf};

const SEEDS: u64 = 100;
/// Seeds whose histories come about at once, each with a key of its own.
const AT_ONCE: u64 = 5;
const REPLICAS: usize = 3;
/// Each works on the key through each replica.
const CLIENTS: usize = 2;
const COMMANDS: usize = 14;
const TIMEOUT: Duration = Duration::from_millis(150);

/// A value; each is written once.
type Value = Option<u64>;

/// A command and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Op {
    Get(Value),
    Set(u64),
    /// Deleted; whether there was something.
    Delete(bool),
    /// From one value to another.
    Swapped(Value, u64),
    /// Not swapped from the first value, since it was the second.
    Differed(Value, Value),
    /// Perhaps deleted.
    PerhapsDeleted,
}

struct Register;

impl Specification for Register {
    type State = Value;
    type Operation = Op;

    fn init() -> Value {
        None
    }

    fn apply(op: &Op, state: &Value) -> (bool, Value) {
        match op {
            Op::Get(value) => (value == state, *state),
            Op::Set(value) => (true, Some(*value)),
            Op::Delete(was) => (*was == state.is_some(), None),
            Op::Swapped(from, to) if from == state => (true, Some(*to)),
            Op::Swapped(..) => (false, *state),
            Op::Differed(wanted, value) => (wanted != value && value == state, *state),
            Op::PerhapsDeleted => (true, None),
        }
    }
}

/// What a client asks for.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Get,
    Set(u64),
    Delete,
    Swap(Value, u64),
}

/// An entry of a history: the number of a command, and its outcome (`Err`: nobody knows) or its call.
type Event = (usize, Option<Result<Op, Ask>>);

/// Whether what was seen can have come about. Commands with no outcome whose value nobody saw are left out: had they been carried out, nobody
/// would have noticed. Those whose value was seen were carried out.
fn linearizable(events: &[Event]) -> bool {
    let mut seen = HashSet::new();
    for (_, event) in events {
        if let Some(Ok(Op::Get(Some(value)) | Op::Swapped(Some(value), _) | Op::Differed(_, Some(value)))) =
            event
        {
            seen.insert(*value);
        }
    }
    let outcome = |n: usize| match events.iter().find_map(|(m, e)| e.as_ref().filter(|_| *m == n)) {
        Some(Ok(op)) => Some((op.clone(), true)),
        Some(Err(Ask::Set(value))) if seen.contains(value) => Some((Op::Set(*value), false)),
        Some(Err(Ask::Swap(from, to))) if seen.contains(to) => Some((Op::Swapped(*from, *to), false)),
        Some(Err(Ask::Delete)) => Some((Op::PerhapsDeleted, false)),
        _ => None,
    };
    let mut actions = Vec::new();
    let mut open = Vec::new();
    for (n, event) in events {
        match (outcome(*n), event) {
            (Some((op, known)), None) => {
                actions.push((*n, Action::Call(op.clone())));
                if !known {
                    open.push((*n, Action::Response(op)));
                }
            }
            (Some((op, true)), Some(_)) => actions.push((*n, Action::Response(op))),
            _ => {}
        }
    }
    actions.extend(open);
    actions.is_empty() || WGLChecker::<Register>::is_linearizable(History::from_actions(actions))
}

#[test]
fn the_checker_accepts_what_is_possible_and_nothing_else() {
    let call = |n| (n, None);
    let end = |n, op| (n, Some(Ok(op)));
    let lost = |n, ask| (n, Some(Err(ask)));
    let two_swaps = |second| {
        vec![call(0), end(0, Op::Set(1)), call(1), call(2), end(1, Op::Swapped(Some(1), 2)), end(2, second)]
    };
    assert!(linearizable(&two_swaps(Op::Swapped(Some(2), 3))));
    assert!(linearizable(&two_swaps(Op::Differed(Some(1), Some(2)))));
    assert!(!linearizable(&two_swaps(Op::Swapped(Some(1), 3))), "both swapped from the same value");
    let stale = |first: Value, second: Value| {
        vec![call(0), lost(0, Ask::Set(1)), call(1), end(1, Op::Get(first)), call(2), end(2, Op::Get(second))]
    };
    assert!(linearizable(&stale(None, None)) && linearizable(&stale(None, Some(1))));
    assert!(!linearizable(&stale(Some(1), None)), "a value came and went by itself");
    assert!(!linearizable(&stale(None, Some(2))), "a value came from nowhere");
    let deleted = vec![
        call(0),
        end(0, Op::Set(1)),
        call(1),
        lost(1, Ask::Delete),
        call(2),
        end(2, Op::Get(Some(1))),
        call(3),
        end(3, Op::Get(None)),
    ];
    assert!(linearizable(&deleted));
}

/// A command for a replica, and where its outcome goes.
type Job = (String, Ask, Sender<Result<Op, Ask>>);

/// A replica: does the jobs of its queue, one for each byte that it is sent.
struct Replica(Arc<Mutex<VecDeque<Job>>>);

fn number(value: Option<&[u8]>) -> Value {
    value.map(|v| std::str::from_utf8(v).expect("a number").parse().expect("a number"))
}

impl Function for Replica {
    type Request = ();

    fn read(&mut self, core: &mut Core<Self>, _: Connection, data: Buffer) {
        for _ in 0..data.len() {
            let (key, ask, to) =
                self.0.lock().expect("no panic").pop_front().expect("there is one for each byte");
            let key = key.as_bytes();
            let end = move |outcome: Result<Op, Error>| {
                let _ = to.send(outcome.map_err(|_| ask));
            };
            let done = match ask {
                Ask::Get => core.remote_get("linear", key, CacheUse::Skip, move |_, _, o| {
                    end(o.map(|v| Op::Get(number(v.as_deref()))));
                }),
                Ask::Set(value) => {
                    core.remote_set("linear", key, value.to_string().as_bytes(), move |_, _, o| {
                        end(o.map(|()| Op::Set(value)));
                    })
                }
                Ask::Delete => core.remote_delete("linear", key, move |_, _, o| end(o.map(Op::Delete))),
                Ask::Swap(from, to) => {
                    let (old, new) = (from.map(|v| v.to_string()), to.to_string());
                    let (old, new) = (old.as_deref().map(str::as_bytes), Some(new.as_bytes()));
                    core.remote_compare_and_set("linear", key, old, new, move |_, _, o| {
                        end(o.map(|swapped| match swapped {
                            Swapped::Done => Op::Swapped(from, to),
                            Swapped::Differs(value) => Op::Differed(from, number(value.as_deref())),
                        }));
                    })
                }
            };
            done.expect("there is remote state");
        }
    }
}

/// The network between replicas and Redis: what it holds back while it is cut arrives when it is whole again.
struct Network {
    address: SocketAddr,
    cut: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Network {
    fn start(redis: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let (cut, connections) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let network = Self { address, cut: cut.clone(), connections: connections.clone() };
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // Redis may be down: then so is the connection.
                let Ok(far) = TcpStream::connect(redis) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let [from, to] = [from, to].map(|s| s.try_clone().expect("it is open"));
                    connections.lock().expect("no panic").push(from.try_clone().expect("it is open"));
                    let cut = cut.clone();
                    std::thread::spawn(move || carry(from, to, &cut));
                }
            }
        });
        network
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    let mut bytes = [0; 4096];
    loop {
        let length = from.read(&mut bytes).unwrap_or(0);
        while cut.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if length == 0 || to.write_all(&bytes[..length]).is_err() {
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// Numbers that look random, the same for each seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A replica, the queue of its jobs, and its address.
type Started = (Running, Arc<Mutex<VecDeque<Job>>>, SocketAddr);

fn replica(redis: SocketAddr) -> Started {
    let queue = Arc::<Mutex<VecDeque<Job>>>::default();
    let mut vnf = Vnf::new(1);
    vnf.remote(Redis { timeout: TIMEOUT, ..Redis::new(redis) });
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (_, address) = vnf.server(address, Protocol::Tcp, None).expect("loopback is there");
    let jobs = queue.clone();
    (vnf.start(move || Replica(jobs.clone())).expect("threads start"), queue, address)
}

/// Works on the key of a seed, one command after the other.
fn client(seed: u64, number: usize, replica: &Started, events: &Mutex<Vec<Event>>) {
    let mut random = Random(seed * 1000 + number as u64);
    let mut stream = TcpStream::connect(replica.2).expect("it listens");
    let mut last = None;
    for n in 0..COMMANDS {
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        let id = number * COMMANDS + n;
        let value = id as u64 + 1;
        let ask = match random.below(10) {
            0..3 => Ask::Get,
            3 | 4 => Ask::Set(value),
            5 => Ask::Delete,
            _ => Ask::Swap(last, value),
        };
        let (sender, outcome) = channel();
        events.lock().expect("no panic").push((id, None));
        {
            let mut queue = replica.1.lock().expect("no panic");
            queue.push_back((format!("key {seed}"), ask, sender));
        }
        stream.write_all(b"x").expect("it reads");
        let outcome = outcome.recv_timeout(Duration::from_secs(60)).expect("each command has an outcome");
        last = match &outcome {
            Ok(Op::Get(value) | Op::Differed(_, value)) => *value,
            Ok(Op::Set(value) | Op::Swapped(_, value)) => Some(*value),
            Ok(_) => None,
            Err(_) => last,
        };
        events.lock().expect("no panic").push((id, Some(outcome)));
    }
}

#[test]
fn replicas_see_one_state_while_redis_is_killed_paused_and_cut_off() {
    let mut server = Server::start(None);
    let network = Network::start(server.address);
    let replicas: Vec<Started> = (0..REPLICAS).map(|_| replica(network.address)).collect();
    let (mut lost, mut known) = (0, 0);
    for first in (0..SEEDS).step_by(AT_ONCE as usize) {
        let histories: Vec<Mutex<Vec<Event>>> = (0..AT_ONCE).map(|_| Mutex::default()).collect();
        std::thread::scope(|scope| {
            for (seed, events) in (first..).zip(&histories) {
                for n in 0..REPLICAS * CLIENTS {
                    let replica = &replicas[n % REPLICAS];
                    scope.spawn(move || client(seed, n, replica, events));
                }
            }
            let mut random = Random(first);
            std::thread::sleep(Duration::from_millis(20 + random.below(60)));
            match (first / AT_ONCE) % 4 {
                0 => {
                    server.signal(Signal::SIGKILL);
                    std::thread::sleep(Duration::from_millis(random.below(100)));
                    server.restart();
                }
                1 => {
                    server.signal(Signal::SIGSTOP);
                    std::thread::sleep(Duration::from_millis(100 + random.below(200)));
                    server.signal(Signal::SIGCONT);
                }
                2 => {
                    network.cut.store(true, Ordering::Release);
                    std::thread::sleep(Duration::from_millis(100 + random.below(200)));
                    network.cut.store(false, Ordering::Release);
                }
                _ => {
                    for connection in network.connections.lock().expect("no panic").drain(..) {
                        let _ = connection.shutdown(Shutdown::Both);
                    }
                }
            }
        });
        for (seed, events) in (first..).zip(histories) {
            let events = events.into_inner().expect("no panic");
            lost += events.iter().filter(|(_, e)| matches!(e, Some(Err(_)))).count();
            known += events.iter().filter(|(_, e)| matches!(e, Some(Ok(_)))).count();
            assert!(linearizable(&events), "seed {seed}: {events:?}");
        }
    }
    println!("{known} commands with an outcome, {lost} without");
    assert!(lost > 0 && known > lost, "the faults came in the middle of work: {known}, {lost}");
}
