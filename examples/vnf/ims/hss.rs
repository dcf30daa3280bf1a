//! The HSS: which users there are, how they show who they are, and which S-CSCF serves them.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_vnf::{Buffer, Connection, Core, Error, Function, Protocol, Running, Vnf};

use crate::cx::{Change, Host, Input, Message, Subscriber, USER_NAME};
use crate::sip::{REALM, hash};

const HOST: Host = Host("hss");

struct Hss {
    /// Passwords by private identity, each as the hash that digests are made of.
    hashes: Arc<Vec<(String, String)>>,
}

impl Hss {
    fn answer(core: &Core<Self>, question: &Message) -> Message {
        let store = core.store();
        let private = question.avps.text(USER_NAME).unwrap_or_default();
        let text =
            |table| store.get(table, private.as_bytes()).map(|v| String::from_utf8_lossy(&v).into_owned());
        let subscriber = text("hashes").map(|ha1| Subscriber {
            public: format!("sip:{private}"),
            ha1,
            server: text("servers"),
        });
        let (answer, change) = HOST.answer(question, subscriber.as_ref());
        match change {
            Some(Change::Serves(server)) => store.set("servers", private.as_bytes(), server.as_bytes()),
            Some(Change::Left) => _ = store.delete("servers", private.as_bytes()),
            None => {}
        }
        answer
    }

    fn data(
        core: &mut Core<Self>,
        connection: Connection,
        data: &[u8],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let id = match core.request(connection)? {
            Some(id) => id,
            None => core.attach(connection, Input::default())?,
        };
        core.get(id)?.push(data);
        while let Some(question) = core.get(id)?.next()? {
            if question.request {
                let answer = Self::answer(core, &question);
                core.send_bytes(connection, &answer.bytes())?;
            }
        }
        Ok(())
    }
}

impl Function for Hss {
    type Request = Input;

    fn start(&mut self, core: &mut Core<Self>) {
        if core.number() == 0 {
            self.hashes
                .iter()
                .for_each(|(user, ha1)| core.store().set("hashes", user.as_bytes(), ha1.as_bytes()));
        }
    }

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        if Self::data(core, connection, &data).is_err() {
            let _ = core.close(connection);
        }
    }

    fn error(&mut self, core: &mut Core<Self>, connection: Connection, _: &Error) {
        let _ = core.close(connection);
    }
}

/// Starts it with subscribers: lines of a user's name and password.
pub fn start(mut vnf: Vnf, at: SocketAddr, subscribers: &str) -> Result<Running, Error> {
    let user = |line: &str| {
        let (user, password) = line.split_once(' ')?;
        Some((format!("{user}@{REALM}"), hash(&[user_name(user).as_str(), REALM, password])))
    };
    let hashes = Arc::new(subscribers.lines().filter_map(user).collect());
    vnf.server(at, Protocol::Tcp, None)?;
    vnf.start(move || Hss { hashes: Arc::clone(&hashes) })
}

/// What a user signs with.
fn user_name(user: &str) -> String {
    format!("{user}@{REALM}")
}
