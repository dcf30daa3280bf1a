//! A reverse proxy for HTTP/1.1: a request a connection, passed on to a server with a header that says so. Usage: proxy PORT PORT-OF-SERVER [ADDRESS ADDRESS-OF-SERVER]

#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weir_vnf::{Buffer, Connection, Core, Error, Function, Protocol, RequestId, Vnf};

/// Bytes of the head of a request.
const HEAD: usize = 16384;
/// Bytes that wait for a slow side before the other one is held up.
const ENOUGH: usize = 1 << 20;

struct Proxy {
    server: SocketAddr,
}

struct Request {
    client: Connection,
    /// None until the head of the request is there.
    server: Option<Connection>,
    head: Vec<u8>,
    answered: bool,
}

fn refuse(core: &mut Core<Proxy>, client: Connection, status: &str) -> Result<(), Error> {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    core.send_bytes(client, text.as_bytes())?;
    core.close(client)
}

/// The head without the client's wish for the connection, and with ours; what stands behind it.
pub fn rewrite(head: &[u8], end: usize) -> Vec<u8> {
    let mut new = Vec::with_capacity(head.len() + 64);
    for line in head[..end].split_inclusive(|byte| *byte == b'\n') {
        if !line.get(..11).is_some_and(|name| name.eq_ignore_ascii_case(b"connection:")) {
            new.extend_from_slice(line);
        }
    }
    new.extend_from_slice(b"Via: 1.1 weir\r\nConnection: close\r\n");
    new.extend_from_slice(&head[end..]);
    new
}

/// Passes data on, and holds up where it comes from if the other side is slower.
fn pass(core: &mut Core<Proxy>, from: Connection, to: Connection, data: Buffer) -> Result<(), Error> {
    core.send(to, data)?;
    if core.queued(to)? > ENOUGH {
        core.pause(from, true)?;
    }
    Ok(())
}

impl Proxy {
    fn client_data(&self, core: &mut Core<Self>, client: Connection, data: Buffer) -> Result<(), Error> {
        let id = match core.request(client)? {
            Some(id) => id,
            None => {
                core.attach(client, Request { client, server: None, head: Vec::new(), answered: false })?
            }
        };
        let request = core.get(id)?;
        if let Some(server) = request.server {
            return pass(core, client, server, data);
        }
        request.head.extend_from_slice(&data);
        if request.head.len() >= HEAD {
            return refuse(core, client, "431 Request Header Fields Too Large");
        }
        if request.head.contains(&0) {
            return refuse(core, client, "400 Bad Request");
        }
        let Some(end) = request.head.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(()) };
        let head = rewrite(&request.head, end + 2);
        let server = core.connect(self.server, Protocol::Tcp)?;
        core.link(server, id)?;
        core.get(id)?.server = Some(server);
        core.send_bytes(server, &head)
    }

    fn server_data(core: &mut Core<Self>, server: Connection, data: Buffer) -> Result<(), Error> {
        let Some(id) = core.request(server)? else { return core.close(server) };
        let request = core.get(id)?;
        request.answered = true;
        let client = request.client;
        pass(core, server, client, data)
    }

    fn ended(
        core: &mut Core<Self>,
        connection: Connection,
        id: RequestId,
        error: &Error,
    ) -> Result<(), Error> {
        let &mut Request { client, server, answered, .. } = core.get(id)?;
        if connection != client {
            core.close(connection)?;
            return if answered { core.close(client) } else { refuse(core, client, "502 Bad Gateway") };
        }
        // A client that sends no more may still get an answer.
        match server {
            Some(_) if matches!(error, Error::PeerClosed) => Ok(()),
            Some(server) => core.close(server).and(core.close(client)),
            None => core.close(client),
        }
    }
}

impl Function for Proxy {
    type Request = Request;

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        let outcome = match core.server(connection) {
            Ok(Some(_)) => self.client_data(core, connection, data),
            _ => Self::server_data(core, connection, data),
        };
        if outcome.is_err() {
            let _ = core.close(connection);
        }
    }

    fn sent(&mut self, core: &mut Core<Self>, connection: Connection) {
        if let Ok(Some(id)) = core.request(connection)
            && let Ok(&mut Request { client, server: Some(server), .. }) = core.get(id)
        {
            let other = if connection == client { server } else { client };
            let _ = core.pause(other, false);
        }
    }

    fn error(&mut self, core: &mut Core<Self>, connection: Connection, error: &Error) {
        if let Ok(Some(id)) = core.request(connection) {
            let _ = Self::ended(core, connection, id, error);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: proxy PORT PORT-OF-SERVER [ADDRESS ADDRESS-OF-SERVER]");
    let (port, server): (u16, u16) = (next()?.parse()?, next()?.parse()?);
    let mut address = || next().map_or(Ok(IpAddr::from(Ipv4Addr::LOCALHOST)), |a| a.parse());
    let (own, server) = (address()?, (address()?, server).into());
    let mut vnf = Vnf::new(std::thread::available_parallelism()?.into());
    vnf.server((own, port).into(), Protocol::Tcp, None)?;
    Ok(vnf.start(move || Proxy { server })?.wait()?)
}
