//! What the control side and the zygote say to each other: the zygote is the process whose copies become the workers of functions
//! that have a process of their own. One JSON value a line, over the zygote's standard input, a socket. It ends when that is closed;
//! its workers go on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The socket in a function's folder of ports on which its worker speaks this protocol. It is no name of a port.
pub const CONTROL: &str = ".control";

/// Asks for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// What the reply bears.
    pub id: u64,
    /// The folder with the sockets of its ports. Its control socket is made there.
    pub ports: PathBuf,
    /// The file of its network namespace.
    pub netns: PathBuf,
    /// The folders of its control groups.
    pub cgroups: Vec<PathBuf>,
    /// The file that it writes messages to.
    pub log: PathBuf,
    /// The user and the group that it becomes, who own nothing.
    pub user: u32,
}

/// Says what became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnReply {
    /// There is a process. Whether it comes to work is seen at its control socket, and in its log.
    Started {
        /// Of the request.
        id: u64,
        /// The process.
        pid: i32,
    },
    /// There is none.
    Failed {
        /// Of the request.
        id: u64,
        /// Why not.
        what: String,
    },
}
