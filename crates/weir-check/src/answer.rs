//! Asking.

use std::fmt;

use weir_model::requirement::Requirement;
use weir_model::topology::Requester;
use weir_verify::checks::{self, Checker, Doubt, Evidence, Rule, Stage, Verdict};
use weir_verify::{Limits, NodeId};

use crate::question::{Ask, Question};
use crate::world::World;

/// Whether a requirement holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It holds.
    Holds,
    /// It is not known; see the reason.
    Inconclusive,
    /// It does not hold.
    Violated,
}

/// What was asked.
#[derive(Debug, Clone)]
pub enum Asked {
    /// Whether this holds.
    Requirement(Requirement),
    /// Whether a module keeps the rules for who wants it.
    Security {
        /// The module.
        module: String,
        /// What who wants it is to the operator.
        role: Requester,
        /// The rule that is broken, and how that shows.
        broken: Option<(Rule, Stage)>,
    },
}

/// What came of a question.
#[derive(Debug)]
pub struct Answer {
    /// What was asked.
    pub asked: Asked,
    /// Whether it holds.
    pub status: Status,
    /// Why that is not known.
    pub doubt: Option<Doubt>,
    /// A run that shows it.
    pub evidence: Option<Box<Evidence>>,
    /// Where packets may be lost for want of room, which was left out of account.
    pub losses: Vec<String>,
    /// It was given before a change, and did not depend on what changed.
    pub kept: bool,
    /// The nodes that packets came to.
    pub(crate) visited: Vec<NodeId>,
    /// The age of the network.
    pub(crate) age: u64,
}

impl World {
    /// Asks. Changes of the network come before.
    pub fn answer(&self, question: &Question, limits: Limits) -> Answer {
        let mut c = Checker::new(&self.net, limits);
        let mut losses = Vec::new();
        let verdict = match &question.ask {
            Ask::Can(q) => checks::can(&mut c, q),
            Ask::Only(q) => checks::only(&mut c, q),
            Ask::Never(q) => checks::never(&mut c, q),
            Ask::Return(q, way) => checks::returns(&mut c, q, way),
            Ask::NoLoops(q) => checks::noloops(&mut c, q),
            Ask::All(each, strict) => worst(each.iter().map(|q| {
                let (verdict, lost) = checks::all(&mut c, q, *strict);
                losses.extend(lost);
                verdict
            })),
            Ask::Invariant(each) => {
                worst(each.iter().map(|(q, fields)| checks::invariant(&mut c, q, fields)))
            }
        };
        losses.sort_unstable();
        losses.dedup();
        let answer = Answer::new(Asked::Requirement(question.requirement.clone()), verdict, losses);
        Answer { visited: c.visited(), age: self.net.age(), ..answer }
    }
}

impl Answer {
    pub(crate) fn new(asked: Asked, verdict: Verdict, losses: Vec<String>) -> Answer {
        let (status, doubt, evidence) = match verdict {
            Verdict::Holds(e) => (Status::Holds, None, e),
            Verdict::Violated(e) => (Status::Violated, None, e),
            Verdict::Inconclusive(doubt) => (Status::Inconclusive, Some(doubt), None),
        };
        Answer { asked, status, doubt, evidence, losses, kept: false, visited: Vec::new(), age: 0 }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Requirement(r) => f.write_str(&r.text),
            Asked::Security { module, role, .. } => write!(f, "security {module} {role}"),
        }
    }
}

/// The first verdict that says that something does not hold; else the first that says that it is not known.
fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut all = Verdict::Holds(None);
    for v in verdicts {
        match (&all, v) {
            (_, v @ Verdict::Violated(_)) => return v,
            (Verdict::Holds(_), v) => all = v,
            _ => {}
        }
    }
    all
}
