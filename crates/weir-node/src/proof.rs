//! A graph's requirements are proved before anything changes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weir_check::click::Template;
use weir_check::report::Report;
use weir_check::{Answer, Matching, Question, Status, World};
use weir_model::graph::ServiceGraph;
use weir_plan::{Classes, Plan};
use weir_switch::compile::CompileError;
use weir_switch::config::Compiled;
use weir_verify::Limits;

use crate::desired::DesiredGraph;
use crate::guard;

/// Most graphs of which proofs are remembered.
const REMEMBERED: usize = 64;
/// Most time for a requirement: what is not known by then is refused.
const TIME: Duration = Duration::from_secs(10);

/// The results of the last proofs. After a change only what depends on it is proved again.
#[derive(Debug, Default)]
pub struct Proofs {
    last: Mutex<BTreeMap<String, Proof>>,
    verdicts: Verdicts,
}

/// How many requirements were answered how, since the daemon began.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// They hold.
    pub holds: AtomicU64,
    /// They are violated.
    pub violated: AtomicU64,
    /// It is not known whether they hold.
    pub inconclusive: AtomicU64,
}

/// A graph whose requirements hold.
#[derive(Debug)]
struct Proof {
    world: World,
    answers: Vec<(Question, Answer)>,
}

impl Proofs {
    /// Refuses a graph unless all its requirements hold.
    ///
    /// # Errors
    /// One for each requirement that is violated, or of which it is not known whether it holds: with the packet that shows
    /// it, step by step.
    pub fn check(&self, graph: &ServiceGraph, compiled: &Compiled) -> Result<(), Vec<CompileError>> {
        self.prove(graph, compiled).map(drop)
    }

