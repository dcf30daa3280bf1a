//! Interfaces with several queues, by AF_XDP, of one worker or two. Needs root: the tests fail where it is missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir_engine::{Worker, WorkerOptions};
use weir_io::af_packet::{AfPacketPort, Options};
use weir_io::af_xdp::{self, AfXdpPort};
use weir_io::interface::Method;
use weir_io::{Netns, Port};
use weir_net::build;
use weir_packet::Packet;
use weir_plan::Classes;
use weir_protocol::{Answer, Command as Ask, DeviceStatus};
use weir_testkit::Namespace;

const CROSS: &str =
    "FromDevice(left) -> Null -> ToDevice(right); FromDevice(right) -> Null -> ToDevice(left);";
/// What packets of these tests bear, and the number of their [`Numbered`].
const MARK: u32 = 0x5745_0000;
const FLOWS: u32 = 64;

/// The port of a host at the far end of a link.
fn port(host: &Namespace) -> AfPacketPort {
    AfPacketPort::open_in(&Netns::Named(host.name().to_owned()), "eth0", &Options::default()).unwrap()
}

/// Joins an interface in the middle to `eth0` of a host by a link with so many queues at both ends.
fn link(middle: &Namespace, name: &str, host: &Namespace, queues: u32) {
    let many = format!("numtxqueues {queues} numrxqueues {queues}");
    middle.ip(&format!("link add {name} {many} type veth peer name eth0 {many} netns {}", host.name()));
    for (ns, name) in [(middle, name), (host, "eth0")] {
        ns.ip(&format!("link set {name} up"));
    }
}

/// Two hosts, and an engine between them.
struct Between {
    left: Namespace,
    middle: Namespace,
    right: Namespace,
    worker: Option<Worker>,
}

impl Between {
    fn new(workers: usize, method: Method, queues: [u32; 2]) -> Between {
        let (left, middle, right) = (Namespace::new("l"), Namespace::new("m"), Namespace::new("r"));
        link(&middle, "left", &left, queues[0]);
        link(&middle, "right", &right, queues[1]);
        let netns = Netns::Named(middle.name().to_owned());
        let options = WorkerOptions { workers, method, ..WorkerOptions::default() };
        let worker = Worker::start(Arc::new(Classes::default()), options, move |engine| {
            engine.set_openers(move || {
                let netns = netns.clone();
                Box::new(move |spec| spec.open_in(&netns))
            });
        });
        Between { left, middle, right, worker: Some(worker.unwrap()) }
    }

    fn call(&self, command: Ask) -> Answer {
        self.worker.as_ref().unwrap().handle().call(command).unwrap_or_else(|e| panic!("{e:?}"))
    }

    fn load(&self, config: &str) {
        let (graph, config) = ("g".to_owned(), config.to_owned());
        self.call(Ask::Load {
            graph,
            config,
            file: "t".into(),
            tag: String::new(),
            scope: None,
            memory: None,
        });
    }

    fn device(&self, name: &str) -> DeviceStatus {
        let Answer::Status { status } = self.call(Ask::Status { graph: "g".into() }) else { panic!() };
        status.devices.into_iter().find(|d| d.name == name).unwrap()
    }

    /// Waits until the device is open by a method.
    fn opens(&self, name: &str, method: &str) {
        let start = Instant::now();
        while self.device(name).method != method || self.device(name).state != "up" {
            assert!(start.elapsed() < Duration::from_secs(30), "{:?}", self.device(name));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let Some(worker) = self.worker.take() else { return };
        let _ = worker.handle().call(Ask::Shutdown);
        worker.join();
    }
}

/// One direction of numbered traffic of many flows.
struct Numbered {
    from: u8,
    mark: u32,
    sent: u32,
    /// How often each number came.
    seen: Vec<u32>,
    /// The last number of each flow.
    last: Vec<Option<u32>>,
}

impl Numbered {
    fn new(from: u8, count: u32) -> Numbered {
        static NEXT: AtomicU32 = AtomicU32::new(MARK);
        let (mark, last) = (NEXT.fetch_add(1, Ordering::Relaxed), vec![None; FLOWS as usize]);
        Numbered { from, mark, sent: 0, seen: vec![0; count as usize], last }
    }

    fn on_way(&self) -> u32 {
        self.sent - self.seen.iter().sum::<u32>().min(self.sent)
    }

