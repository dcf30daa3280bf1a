//! Values of parameters that are shown to nobody.

use weir_model::graph::ServiceGraph;
use weir_rest::secrets::is_mask;
pub use weir_rest::secrets::{MASK, Secrets, masked, restored};
use weir_switch::compile::CompileError;

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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

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
        let restored = restored(back, &known.document, &known.secrets);
        assert_eq!(restored, before);
        assert!(unknown(&restored, &known.secrets).is_empty());
        // Elsewhere it is a text like others.
        let other = ServiceGraph::parse(&document("x").replace("home", "'***'")).unwrap();
        assert_eq!(super::restored(other.clone(), &known.document, &known.secrets), other);
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
