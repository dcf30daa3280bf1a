//! Values of parameters that are shown to nobody.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weir_model::graph::{ParamValue, ServiceGraph};
use weir_switch::compile::CompileError;

use crate::desired::DesiredGraph;

/// What stands for a secret where it would be shown, and in documents that came from there.
pub const MASK: &str = "***";

/// Parameters that are secrets, by function.
pub type Secrets = BTreeMap<String, BTreeSet<String>>;

/// A document of which the secrets are not shown.
pub fn masked(document: &Value, secrets: &Secrets) -> Value {
    let mut document = document.clone();
    for f in document.get_mut("SFs").and_then(Value::as_array_mut).into_iter().flatten() {
        let names = f.get("id").and_then(Value::as_str).and_then(|id| secrets.get(id));
        let (Some(names), Some(params)) = (names, f.get_mut("params").and_then(Value::as_object_mut)) else {
            continue;
        };
        let secret = params.iter_mut().filter(|(name, _)| names.contains(*name));
        secret.for_each(|(_, value)| *value = MASK.into());
    }
    document
}

/// A document in which secrets that are not told are what they were before.
pub fn restored(graph: ServiceGraph, before: Option<&DesiredGraph>) -> ServiceGraph {
    let Some(before) = before.filter(|b| !b.secrets.is_empty()) else { return graph };
    let known = |function: &str, name: &str| -> Option<ParamValue> {
        let is_secret = before.secrets.get(function)?.contains(name);
        let functions = before.document.get("SFs")?.as_array()?;
        let f = functions.iter().find(|f| f.get("id").and_then(Value::as_str) == Some(function))?;
        match f.get("params")?.get(name).filter(|_| is_secret)? {
            Value::Bool(b) => Some(ParamValue::Bool(*b)),
            Value::Number(n) => {
                Some(n.as_i64().map_or_else(|| ParamValue::Text(n.to_string()), ParamValue::Int))
            }
            Value::String(text) => Some(ParamValue::Text(text.clone())),
            _ => None,
        }
    };
    let mut parts = graph.clone().into_parts();
    for f in &mut parts.functions {
        for (name, value) in &mut f.params {
            if is_mask(value)
                && let Some(secret) = known(f.id.as_str(), name)
            {
                *value = secret;
            }
        }
    }
    // It was well formed before, and has other values only.
    ServiceGraph::from_parts(&parts).unwrap_or(graph)
}

/// Secrets of a document that are not told, and not known.
pub fn unknown(graph: &ServiceGraph, secrets: &Secrets) -> Vec<CompileError> {
    let mut errors = Vec::new();
    for (i, f) in graph.functions.iter().enumerate() {
        let names = secrets.get(f.id.as_str()).into_iter().flatten();
        for name in names.filter(|name| f.params.get(*name).is_some_and(is_mask)) {
            let what = format!(
                "'{MASK}' stands for a secret that this node does not know: give the value of {name}"
            );
            errors.push(CompileError { at: format!("sffg.SFs[{i}].params"), what });
        }
    }
    errors
}

fn is_mask(value: &ParamValue) -> bool {
    matches!(value, ParamValue::Text(text) if text == MASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{desired, wire};

    /// A document with a function that has a secret, whose value is this.
    fn document(key: &str) -> String {
        let function = format!("SFs: [{{id: f, name: vpn, params: {{KEY: '{key}', NAME: home}}}}]\nsaps:");
        wire("a", "eth1", "eth2").replacen("saps:", &function, 1)
    }

    #[test]
    fn a_secret_is_masked_and_what_was_masked_is_what_it_was() {
        let before = ServiceGraph::parse(&document("open sesame")).unwrap();
        let mut known = desired(&wire("a", "eth1", "eth2"));
        known.document = before.to_json()["sffg"].clone();
        known.secrets = Secrets::from([("f".to_owned(), BTreeSet::from(["KEY".to_owned()]))]);
        let shown = known.shown();
        assert_eq!(shown["SFs"][0]["params"], serde_json::json!({"KEY": MASK, "NAME": "home"}));
        let back = ServiceGraph::from_json(&shown.to_string()).unwrap();
        assert_eq!(unknown(&back, &known.secrets).len(), 1);
        let restored = restored(back, Some(&known));
        assert_eq!(restored, before);
        assert!(unknown(&restored, &known.secrets).is_empty());
        // Elsewhere it is a text like others.
        let other = ServiceGraph::parse(&document("x").replace("home", "'***'")).unwrap();
        assert_eq!(super::restored(other.clone(), Some(&known)), other);
    }

    #[test]
    fn a_specification_is_logged_without_its_secrets() {
        let mut spec = crate::testing::native_spec("x");
        spec.params = BTreeMap::from([("KEY".into(), "open sesame".into()), ("NAME".into(), "home".into())]);
        spec.secrets = BTreeSet::from(["KEY".to_owned()]);
        let text = format!("{spec:?}");
        assert!(text.contains("home") && !text.contains("sesame"), "{text}");
    }
}