    fn next(&mut self) -> Packet {
        let at = |host, port| (std::net::Ipv4Addr::new(10, 9, 0, host), port);
        let payload = [self.mark.to_be_bytes(), self.sent.to_be_bytes()].concat();
        let flow = 1000 + (self.sent % FLOWS) as u16;
        self.sent += 1;
        Packet::from_bytes(&build::udp4(at(self.from, flow), at(3 - self.from, 9), &payload)).unwrap()
    }

    fn take_all(&mut self, packets: &mut Vec<Packet>) {
        for packet in packets.drain(..) {
            self.take(packet.bytes());
        }
    }

    /// Takes a packet that came, if it is one of these.
    fn take(&mut self, frame: &[u8]) -> bool {
        let word = |at: usize| frame.get(at..at + 4).map(|b| u32::from_be_bytes(b.try_into().unwrap()));
        if word(42) != Some(self.mark) {
            return false;
        }
        let number = word(46).unwrap();
        self.seen[number as usize] += 1;
        let last = self.last[(number % FLOWS) as usize].replace(number);
        assert!(last.is_none_or(|last| last < number), "{number} after {last:?} of the same flow");
        true
    }
}

/// Sends numbered packets in both directions at once: each arrives once, and those of a flow in order.
fn exchange(left: &mut AfPacketPort, right: &mut AfPacketPort, count: u32) {
    let mut directions = [Numbered::new(1, count), Numbered::new(2, count)];
    let (mut out, mut batch, mut start) = (Vec::new(), Vec::new(), Instant::now());
    while directions.iter().any(|w| w.sent < count || w.on_way() > 0) {
        for (side, direction) in [&mut *left, &mut *right].into_iter().zip(&mut directions) {
            while direction.sent < count && direction.on_way() < 128 && batch.len() < 32 {
                batch.push(direction.next());
            }
            side.send(&mut batch).unwrap();
            assert!(batch.is_empty(), "there is space for what is on the way");
        }
        for (side, direction) in [&mut *right, &mut *left].into_iter().zip(&mut directions) {
            if side.receive(&mut out, 64).unwrap() > 0 {
                start = Instant::now();
            }
            direction.take_all(&mut out);
        }
        let lost = || directions.each_ref().map(|w| w.seen.iter().filter(|&&n| n == 0).count());
        assert!(start.elapsed() < Duration::from_secs(10), "sent, not come: {:?}", lost());
    }
    for direction in &directions {
        assert!(direction.seen.iter().all(|&n| n == 1), "each comes once");
    }
}

/// Packets that came by each receive queue of an interface, as its driver counts them.
fn by_queue(ns: &Namespace, name: &str) -> Vec<u64> {
    let text = ns.exec(&format!("ethtool -S {name}"));
    let lines = text.lines().filter(|l| l.contains("rx_queue_") && l.contains("_xdp_packets"));
    lines.filter_map(|l| l.rsplit(':').next()?.trim().parse().ok()).collect()
}

#[test]
fn each_worker_serves_its_queues_and_no_packet_is_lost_or_doubled() {
    let net = Between::new(2, Method::Xdp, [4, 4]);
    // Here the second worker has nothing to do with what is on the right; its port waits.
    net.load("FromDevice(left) -> Queue -> ToDevice(right);");
    net.load(CROSS);
    for name in ["left", "right"] {
        let method = "AF_XDP (native, queues 0 2 | 1 3 for 2 workers): as asked for";
        assert_eq!(net.device(name).method, method);
    }
    let (mut left, mut right) = (port(&net.left), port(&net.right));
    exchange(&mut left, &mut right, 20_000);
    for name in ["left", "right"] {
        let queues = by_queue(&net.middle, name);
        assert!(queues.len() == 4 && queues.iter().all(|&n| n > 100), "{name}: {queues:?}");
        let device = net.device(name);
        assert!(device.rx_packets >= 20_000 && device.tx_packets >= 20_000, "{device:?}");
        assert_eq!((device.rx_dropped, device.tx_dropped), (0, 0));
    }
    net.load(&CROSS.replacen("Null", "Null -> Null", 1));
    exchange(&mut left, &mut right, 5_000);

    // Each worker sends what it receives, by its own queue, which the host can see.
    drop(right);
    let netns = Netns::Named(net.right.name().to_owned());
    let options = |queue| af_xdp::Options { queue: Some(queue), ..af_xdp::Options::default() };
    let mut ports = [0, 1, 2, 3].map(|q| AfXdpPort::open_in(&netns, "eth0", &options(q)).unwrap());
    let mut direction = Numbered::new(1, FLOWS);
    left.send(&mut (0..FLOWS).map(|_| direction.next()).collect()).unwrap();
    let (mut by_port, mut out, start) = ([0; 4], Vec::new(), Instant::now());
    while by_port.iter().sum::<u32>() < FLOWS {
        assert!(start.elapsed() < Duration::from_secs(10), "{by_port:?}");
        for (port, n) in ports.iter_mut().zip(&mut by_port) {
            port.receive(&mut out, 64).unwrap();
            for packet in out.drain(..) {
                *n += u32::from(direction.take(packet.bytes()));
            }
        }
    }
    assert!(by_port[0] > 5 && by_port[1] > 5 && by_port[2..] == [0, 0], "{by_port:?}");
}

#[test]
fn one_worker_has_what_is_too_little_for_two() {
    let net = Between::new(2, Method::Xdp, [1, 4]);
    net.load(CROSS);
    assert_eq!(net.device("left").method, "AF_XDP (native, queue 0 for 2 workers): as asked for");
    exchange(&mut port(&net.left), &mut port(&net.right), 10_000);
}

#[test]
fn a_single_worker_serves_all_queues() {
    let net = Between::new(1, Method::Xdp, [4, 2]);
    net.load(CROSS);
    assert_eq!(net.device("left").method, "AF_XDP (native, queues 0 1 2 3): as asked for");
    exchange(&mut port(&net.left), &mut port(&net.right), 10_000);
    for name in ["left", "right"] {
        let queues = by_queue(&net.middle, name);
        assert!(queues.iter().all(|&n| n > 100), "{name}: {queues:?}");
    }
}

#[test]
fn two_workers_share_packet_sockets_where_xdp_cannot_be() {
    let net = Between::new(2, Method::Auto, [4, 4]);
    for name in ["left", "right"] {
        net.middle.exec(&format!("ethtool -K {name} tso off"));
        // Frames of this size do not fit a page.
        net.middle.ip(&format!("link set {name} mtu 9000"));
    }
    net.load(CROSS);
    let method = net.device("left").method;
    assert!(method.starts_with("AF_PACKET: AF_XDP does not work here (left: cannot set up"), "{method}");
    exchange(&mut port(&net.left), &mut port(&net.right), 10_000);
}

#[test]
fn an_interface_comes_back_under_traffic_with_other_queues() {
    let net = Between::new(2, Method::Xdp, [4, 4]);
    net.load(CROSS);
    let mut left = port(&net.left);
    exchange(&mut left, &mut port(&net.right), 2_000);
    for queues in [4, 1, 2, 4] {
        // Packets come in all the time, by all queues.
        let mut noise = Numbered::new(1, 0);
        let mut send = || {
            left.send(&mut (0..16).map(|_| noise.next()).collect()).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        };
        (0..50).for_each(|_| send());
        net.middle.ip("link del right");
        (0..50).for_each(|_| send());
        link(&net.middle, "right", &net.right, queues);
        let method = match queues {
            1 => "queue 0 for 2 workers",
            2 => "queues 0 | 1 for 2 workers",
            _ => "queues 0 2 | 1 3 for 2 workers",
        };
        let until = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < until {
            send();
        }
        net.opens("right", &format!("AF_XDP (native, {method}): as asked for"));
        exchange_when_open(&net, &mut left);
    }
}

/// Exchanges numbered packets as soon as both workers have a port again: the first says so before the other.
fn exchange_when_open(net: &Between, left: &mut AfPacketPort) {
    let (mut right, mut out) = (port(&net.right), Vec::new());
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", net.device("right"));
        let mut directions = [Numbered::new(1, FLOWS), Numbered::new(2, FLOWS)];
        for (side, direction) in [&mut *left, &mut right].into_iter().zip(&mut directions) {
            side.send(&mut (0..FLOWS).map(|_| direction.next()).collect()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(200));
        for (side, direction) in [&mut right, &mut *left].into_iter().zip(&mut directions) {
            while side.receive(&mut out, 64).unwrap() > 0 {}
            direction.take_all(&mut out);
        }
        if directions.iter().all(|w| w.on_way() == 0) {
            break;
        }
    }
    exchange(left, &mut right, 5_000);
}
