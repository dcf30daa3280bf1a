//! Graphs for the tests of this crate.

use std::collections::{BTreeMap, BTreeSet};

use weir_model::graph::ServiceGraph;

use crate::desired::DesiredGraph;
use crate::instance::{Spec, Work};
use crate::proof::Proofs;

/// A document of two interfaces with a wire between them.
pub fn wire(id: &str, left: &str, right: &str) -> String {
    format!(
        "id: '{id}'
name: wire
saps:
  - {{id: l, type: interface, interface: {{if-name: {left}}}}}
  - {{id: r, type: interface, interface: {{if-name: {right}}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: 'sap:r'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sap:r'}}, actions: {{output_to_port: 'sap:l'}}}}
"
    )
}

/// For documents without containers.
pub fn no_containers(_: &weir_oci::Source) -> Result<String, String> {
    Err("there are no container images".into())
}

/// What a document without functions becomes.
pub fn desired(document: &str) -> DesiredGraph {
    let graph = ServiceGraph::parse(document).unwrap_or_else(|e| panic!("{e}"));
    DesiredGraph::new(&graph, |_| Err("there is no image".into()), &Proofs::default(), &no_containers)
        .unwrap_or_else(|e| panic!("{e:?}"))
}

/// A native function of an image with this hash.
pub fn native_spec(digest: &str) -> Spec {
    let native = weir_model::template::Native::default();
    Spec {
        image: "test".into(),
        digest: digest.into(),
        ports: Vec::new(),
        params: BTreeMap::new(),
        secrets: BTreeSet::new(),
        writes: Vec::new(),
        work: Work::Native { folder: "/nowhere".into(), native },
    }
}
