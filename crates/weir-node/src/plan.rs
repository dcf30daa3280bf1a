//! What a change of a graph would do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weir_api::plan::{Action, Changes, Plan, TableFate, Traffic};

use crate::desired::DesiredGraph;
use crate::expand::Composed;
use crate::guard;

/// The change from `old`, if there is one, to `new`; `tables` are those of the running graph with their entries.
pub fn plan(old: Option<&DesiredGraph>, new: &DesiredGraph, tables: &BTreeMap<String, u32>) -> Plan {
    let part = |name: &str| {
        let before = old.map(|g| parts(g, name)).unwrap_or_default();
        changes(&before, &parts(new, name))
    };
    let mut functions = part("SFs");
    // A function is also another one when its image is.
    if let Some(old) = old {
        let (before, after) = (inside(old), inside(new));
        for f in new.functions.iter().filter(|f| !Composed::has_port(&new.composed, &f.id)) {
            let known = functions.added.contains(&f.id) || functions.changed.contains(&f.id);
            let other = || {
                let image = old.function(&f.id).map(|o| (&o.image, o.kind));
                before.get(f.id.as_str()) != after.get(f.id.as_str())
                    || image != Some((&f.image, f.kind))
                    || instance(old, &f.id) != instance(new, &f.id)
            };
            if !known && other() {
                functions.changed.push(f.id.clone());
            }
        }
    }
    let action = match old {
        None => Action::Create,
        Some(old) if old.is_same(new) => Action::None,
        Some(_) => Action::Change,
    };
    let same = old.map(|old| remaining(old, new)).unwrap_or_default();
    let fate = |(table, entries): (&String, &u32)| {
        let element = table.rsplit_once('.').map_or(table.as_str(), |(e, _)| e);
        TableFate { table: table.clone(), entries: *entries, kept: same.contains(element) }
    };
    Plan {
        graph: new.id.clone(),
        action,
        functions,
        saps: part("saps"),
        rules: part("flowrules"),
        tables: tables.iter().filter(|(_, n)| **n > 0).map(fate).collect(),
        traffic: Traffic::default(),
        choices: new.choices.clone(),
        placement: None,
        warnings: Vec::new(),
    }
}

/// Parts of a graph: those of its document, and of the functions that are made of functions.
fn parts<'a>(graph: &'a DesiredGraph, name: &str) -> BTreeMap<&'a str, &'a Value> {
    let mut parts = by_id(graph.whole(), name);
    parts.retain(|id, _| !Composed::has_port(&graph.composed, id));
    // Rules that lead to one that is made of functions stand in the document as they are meant.
    parts.extend(by_id(&graph.document, name));
    parts
}

fn by_id<'a>(document: &'a Value, part: &str) -> BTreeMap<&'a str, &'a Value> {
    let items = document.get(part).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|v| Some((v.get("id")?.as_str()?, v))).collect()
}

fn changes(before: &BTreeMap<&str, &Value>, after: &BTreeMap<&str, &Value>) -> Changes {
    let owned = |id: &&str| (*id).to_owned();
    Changes {
        added: after.keys().filter(|id| !before.contains_key(*id)).map(owned).collect(),
        changed: after
            .iter()
            .filter(|(id, v)| before.get(*id).is_some_and(|b| b != *v))
            .map(|(id, _)| owned(id))
            .collect(),
        removed: before.keys().filter(|id| !after.contains_key(*id)).map(owned).collect(),
    }
}

type Elements = BTreeMap<String, (String, Vec<String>)>;

fn elements(graph: &DesiredGraph) -> Elements {
    let Ok(flat) = guard::parse(&graph.switch.config) else { return Elements::new() };
    flat.elements.into_iter().map(|e| (e.name, (e.class, e.args))).collect()
}

/// The tag of what runs a function that is not inline.
fn instance<'a>(graph: &'a DesiredGraph, function: &str) -> Option<&'a str> {
    graph.instances.iter().find(|i| i.id.function == function).map(|i| i.tag.as_str())
}

/// The elements of each function.
fn inside(graph: &DesiredGraph) -> BTreeMap<&str, Elements> {
    let all = elements(graph);
    let of = |element: &str| {
        let prefix = format!("{element}/");
        all.iter().filter(|(n, _)| n.starts_with(&prefix)).map(|(n, e)| (n.clone(), e.clone())).collect()
    };
    graph.functions.iter().map(|f| (f.id.as_str(), of(&f.element))).collect()
}

/// Elements of which one of the same name and class remains.
fn remaining(old: &DesiredGraph, new: &DesiredGraph) -> BTreeSet<String> {
    let after = elements(new);
    let same = |(name, (class, _)): &(String, (String, Vec<String>))| {
        after.get(name).is_some_and(|(c, _)| c == class)
    };
    elements(old).into_iter().filter(same).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{desired, wire};

    #[test]
    fn parts_are_told_apart_and_tables_kept_where_the_element_remains() {
        let old = desired(&wire("a", "eth1", "eth2"));
        let new = desired(&wire("a", "eth1", "eth3").replace("id: b,", "id: c,"));
        let tables = BTreeMap::from([("lsi.x".into(), 3), ("nat.y".into(), 2), ("empty.z".into(), 0)]);
        let found = plan(Some(&old), &new, &tables);
        assert_eq!(found.action, Action::Change);
        assert_eq!(found.saps.changed, ["r"]);
        assert_eq!((found.rules.added, found.rules.removed), (vec!["c".to_owned()], vec!["b".to_owned()]));
        let kept: Vec<_> = found.tables.iter().map(|t| (t.table.as_str(), t.kept)).collect();
        assert_eq!(kept, [("lsi.x", true), ("nat.y", false)]);
        assert_eq!(plan(Some(&new), &new, &tables).action, Action::None);
        assert_eq!(plan(None, &new, &BTreeMap::new()).saps.added, ["l", "r"]);
    }
}
