//! State in a real Redis: answers, the cache, and Redis killed, paused, restarted, protected, never there.

#![forbid(unsafe_code)]

mod port;
mod redis;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::sys::signal::Signal;
use redis::Server;
use weir_vnf::{Buffer, CacheUse, Connection, Core, Error, Function, Protocol, Redis, Running, Swapped, Vnf};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A job that the test gives a function.
type Job = Box<dyn Fn(&mut Core<Asker>, Sender<String>) + Send + Sync>;

/// Does the job that a byte of its client names, and gives its outcome to the test.
struct Asker {
    jobs: std::sync::Arc<HashMap<u8, Job>>,
    outcomes: Sender<String>,
}

impl Function for Asker {
    type Request = ();

    fn read(&mut self, core: &mut Core<Self>, _: Connection, data: Buffer) {
        for job in data.iter() {
            self.jobs[job](core, self.outcomes.clone());
        }
    }
}

/// A function with one core and its client.
struct Client {
    stream: TcpStream,
    outcomes: Receiver<String>,
    _runs: Running,
}

impl Client {
    fn start(redis: Option<Redis>) -> Self {
        let mut vnf = Vnf::new(1);
        if let Some(redis) = redis {
            vnf.remote(redis);
        }
        let (_, address) = vnf.server(ANY_PORT, Protocol::Tcp, None).expect("loopback is there");
        let (sender, outcomes) = channel();
        let jobs = std::sync::Arc::new(jobs());
        let runs =
            vnf.start(move || Asker { jobs: jobs.clone(), outcomes: sender.clone() }).expect("threads start");
        Self { stream: TcpStream::connect(address).expect("it listens"), outcomes, _runs: runs }
    }

    fn ask(&mut self, jobs: &str) {
        self.stream.write_all(jobs.as_bytes()).expect("it reads");
    }

    fn outcome(&self) -> String {
        self.outcomes.recv_timeout(Duration::from_secs(30)).expect("each call has an outcome")
    }

    fn answer(&mut self, job: &str) -> String {
        self.ask(job);
        self.outcome()
    }
}

const KEY: &[u8] = b"any\r\n\0bytes";

fn show<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    }
}

fn jobs() -> HashMap<u8, Job> {
    fn set(core: &mut Core<Asker>, out: Sender<String>, value: &[u8]) {
        let at_once = out.clone();
        if let Err(error) =
            core.remote_set("t", KEY, value, move |_, _, o| out.send(show(o)).expect("the test waits"))
        {
            at_once.send(format!("at once: {error}")).expect("the test waits");
        }
    }
    fn get(core: &mut Core<Asker>, out: Sender<String>, cache: CacheUse) {
        let done = move |_: &mut Asker,
                         _: &mut Core<Asker>,
                         o: Result<Option<std::sync::Arc<[u8]>>, Error>| {
            let text = o.map(|v| {
                v.map(|v| if v.len() > 9 { v.len().to_string() } else { String::from_utf8_lossy(&v).into() })
            });
            out.send(show(text)).expect("the test waits");
        };
        core.remote_get("t", KEY, cache, done).expect("there is remote state");
    }
    fn swap(core: &mut Core<Asker>, out: Sender<String>, old: Option<&[u8]>, new: Option<&[u8]>) {
        let done = move |_: &mut Asker, _: &mut Core<Asker>, o: Result<Swapped, Error>| {
            let text = o.map(|swapped| match swapped {
                Swapped::Done => "done".to_owned(),
                Swapped::Differs(value) => {
                    format!("differs: {:?}", value.map(|v| String::from_utf8_lossy(&v).into_owned()))
                }
            });
            out.send(show(text)).expect("the test waits");
        };
        core.remote_compare_and_set("t", KEY, old, new, done).expect("there is remote state");
    }
    let mut jobs: HashMap<u8, Job> = HashMap::new();
    for value in b'0'..=b'9' {
        jobs.insert(value, Box::new(move |core, out| set(core, out, &[value])));
    }
    jobs.insert(b'L', Box::new(|core, out| set(core, out, &vec![7; 10_000_000])));
    jobs.insert(b'g', Box::new(|core, out| get(core, out, CacheUse::Skip)));
    jobs.insert(b'c', Box::new(|core, out| get(core, out, CacheUse::Check)));
    jobs.insert(
        b'd',
        Box::new(|core, out| {
            core.remote_delete("t", KEY, move |_, _, o| out.send(show(o)).expect("the test waits"))
                .expect("there is remote state");
        }),
    );
    jobs.insert(b'a', Box::new(|core, out| swap(core, out, None, Some(b"1"))));
    jobs.insert(b'b', Box::new(|core, out| swap(core, out, Some(b"1"), Some(b"2"))));
    jobs.insert(b'e', Box::new(|core, out| swap(core, out, Some(b"2"), None)));
    // Asks again from an outcome.
    jobs.insert(
        b'r',
        Box::new(|core, out| {
            let again = move |_: &mut Asker, core: &mut Core<Asker>, _: Result<_, Error>| {
                get(core, out, CacheUse::Skip);
            };
            core.remote_get("t", KEY, CacheUse::Check, again).expect("there is remote state");
        }),
    );
    jobs
}

