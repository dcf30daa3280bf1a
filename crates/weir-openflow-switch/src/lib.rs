//! An OpenFlow switch as a process: a pipeline ([`weir_pipeline`]) between ports of [`weir_io`], and the connections of its controllers
//! ([`weir_openflow::connection`]). One thread does all of it, packets and requests in turns, so that neither waits for the other for long.
//!
//! Controllers are hostile as far as this is concerned: what they send is read by a parser that has limits, the process has no privileges
//! when the first byte comes, and it is the process of one function.

#![forbid(unsafe_code)]

mod controllers;
mod privileges;
mod stream;
mod switch;
mod target;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

pub use switch::{Switch, run};
pub use target::{BadTarget, Target};
pub use tls::{Files as TlsFiles, TlsError};

/// The fail mode of a switch: what it does while none of its controllers is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fail {
    /// It goes on by the entries that it has.
    #[default]
    Secure,
    /// It forwards as a switch without OpenFlow.
    Standalone,
}

/// Options of a switch.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Its interfaces: the first is port 1.
    pub ports: Vec<String>,
    /// Who is dialled, and where others are listened for.
    pub targets: Vec<Target>,
    /// What it does without a controller.
    pub fail: Fail,
    /// For how long none may be there before that.
    pub patience: Duration,
    /// Its number, 64 bits; without one it is the address of its first port.
    pub datapath: Option<u64>,
    /// What people call it.
    pub name: String,
    /// How many tables it has.
    pub tables: u8,
    /// Its version.
    pub version: String,
    /// The network namespace in which controllers are dialled and listened for; that of the ports, if nothing is said.
    pub control_netns: Option<PathBuf>,
    /// Where it says how its controllers are.
    pub status: Option<PathBuf>,
    /// Its certificate, and who controllers have theirs from.
    pub tls: Option<TlsFiles>,
}

/// Why a switch does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// A port cannot be opened.
    #[error("{}", weir_io::with_causes(.0))]
    Port(#[from] weir_io::PortError),
    /// Its certificates are not right.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refuses something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was to be done.
        what: String,
        /// Why it was not.
        source: std::io::Error,
    },
}

impl SwitchError {
    fn system<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> SwitchError {
        let what = what.into();
        move |source| SwitchError::System { what, source: source.into() }
    }
}