    /// How many requirements were answered how.
    pub fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// The same; says how many answers stand from before.
    fn prove(&self, graph: &ServiceGraph, compiled: &Compiled) -> Result<usize, Vec<CompileError>> {
        if graph.requirements.is_empty() {
            return Ok(0);
        }
        let (world, questions) = questions(graph, compiled)?;
        let id = graph.id.as_str();
        let before = self.proofs().remove(id);
        let answers = answer(&world, &questions, before);
        let report = Report::new(id, &world, &answers);
        for finding in &report.findings {
            let count = match finding.verdict {
                Status::Holds => &self.verdicts.holds,
                Status::Violated => &self.verdicts.violated,
                Status::Inconclusive => &self.verdicts.inconclusive,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        let failed = report.findings.iter().enumerate().filter(|(_, f)| f.verdict != Status::Holds);
        let errors: Vec<CompileError> = failed
            .map(|(i, f)| CompileError { at: place(i), what: f.to_string().trim_end().to_owned() })
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let kept = answers.iter().filter(|a| a.kept).count();
        let mut proofs = self.proofs();
        if proofs.len() >= REMEMBERED {
            proofs.pop_first();
        }
        let answers = questions.into_iter().zip(answers).collect();
        proofs.insert(id.to_owned(), Proof { world, answers });
        Ok(kept)
    }

    fn proofs(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Proof>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a write to a handler leaves alone what was proved of a graph: it has no requirements, or it
/// [follows the document](follows_document).
pub fn outlives(graph: &DesiredGraph, handler: &str, value: &str) -> bool {
    let requirements = graph.document.get("requirements").and_then(|r| r.as_array());
    requirements.is_none_or(Vec::is_empty) || follows_document(graph, handler, value)
}

/// Whether packets find the same in the tables of a graph after a write to a handler as in those of the document. Counts
/// that begin at 0 may be set to 0, for example. What is not known to be the same is not.
pub fn follows_document(graph: &DesiredGraph, handler: &str, value: &str) -> bool {
    if graph.switch.writes.iter().rev().find(|(h, _)| h == handler).is_some_and(|(_, v)| v == value) {
        return true;
    }
    let classes = Classes::with(weir_switch::CLASSES.iter().copied());
    let Ok(plan) = Plan::new(&classes, &graph.switch.config, &graph.id) else { return false };
    let mut template = Template::new(&plan);
    let written =
        graph.switch.writes.iter().try_for_each(|(handler, value)| template.write(&plan, handler, value));
    // What cannot be tried may change anything.
    written.is_ok() && template.is_changed_by(&plan, handler, value) == Ok(false)
}

/// Where a requirement stands in the document.
fn place(i: usize) -> String {
    format!("sffg.requirements[{i}]")
}

/// A graph as a network, and what is asked of it.
fn questions(graph: &ServiceGraph, compiled: &Compiled) -> Result<(World, Vec<Question>), Vec<CompileError>> {
    let whole = |what: String| vec![CompileError { at: "sffg".into(), what }];
    let classes = Classes::with(weir_switch::CLASSES.iter().copied());
    let plan = Plan::new(&classes, &compiled.config.text, graph.id.as_str())
        .map_err(|e| guard::placed(graph, compiled, &e))?;
    let mut world =
        World::of_graph(graph, &compiled.plan.names(), &plan).map_err(|list| whole(list.join("\n")))?;
    let mut questions = Vec::new();
    let mut errors = Vec::new();
    for (i, r) in graph.requirements.iter().enumerate() {
        match world.question(r) {
            Ok(q) => questions.push(q),
            Err(e) => errors.push(CompileError { at: place(i), what: e.to_string() }),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    world.net.finish();
    Ok((world, questions))
}

/// Asks what is not answered by what was proved before.
fn answer(world: &World, questions: &[Question], before: Option<Proof>) -> Vec<Answer> {
    let limits = Limits { time: Some(TIME), ..Limits::of_networks() };
    let Some(mut before) = before else {
        return world.answers(questions, limits, &|_| ());
    };
    let matching = Matching::new(&before.world, world);
    let mut ask = |q: &Question| {
        let same = |(asked, _): &(Question, Answer)| asked.requirement.goal == q.requirement.goal;
        match before.answers.iter().position(same) {
            Some(i) => {
                let (asked, answer) = before.answers.swap_remove(i);
                world.again(q, (&asked, answer), &matching, limits)
            }
            None => world.answer(q, limits),
        }
    };
    questions.iter().map(&mut ask).collect()
}

#[cfg(test)]
mod tests {
    use weir_model::template::Template;
    use weir_switch::compile::plan;

    use super::*;

    /// An image of the same name and ports with handlers that can be written.
    const IMAGE_WITH_HANDLERS: &str = "name: no-ping\ndescription: Paints and counts.\nports: [left, right]\n\
                                       handlers:\n  reset: {handler: c.reset, access: w}\n  \
                                       colour: {handler: p.color, access: w}\n\
                                       click: 'in_0 -> p :: Paint(1) -> c :: Counter -> out_1; in_1 -> out_0;'\n";

    /// A graph of a filter that drops ping.
    fn graph(requirements: &[&str], filter: &str) -> (ServiceGraph, Compiled) {
        let image = "name: no-ping\ndescription: Passes everything but ping.\nports: [left, right]\nclick: |\n  \
                     in_0 -> kind :: Classifier(12/0800, -);\n  kind [0] -> CheckIPHeader(14) -> IPFilter(FILTER, allow all) -> out_1;\n  \
                     kind [1] -> Discard;\n  in_1 -> out_0;\n";
        let image = Template::parse(&image.replace("FILTER", filter)).unwrap();
        let rule = |id: &str, from: &str, to: &str| {
            format!(
                "  - {{id: {id}, priority: 1, match: {{port_in: \"{from}\"}}, actions: {{output_to_port: \"{to}\"}}}}\n"
            )
        };
        let text = format!(
            "id: g\nname: g\nSFs:\n  - {{id: f, name: no-ping, ports: [{{id: left}}, {{id: right}}]}}\nsaps:\n  \
             - {{id: a, type: interface, interface: {{if-name: a}}}}\n  - {{id: b, type: interface, interface: {{if-name: b}}}}\n\
             flowrules:\n{}{}{}{}requirements:\n",
            rule("r1", "sap:a", "sf:f:left"),
            rule("r2", "sf:f:left", "sap:a"),
            rule("r3", "sap:b", "sf:f:right"),
            rule("r4", "sf:f:right", "sap:b"),
        );
        let list: String = requirements.iter().map(|r| format!("  - {r}\n")).collect();
        let graph = ServiceGraph::parse(&(text + &list)).unwrap_or_else(|e| panic!("{e}"));
        let compiled = Compiled::new(plan(&graph, |_| Ok(&image)).unwrap());
        (graph, compiled)
    }

    fn told(requirement: &str) -> Vec<CompileError> {
        let (graph, compiled) = graph(&[requirement], "deny icmp");
        Proofs::default().check(&graph, &compiled).err().unwrap_or_default()
    }

    #[test]
    fn after_a_change_only_what_depends_on_it_is_proved_again() {
        let proofs = Proofs::default();
        let prove = |requirements: &[&str], filter: &str| {
            let (graph, compiled) = graph(requirements, filter);
            proofs.prove(&graph, &compiled)
        };
        let both = ["can a b udp", "can b a udp"];
        let all = ["can a b udp", "can b a udp", "never a b icmp"];
        assert_eq!(prove(&all, "deny icmp"), Ok(0));
        assert_eq!(prove(&all, "deny icmp"), Ok(3));
        // The packets still arrive; what no packet does is asked again where packets meet the change, and what is new.
        assert_eq!(prove(&all, "deny icmp or tcp"), Ok(2));
        assert!(prove(&["can b a udp", "can b a tcp"], "deny tcp").is_ok_and(|kept| kept < 2));
        assert!(prove(&both, "deny udp").is_err());
        assert_eq!(prove(&both, "deny tcp"), Ok(0), "what was refused proves nothing");
    }

    #[test]
    fn a_graph_whose_requirements_hold_is_taken() {
        assert_eq!(told("can a b udp"), []);
    }

    #[test]
    fn a_graph_that_breaks_one_is_refused_with_a_packet() {
        let errors = told("never a b tcp");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].at, "sffg.requirements[0]");
        assert!(errors[0].what.starts_with("violated: never a b tcp"), "{}", errors[0].what);
        assert!(errors[0].what.contains("packet 1"), "{}", errors[0].what);
    }

    #[test]
    fn a_write_that_may_break_what_was_proved_is_known() {
        let (proved, _) = graph(&["can a b udp"], "deny icmp");
        let (free, _) = graph(&[], "deny icmp");
        let image = Template::parse(IMAGE_WITH_HANDLERS).unwrap();
        let made = |graph| {
            DesiredGraph::new(graph, |_| Ok(&image), &Proofs::default(), &crate::testing::no_containers)
                .unwrap()
        };
        let handler = |g: &DesiredGraph, name: &str| g.functions[0].handlers[name].handler.clone();
        let (proved, free) = (made(&proved), made(&free));
        let (reset, colour) = (handler(&proved, "reset"), handler(&proved, "colour"));
        assert!(outlives(&proved, &reset, ""), "counts begin at 0");
        assert!(outlives(&proved, &colour, "1"), "as in the document");
        assert!(!outlives(&proved, &colour, "2"));
        assert!(!outlives(&proved, &colour, "red"), "what cannot be tried");
        assert!(outlives(&free, &colour, "2"), "nothing was proved");
    }
}
