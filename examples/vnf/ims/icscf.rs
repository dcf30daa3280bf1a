//! The I-CSCF: asks the HSS which S-CSCF serves a user, and goes to one of its replicas. When one fails, its requests go to the next.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_vnf::{Buffer, Connection, Core, Error, Function, Protocol, RequestId, Running, Vnf};

use crate::cx::Host;
use crate::peer::Hss;
use crate::sip::{Input, Message};

struct Icscf {
    port: u16,
    hss: Hss,
    replicas: Vec<(SocketAddr, Option<Connection>, Input)>,
    /// The replica that the next request goes to.
    turn: usize,
    number: u64,
    forwarded: HashMap<u64, RequestId>,
}

enum Request {
    Input(Input),
    /// The first replica that it is sent to, and how many it was sent to.
    Register {
        from: Connection,
        request: Box<Message>,
        first: usize,
        tried: usize,
    },
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

impl Icscf {
    fn request_data(&mut self, core: &mut Core<Self>, from: Connection, data: &[u8]) -> Outcome {
        let id = match core.request(from)? {
            Some(id) => id,
            None => core.attach(from, Request::Input(Input::default()))?,
        };
        if let Request::Input(input) = core.get(id)? {
            input.push(data);
        }
        while let Request::Input(input) = core.get(id)?
            && let Some(request) = input.next(false)?
        {
            let Ok(asked) = request.registration() else {
                core.send_bytes(from, &request.response(400, "Bad Request", &[]))?;
                continue;
            };
            self.turn = (self.turn + 1) % self.replicas.len().max(1);
            let id = core.attach(
                from,
                Request::Register { from, request: Box::new(request), first: self.turn, tried: 0 },
            )?;
            self.hss.ask(core, id, |host, number| {
                host.user_authorization(number, &asked.private, &asked.public, asked.expires == 0)
            })?;
        }
        Ok(())
    }

    fn hss_data(&mut self, core: &mut Core<Self>, hss: Connection, data: &[u8]) -> Outcome {
        for (id, answer) in self.hss.read(core, hss, data)? {
            if answer.succeeded() {
                self.forward(core, id);
            } else {
                Self::respond(core, id, 403, "Forbidden");
            }
        }
        Ok(())
    }

    /// Sends a request to the next replica, if one is left that it was not sent to.
    fn forward(&mut self, core: &mut Core<Self>, id: RequestId) {
        while let Ok(Request::Register { request, first, tried, .. }) = core.get(id) {
            if *tried == self.replicas.len() {
                return Self::respond(core, id, 504, "Server Time-out");
            }
            let n = (*first + *tried) % self.replicas.len();
            *tried += 1;
            self.number += 1;
            let mut request = request.clone();
            request.forward(self.port, self.number);
            let (at, connection, _) = &mut self.replicas[n];
            let connected = connection.map_or_else(|| core.connect(*at, Protocol::Tcp), Ok);
            *connection = connected.as_ref().ok().copied();
            if let Ok(replica) = connected
                && core.link(replica, id).and_then(|()| core.send_bytes(replica, &request.bytes())).is_ok()
            {
                self.forwarded.insert(self.number, id);
                return;
            }
        }
    }

    fn replica_data(&mut self, core: &mut Core<Self>, n: usize, replica: Connection, data: &[u8]) -> Outcome {
        self.replicas[n].2.push(data);
        while let Some(mut response) = self.replicas[n].2.next(false)? {
            let Some(id) = response.number().and_then(|n| self.forwarded.remove(&n)) else { continue };
            if let Ok(&mut Request::Register { from, .. }) = core.get(id) {
                response.back();
                let _ = core.send_bytes(from, &response.bytes());
                let _ = core.unlink(from, id);
            }
            core.unlink(replica, id)?;
        }
        Ok(())
    }

    fn respond(core: &mut Core<Self>, id: RequestId, status: u16, reason: &str) {
        if let Ok(Request::Register { from, request, .. }) = core.get(id) {
            let (from, response) = (*from, request.response(status, reason, &[]));
            let _ = core.send_bytes(from, &response);
            let _ = core.unlink(from, id);
        }
    }

    fn lost(&mut self, core: &mut Core<Self>, connection: Connection) {
        if self.hss.is(connection) {
            for id in self.hss.lost() {
                Self::respond(core, id, 504, "Server Time-out");
            }
        } else if let Some(n) = self.replicas.iter().position(|r| r.1 == Some(connection)) {
            self.replicas[n].1 = None;
            self.replicas[n].2 = Input::default();
            for id in core.linked(connection).map(<[_]>::to_vec).unwrap_or_default() {
                self.forwarded.retain(|_, other| *other != id);
                self.forward(core, id);
            }
        }
        let _ = core.close(connection);
    }
}

impl Function for Icscf {
    type Request = Request;

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        let outcome = if self.hss.is(connection) {
            self.hss_data(core, connection, &data)
        } else if let Some(n) = self.replicas.iter().position(|r| r.1 == Some(connection)) {
            self.replica_data(core, n, connection, &data)
        } else {
            self.request_data(core, connection, &data)
        };
        if outcome.is_err() {
            self.lost(core, connection);
        }
    }

    fn error(&mut self, core: &mut Core<Self>, connection: Connection, _: &Error) {
        self.lost(core, connection);
    }
}

/// Starts it, before replicas of the S-CSCF.
pub fn start(
    mut vnf: Vnf,
    at: SocketAddr,
    hss: SocketAddr,
    replicas: Vec<SocketAddr>,
) -> Result<Running, Error> {
    vnf.server(at, Protocol::Tcp, None)?;
    vnf.start(move || Icscf {
        port: at.port(),
        hss: Hss::new(hss, Host("icscf")),
        replicas: replicas.iter().map(|at| (*at, None, Input::default())).collect(),
        turn: 0,
        number: 0,
        forwarded: HashMap::new(),
    })
}
