//! A of figure 2: sends COUNT requests of 32 bytes to B over CONNECTIONS connections of each core, the next when an answer has come, and
//! checks the answers. Usage: a PORT-OF-B CONNECTIONS COUNT [ADDRESS-OF-B]

#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use weir_vnf::{Buffer, Connection, Core, Error, Function, Protocol, Vnf};

const LEN: usize = 32;

struct A {
    b: SocketAddr,
    connections: usize,
    /// How many requests were sent, and how many are to be.
    numbers: Arc<std::sync::atomic::AtomicUsize>,
    count: usize,
    /// For each answer, whether it is right.
    answers: Sender<bool>,
}

impl A {
    fn ask(&self, core: &mut Core<Self>, b: Connection) -> Result<(), Error> {
        let number = self.numbers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if number >= self.count {
            return core.close(b);
        }
        core.send_bytes(b, &[number as u8; LEN])
    }
}

impl Function for A {
    type Request = ();

    fn start(&mut self, core: &mut Core<Self>) {
        for _ in 0..self.connections {
            match core.connect(self.b, Protocol::Tcp) {
                Ok(b) => drop(self.ask(core, b)),
                Err(error) => eprintln!("B: {error}"),
            }
        }
    }

    fn read(&mut self, core: &mut Core<Self>, b: Connection, data: Buffer) {
        // A number and its successor differ in their lowest bits.
        let right =
            data.len() == LEN && data.iter().all(|byte| *byte == data[0] && byte & byte.wrapping_add(1) == 0);
        let _ = self.answers.send(right);
        let _ = self.ask(core, b);
    }

    fn error(&mut self, _: &mut Core<Self>, _: Connection, error: &Error) {
        eprintln!("B: {error}");
        let _ = self.answers.send(false);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: a PORT-OF-B CONNECTIONS COUNT [ADDRESS-OF-B]");
    let port: u16 = next()?.parse()?;
    let (connections, count): (usize, usize) = (next()?.parse()?, next()?.parse()?);
    let address: IpAddr = next().map_or(Ok(Ipv4Addr::LOCALHOST.into()), |a| a.parse())?;
    let b = (address, port).into();
    let (sender, answers) = channel();
    let numbers = Arc::default();
    let runs = Vnf::new(std::thread::available_parallelism()?.into()).start(move || A {
        b,
        connections,
        numbers: Arc::clone(&numbers),
        count,
        answers: sender.clone(),
    })?;
    // Up to the first that is wrong.
    let right = answers.iter().take(count).take_while(|right| *right).count();
    runs.stop()?;
    println!("{right} right answers");
    if right == count { Ok(()) } else { Err("a wrong answer, or none".into()) }
}
