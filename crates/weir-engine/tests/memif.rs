//! Devices on shared memory: graphs find their peers, and find them again.

#[path = "../../weir-io/tests/common/driver.rs"]
#[allow(dead_code, reason = "it is used in part")]
mod driver;

use std::sync::Arc;
use std::time::Duration;

use driver::{Driver, Setup};
use weir_engine::{Worker, WorkerOptions};
use weir_io::memif::MemifPort;
use weir_io::{Poller, Port, PortError};
use weir_net::build;
use weir_packet::Packet;
use weir_plan::Classes;
use weir_protocol::{Answer, Command as Ask, GraphStatus};

struct Engine(Option<Worker>);

impl Engine {
    fn start(workers: usize, config: &str) -> Engine {
        let options = WorkerOptions { workers, ..WorkerOptions::default() };
        let worker = Worker::start(Arc::new(Classes::default()), options, |_| {}).unwrap();
        let engine = Engine(Some(worker));
        engine.call(Ask::Load {
            graph: "g".into(),
            config: config.into(),
            file: "t".into(),
            tag: String::new(),
            scope: None,
            memory: None,
        });
        engine
    }

    fn call(&self, command: Ask) -> Answer {
        self.0.as_ref().unwrap().handle().call(command).unwrap()
    }

    fn status(&self) -> GraphStatus {
        let Answer::Status { status } = self.call(Ask::Status { graph: "g".into() }) else { panic!() };
        status
    }

    fn read(&self, handler: &str) -> String {
        let Answer::Text { text } = self.call(Ask::Read { graph: "g".into(), handler: handler.into() })
        else {
            panic!()
        };
        text
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(worker) = self.0.take() else { return };
        let _ = worker.handle().call(Ask::Shutdown);
        worker.join();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited in vain for {what}");
}

fn open(name: &str) -> MemifPort {
    MemifPort::open(&name.parse().unwrap()).unwrap()
}

fn is_up(port: &mut MemifPort) -> bool {
    let _ = port.receive(&mut Vec::new(), 1);
    port.is_up() == Some(true)
}

/// Of so many flows are the packets.
const FLOWS: u16 = 8;

fn packet(number: u16) -> Packet {
    let at = |host| std::net::Ipv4Addr::new(10, 9, 0, host);
    Packet::from_bytes(&build::udp4((at(1), number % FLOWS), (at(2), 9), &number.to_be_bytes())).unwrap()
}

/// Each packet has come once, those of each flow in order.
fn comes_once(mut came: Vec<u16>) {
    for flow in 0..FLOWS {
        assert!(came.iter().filter(|n| *n % FLOWS == flow).is_sorted(), "packets of a flow keep their order");
    }
    came.sort_unstable();
    assert!(came.into_iter().eq(0..2000), "each packet comes once");
}

/// Sends packets by one port, and gets those of each flow in order by the other.
fn passes(from: &mut MemifPort, to: &mut MemifPort) {
    let poller = Poller::new().unwrap();
    poller.add(0, to.fd().unwrap()).unwrap();
    let (mut next, mut came, mut batch, mut out) = (0, Vec::new(), Vec::new(), Vec::new());
    until("all packets", || {
        // No more on their way than a device queues.
        while next < 2000 && batch.len() < 32 && usize::from(next) - came.len() < 500 {
            batch.push(packet(next));
            next += 1;
        }
        from.send(&mut batch).unwrap();
        poller.sleep(Some(Duration::from_millis(1)), &mut Vec::new()).unwrap();
        while to.receive(&mut out, 32).unwrap() > 0 {}
        came.extend(out.drain(..).map(|p| u16::from_be_bytes(p.bytes()[42..44].try_into().unwrap())));
        came.len() == 2000
    });
    comes_once(came);
    poller.remove(to.fd().unwrap()).unwrap();
}

#[test]
fn graphs_wait_for_their_peers_and_find_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let [left, right] = ["left", "right"].map(|n| format!("memif:{}", dir.path().join(n).display()));
    for workers in [1, 2] {
        let engine = Engine::start(
            workers,
            &format!(
                "FromDevice({left}?role=master) -> out :: ToDevice({right}); FromDevice({right}) -> ToDevice({left}?role=master);"
            ),
        );
        let device = |name: &str| {
            let devices = engine.status().devices;
            devices.into_iter().find(|d| d.name.starts_with(name)).unwrap()
        };
        until("the device to say so", || device(&left).state.contains("nobody has connected yet"));
        assert_eq!(device(&left).method, "memif (master)");
        assert_eq!(device(&right).method, "memif (slave)");
        for _ in 0..2 {
            let mut lefty = open(&left);
            let mut righty = open(&format!("{right}?role=master"));
            until("both peers", || is_up(&mut lefty) && is_up(&mut righty));
            until("the devices to be up", || device(&left).state == "up" && device(&right).state == "up");
            passes(&mut lefty, &mut righty);
            passes(&mut righty, &mut lefty);
            drop(righty);
            until("the device to say so", || device(&right).state.contains("no peer"));
            let before = engine.read("out.drops").parse::<u64>().unwrap();
            assert_eq!(lefty.send(&mut vec![packet(1), packet(2)]).unwrap(), 2);
            until("the drops", || engine.read("out.drops").parse::<u64>().unwrap() == before + 2);
            assert!(engine.status().drops["out"]["DeviceDown"] >= 2);
            drop(lefty);
            until("the device to say so", || device(&left).state.contains("no peer"));
        }
    }
}

