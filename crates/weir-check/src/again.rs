//! Asking again after a change: an answer stands if nothing changed that it depends on, or if its packets still show it.
//!
//! An answer depends on the nodes that packets came to when it was found, on their programs, tables and wires, and on
//! where packets begin and end. What was found without a node cannot become wrong by what that node does.

use weir_verify::checks::{Evidence, Filter, Query, ReturnPath, Shows, Standing, Start, Target, Verdict};
use weir_verify::{Guard, Limits, NodeId, NodePort};

use crate::answer::{Answer, Asked, PartialAnswer, Status};
use crate::question::{Ask, Question};
use crate::world::{Matching, World};

/// An answer that is brought up to date while the network of its world changes.
#[derive(Debug)]
pub struct Watch {
    /// The question.
    pub question: Question,
    /// The answer.
    pub answer: Answer,
    /// Of all packets, if that is what the answer speaks of.
    standing: Option<Standing>,
}

impl Watch {
    /// Asks, and keeps what makes it cheap to ask again.
    pub fn new(world: &World, question: Question, limits: Limits) -> Watch {
        let (answer, standing) = world.answer_standing(&question, limits);
        Watch { question, answer, standing }
    }

    /// Brings the answer up to date after some nodes of the world's network changed
    /// ([`weir_verify::Network::replace_program`] and the like). It is [`kept`](Answer::kept) if it does not depend on them,
    /// if its packets still show it, or if what now leaves them changes nothing.
    pub fn renew(&mut self, world: &World, limits: Limits) {
        let (before, net) = (&mut self.answer, &world.net);
        let changed: Vec<NodeId> =
            before.visited.iter().copied().filter(|n| net.changed_since(*n, before.age)).collect();
        let known = before.status != Status::Inconclusive;
        if known && changed.is_empty() {
            (before.age, before.kept) = (net.age(), true);
            return;
        }
        let standing = self.standing.take().filter(|_| known).zip(self.question.ask.about_all());
        if let Some((standing, about)) = standing
            && let Some((standing, visited)) = standing.renew(net, limits, about, &changed)
        {
            before.visited.extend(visited);
            before.visited.sort_unstable();
            before.visited.dedup();
            (before.age, before.kept, self.standing) = (net.age(), true, Some(standing));
            return;
        }
        match world.shown_again(&self.question, before) {
            Some(answer) => self.answer = answer,
            None => (self.answer, self.standing) = world.answer_standing(&self.question, limits),
        }
    }
}

impl World {
    /// The answer to a question that another world gave to the same question there. It is [`kept`](Answer::kept) if what
    /// it depends on is the same here, or its packets still show it.
    pub fn again(
        &self,
        question: &Question,
        (asked, before): (&Question, Answer),
        matching: &Matching,
        limits: Limits,
    ) -> Answer {
        let same_question = question.requirement.goal == asked.requirement.goal
            && stands_for(&asked.ask, &question.ask, matching);
        if !same_question {
            return self.answer(question, limits);
        }
        let same = before.status != Status::Inconclusive && before.visited.iter().all(|n| matching.same(*n));
        let to = |n: NodeId| matching.to(n).unwrap_or(n);
        let there = before.evidence.iter().flat_map(|e| e.nodes()).all(|n| matching.to(n).is_some());
        let mut before = Answer {
            asked: Asked::Requirement(question.requirement.clone()),
            evidence: before.evidence.filter(|_| there).map(|e| Box::new(e.renumbered(to))),
            // It went where the packets that were asked for did.
            near_miss: before.near_miss.filter(|_| same).map(|e| Box::new(e.renumbered(to))),
            visited: before.visited.iter().map(|n| to(*n)).collect(),
            ..before
        };
        if same {
            return Answer { age: self.net.age(), kept: true, ..before };
        }
        self.shown_again(question, &mut before).unwrap_or_else(|| self.answer(question, limits))
    }

