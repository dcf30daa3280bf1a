//! Templates that are graphs: a function made of functions (COMPOSER paper, section 5.6: hierarchical decomposition).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::container::{expand, mentions, unknown};
use super::{Param, TemplatePort};
use crate::doc::{At, Reader, did_you_mean};
use crate::graph::{Function, MAX_FUNCTIONS, MAX_RULES, ParamValue, Rule, inner};

/// The functions that a function is made of, and the rules between them. Its own ports are access points here: `sap:PORT`. In the
/// text of `params` and `handlers`, `$NAME` or `${NAME}` stands for the value of a parameter, and `$$` for `$`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SubGraph {
    /// The functions that compose it.
    #[serde(rename = "SFs", default)]
    #[schemars(length(max = MAX_FUNCTIONS))]
    pub functions: Vec<Function>,
    /// How traffic is steered.
    #[serde(default)]
    #[schemars(length(max = MAX_RULES))]
    pub flowrules: Vec<Rule>,
}

impl SubGraph {
    /// Its functions with these values of the parameters.
    pub fn functions_with(&self, values: &BTreeMap<String, String>) -> Vec<Function> {
        let mut functions = self.functions.clone();
        for f in &mut functions {
            for value in f.params.values_mut() {
                if let ParamValue::Text(text) = value {
                    *text = expand(text, values);
                }
            }
            for write in &mut f.handlers {
                write.value = expand(&write.value, values);
            }
        }
        functions
    }
}

/// The parameters of a function inside that get values of these, which are secrets.
pub fn secret_parts(f: &Function, secrets: &[&str]) -> Vec<String> {
    let has = |value: &ParamValue| match value {
        ParamValue::Text(text) => secrets.iter().any(|name| mentions(text, name)),
        _ => false,
    };
    f.params.iter().filter(|(_, value)| has(value)).map(|(name, _)| name.clone()).collect()
}

pub(super) fn graph(
    r: &mut Reader,
    at: &At<'_>,
    ports: &[TemplatePort],
    params: &[Param],
) -> Option<SubGraph> {
    let ports = ports.iter().map(|p| p.name.clone()).collect();
    let (functions, flowrules) = inner(r, at, ports)?;
    let known: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
    for f in &functions {
        let values = f.params.values().filter_map(|v| match v {
            ParamValue::Text(text) => Some(text),
            _ => None,
        });
        for text in values.chain(f.handlers.iter().map(|w| &w.value)) {
            let Some(name) = unknown(text, params) else { continue };
            let help =
                if name.is_empty() { "write $$ for a $".to_owned() } else { did_you_mean(&name, &known) };
            r.error(at, format!("function {}: ${name} is no parameter", f.id), help);
        }
        if f.node.is_some() {
            let what = format!("function {}: an image does not say on which node its functions run", f.id);
            r.error(at, what, "leave \"node\" out");
        }
        let secret = |value: &String| params.iter().find(|p| p.secret && mentions(value, &p.name));
        if let Some(p) = f.handlers.iter().find_map(|w| secret(&w.value)) {
            let what = format!("function {}: ${} is a secret, which a handler would show", f.id, p.name);
            r.error(at, what, "give it to a parameter that is a secret too");
        }
    }
    Some(SubGraph { functions, flowrules })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{Implementation, Template};

    const OFFICE: &str = "
name: office
kind: graph
ports: [inside, outside]
params: [{name: RULES, type: text}]
graph:
  SFs:
    - {id: fw, capability: firewall, ports: [inside, outside], params: {RULES: $RULES, COST: 1$$}}
  flowrules:
    - {id: a, priority: 1, match: {port_in: 'sap:inside'}, actions: {output_to_port: 'sf:fw:inside'}}
    - {id: b, priority: 1, match: {port_in: 'sf:fw:outside'}, actions: {output_to_port: 'sap:outside'}}
";

    #[test]
    fn a_template_may_be_made_of_functions() {
        let template = Template::parse(OFFICE).unwrap_or_else(|e| panic!("{e}"));
        let Implementation::Graph { graph } = &template.implementation else { panic!("{template:?}") };
        assert_eq!(graph.flowrules[0].matches.port_in.to_string(), "sap:inside");
        let functions = graph.functions_with(&BTreeMap::from([("RULES".into(), "allow $x".into())]));
        assert_eq!(functions[0].params["RULES"], ParamValue::Text("allow $x".into()));
        assert_eq!(functions[0].params["COST"], ParamValue::Text("1$".into()));
    }

    #[test]
    fn mistakes_in_it_have_their_places() {
        for (from, to, message) in [
            ("sap:outside", "sap:out", "graph.flowrules[1].actions.output_to_port"),
            ("sf:fw:inside", "sf:fv:inside", "no function is"),
            ("$RULES,", "$RULE,", "did you mean \"RULES\"?"),
            ("graph:", "click: x\ngraph:", "kind: click"),
            ("kind: graph", "kind: graph\nhandlers: {a: b.c}", "no handlers of its own"),
            ("  flowrules:", "  saps: []\n  flowrules:", "saps"),
            ("{id: fw,", "{id: fw, node: one,", "on which node"),
        ] {
            let text = OFFICE.replace(from, to);
            assert_ne!(text, OFFICE);
            let e = Template::parse(&text).unwrap_err().to_string();
            assert!(e.contains(message), "{to}: {e}");
        }
        let e = Template::parse("name: f\nkind: graph\nports: [a]\n").unwrap_err().to_string();
        assert!(e.contains("graph"), "{e}");
    }

    #[test]
    fn secrets_are_of_kinds_that_can_keep_them() {
        let secret = "params: [{name: KEY, type: int, secret: true}]";
        for (rest, message) in [
            ("click: 'in_0 -> out_0;'", "a function of kind click cannot keep"),
            ("kind: dpdk\ndpdk: {program: x}", "a function of kind dpdk cannot keep"),
            ("kind: container\ncontainer: {image: ./x, command: [a, $KEY]}", "$KEY is a secret"),
            ("kind: container\ncontainer: {image: ./x, environment: {A: $KEY}}", "$PARAM_KEY_FILE"),
            (
                "kind: graph\ngraph: {SFs: [{id: f, name: x, handlers: {a: $KEY}}]}",
                "which a handler would show",
            ),
        ] {
            let e = Template::parse(&format!("name: f\n{secret}\n{rest}\n")).unwrap_err().to_string();
            assert!(e.contains(message), "{rest}: {e}");
        }
        let e = Template::parse(
            "name: f\nkind: native\nparams: [{name: K, type: text, secret: true, default: x}]\n",
        );
        assert!(e.unwrap_err().to_string().contains("everybody reads the default"));
        let native = Template::parse(&format!("name: f\nkind: native\n{secret}\n")).unwrap();
        assert_eq!(native.secrets().collect::<Vec<_>>(), ["KEY"]);
        let wrong = native.arguments(&BTreeMap::from([("KEY".into(), ParamValue::Text("sesame".into()))]));
        let e = wrong.unwrap_err()[0].to_string();
        assert!(e.contains("parameter KEY") && e.contains("a whole number") && !e.contains("sesame"), "{e}");
    }
}