#[test]
fn a_network_card_of_a_machine_is_open_once() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("vhost-user:{}", dir.path().join("v.sock").display());
    for workers in [1, 2] {
        let engine = Engine::start(workers, &format!("FromDevice({name}) -> ToDevice({name});"));
        let device = || engine.status().devices.into_iter().find(|d| d.name == name).unwrap();
        until("the device to say so", || device().state.contains("nobody has connected yet"));
        assert_eq!(device().method, "vhost-user (server)");
        // A front end that leaves without a word.
        drop(std::os::unix::net::UnixStream::connect(dir.path().join("v.sock")).unwrap());
        until("the device to say so", || device().state.contains("no peer"));
        // Machines that come and go.
        for _ in 0..2 {
            let mut machine = Driver::connect(&dir.path().join("v.sock"), Setup::default());
            until("the device to be up", || device().state == "up");
            let (mut next, mut came, mut out) = (0, Vec::new(), Vec::new());
            until("all packets", || {
                let mut batch = Vec::new();
                while next < 2000 && batch.len() < 16 && usize::from(next) - came.len() < 64 {
                    batch.push(packet(next));
                    next += 1;
                }
                machine.send(&mut batch).unwrap();
                next -= batch.len() as u16;
                machine.receive(&mut out, 64).unwrap();
                came.extend(out.drain(..).map(|p| u16::from_be_bytes(p.bytes()[42..44].try_into().unwrap())));
                came.len() == 2000
            });
            comes_once(came);
            drop(machine);
            until("the device to say so", || device().state.contains("no peer"));
        }
    }
}

#[test]
fn what_is_wrong_with_a_name_is_said() {
    let worker = Worker::start(Arc::new(Classes::default()), WorkerOptions::default(), |_| {}).unwrap();
    let engine = Engine(Some(worker));
    let load = |config: &str| {
        let answer = engine.0.as_ref().unwrap().handle().call(Ask::Load {
            graph: "g".into(),
            config: config.into(),
            file: "t".into(),
            tag: String::new(),
            scope: None,
            memory: None,
        });
        format!("{answer:?}")
    };
    assert!(load("FromDevice(memif:../a) -> Discard;").contains("without .."));
    assert!(load("Idle -> ToDevice(memif:/a?size=4);").contains("there is no `size`"));
    assert!(load("FromDevice(memif:/none/such?role=master) -> Discard;").contains("listen on its socket"));
    assert!(load("FromDevice(vhost-user:../a) -> Discard;").contains("without .."));
    assert!(load("Idle -> ToDevice(vhost-user:/a?ring=4);").contains("there is no `ring`"));
    assert!(load("FromDevice(vhost-user:/none/such) -> Discard;").contains("listen on its socket"));
    // It is waited for.
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("later").join("m.sock");
    load(&format!(
        "FromDevice(memif:{}?role=master, WAIT true) -> c :: Counter -> Discard;",
        socket.display()
    ));
    std::fs::create_dir(dir.path().join("later")).unwrap();
    until("the socket", || socket.exists());
    let mut port = open(&format!("memif:{}", socket.display()));
    until("the peer", || is_up(&mut port));
    until("the packet", || match port.send(&mut vec![packet(1)]) {
        Ok(_) => engine.read("c.count") != "0",
        Err(PortError::NoPeer { .. }) => false,
        Err(e) => panic!("{e}"),
    });
}
