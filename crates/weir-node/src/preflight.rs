//! What a change would be refused for when it is made, as far as the machine can say so while nothing is done.

use std::collections::BTreeSet;

use weir_io::{interface, tunnel};
use weir_switch::compile::CompileError;
use weir_switch::lsi0::Base;

use crate::compute::Drivers;
use crate::desired::DesiredGraph;

/// What keeps `new` from being made of `old`, if there is one. What `old` has may be missing for a while, and only waits then.
pub fn check(old: Option<&DesiredGraph>, new: &DesiredGraph, drivers: &Drivers) -> Vec<CompileError> {
    let had: BTreeSet<&str> = old.iter().flat_map(|g| &g.attachments).map(|a| a.interface.as_str()).collect();
    let mut errors = Vec::new();
    for (i, a) in new.attachments().iter().enumerate().filter(|(_, a)| !had.contains(&*a.base.to_string())) {
        let (found, field) = match &a.base {
            Base::Interface(name) => (interface::find(name), "interface.if-name"),
            Base::Gre { local } => (tunnel::check_address(*local), "gre.local-ip"),
            Base::Vxlan { local, .. } => (tunnel::check_address(*local), "vxlan.local-ip"),
            Base::WireGuard(w) => (tunnel::check_address(w.local), "vxlan.local-ip"),
            Base::Host(_) => continue,
        };
        errors.extend(
            found.err().map(|e| CompileError { at: format!("sffg.saps[{i}].{field}"), what: e.to_string() }),
        );
    }
    let functions = new.document.get("SFs").and_then(|f| f.as_array());
    for instance in &new.instances {
        let same =
            |g: &&DesiredGraph| g.instances.iter().any(|i| i.id == instance.id && i.tag == instance.tag);
        if old.is_some_and(|g| same(&g)) {
            continue;
        }
        let checked = drivers.get(instance.spec.kind()).and_then(|driver| driver.check(instance));
        let at = || {
            let index =
                functions?.iter().position(|f| f.get("id").is_some_and(|id| *id == *instance.id.function))?;
            Some(format!("sffg.SFs[{index}]"))
        };
        let error = |e: crate::compute::ComputeError| CompileError {
            at: at().unwrap_or_else(|| "sffg.SFs".into()),
            what: e.to_string(),
        };
        errors.extend(checked.err().map(error));
    }
    errors
}
