//! Asking again after a change: an answer stands if nothing changed that it depends on.
//!
//! An answer depends on the nodes that packets came to when it was found, on their programs, tables and wires, and on
//! where packets begin and end. What was found without a node cannot become wrong by what that node does.

use weir_verify::checks::{Filter, Query, Start, Target, Way};
use weir_verify::{Limits, NodeId, Place};

use crate::answer::{Answer, Asked, Status};
use crate::question::{Ask, Question};
use crate::world::{Matching, World};

impl World {
    /// The answer to a question that this world gave `before` some nodes changed ([`weir_verify::Network::replace_program`]
    /// and the like). It is [`kept`](Answer::kept) if it does not depend on them.
    pub fn renew(&self, question: &Question, before: Answer, limits: Limits) -> Answer {
        let touched = |n: &NodeId| self.net.changed_since(*n, before.age);
        if before.status == Status::Inconclusive || before.visited.iter().any(touched) {
            return self.answer(question, limits);
        }
        Answer { age: self.net.age(), kept: true, ..before }
    }

    /// The answer to a question that another world gave to the same question there. It is [`kept`](Answer::kept) if what
    /// it depends on is the same here.
    pub fn again(
        &self,
        question: &Question,
        (asked, before): (&Question, Answer),
        matching: &Matching,
        limits: Limits,
    ) -> Answer {
        let same = before.status != Status::Inconclusive
            && before.visited.iter().all(|n| matching.same(*n))
            && question.requirement.goal == asked.requirement.goal
            && stands_for(&asked.ask, &question.ask, matching);
        if !same {
            return self.answer(question, limits);
        }
        let to = |n: NodeId| matching.to(n).unwrap_or(n);
        Answer {
            asked: Asked::Requirement(question.requirement.clone()),
            evidence: before.evidence.map(|e| Box::new(e.renumbered(to))),
            visited: before.visited.iter().map(|n| to(*n)).collect(),
            age: self.net.age(),
            kept: true,
            ..before
        }
    }
}

/// Whether a question speaks of the counterparts of what another one speaks of.
fn stands_for(old: &Ask, new: &Ask, m: &Matching) -> bool {
    let all = |old: &[Query], new: &[Query]| {
        old.len() == new.len() && old.iter().zip(new).all(|(a, b)| same_query(a, b, m))
    };
    match (old, new) {
        (Ask::Can(a), Ask::Can(b))
        | (Ask::Only(a), Ask::Only(b))
        | (Ask::Never(a), Ask::Never(b))
        | (Ask::NoLoops(a), Ask::NoLoops(b)) => same_query(a, b, m),
        (Ask::All(a, strict), Ask::All(b, s)) => strict == s && all(a, b),
        (Ask::Invariant(a), Ask::Invariant(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|((q, fields), (r, f))| fields == f && same_query(q, r, m))
        }
        (Ask::Return(a, way), Ask::Return(b, w)) => same_query(a, b, m) && same_way(way, w, m),
        _ => false,
    }
}

fn same_query(a: &Query, b: &Query, m: &Matching) -> bool {
    let via = |set: &Vec<NodeId>| set.iter().map(|n| m.to(*n)).collect::<Option<Vec<_>>>();
    same_starts(&a.from, &b.from, m)
        && same_starts(&a.others, &b.others, m)
        && same_targets(&a.to, &b.to, m)
        && a.via.iter().map(via).collect::<Option<Vec<_>>>().is_some_and(|via| via == b.via)
        && same_filter(a.filter, b.filter, m)
}

fn same_way(a: &Way, b: &Way, m: &Matching) -> bool {
    let reply = |(a, b): (&(Place, Start), &(Place, Start))| {
        m.place(a.0) == Some(b.0) && same_starts(std::slice::from_ref(&a.1), std::slice::from_ref(&b.1), m)
    };
    same_targets(&a.home, &b.home, m)
        && a.replies.len() == b.replies.len()
        && a.replies.iter().zip(&b.replies).all(reply)
}