#[test]
fn replicas_share_keys_and_values_of_any_bytes_and_size() {
    let server = Server::start(None);
    // A large value takes a while on a machine that has much to do.
    let redis = Redis { timeout: Duration::from_secs(25), ..Redis::new(server.address) };
    let [mut a, mut b] = [(); 2].map(|()| Client::start(Some(redis.clone())));
    assert_eq!(a.answer("g"), "None");
    assert_eq!(a.answer("1"), "()");
    assert_eq!(b.answer("g"), "Some(\"1\")");
    assert_eq!(a.answer("a"), "\"differs: Some(\\\"1\\\")\"");
    assert_eq!(a.answer("b"), "\"done\"");
    assert_eq!(b.answer("b"), "\"differs: Some(\\\"2\\\")\"");
    assert_eq!(b.answer("e"), "\"done\"");
    assert_eq!(a.answer("b"), "\"differs: None\"");
    assert_eq!(a.answer("a"), "\"done\"");
    assert_eq!(a.answer("d"), "true");
    assert_eq!(a.answer("d"), "false");
    // Many at once, in their order.
    a.ask("0g1g2g3g4g5g6g7g8g9g");
    for value in 0..10 {
        assert_eq!(a.outcome(), "()");
        assert_eq!(a.outcome(), format!("Some(\"{value}\")"));
    }
    assert_eq!(a.answer("L"), "()");
    assert_eq!(b.answer("g"), "Some(\"10000000\")");
    assert_eq!(b.answer("r"), "Some(\"10000000\")");
}

#[test]
fn the_cache_has_what_this_core_saw_last() {
    let mut server = Server::start(None);
    let [mut a, mut b] = [(); 2].map(|()| {
        Client::start(Some(Redis { timeout: Duration::from_millis(300), ..Redis::new(server.address) }))
    });
    assert_eq!(a.answer("1"), "()");
    assert_eq!(b.answer("c"), "Some(\"1\")");
    assert_eq!(a.answer("2"), "()");
    assert_eq!(b.answer("c"), "Some(\"1\")");
    assert_eq!(b.answer("r"), "Some(\"2\")");
    assert_eq!(b.answer("c"), "Some(\"2\")");
    assert_eq!(b.answer("b"), "\"differs: Some(\\\"2\\\")\"");
    assert_eq!(b.answer("3"), "()");
    assert_eq!(a.answer("c"), "Some(\"2\")");
    assert_eq!(a.answer("d"), "true");
    assert_eq!(a.answer("c"), "None");
    // The cache answers also when Redis does not; but not for what a change with unknown outcome was asked for.
    server.signal(Signal::SIGKILL);
    assert_eq!(b.answer("c"), "Some(\"3\")");
    assert_ne!(b.answer("4"), "()");
    assert_ne!(b.answer("c"), "Some(\"3\")");
}

const TIMEOUT: &str = "Redis did not answer within 300ms: whether a change was or will be made is not known";
const LOST: &str = "the connection with Redis was lost: whether a change was made is not known";

#[test]
fn redis_killed_paused_and_restarted_is_an_error_in_time_and_then_it_goes_on() {
    let mut server = Server::start(None);
    let mut a =
        Client::start(Some(Redis { timeout: Duration::from_millis(300), ..Redis::new(server.address) }));
    assert_eq!(a.answer("1"), "()");
    for _ in 0..2 {
        server.signal(Signal::SIGSTOP);
        a.ask("2gd");
        // The first has had no answer in time; the others went by the same connection.
        assert_eq!([a.outcome(), a.outcome(), a.outcome()], [TIMEOUT, LOST, LOST]);
        // There is no answer to a new connection either.
        assert_eq!(a.answer("g"), TIMEOUT);
        server.signal(Signal::SIGCONT);
        assert!((0..100).any(|_| a.answer("1") == "()"));
        assert_eq!(a.answer("g"), "Some(\"1\")");

        server.signal(Signal::SIGKILL);
        let first = a.answer("g");
        assert!([TIMEOUT, LOST].contains(&&*first), "{first}");
        a.ask("gg");
        assert_eq!([a.outcome(), a.outcome()], [TIMEOUT, TIMEOUT]);
        server.restart();
        assert!((0..100).any(|_| a.answer("g") == "Some(\"1\")"), "what was acknowledged outlives Redis");
    }
}

