use std::sync::Arc;

use crate::env::Chatter;
use crate::env::sockets::Where;
use crate::prelude::*;

engine_node! {
    /// Sends what elements print to whoever connects, over TCP or a Unix socket. It has no ports.
    ///
    /// A client is greeted with `Click::ChatterSocket/1.0`, and gets each message on a line of its own; what it sends is
    /// not read. One for which more than 500,000 bytes wait, or that reads nothing for a minute while some do, is cut
    /// off. At most 64 clients are served at a time.
    ///
    /// A hot swap keeps the socket and its clients if the first two arguments stay as they are.
    ChatterSocket: "0/0", "h/h", Sink, Sockets;
    example "ChatterSocket(UNIX, /tmp/weir-example-chatter.sock); Idle -> Print(packet) -> Discard;";
    params {
        /// `TCP` or `UNIX`.
        pos r#type: Where,
        /// TCP port (`41901+`: that one or the next that is free), or name of the Unix socket.
        pos address: String,
        /// Only messages of this channel; but elements print to the default channel only, so that other sockets are not
        /// opened.
        key channel: String = String::new(),
        /// Accepted for Click's sake.
        key quiet_channel: bool = true,
        /// Whether clients are greeted.
        key greeting: bool = true,
        /// Accepted for Click's sake: a socket that cannot be opened is an error.
        key retries: u32 = 0,
        /// Accepted for Click's sake.
        key retry_warnings: bool = true,
    }
    handlers {
        /// The TCP port.
        read port = |s, _| s.state.as_ref().and_then(|s| s.port()).map(|p| p.to_string())
            .ok_or_else(|| "there is no TCP port".to_owned()),
    }
    state Option<Arc<Chatter>>;
}

impl Behavior for ChatterSocket {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        if !self.channel.is_empty() && self.channel != "default" {
            return Ok(());
        }
        let address = weir_click::unquote_text(&self.address).unwrap_or_default();
        self.state = Some(env.chatters.open(self.r#type, &address, self.greeting)?);
        Ok(())
    }
}
