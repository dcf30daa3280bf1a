//! Values of parameters that are shown to nobody.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weir_model::graph::{ParamValue, ServiceGraph};

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

/// A document in which secrets that are not told are what they were in the one before.
pub fn restored(graph: ServiceGraph, before: &Value, secrets: &Secrets) -> ServiceGraph {
    if secrets.is_empty() {
        return graph;
    }
    let known = |function: &str, name: &str| -> Option<ParamValue> {
        let is_secret = secrets.get(function)?.contains(name);
        let functions = before.get("SFs")?.as_array()?;
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

/// Whether a value stands for a secret.
pub fn is_mask(value: &ParamValue) -> bool {
    matches!(value, ParamValue::Text(text) if text == MASK)
}
