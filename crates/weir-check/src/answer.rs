//! Asking.

use std::fmt;
use std::time::Instant;

use rayon::prelude::*;
use weir_model::requirement::Requirement;
use weir_topology::Requester;
use weir_verify::checks::{
    self, Assumptions, Checker, Doubt, Evidence, Explored, Rule, Stage, Standing, Stopped, Verdict,
};
use weir_verify::{Limits, NodeId};

use crate::question::{Ask, Question};
use crate::world::World;

/// A verdict in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It holds.
    Holds,
    /// It is not known; see the reason.
    Inconclusive,
    /// It does not hold.
    Violated,
}

/// A question as it was asked.
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

/// The answer to a question.
#[derive(Debug)]
pub struct Answer {
    /// What was asked.
    pub asked: Asked,
    /// Whether it holds.
    pub status: Status,
    /// Why that is not known.
    pub doubt: Option<Doubt>,
    /// Where it could not be found out, and how far it was looked, if it is not known.
    pub stopped: Option<Stopped>,
    /// How far it was looked.
    pub explored: Explored,
    /// A run that shows it.
    pub evidence: Option<Box<Evidence>>,
    /// Where there is no run as asked for: one that may have been meant, and how it ends.
    pub near_miss: Option<Box<Evidence>>,
    /// What was left out of account.
    pub assumptions: Assumptions,
    /// It says that there is no packet, and longer sequences of packets that came before were not tried
    /// ([`Checker::not_tried`]).
    pub not_tried: bool,
    /// It was given before a change, and did not depend on what changed, or its packets still show it.
    pub kept: bool,
    /// The nodes that packets came to.
    pub(crate) visited: Vec<NodeId>,
    /// The age of the network.
    pub(crate) age: u64,
}

impl World {
    /// Asks. Changes of the network come before. Packets of different sources are looked at side by side. The time of the
    /// limits is for all of them.
    pub fn answer(&self, question: &Question, limits: Limits) -> Answer {
        let parts = question.ask.by_source();
        let parts = if parts.len() > 1 { &parts[..] } else { std::slice::from_ref(&question.ask) };
        let is_can = matches!(question.ask, Ask::Can(_));
        let (mut verdicts, mut assumptions, mut visited) = (Vec::new(), Assumptions::default(), Vec::new());
        let (mut not_tried, mut stopped, mut explored) = (false, None, Explored::default());
        let mut left = limits;
        // What settles it makes the rest needless.
        for some in parts.chunks(rayon::current_num_threads()) {
            let timed = |ask: &Ask| {
                let start = Instant::now();
                (self.ask(ask, left), start.elapsed())
            };
            let found: Vec<_> = match some {
                [one] => vec![timed(one)],
                _ => some.par_iter().map(timed).collect(),
            };
            // Between them others may have been asked: that time is theirs.
            let longest = found.iter().map(|(_, took)| *took).max().unwrap_or_default();
            left.time = left.time.map(|time| time.saturating_sub(longest));
            for (one, _) in found {
                verdicts.push(one.verdict);
                assumptions.add(one.assumptions);
                not_tried |= one.not_tried;
                visited.extend(one.visited);
                stopped = stopped.or(one.stopped);
                explored.add(one.explored);
            }
            if verdicts.iter().any(|v| settles(v, is_can)) {
                break;
            }
        }
        visited.sort_unstable();
        visited.dedup();
        let verdict = joined(verdicts, is_can);
        let found = PartialAnswer { verdict, assumptions, not_tried, visited, stopped, explored };
        let answer = Answer::new(Asked::Requirement(question.requirement.clone()), found);
        let near_miss = match &question.ask {
            Ask::Can(q) if answer.status == Status::Violated => {
                checks::near_miss(&mut Checker::new(&self.net, left), q)
            }
            _ => None,
        };
        Answer { near_miss, age: self.net.age(), ..answer }
    }

    /// Asks several, side by side; the answers are in their order. `begin` is called for each when its turn comes.
    pub fn answers(
        &self,
        questions: &[Question],
        limits: Limits,
        begin: &(dyn Fn(&Question) + Sync),
    ) -> Vec<Answer> {
        let ask = |q: &Question| {
            begin(q);
            self.answer(q, limits)
        };
        questions.par_iter().map(ask).collect()
    }

