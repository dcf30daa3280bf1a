//! How far a controller has got in changing its domain. Each request to a node carries it, and the node remembers the last one: so a controller whose store is
//! older than what nodes run is found out before it changes anything there.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The header field of a request that has it, as `GENERATION RUN`.
pub const HEADER: &str = "weir-generation";

/// How far a controller has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mark {
    /// Counts the changes of what is wanted in the domain.
    pub generation: u64,
    /// Names one run of the controller, from its start to its end.
    pub run: String,
}

impl Mark {
    /// Whether what comes with `next` is not of a controller that is older than the one of this. One run asks for several things at
    /// once: what it asked for earlier may arrive later.
    pub fn admits(&self, next: &Mark) -> bool {
        next.generation > self.generation || next.run == self.run
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.generation, self.run)
    }
}

impl FromStr for Mark {
    type Err = String;

    fn from_str(text: &str) -> Result<Mark, String> {
        let wrong = || format!("{text:?} is no mark; write GENERATION RUN, such as '17 5f3a'");
        let (generation, run) = text.split_once(' ').ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if run.is_empty() || run.len() > 64 || !run.chars().all(plain) {
            return Err(wrong());
        }
        Ok(Mark { generation: generation.parse().map_err(|_| wrong())?, run: run.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_an_older_controller_is_not_admitted() {
        let mark = |text: &str| text.parse::<Mark>().unwrap();
        let now = mark("5 a");
        for (next, admitted) in
            [("5 a", true), ("6 a", true), ("6 b", true), ("5 b", false), ("4 a", true), ("4 b", false)]
        {
            assert_eq!(now.admits(&mark(next)), admitted, "{next}");
        }
        assert_eq!(now.to_string().parse(), Ok(now));
        for wrong in ["", "5", "5 ", "x a", "-1 a", "5 a b", "5 \u{e9}"] {
            assert!(wrong.parse::<Mark>().unwrap_err().contains("GENERATION RUN"), "{wrong}");
        }
    }
}