#[test]
fn a_wrong_password_and_no_redis_are_errors() {
    let server = Server::start(Some("open sesame"));
    let mut a =
        Client::start(Some(Redis { password: Some("open sesame".into()), ..Redis::new(server.address) }));
    assert_eq!(a.answer("1"), "()");
    let mut b =
        Client::start(Some(Redis { password: Some("open barley".into()), ..Redis::new(server.address) }));
    assert!(b.answer("g").starts_with("Redis refused: WRONGPASS"));
    let mut c = Client::start(Some(Redis::new(server.address)));
    assert!(c.answer("g").starts_with("Redis refused: NOAUTH"));
    let mut d = Client::start(None);
    assert_eq!(d.answer("1"), "at once: this function has no remote state: Vnf::remote says where Redis is");
}

/// Adds one to a number again and again by compare-and-set, and says what it saw.
struct Adder(Sender<Seen>);

#[derive(Debug)]
enum Seen {
    /// It has replaced this number by the next one.
    Added(u64),
    /// Nobody knows.
    Unknown(u64),
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |v| std::str::from_utf8(v).expect("a number").parse().expect("a number"))
}

impl Adder {
    fn add(core: &mut Core<Self>, from: Option<u64>) {
        let old = from.filter(|n| *n > 0).map(|n| n.to_string());
        let new = (from.unwrap_or(0) + 1).to_string();
        let then = move |adder: &mut Self, core: &mut Core<Self>, outcome: Result<Swapped, Error>| {
            let next = match outcome {
                Ok(Swapped::Done) => {
                    let added = from.unwrap_or(0);
                    let _ = adder.0.send(Seen::Added(added));
                    added + 1
                }
                Ok(Swapped::Differs(value)) => number(value.as_deref()),
                Err(_) => {
                    let _ = adder.0.send(Seen::Unknown(from.unwrap_or(0)));
                    from.unwrap_or(0)
                }
            };
            Self::add(core, Some(next));
        };
        core.remote_compare_and_set("t", b"n", old.as_deref().map(str::as_bytes), Some(new.as_bytes()), then)
            .expect("there is remote state");
    }
}

impl Function for Adder {
    type Request = ();
    fn start(&mut self, core: &mut Core<Self>) {
        Self::add(core, None);
    }
    fn read(&mut self, _: &mut Core<Self>, _: Connection, _: Buffer) {}
}

#[test]
fn replicas_that_add_to_a_number_lose_nothing_and_add_nothing_twice_while_redis_fails() {
    let mut server = Server::start(None);
    let redis = Redis { timeout: Duration::from_millis(200), ..Redis::new(server.address) };
    let (seen, all) = channel();
    let replicas: Vec<Running> = (0..3)
        .map(|_| {
            let mut vnf = Vnf::new(1);
            vnf.remote(redis.clone());
            let seen = seen.clone();
            vnf.start(move || Adder(seen.clone())).expect("threads start")
        })
        .collect();
    drop(seen);
    // Each fault comes in the middle of work.
    let mut history = Vec::new();
    let mut work = |count: usize| {
        let mut added = 0;
        while added < count {
            let seen = all.recv_timeout(Duration::from_secs(60)).expect("it goes on");
            added += usize::from(matches!(seen, Seen::Added(_)));
            history.push(seen);
        }
    };
    for round in 0..6 {
        work(50);
        if round % 2 == 0 {
            server.signal(Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(400));
            server.signal(Signal::SIGCONT);
        } else {
            server.signal(Signal::SIGKILL);
            std::thread::sleep(Duration::from_millis(100));
            server.restart();
        }
    }
    work(50);
    for replica in replicas {
        replica.stop().expect("the loop runs");
    }
    history.extend(all.iter());

    let mut client = TcpStream::connect(server.address).expect("it runs");
    client.write_all(b"HGET t n\r\n").expect("it reads");
    let mut reply = [0; 64];
    let length = client.read(&mut reply).expect("it answers");
    let reply = String::from_utf8_lossy(&reply[..length]).into_owned();
    let last: u64 = reply.lines().nth(1).expect("a number").parse().expect("a number");
    // The number went from 0 to `last` by single steps. Each step was seen by one replica, or by none whose outcome is known.
    let mut steps = vec![0; last as usize];
    let mut unknown = HashMap::new();
    for seen in &history {
        match seen {
            Seen::Added(from) => steps[*from as usize] += 1,
            Seen::Unknown(from) => *unknown.entry(*from).or_insert(0) += 1,
        }
    }
    let mut open = 0;
    for (from, count) in steps.iter().enumerate() {
        assert!(*count <= 1, "{from} was added to twice");
        open += u64::from(*count == 0);
        let last_moment = from as u64 + 3 >= last;
        assert!(
            *count == 1 || unknown.contains_key(&(from as u64)) || last_moment,
            "nobody asked for {from}"
        );
    }
    assert!(!unknown.is_empty(), "the faults came in the middle of work");
    println!("{last} steps, {open} of them by commands without an answer");
}
