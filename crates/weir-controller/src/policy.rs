//! What the operator requires of graphs, whoever applies them: requirements that are proved with those of the document, before anything
//! runs (change-d4.5.txt, section 2.2.4). Pure.

use std::collections::BTreeMap;

use weir_api::policies::PolicySettings;
use weir_api::problem::{Mistake, Problem};
use weir_auth::TenantKind;
use weir_model::DocErrors;
use weir_model::graph::ServiceGraph;
use weir_model::requirement::{Goal, Requirement};
use weir_model::value::Id;

/// Each access point of a graph.
const EVERY: &str = "*";

/// The policies by name.
pub type Policies = BTreeMap<String, PolicySettings>;

/// A requirement of a policy, as it is for a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The policy.
    pub policy: String,
    /// The requirement.
    pub text: String,
}

/// What is wrong about a policy.
pub fn mistakes(settings: &PolicySettings) -> Vec<Mistake> {
    let mistake = |i: usize, message: String, help: &str| Mistake {
        path: format!("require[{i}]"),
        message,
        help: help.into(),
        ..Mistake::default()
    };
    let wrong = |(i, text): (usize, &String)| {
        // With the names of places that any graph could have.
        let line = expand(text, &["a"]).into_iter().next().unwrap_or_default();
        let read = match Requirement::parse(&line) {
            Ok(read) => read,
            Err(e) => return Some(mistake(i, e.message.clone(), &e.help)),
        };
        let help = "write 'never * * FILTER', 'only * * FILTER' or 'noloops'";
        match read.goal {
            Goal::Never { .. } | Goal::Only { .. } | Goal::NoLoops => None,
            _ => Some(mistake(i, format!("'{text}' is nothing to require of every graph"), help)),
        }
    };
    let mut all: Vec<Mistake> = settings.require.iter().enumerate().filter_map(wrong).collect();
    if settings.require.is_empty() {
        all.push(mistake(0, "it requires nothing".into(), "give at least one requirement"));
    }
    all
}

/// A requirement for the access points of a graph: `*` is each of them.
fn expand(text: &str, saps: &[&str]) -> Vec<String> {
    let mut words = text.splitn(4, char::is_whitespace);
    let (goal, from, to, rest) = (words.next(), words.next(), words.next(), words.next().unwrap_or_default());
    let (Some(goal), Some(from), Some(to)) = (goal, from, to) else { return vec![text.to_owned()] };
    let places = |word: &str| -> Vec<String> {
        if word == EVERY { saps.iter().map(|s| format!("sap:{s}")).collect() } else { vec![word.to_owned()] }
    };
    let pairs = places(from).into_iter().flat_map(|a| places(to).into_iter().map(move |b| (a.clone(), b)));
    pairs.map(|(a, b)| format!("{goal} {a} {b} {rest}").trim_end().to_owned()).collect()
}

/// Whether a policy is for the graphs of a tenant of this kind, or of none.
pub fn is_for(settings: &PolicySettings, tenant: Option<&str>, kind: Option<TenantKind>) -> bool {
    let named =
        settings.tenants.is_empty() || tenant.is_some_and(|t| settings.tenants.iter().any(|n| n == t));
    named && settings.kind.is_none_or(|k| kind == Some(k))
}

/// What policies require of a graph whose tenant is of this kind.
pub fn lines(policies: &Policies, graph: &ServiceGraph, kind: Option<TenantKind>) -> Vec<Line> {
    let saps: Vec<&str> = graph.saps.iter().map(|s| s.id.as_str()).collect();
    let tenant = graph.tenant.as_ref().map(Id::as_str);
    let own = policies.iter().filter(|(_, settings)| is_for(settings, tenant, kind));
    own.flat_map(|(name, settings)| {
        let lines = settings.require.iter().flat_map(|text| expand(text, &saps));
        lines.map(|text| Line { policy: name.clone(), text }).collect::<Vec<_>>()
    })
    .collect()
}

