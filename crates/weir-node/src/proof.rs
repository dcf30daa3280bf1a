//! A graph's requirements are proved before anything changes.

use weir_check::report::Report;
use weir_check::{Status, World};
use weir_engine::{Classes, Plan};
use weir_model::graph::ServiceGraph;
use weir_switch::compile::{CompileError, Compiled};
use weir_verify::Limits;

/// Refuses a graph unless all its requirements hold.
///
/// # Errors
/// One for each requirement that is violated, or of which it is not known whether it holds: with the packet that shows it,
/// step by step.
pub fn check(graph: &ServiceGraph, compiled: &Compiled) -> Result<(), Vec<CompileError>> {
    if graph.requirements.is_empty() {
        return Ok(());
    }
    let at = |i: usize| format!("sffg.requirements[{i}]");
    let whole = |what: String| vec![CompileError { at: "sffg".into(), what }];
    let classes = Classes::with(weir_switch::CLASSES.iter().copied());
    let plan = Plan::new(&classes, &compiled.config, graph.id.as_str()).map_err(|e| whole(e.to_string()))?;
    let mut world = World::of_graph(graph, compiled, &plan).map_err(|list| whole(list.join("\n")))?;
    let mut questions = Vec::new();
    let mut errors = Vec::new();
    for (i, r) in graph.requirements.iter().enumerate() {
        match world.question(r) {
            Ok(q) => questions.push(q),
            Err(e) => errors.push(CompileError { at: at(i), what: e.to_string() }),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    world.net.finish();
    let answers: Vec<_> = questions.iter().map(|q| world.answer(q, Limits::of_networks())).collect();
    let report = Report::new(graph.id.as_str(), &world, &answers);
    for (i, finding) in report.findings.iter().enumerate() {
        if finding.verdict != Status::Holds {
            errors.push(CompileError { at: at(i), what: finding.to_string().trim_end().to_owned() });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use weir_model::template::Template;
    use weir_switch::compile::compile;

    use super::*;

    /// What is said about a graph of a filter that drops ping.
    fn told(requirement: &str) -> Vec<CompileError> {
        let image = "name: no-ping\ndescription: Passes everything but ping.\nports: [left, right]\nclick: |\n  \
                     in_0 -> kind :: Classifier(12/0800, -);\n  kind [0] -> CheckIPHeader(14) -> IPFilter(deny icmp, allow all) -> out_1;\n  \
                     kind [1] -> Discard;\n  in_1 -> out_0;\n";
        let image = Template::parse(image).unwrap();
        let rule = |id: &str, from: &str, to: &str| {
            format!(
                "  - {{id: {id}, priority: 1, match: {{port_in: \"{from}\"}}, actions: {{output_to_port: \"{to}\"}}}}\n"
            )
        };
        let text = format!(
            "id: g\nname: g\nSFs:\n  - {{id: f, name: no-ping, ports: [{{id: left}}, {{id: right}}]}}\nsaps:\n  \
             - {{id: a, type: interface, interface: {{if-name: a}}}}\n  - {{id: b, type: interface, interface: {{if-name: b}}}}\n\
             flowrules:\n{}{}{}{}requirements:\n  - {requirement}\n",
            rule("r1", "sap:a", "sf:f:left"),
            rule("r2", "sf:f:left", "sap:a"),
            rule("r3", "sap:b", "sf:f:right"),
            rule("r4", "sf:f:right", "sap:b"),
        );
        let graph = ServiceGraph::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let compiled = compile(&graph, |_| Some(&image)).unwrap();
        check(&graph, &compiled).err().unwrap_or_default()
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
}
