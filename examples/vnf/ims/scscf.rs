//! The S-CSCF: asks users who they are, and keeps where they can be reached. All that it has to remember is in Redis, so that the next
//! request of a user may come to another replica. A challenge holds until the user's next one.

use std::net::SocketAddr;

use weir_vnf::{Buffer, CacheUse, Connection, Core, Error, Function, Protocol, RequestId, Running, Vnf};

use crate::cx::{self, Host, MULTIMEDIA_AUTH};
use crate::peer::Hss;
use crate::sip::{Input, Message, REALM, Registration, hash};

/// Tables: challenges (nonce, hash of the password) by private, places by public identity.
const CHALLENGES: &str = "ims-challenges";
const PLACES: &str = "ims-places";

struct Scscf {
    hss: Hss,
    /// What nobody else can guess, for challenges.
    secret: String,
    number: u64,
}

enum Request {
    Input(Input),
    Register { from: Connection, request: Box<Message>, asked: Box<Registration> },
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

impl Scscf {
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
            let private = asked.private.clone();
            let has_answer = asked.has_answer();
            let id = core.attach(
                from,
                Request::Register { from, request: Box::new(request), asked: Box::new(asked) },
            )?;
            if has_answer {
                core.remote_get(
                    CHALLENGES,
                    private.as_bytes(),
                    CacheUse::Skip,
                    move |scscf, core, found| match found {
                        Ok(found) => scscf.check(core, id, found.as_deref()),
                        Err(_) => Self::respond(core, id, 500, "Server Internal Error", &[]),
                    },
                )?;
            } else {
                self.challenge(core, id);
            }
        }
        Ok(())
    }

    fn asked(core: &mut Core<Self>, id: RequestId) -> Option<&Registration> {
        match core.get(id) {
            Ok(Request::Register { asked, .. }) => Some(asked),
            // Who asked is gone.
            _ => None,
        }
    }

    /// Asks the HSS for the hash of the user's password; the challenge follows.
    fn challenge(&mut self, core: &mut Core<Self>, id: RequestId) {
        let Some(asked) = Self::asked(core, id).cloned() else { return };
        let question = |host: Host, number| host.multimedia_auth(number, &asked.private, &asked.public);
        if self.hss.ask(core, id, question).is_err() {
            Self::respond(core, id, 504, "Server Time-out", &[]);
        }
    }

    /// Compares the answer to a challenge with what is right.
    fn check(&mut self, core: &mut Core<Self>, id: RequestId, challenge: Option<&[u8]>) {
        let Some(asked) = Self::asked(core, id).cloned() else { return };
        let challenge = challenge.and_then(|c| std::str::from_utf8(c).ok()?.split_once(' '));
        match challenge {
            Some((nonce, ha1)) if asked.answers(nonce) => {
                if !asked.is_right(ha1) {
                    return Self::respond(core, id, 403, "Forbidden", &[]);
                }
                let kind = if asked.expires > 0 { cx::REGISTRATION } else { cx::USER_DEREGISTRATION };
                let question =
                    |host: Host, number| host.server_assignment(number, &asked.private, &asked.public, kind);
                if self.hss.ask(core, id, question).is_err() {
                    Self::respond(core, id, 504, "Server Time-out", &[]);
                }
            }
            _ => self.challenge(core, id),
        }
    }

    fn hss_data(&mut self, core: &mut Core<Self>, hss: Connection, data: &[u8]) -> Outcome {
        for (id, answer) in self.hss.read(core, hss, data)? {
            let Some(asked) = Self::asked(core, id).cloned() else { continue };
            let kept = match answer.command {
                _ if !answer.succeeded() => {
                    Self::respond(core, id, 403, "Forbidden", &[]);
                    continue;
                }
                MULTIMEDIA_AUTH => {
                    self.number += 1;
                    let nonce = hash(&[&self.secret, &self.number.to_string()]);
                    let challenge = format!("{nonce} {}", cx::ha1(&answer).ok_or("no hash")?);
                    let text =
                        format!("Digest realm=\"{REALM}\", nonce=\"{nonce}\", algorithm=MD5, qop=\"auth\"");
                    let done = move |_: &mut Self, core: &mut Core<Self>, outcome: Result<(), Error>| {
                        match outcome {
                            Ok(()) => {
                                Self::respond(core, id, 401, "Unauthorized", &[("WWW-Authenticate", text)]);
                            }
                            Err(_) => Self::respond(core, id, 500, "Server Internal Error", &[]),
                        }
                    };
                    core.remote_set(CHALLENGES, asked.private.as_bytes(), challenge.as_bytes(), done)
                }
                _ if asked.expires == 0 => {
                    core.remote_delete(PLACES, asked.public.as_bytes(), move |_, core, outcome| {
                        Self::registered(core, id, outcome.is_ok());
                    })
                }
                _ => core.remote_set(
                    PLACES,
                    asked.public.as_bytes(),
                    asked.contact.as_bytes(),
                    move |_, core, outcome| Self::registered(core, id, outcome.is_ok()),
                ),
            };
            if kept.is_err() {
                Self::respond(core, id, 500, "Server Internal Error", &[]);
            }
        }
        Ok(())
    }

    /// Redis has it: now the user may know.
    fn registered(core: &mut Core<Self>, id: RequestId, done: bool) {
        let Some(asked) = Self::asked(core, id).cloned() else { return };
        if !done {
            return Self::respond(core, id, 500, "Server Internal Error", &[]);
        }
        let mut more = vec![
            ("Service-Route", format!("<{};lr>", cx::SCSCF)),
            ("P-Associated-URI", format!("<{}>", asked.public)),
        ];
        if asked.expires > 0 {
            more.push(("Contact", format!("{};expires={}", asked.contact, asked.expires)));
        }
        Self::respond(core, id, 200, "OK", &more);
    }

    fn respond(
        core: &mut Core<Self>,
        id: RequestId,
        status: u16,
        reason: &str,
        more: &[(&'static str, String)],
    ) {
        if let Ok(Request::Register { from, request, .. }) = core.get(id) {
            let (from, response) = (*from, request.response(status, reason, more));
            let _ = core.send_bytes(from, &response);
            let _ = core.unlink(from, id);
        }
    }

    fn lost(&mut self, core: &mut Core<Self>, connection: Connection) {
        if self.hss.is(connection) {
            for id in self.hss.lost() {
                Self::respond(core, id, 504, "Server Time-out", &[]);
            }
        }
        let _ = core.close(connection);
    }
}

impl Function for Scscf {
    type Request = Request;

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        let outcome = if self.hss.is(connection) {
            self.hss_data(core, connection, &data)
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

/// Starts a replica.
pub fn start(mut vnf: Vnf, at: SocketAddr, hss: SocketAddr) -> Result<Running, Error> {
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut random))
        .map_err(|source| Error::Io { what: "read /dev/urandom", source })?;
    vnf.server(at, Protocol::Tcp, None)?;
    vnf.start(move || Scscf {
        hss: Hss::new(hss, Host("scscf")),
        secret: format!("{random:?} {:?}", std::thread::current().id()),
        number: 0,
    })
}
