//! A load balancer for TCP: gives each connection to the next replica of those that an orchestrator says there are.
//! Usage: balancer PORT PORT-OF-REPLICAS PORT-OF-ORCHESTRATOR

#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weir_vnf::{
    Buffer, Connection, Core, Error, Function, Notice, NoticeError, Protocol, ServerId, Task, Vnf,
};

/// Bytes that wait for a slow side before the other one is held up.
const ENOUGH: usize = 1 << 20;

struct Balancer {
    port: u16,
    replicas: Vec<IpAddr>,
    turn: usize,
}

/// A client and its replica.
type Pair = [Connection; 2];

impl Balancer {
    fn give(&mut self, core: &mut Core<Self>, client: Connection) -> Result<(), Error> {
        self.turn = self.turn.wrapping_add(1);
        let Some(replica) = self.replicas.get(self.turn % self.replicas.len().max(1)) else {
            return core.close(client);
        };
        let replica = core.connect((*replica, self.port).into(), Protocol::Tcp)?;
        let pair = core.attach(client, [client, replica])?;
        core.link(replica, pair)
    }
}

/// The other side of a connection.
fn other(core: &mut Core<Balancer>, connection: Connection) -> Result<Connection, Error> {
    let pair = core.request(connection)?.ok_or(Error::NotLinked)?;
    let [client, replica] = *core.get(pair)?;
    Ok(if connection == client { replica } else { client })
}

/// Passes data on, and holds up where it comes from if the other side is slower.
fn pass(core: &mut Core<Balancer>, from: Connection, data: Buffer) -> Result<(), Error> {
    let to = other(core, from)?;
    core.send(to, data)?;
    if core.queued(to)? > ENOUGH {
        core.pause(from, true)?;
    }
    Ok(())
}

/// What ends one side ends the other, but for a client that has no more to say, and waits for an answer.
fn end(core: &mut Core<Balancer>, connection: Connection, error: &Error) -> Result<(), Error> {
    let other = other(core, connection)?;
    if matches!(error, Error::PeerClosed) && core.server(connection)?.is_some() {
        return Ok(());
    }
    core.close(connection)?;
    core.close(other)
}

impl Function for Balancer {
    type Request = Pair;

    fn accept(&mut self, core: &mut Core<Self>, client: Connection, _: ServerId) {
        if self.give(core, client).is_err() {
            let _ = core.close(client);
        }
    }

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        if pass(core, connection, data).is_err() {
            let _ = core.close(connection);
        }
    }

    fn sent(&mut self, core: &mut Core<Self>, connection: Connection) {
        if let Ok(other) = other(core, connection) {
            let _ = core.pause(other, false);
        }
    }

    fn error(&mut self, core: &mut Core<Self>, connection: Connection, error: &Error) {
        let _ = end(core, connection, error);
    }

    fn notify(&mut self, _: &mut Core<Self>, _: SocketAddr, notice: &Result<Notice, NoticeError>) {
        // While the orchestrator is away, its last word holds.
        if let Ok(notice) = notice {
            self.replicas.retain(|replica| *replica != notice.address);
            if notice.task == Task::Add {
                self.replicas.push(notice.address);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: balancer PORT PORT-OF-REPLICAS PORT-OF-ORCHESTRATOR");
    let (at, port, orchestrator): (u16, u16, u16) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
    let mut vnf = Vnf::new(std::thread::available_parallelism()?.into());
    vnf.server((Ipv4Addr::LOCALHOST, at).into(), Protocol::Tcp, None)?;
    vnf.follow((Ipv4Addr::LOCALHOST, orchestrator).into());
    Ok(vnf.start(move || Balancer { port, replicas: Vec::new(), turn: 0 })?.wait()?)
}