fn same_starts(a: &[Start], b: &[Start], m: &Matching) -> bool {
    let same = |(a, b): (&Start, &Start)| {
        m.place(a.place) == Some(b.place) && a.framing == b.framing && a.input == b.input
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn same_targets(a: &[Target], b: &[Target], m: &Matching) -> bool {
    let same = |(a, b): (&Target, &Target)| m.place(a.place) == Some(b.place) && a.framing == b.framing;
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn same_filter(a: Filter, b: Filter, m: &Matching) -> bool {
    let same = |a: Option<NodeId>, b: Option<NodeId>| match (a, b) {
        (Some(a), b) => m.same(a) && m.to(a) == b,
        (None, b) => b.is_none(),
    };
    same(a.ip, b.ip) && same(a.ethernet, b.ethernet)
}

#[cfg(test)]
mod tests {
    use weir_engine::{Classes, Plan};
    use weir_model::requirement::Requirement;

    use super::*;

    /// Two ways through a box, each with its filter.
    fn config(first: &str, second: &str) -> String {
        format!(
            "FromNetfront(a) -> CheckIPHeader -> f :: IPFilter(allow {first}, deny all) \
             -> ToNetfront(b);\n\
             FromNetfront(c) -> CheckIPHeader -> g :: IPFilter(allow {second}, deny all) \
             -> ToNetfront(d);"
        )
    }

    fn asked(config: &str, requirement: &str) -> (World, Question) {
        let mut world = World::of_click(&Plan::new(&Classes::default(), config, "test").unwrap());
        let r = Requirement::parse(requirement).unwrap();
        let question = world.question(&r).unwrap();
        world.net.finish();
        (world, question)
    }

    /// Asks of one configuration, and then of another one.
    fn again(requirement: &str, old: &str, new: &str) -> Answer {
        let (before, q) = asked(old, requirement);
        let answer = before.answer(&q, Limits::of_networks());
        assert!(!answer.kept);
        let (after, r) = asked(new, requirement);
        let m = Matching::new(&before, &after);
        let kept = after.again(&r, (&q, answer), &m, Limits::of_networks());
        let fresh = after.answer(&r, Limits::of_networks());
        assert_eq!(kept.status, fresh.status);
        let report =
            |a: Answer| crate::report::Finding::new(&after, &Answer { kept: false, ..a }).to_string();
        let is_kept = kept.kept;
        assert_eq!(report(kept), report(fresh), "the same packet, the same way");
        Answer { kept: is_kept, ..after.answer(&r, Limits::of_networks()) }
    }

    #[test]
    fn an_answer_stands_if_what_it_depends_on_did_not_change() {
        let old = config("tcp", "udp");
        assert!(again("can a b tcp", &old, &config("tcp", "icmp")).kept);
        assert!(again("never a b udp", &old, &config("tcp", "icmp")).kept);
        let more = format!("FromDevice(x) -> Queue -> ToDevice(y); {}", config("tcp", "udp"));
        assert!(again("can c d udp", &config("tcp", "udp"), &config("icmp", "udp")).kept);
        // Another way in may have left something in tables.
        assert!(!again("can c d udp", &old, &more).kept);
    }

    #[test]
    fn an_answer_is_looked_for_again_if_something_changed_on_its_way() {
        let old = config("tcp", "udp");
        let lost = again("can a b tcp", &old, &config("icmp", "udp"));
        assert!(!lost.kept && lost.status == Status::Violated);
        let found = again("never a b udp", &old, &config("udp", "udp"));
        assert!(!found.kept && found.status == Status::Violated);
    }

    #[test]
    fn in_the_same_world_only_what_met_the_change_is_asked_again() {
        let (mut world, q) = asked(&config("tcp", "udp"), "can a b tcp");
        let answer = world.answer(&q, Limits::of_networks());
        let (other, _) = asked(&config("icmp", "icmp"), "can a b tcp");
        let number =
            |w: &World, name: &str| w.net.nodes().iter().position(|n| n.name == name).unwrap() as NodeId;
        let program = |name: &str| other.net.node(number(&other, name)).program().unwrap().clone();
        let g = number(&world, "g");
        world.net.replace_program(g, &program("g"), 0);
        let answer = world.renew(&q, answer, Limits::of_networks());
        assert!(answer.kept && answer.status == Status::Holds);
        let f = number(&world, "f");
        world.net.replace_program(f, &program("f"), 0);
        let answer = world.renew(&q, answer, Limits::of_networks());
        assert!(!answer.kept && answer.status == Status::Violated);
    }
}
