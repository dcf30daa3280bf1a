//! Numbered datagrams of many flows, and what becomes of them. This program starts itself for it, in namespaces of hosts.

use std::collections::HashMap;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Ports at which flows arrive, each with a socket of its own: so that many packets that come at once find space.
pub const PORTS: std::ops::Range<u16> = 5300..5316;
/// A pause of the stream that is kept.
const LONG: u64 = 500_000;

/// The figures of a stream that was received.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Received {
    /// Packets that came.
    pub packets: u64,
    /// Packets that came after a later one of their flow.
    pub reordered: u64,
    /// Packets that came again.
    pub doubled: u64,
    /// Packets that did not come, of those before the last of each flow.
    pub lost: u64,
    /// Times between packets that were long: when the later came, in nanoseconds since the epoch, and how long it was.
    pub gaps: Vec<(u64, u64)>,
    /// How many came in each hundredth of a second since the epoch.
    pub by_time: Vec<(u64, u64)>,
}

/// Sends, or receives, until its standard input ends.
pub fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["send", address, flows, rate] => send(address.parse()?, flows.parse()?, rate.parse()?),
        ["fill", flows] => fill(flows.parse()?),
        ["receive"] => {
            println!("{}", serde_json::to_string(&receive()?)?);
            Ok(())
        }
        _ => bail!("send ADDRESS FLOWS RATE, fill FLOWS, or receive"),
    }
}

fn until_input_ends(over: &AtomicBool) {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    over.store(true, Ordering::Relaxed);
}

fn send(to: Ipv4Addr, flows: usize, rate: u64) -> Result<()> {
    let ports = PORTS.len();
    let socket = |i: usize| -> Result<UdpSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 20_000 + i as u16))?;
        socket.connect((to, PORTS.start + (i % ports) as u16))?;
        Ok(socket)
    };
    let sockets: Vec<UdpSocket> =
        (0..flows).map(socket).collect::<Result<_>>().context("a socket for each flow")?;
    let over = AtomicBool::new(false);
    let (begun, mut n) = (Instant::now(), 0_u64);
    thread::scope(|s| {
        s.spawn(|| until_input_ends(&over));
        while !over.load(Ordering::Relaxed) {
            let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
            while n < due {
                let (flow, number) = (n % flows as u64, n / flows as u64);
                let mut packet = [0; 64];
                packet[..8].copy_from_slice(&number.to_be_bytes());
                packet[8..12].copy_from_slice(&(flow as u32).to_be_bytes());
                // What the sender's own machine has no space for was not sent.
                while sockets[flow as usize].send(&packet).is_err() {
                    thread::sleep(Duration::from_micros(50));
                }
                n += 1;
            }
            thread::sleep(Duration::from_micros(100));
        }
    });
    println!("{n}");
    Ok(())
}

/// One packet of each of many flows, to where nobody is.
fn fill(flows: u32) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 19_999))?;
    for i in 0..flows {
        let to = SocketAddr::from((Ipv4Addr::new(10, 2, 8 + (i >> 14) as u8, 1), 1024 + (i & 0x3fff) as u16));
        while socket.send_to(&[0; 32], to).is_err() {
            thread::sleep(Duration::from_micros(50));
        }
        if i % 64 == 63 {
            thread::sleep(Duration::from_millis(4));
        }
    }
    Ok(())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64)
}

/// What one socket got: time, flow and number of each packet.
fn arrivals(socket: &UdpSocket, over: &AtomicBool) -> Result<Vec<(u64, u32, u64)>> {
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (mut all, mut packet) = (Vec::new(), [0; 128]);
    loop {
        match socket.recv(&mut packet) {
            Ok(n) if n >= 12 => {
                let number = packet[..8].iter().fold(0, |n, &b| n << 8 | u64::from(b));
                let flow = packet[8..12].iter().fold(0, |n, &b| n << 8 | u32::from(b));
                all.push((now(), flow, number));
            }
            Ok(_) => {}
            Err(_) if over.load(Ordering::Relaxed) => return Ok(all),
            Err(_) => {}
        }
    }
}

fn receive() -> Result<Received> {
    let over = AtomicBool::new(false);
    let sockets: Vec<UdpSocket> =
        PORTS.map(|port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))).collect::<Result<_, _>>()?;
    println!("ready");
    let parts: Vec<Result<Vec<(u64, u32, u64)>>> = thread::scope(|s| {
        let threads: Vec<_> = sockets.iter().map(|socket| s.spawn(|| arrivals(socket, &over))).collect();
        until_input_ends(&over);
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| bail!("a receiver failed"))).collect()
    });
    let mut said = Received::default();
    let mut times = Vec::new();
    // All packets of a flow come by one socket, in the order in which they arrive.
    let mut flows: HashMap<u32, (u64, Vec<bool>)> = HashMap::new();
    for part in parts {
        for (time, flow, number) in part? {
            times.push(time);
            let (last, seen) = flows.entry(flow).or_default();
            let at = number as usize;
            if seen.len() <= at {
                seen.resize(at + 1, false);
            }
            said.doubled += u64::from(seen[at]);
            said.reordered += u64::from(!seen[at] && number < *last);
            seen[at] = true;
            *last = number.max(*last);
        }
    }
    said.packets = times.len() as u64;
    said.lost = flows.values().flat_map(|(_, seen)| seen).filter(|came| !**came).count() as u64;
    times.sort_unstable();
    let long = times.windows(2).map(|w| (w[1], w[1] - w[0])).filter(|(_, gap)| *gap > LONG);
    said.gaps = long.collect();
    for time in times {
        let slot = time / 10_000_000;
        match said.by_time.last_mut() {
            Some((last, n)) if *last == slot => *n += 1,
            _ => said.by_time.push((slot, 1)),
        }
    }
    Ok(said)
}
