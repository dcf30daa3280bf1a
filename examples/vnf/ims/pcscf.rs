//! The P-CSCF: where users reach the IMS, by TCP or UDP.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use weir_vnf::{Buffer, Connection, Core, Error, Function, Protocol, RequestId, Running, ServerId, Vnf};

use crate::sip::{Input, Message, Wrong};

/// Requests that are kept with their responses: a datagram comes again if the network lost the response, or was slow.
const KEPT: usize = 10_000;

struct Pcscf {
    port: u16,
    udp: ServerId,
    icscf_at: SocketAddr,
    icscf: Option<Connection>,
    input: Input,
    number: u64,
    forwarded: HashMap<u64, RequestId>,
    /// Requests that came as datagrams, by their first Via, with the responses that they got.
    known: HashMap<String, Option<Vec<u8>>>,
    /// The keys of `known`, the oldest first.
    kept: VecDeque<String>,
}

enum Request {
    /// What came of a user's stream.
    Input(Input),
    Register {
        user: Connection,
        request: Box<Message>,
    },
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

impl Pcscf {
    fn user_data(&mut self, core: &mut Core<Self>, user: Connection, data: &[u8]) -> Outcome {
        if core.server(user)? == Some(self.udp) {
            let mut input = Input::default();
            input.push(data);
            return input.next(true)?.map_or(Ok(()), |request| self.register(core, user, request));
        }
        let id = match core.request(user)? {
            Some(id) => id,
            None => core.attach(user, Request::Input(Input::default()))?,
        };
        if let Request::Input(input) = core.get(id)? {
            input.push(data);
        }
        while let Request::Input(input) = core.get(id)?
            && let Some(request) = input.next(false)?
        {
            self.register(core, user, request)?;
        }
        Ok(())
    }

    fn register(&mut self, core: &mut Core<Self>, user: Connection, request: Message) -> Outcome {
        if !request.is_request() {
            return Ok(());
        }
        if !request.is_register() {
            return Ok(core.send_bytes(user, &request.response(501, "Not Implemented", &[]))?);
        }
        if let Err(Wrong(why)) = request.registration() {
            return Ok(core.send_bytes(user, &request.response(400, &format!("Bad Request: {why}"), &[]))?);
        }
        // A datagram that comes again: its request is under way, or was answered.
        let via = request.via();
        match self.known.get(&via) {
            Some(None) => return Ok(()),
            Some(Some(response)) => return Ok(core.send_bytes(user, response)?),
            None if core.server(user)? == Some(self.udp) => self.keep(via),
            None => {}
        }
        self.number += 1;
        let mut forwarded = request.clone();
        if !forwarded.forward(self.port, self.number) {
            return Ok(core.send_bytes(user, &request.response(483, "Too Many Hops", &[]))?);
        }
        forwarded.headers.insert("Path", format!("<sip:127.0.0.1:{};lr>", self.port));
        forwarded.headers.insert("P-Visited-Network-ID", "ims.example");
        let icscf = match self.icscf {
            Some(icscf) => icscf,
            None => *self.icscf.insert(core.connect(self.icscf_at, Protocol::Tcp)?),
        };
        let id = core.attach(user, Request::Register { user, request: Box::new(request) })?;
        core.link(icscf, id)?;
        self.forwarded.insert(self.number, id);
        Ok(core.send_bytes(icscf, &forwarded.bytes())?)
    }

    fn icscf_data(&mut self, core: &mut Core<Self>, icscf: Connection, data: &[u8]) -> Outcome {
        self.input.push(data);
        while let Some(mut response) = self.input.next(false)? {
            let Some(id) = response.number().and_then(|n| self.forwarded.remove(&n)) else { continue };
            // The user may be gone.
            if let Ok(&mut Request::Register { user, .. }) = core.get(id) {
                response.back();
                let bytes = response.bytes();
                let _ = core.send_bytes(user, &bytes);
                if let Some(known) = self.known.get_mut(&response.via()) {
                    *known = Some(bytes);
                }
                let _ = core.unlink(user, id);
            }
            core.unlink(icscf, id)?;
        }
        Ok(())
    }

    fn keep(&mut self, via: String) {
        if self.kept.len() == KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.kept.push_back(via.clone());
        self.known.insert(via, None);
    }

    fn icscf_lost(&mut self, core: &mut Core<Self>) {
        (self.icscf, self.input) = (None, Input::default());
        for id in std::mem::take(&mut self.forwarded).into_values() {
            if let Ok(Request::Register { user, request }) = core.get(id) {
                let (user, response) = (*user, request.response(504, "Server Time-out", &[]));
                let _ = core.send_bytes(user, &response);
                let _ = core.unlink(user, id);
            }
        }
    }
}

impl Function for Pcscf {
    type Request = Request;

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        if self.icscf != Some(connection) {
            if self.user_data(core, connection, &data).is_err() {
                let _ = core.close(connection);
            }
        } else if self.icscf_data(core, connection, &data).is_err() {
            self.icscf_lost(core);
            let _ = core.close(connection);
        }
    }

    fn error(&mut self, core: &mut Core<Self>, connection: Connection, _: &Error) {
        if self.icscf == Some(connection) {
            self.icscf_lost(core);
        }
        let _ = core.close(connection);
    }
}

/// Starts it, before an I-CSCF.
pub fn start(mut vnf: Vnf, at: SocketAddr, icscf_at: SocketAddr) -> Result<Running, Error> {
    vnf.server(at, Protocol::Tcp, None)?;
    let (udp, _) = vnf.server(at, Protocol::Udp, None)?;
    vnf.start(move || Pcscf {
        port: at.port(),
        udp,
        icscf_at,
        icscf: None,
        input: Input::default(),
        number: 0,
        forwarded: HashMap::new(),
        known: HashMap::new(),
        kept: VecDeque::new(),
    })
}
