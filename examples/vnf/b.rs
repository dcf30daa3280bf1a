//! B of figure 2: asks C for each request of 32 bytes, and answers with both. Usage: b PORT PORT-OF-C [ADDRESS ADDRESS-OF-C]

#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weir_vnf::{Buffer, Connection, Core, Error, Function, Protocol, Vnf};

const LEN: usize = 32;

struct B {
    c: SocketAddr,
}

struct Request {
    a: Connection,
    question: Buffer,
}

impl B {
    fn ask(&self, core: &mut Core<Self>, a: Connection, question: Buffer) -> Result<(), Error> {
        let c = core.connect(self.c, Protocol::Tcp)?;
        core.send_bytes(c, &question)?;
        let request = core.attach(a, Request { a, question })?;
        core.link(c, request)
    }

    fn answer(core: &mut Core<Self>, c: Connection, mut reply: Buffer) -> Result<(), Error> {
        let Some(id) = core.request(c)? else { return core.close(c) };
        let request = core.get(id)?;
        for (byte, asked) in reply.iter_mut().zip(&*request.question) {
            *byte ^= asked;
        }
        let a = request.a;
        core.send(a, reply)?;
        core.unlink(a, id)?;
        core.close(c)
    }
}

impl Function for B {
    type Request = Request;

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        let outcome = match core.server(connection) {
            Ok(Some(_)) if data.len() == LEN => self.ask(core, connection, data),
            Ok(None) => Self::answer(core, connection, data),
            _ => Err(Error::NotLinked),
        };
        if outcome.is_err() {
            let _ = core.close(connection);
        }
    }

    /// C is down: the end of its connection is A's answer.
    fn error(&mut self, core: &mut Core<Self>, connection: Connection, _: &Error) {
        if let Ok(None) = core.server(connection)
            && let Ok(Some(id)) = core.request(connection)
            && let Ok(Request { a, .. }) = core.get(id)
        {
            let a = *a;
            let _ = core.close(a);
            let _ = core.close(connection);
        }
    }
}

/// Serves at a port, and asks C at another, with so many loops.
pub fn serve(port: u16, c: u16, cores: usize) -> Result<(), Error> {
    serve_at((Ipv4Addr::LOCALHOST, port).into(), (Ipv4Addr::LOCALHOST, c).into(), cores)
}

/// The same with any addresses.
pub fn serve_at(address: SocketAddr, c: SocketAddr, cores: usize) -> Result<(), Error> {
    let mut vnf = Vnf::new(cores);
    vnf.server(address, Protocol::Tcp, None)?;
    vnf.start(move || B { c })?.wait()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: b PORT PORT-OF-C [ADDRESS ADDRESS-OF-C]");
    let (port, c): (u16, u16) = (next()?.parse()?, next()?.parse()?);
    let cores = std::thread::available_parallelism()?.into();
    let Ok(own) = next() else { return Ok(serve(port, c, cores)?) };
    let (own, of_c): (IpAddr, IpAddr) = (own.parse()?, next()?.parse()?);
    Ok(serve_at((own, port).into(), (of_c, c).into(), cores)?)
}