    /// The answer, and what makes it cheap to ask again of all packets.
    pub(crate) fn answer_standing(&self, question: &Question, limits: Limits) -> (Answer, Option<Standing>) {
        if question.ask.about_all().is_none() {
            return (self.answer(question, limits), None);
        }
        let mut c = Checker::new(&self.net, limits);
        c.keep();
        let found = ask_by(&mut c, &question.ask);
        let holds = matches!(found.verdict, Verdict::Holds(_));
        let answer = Answer::new(Asked::Requirement(question.requirement.clone()), found);
        let answer = Answer { age: self.net.age(), ..answer };
        (answer, holds.then(|| c.standing()).flatten())
    }

    fn ask(&self, ask: &Ask, limits: Limits) -> PartialAnswer {
        ask_by(&mut Checker::new(&self.net, limits), ask)
    }
}

fn ask_by(c: &mut Checker<'_>, ask: &Ask) -> PartialAnswer {
    let mut assumptions = Assumptions::default();
    let verdict = match ask {
        Ask::Can(q) => checks::can(c, q),
        Ask::Only(q) => checks::only(c, q),
        Ask::Never(q) => checks::never(c, q),
        Ask::Return(q, path) => checks::returns(c, q, path),
        Ask::NoLoops(q) => checks::noloops(c, q),
        Ask::All(each, strict) => {
            let all = each.iter().map(|q| {
                let (verdict, left_out) = checks::all(c, q, *strict);
                assumptions.add(left_out);
                verdict
            });
            joined(all, false)
        }
        Ask::Invariant(each) => joined(each.iter().map(|(q, fields)| checks::invariant(c, q, fields)), false),
    };
    PartialAnswer::new(c, verdict, assumptions)
}

/// The answer about the packets of some sources.
pub(crate) struct PartialAnswer {
    pub verdict: Verdict,
    pub assumptions: Assumptions,
    pub not_tried: bool,
    pub visited: Vec<NodeId>,
    pub stopped: Option<Stopped>,
    pub explored: Explored,
}

impl PartialAnswer {
    /// With what a checker knows beside its verdict.
    pub(crate) fn new(c: &mut Checker<'_>, verdict: Verdict, assumptions: Assumptions) -> PartialAnswer {
        let (not_tried, visited, explored) = (c.not_tried(), c.visited(), c.explored());
        let stopped = match &verdict {
            Verdict::Inconclusive(doubt) => c.stopped(doubt),
            Verdict::Holds(_) | Verdict::Violated(_) => None,
        };
        PartialAnswer { verdict, assumptions, not_tried, visited, stopped, explored }
    }
}

impl Answer {
    pub(crate) fn new(asked: Asked, found: PartialAnswer) -> Answer {
        let PartialAnswer { verdict, assumptions, not_tried, visited, stopped, explored } = found;
        let (status, doubt, evidence) = match verdict {
            Verdict::Holds(e) => (Status::Holds, None, e),
            Verdict::Violated(e) => (Status::Violated, None, e),
            Verdict::Inconclusive(doubt) => (Status::Inconclusive, Some(doubt), None),
        };
        Answer {
            asked,
            status,
            not_tried: not_tried && status != Status::Inconclusive && evidence.is_none(),
            stopped: stopped.filter(|_| status == Status::Inconclusive),
            explored,
            doubt,
            evidence,
            near_miss: None,
            assumptions,
            kept: false,
            visited,
            age: 0,
        }
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

/// Whether a verdict on some packets is one on all: that there is one as wanted, or one as there should be none.
fn settles(v: &Verdict, is_can: bool) -> bool {
    if is_can { matches!(v, Verdict::Holds(_)) } else { matches!(v, Verdict::Violated(_)) }
}

/// The first verdict that settles it; else the first that says that it is not known; else the last.
fn joined(verdicts: impl IntoIterator<Item = Verdict>, is_can: bool) -> Verdict {
    let (mut open, mut last) = (None, None);
    for v in verdicts {
        match v {
            v if settles(&v, is_can) => return v,
            v @ Verdict::Inconclusive(_) => open = open.or(Some(v)),
            v => last = Some(v),
        }
    }
    open.or(last).unwrap_or(if is_can { Verdict::Violated(None) } else { Verdict::Holds(None) })
}
