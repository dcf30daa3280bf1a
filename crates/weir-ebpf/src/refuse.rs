//! What is not compiled, and why.

use std::fmt;

/// Something of an element that the kernel does not run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// The element.
    pub element: String,
    /// Why.
    pub cause: Cause,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.element, self.cause)
    }
}

/// Programs that are not compiled: every reason that was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the kernel cannot run it: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Refused(pub Vec<Refusal>);

/// Why an element is not compiled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Cause {
    #[error("holds packets")]
    Holds,
    #[error("makes or copies packets")]
    Starts,
    #[error("reports events with what it saw")]
    Notifies,
    #[error("ties entries of the table '{table}' to others")]
    Links { table: String },
    #[error("looks for a free key of the table '{table}'")]
    Claims { table: String },
    #[error("removes entries of the table '{table}', which another processor may be using")]
    Removes { table: String },
    #[error("makes space in the table '{table}' by removing entries")]
    Evicts { table: String },
    #[error("has a token bucket in the table '{table}', which several processors would change at once")]
    Meters { table: String },
    #[error("counts entries of the table '{table}'")]
    Counts { table: String },
    #[error("looks up rules in the table '{table}'")]
    Rules { table: String },
    #[error("does something of its own when entries of the table '{table}' expire")]
    Expires { table: String },
    #[error("uses the table '{table}' in several steps, between which another processor may come")]
    Races { table: String },
    #[error("the table '{table}' has {bytes} bytes {of}, and at most {most} are possible")]
    TableTooWide { table: String, of: &'static str, bytes: u32, most: u32 },
    #[error("asks for the key of an entry of the table '{table}'")]
    AsksForKey { table: String },
    #[error("makes hash values")]
    Hashes,
    #[error("looks for a byte in the packet")]
    Searches,
    #[error("adds bytes at the end of packets")]
    Lengthens,
    #[error("adds more bytes in front than this hook of the kernel can")]
    AddsInFront,
    #[error("lets packets leave with another length in front, which this hook of the kernel cannot")]
    MovesFront,
    #[error("removes bytes in front whose number is known only when the packet is there")]
    PullsVariable,
    #[error("sums a range of up to {most} bytes whose length is known only when the packet is there")]
    SumsVariable { most: u32 },
    #[error("moves {0} bytes at once")]
    MovesMany(u32),
    #[error("calculates with 128-bit numbers ({0})")]
    Wide(&'static str),
    #[error("asks for {0}, which the kernel does not provide here")]
    Asks(&'static str),
    #[error("reads or writes further than 32,767 bytes into the packet")]
    FarAccess,
    #[error("needs {0} bytes for its values, and 512 are there")]
    Stack(u32),
    #[error("goes round a loop up to {limit} times, and {most} are possible")]
    Rounds { limit: u32, most: u32 },
    #[error("{0}")]
    TooFar(#[from] crate::insn::TooFar),
}
