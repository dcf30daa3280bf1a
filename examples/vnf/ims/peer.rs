//! A CSCF's connection with the HSS.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_vnf::{Connection, Core, Error, Function, Protocol, RequestId};

use crate::cx::{CAPABILITIES, Host, Input, Message};

/// The connection of one core. It is made when it is needed; what is asked waits until the HSS has said hello.
pub struct Hss {
    at: SocketAddr,
    pub host: Host,
    connection: Option<Connection>,
    greeted: bool,
    early: Vec<Message>,
    input: Input,
    number: u32,
    asked: HashMap<u32, RequestId>,
}

impl Hss {
    pub fn new(at: SocketAddr, host: Host) -> Self {
        Self {
            at,
            host,
            connection: None,
            greeted: false,
            early: Vec::new(),
            input: Input::default(),
            number: 0,
            asked: HashMap::new(),
        }
    }

    pub fn is(&self, connection: Connection) -> bool {
        self.connection == Some(connection)
    }

    /// Asks for a request; `question` is given the number of the question.
    pub fn ask<F: Function>(
        &mut self,
        core: &mut Core<F>,
        id: RequestId,
        question: impl FnOnce(Host, u32) -> Message,
    ) -> Result<(), Error> {
        let connection = match self.connection {
            Some(connection) => connection,
            None => {
                let connection = core.connect(self.at, Protocol::Tcp)?;
                core.send_bytes(connection, &self.host.hello().bytes())?;
                *self.connection.insert(connection)
            }
        };
        self.number = self.number.wrapping_add(1);
        let question = question(self.host, self.number);
        core.link(connection, id)?;
        self.asked.insert(self.number, id);
        if self.greeted {
            return core.send_bytes(connection, &question.bytes());
        }
        self.early.push(question);
        Ok(())
    }

    /// Takes data that came; the answers in it, with the requests that they are for.
    pub fn read<F: Function>(
        &mut self,
        core: &mut Core<F>,
        connection: Connection,
        data: &[u8],
    ) -> Result<Vec<(RequestId, Message)>, Box<dyn std::error::Error>> {
        let mut answers = Vec::new();
        self.input.push(data);
        while let Some(message) = self.input.next()? {
            if message.request {
                if let Some(answer) = self.host.base_answer(&message) {
                    core.send_bytes(connection, &answer.bytes())?;
                }
            } else if message.command == CAPABILITIES {
                self.greeted = message.succeeded();
                for question in self.early.drain(..) {
                    core.send_bytes(connection, &question.bytes())?;
                }
            } else if let Some(id) = self.asked.remove(&message.hop) {
                core.unlink(connection, id)?;
                answers.push((id, message));
            }
        }
        Ok(answers)
    }

    /// The connection is lost: the requests that get no answer. The next question makes it anew.
    pub fn lost(&mut self) -> Vec<RequestId> {
        let number = self.number;
        let asked = std::mem::take(&mut self.asked);
        *self = Self { number, ..Self::new(self.at, self.host) };
        asked.into_values().collect()
    }
}
