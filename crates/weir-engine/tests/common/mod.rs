//! An engine whose devices are queues in memory.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;

use weir_engine::{Engine, Stopped, Until};
use weir_io::Port;
use weir_io::memory::MemoryPort;
use weir_packet::Packet;
use weir_plan::Classes;

/// An engine with the devices `names`, and the far ends of these.
pub fn engine(names: &[&str]) -> (Engine, Vec<MemoryPort>) {
    let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
    engine.set_time(1_000_000_000);
    engine.set_seed(1);
    let (near, far): (Vec<_>, Vec<_>) = names
        .iter()
        .map(|name| {
            let (near, far) = MemoryPort::pair([name, "far"], 4096).unwrap();
            (((*name).to_owned(), Box::new(near) as Box<dyn Port>), far)
        })
        .unzip();
    engine.set_ports(near);
    (engine, far)
}

/// Runs until nothing is left to do at the current time.
pub fn settle(engine: &mut Engine) {
    engine.sleep(Some(std::time::Duration::ZERO)).unwrap();
    for _ in 0..1000 {
        if !engine.round().unwrap() {
            return;
        }
    }
    panic!("the engine does not come to rest");
}

/// Runs a configuration that ends by itself.
pub fn run(engine: &mut Engine, config: &str) -> Stopped {
    engine.load("g", config, "test.click").unwrap_or_else(|e| panic!("{e}"));
    engine.run(&Until::default()).unwrap()
}

/// Sends packets into a device.
pub fn send(port: &mut MemoryPort, packets: impl IntoIterator<Item = Vec<u8>>) {
    let mut batch: Vec<Packet> = packets.into_iter().map(|b| Packet::from_bytes(&b).unwrap()).collect();
    port.send(&mut batch).unwrap();
    assert!(batch.is_empty(), "the port's queue is long enough");
}

/// All that a device has sent.
pub fn received(port: &mut MemoryPort) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    port.receive(&mut out, usize::MAX).unwrap();
    out.iter().map(|p| p.bytes().to_vec()).collect()
}

/// A frame that bears a number.
pub fn numbered(n: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[14..18].copy_from_slice(&n.to_be_bytes());
    frame
}

/// The number that a frame bears.
pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

/// The answer to a packet that came out without its Ethernet header: its addresses and ports in each other's place.
pub fn answer(packet: &[u8]) -> Vec<u8> {
    let mut f = vec![0; 14];
    f.extend(packet);
    for i in 0..4 {
        f.swap(14 + 12 + i, 14 + 16 + i);
    }
    f.swap(34, 36);
    f.swap(35, 37);
    f
}
