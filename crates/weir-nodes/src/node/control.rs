//! Elements that call handlers of others: scripts and sockets.

use super::Cx;

/// The modes in which a handler may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// It can be read.
    pub read: bool,
    /// It can be written.
    pub write: bool,
    /// A read may have a parameter.
    pub param: bool,
    /// Only elements of the same graph may call it, no socket.
    pub private: bool,
}

impl Modes {
    /// Can be read, without a parameter.
    pub const READ: Modes = Modes { read: true, write: false, param: false, private: false };
    /// Can be written.
    pub const WRITE: Modes = Modes { read: false, write: true, param: false, private: false };
    /// A function: read with a parameter.
    pub const FUNCTION: Modes = Modes { read: true, write: false, param: true, private: false };

    /// As the handler `handlers` shows it: `r`, `w`, `+` for a parameter.
    pub fn text(self) -> String {
        let letters = [(self.read, 'r'), (self.write, 'w'), (self.param, '+')];
        letters.into_iter().filter(|l| l.0).map(|l| l.1).collect()
    }
}

/// The part of a node that calls handlers, and whose own handlers may be called while it does. It is shared, so it
/// keeps what changes behind locks, and holds none during a call.
pub trait Control: Send + Sync {
    /// How a handler of that name may be called; `None`: there is none.
    fn modes(&self, handler: &str) -> Option<Modes>;

    /// Names of the handlers that are not in the manual page.
    fn more_handlers(&self) -> Vec<String> {
        Vec::new()
    }

    /// Answers a read handler.
    fn read(&self, handler: &str, arg: &str, cx: &mut Cx<'_>) -> Result<String, String>;

    /// Carries out a write handler.
    fn write(&self, handler: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), String>;

    /// The graph is complete, before any packet flows.
    fn start(&self, _cx: &mut Cx<'_>) {}

    /// Whether it decides what happens when an element asks for the end of the run.
    fn is_driver(&self) -> bool {
        false
    }

    /// An element asked for the end of the run. Returns whether the run goes on.
    fn stop_asked(&self, _cx: &mut Cx<'_>) -> bool {
        false
    }

    /// Whether requests may come from outside.
    fn listens(&self) -> bool {
        false
    }

    /// Whether a request waits.
    fn asked(&self) -> bool {
        false
    }

    /// Answers the requests that wait.
    fn serve(&self, _cx: &mut Cx<'_>) {}

    /// The signals it is waiting for now.
    fn signals(&self) -> Vec<i32> {
        Vec::new()
    }

    /// A signal that it was waiting for has come.
    fn signal(&self, _signal: i32, _cx: &mut Cx<'_>) {}
}