    /// The answer from before, if its packets show it here too: that there is a packet takes no other proof.
    fn shown_again(&self, question: &Question, before: &mut Answer) -> Option<Answer> {
        let (query, shows) = match (&question.ask, before.status) {
            (Ask::Can(q), Status::Holds) => (q, Shows::Matching),
            (Ask::Only(q), Status::Violated) => (q, Shows::Other),
            (Ask::Never(q), Status::Violated) => (q, Shows::Any),
            _ => return None,
        };
        let evidence: Evidence = query.still(&self.net, *before.evidence.take()?, shows)?;
        let mut visited: Vec<NodeId> = evidence.nodes().collect();
        visited.sort_unstable();
        visited.dedup();
        let verdict = match before.status {
            Status::Violated => Verdict::Violated(Some(Box::new(evidence))),
            _ => Verdict::Holds(Some(Box::new(evidence))),
        };
        // There are packets to show.
        let (assumptions, explored) = (before.assumptions.clone(), before.explored);
        let found =
            PartialAnswer { verdict, assumptions, not_tried: false, visited, stopped: None, explored };
        let answer = Answer::new(before.asked.clone(), found);
        Some(Answer { age: self.net.age(), kept: true, ..answer })
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
        (Ask::Return(a, path), Ask::Return(b, p)) => same_query(a, b, m) && same_return_path(path, p, m),
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
        && same_filter(a.sent, b.sent, m)
}

fn same_return_path(a: &ReturnPath, b: &ReturnPath, m: &Matching) -> bool {
    let reply = |(a, b): (&(NodePort, Start), &(NodePort, Start))| {
        m.place(a.0) == Some(b.0) && same_starts(std::slice::from_ref(&a.1), std::slice::from_ref(&b.1), m)
    };
    same_targets(&a.home, &b.home, m)
        && a.replies.len() == b.replies.len()
        && a.replies.iter().zip(&b.replies).all(reply)
}

fn same_starts(a: &[Start], b: &[Start], m: &Matching) -> bool {
    let same = |(a, b): (&Start, &Start)| {
        m.place(a.place) == Some(b.place)
            && a.framing == b.framing
            && a.input == b.input
            && same_guard(a.only, b.only, m)
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn same_targets(a: &[Target], b: &[Target], m: &Matching) -> bool {
    let same = |(a, b): (&Target, &Target)| {
        m.place(a.place) == Some(b.place) && a.framing == b.framing && same_guard(a.only, b.only, m)
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn same_filter(a: Filter, b: Filter, m: &Matching) -> bool {
    same_guard(a.ip, b.ip, m) && same_guard(a.ethernet, b.ethernet, m)
}

fn same_guard(a: Option<Guard>, b: Option<Guard>, m: &Matching) -> bool {
    match (a, b) {
        (Some(a), b) => m.same(a) && m.to(a) == b,
        (None, b) => b.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use weir_model::requirement::Requirement;
    use weir_plan::{Classes, Plan};

    use super::*;

    /// Two paths through a box, each with its filter.
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
        assert_eq!(report(kept), report(fresh), "the same packet, the same path");
        Answer { kept: is_kept, ..after.answer(&r, Limits::of_networks()) }
    }

    #[test]
    fn what_waits_depends_on_what_may_let_it_go() {
        let config = |answers: &str| {
            format!(
                "FromDevice(lan) -> c :: Classifier(12/0800, -); c [1] -> Discard;
                 c [0] -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.0.0.9)
                 -> aq :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> Queue -> ToDevice(wan);
                 FromDevice(wan) -> a :: Classifier(12/0806 20/0002, -); a [1] -> Discard; a [0] -> {answers};"
            )
        };
        let all = "well-formed all lan wan ip and udp dst port 53";
        let (without, with) = (config("Discard; Idle -> [1] aq"), config("[1] aq"));
        assert_eq!(again(all, &without, &with).status, Status::Holds);
        assert_eq!(again(all, &with, &without).status, Status::Violated);
    }

    #[test]
    fn an_answer_stands_if_what_it_depends_on_did_not_change() {
        let old = config("tcp", "udp");
        assert!(again("can a b tcp", &old, &config("tcp", "icmp")).kept);
        assert!(again("never a b udp", &old, &config("tcp", "icmp")).kept);
        let more = format!("FromDevice(x) -> Queue -> ToDevice(y); {}", config("tcp", "udp"));
        assert!(again("can c d udp", &config("tcp", "udp"), &config("icmp", "udp")).kept);
        // Another entry may have left something in tables.
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
        let mut watch = Watch::new(&world, q, Limits::of_networks());
        let (other, _) = asked(&config("icmp", "icmp"), "can a b tcp");
        let number =
            |w: &World, name: &str| w.net.nodes().iter().position(|n| n.name == name).unwrap() as NodeId;
        let program = |name: &str| other.net.node(number(&other, name)).program().unwrap().clone();
        let g = number(&world, "g");
        world.net.replace_program(g, &program("g"), 0);
        watch.renew(&world, Limits::of_networks());
        assert!(watch.answer.kept && watch.answer.status == Status::Holds);
        let f = number(&world, "f");
        world.net.replace_program(f, &program("f"), 0);
        watch.renew(&world, Limits::of_networks());
        assert!(!watch.answer.kept && watch.answer.status == Status::Violated);
    }

    /// Asks of a configuration, and again when the filters of its first path are those of another one.
    fn watched(requirement: &str, configs: [&str; 2]) -> Answer {
        let (mut world, q) = asked(configs[0], requirement);
        let mut watch = Watch::new(&world, q, Limits::of_networks());
        let (other, fresh) = asked(configs[1], requirement);
        let f = world.net.nodes().iter().position(|n| n.name == "f").unwrap() as NodeId;
        let program = other.net.node(f).program().unwrap().clone();
        world.net.replace_program(f, &program, 0);
        watch.renew(&world, Limits::of_networks());
        assert_eq!(watch.answer.status, other.answer(&fresh, Limits::of_networks()).status);
        watch.answer
    }

    #[test]
    fn a_packet_that_still_arrives_shows_it_again() {
        let wider = config("tcp or udp", "udp");
        let found = watched("can a b tcp", [&config("tcp", "udp"), &wider]);
        assert!(found.kept && found.status == Status::Holds && found.evidence.is_some());
        let found = watched("never a b tcp", [&config("tcp", "udp"), &wider]);
        assert!(found.kept && found.status == Status::Violated && found.evidence.is_some());
    }

    #[test]
    fn what_holds_of_all_packets_is_looked_at_where_the_change_is() {
        let found = watched("never a b udp", [&config("tcp", "udp"), &config("tcp or icmp", "udp")]);
        assert!(found.kept && found.status == Status::Holds);
        let found = watched("only a b tcp", [&config("tcp", "udp"), &config("tcp dst port 80", "udp")]);
        assert!(found.kept && found.status == Status::Holds);
        let found = watched("never a b udp", [&config("tcp", "udp"), &config("ip", "udp")]);
        assert!(!found.kept && found.status == Status::Violated);
        let found = watched("only a b tcp", [&config("tcp", "udp"), &config("tcp or udp", "udp")]);
        assert!(!found.kept && found.status == Status::Violated);
    }
}