/// The graph with what policies require of it behind what its document requires.
///
/// # Errors
/// It speaks of what the graph does not have, or there is too much of it.
pub fn with(graph: &ServiceGraph, lines: &[Line]) -> Result<ServiceGraph, DocErrors> {
    if lines.is_empty() {
        return Ok(graph.clone());
    }
    let mut document = graph.to_json();
    let list = document.pointer_mut("/sffg").and_then(serde_json::Value::as_object_mut);
    if let Some(graph) = list {
        let all = graph.entry("requirements").or_insert_with(|| serde_json::json!([]));
        if let Some(all) = all.as_array_mut() {
            all.extend(lines.iter().map(|l| l.text.clone().into()));
        }
    }
    ServiceGraph::from_json(&document.to_string())
}

/// The same problem, saying of requirements behind the first `own` ones whose they are.
pub fn explain(mut problem: Problem, own: usize, lines: &[Line]) -> Problem {
    for mistake in &mut problem.errors {
        let number = mistake.path.strip_prefix("sffg.requirements[").and_then(|rest| rest.split(']').next());
        let number: Option<usize> = number.and_then(|n| n.parse().ok());
        if let Some(line) = number.and_then(|n| n.checked_sub(own)).and_then(|n| lines.get(n)) {
            mistake.path = format!("policy '{}'", line.policy);
            mistake.line = None;
            mistake.column = None;
        }
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = "
id: g
name: g
tenant: acme
saps:
  - {id: a, type: interface, interface: {if-name: lan}}
  - {id: b, type: interface, interface: {if-name: wan}}
flowrules:
  - {id: r, priority: 1, match: {port_in: 'sap:a'}, actions: {output_to_port: 'sap:b'}}
requirements: [can a b tcp]
";

    fn policy(require: &[&str]) -> PolicySettings {
        PolicySettings { require: require.iter().map(|t| (*t).to_owned()).collect(), ..Default::default() }
    }

    #[test]
    fn a_policy_is_for_each_access_point_of_the_graphs_it_is_for() {
        let graph = ServiceGraph::parse(GRAPH).unwrap();
        let mut policies = Policies::new();
        policies.insert("mail".into(), policy(&["never * b tcp dst port 25", "noloops"]));
        let other = PolicySettings { tenants: vec!["evil".into()], ..policy(&["never * * udp"]) };
        policies.insert("other".into(), other);
        let kind = PolicySettings { kind: Some(TenantKind::ThirdParty), ..policy(&["never a b icmp"]) };
        policies.insert("third".into(), kind);
        let texts = |kind| -> Vec<String> {
            lines(&policies, &graph, kind).into_iter().map(|l| format!("{}: {}", l.policy, l.text)).collect()
        };
        let mail =
            ["mail: never sap:a b tcp dst port 25", "mail: never sap:b b tcp dst port 25", "mail: noloops"];
        assert_eq!(texts(Some(TenantKind::Client)), mail);
        assert_eq!(texts(Some(TenantKind::ThirdParty)).last().unwrap(), "third: never a b icmp");
        let lines = lines(&policies, &graph, None);
        let governed = with(&graph, &lines).unwrap();
        assert_eq!((graph.requirements.len(), governed.requirements.len()), (1, 4));
        assert_eq!(with(&graph, &[]).unwrap(), graph);

        let mistake = |path: &str| Mistake { path: path.into(), ..Mistake::default() };
        let problem = Problem::new(axum::http::StatusCode::CONFLICT, "no").with([
            mistake("sffg.requirements[0]"),
            mistake("sffg.requirements[3]"),
            mistake("sffg.saps[1]"),
        ]);
        let paths: Vec<String> = explain(problem, 1, &lines).errors.into_iter().map(|m| m.path).collect();
        assert_eq!(paths, ["sffg.requirements[0]", "policy 'mail'", "sffg.saps[1]"]);
    }

    #[test]
    fn what_is_wrong_about_a_policy_is_said() {
        let said = |require: &[&str]| -> Vec<String> {
            mistakes(&policy(require)).into_iter().map(|m| format!("{} {}", m.path, m.message)).collect()
        };
        assert!(said(&["never * * tcp dst port 25", "only * * ip", "noloops"]).is_empty());
        assert_eq!(said(&[]), ["require[0] it requires nothing"]);
        let wrong = said(&["never * * prot tcp", "can * * tcp"]);
        assert!(wrong[0].starts_with("require[0]") && wrong[0].contains("prot"), "{wrong:?}");
        assert!(wrong[1].contains("nothing to require of every graph"), "{wrong:?}");
    }
}
