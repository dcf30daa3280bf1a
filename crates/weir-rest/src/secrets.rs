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

/// A document in which secrets that are not given are what they were in the one before.
pub fn restored(graph: ServiceGraph, before: &Value, secrets: &Secrets) -> ServiceGraph {
    // Another tenant's, or another image's, is another secret: it would be disclosed where it is none.
    let tenant = graph.tenant.as_ref().map(ToString::to_string);
    if secrets.is_empty() || before.get("tenant").and_then(Value::as_str) != tenant.as_deref() {
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
    let canonical = graph.to_json();
    let now = canonical.get("sffg").and_then(|g| g.get("SFs")).and_then(Value::as_array);
    for f in &mut parts.functions {
        if !same_image(before.get("SFs").and_then(Value::as_array), now, f.id.as_str()) {
            continue;
        }
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

/// Whether a function asks for the same image in two lists of functions.
fn same_image(before: Option<&Vec<Value>>, now: Option<&Vec<Value>>, id: &str) -> bool {
    let of = |list: Option<&Vec<Value>>| {
        let f = list?.iter().find(|f| f.get("id").and_then(Value::as_str) == Some(id))?;
        Some(["name", "template", "capability", "constraints", "kind"].map(|key| f.get(key).cloned()))
    };
    of(before).is_some_and(|b| Some(b) == of(now))
}

/// Whether a value stands for a secret.
pub fn is_mask(value: &ParamValue) -> bool {
    matches!(value, ParamValue::Text(text) if text == MASK)
}
