//! What is to be done so that a node runs what it is to run. Pure: no I/O, no clock.

use std::collections::BTreeMap;

/// A graph that a node is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The entity tag that the node gave when it took the graph. Without one it has not taken it yet.
    pub tag: Option<String>,
}

/// A graph that a node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its entity tag.
    pub tag: String,
    /// As whom it was applied: a controller, or nobody if that was at the node itself.
    pub owner: Option<String>,
}

/// What is to be done at a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It gets a graph, new or again.
    Put(String),
    /// It loses one.
    Delete(String),
    /// It has a graph of this controller's that the controller does not know: an older store was put back, or the node lies.
    Unknown(String),
    /// It has a graph of its own that has the name of one that it is to run: that cannot run.
    Taken(String),
}

/// What is to be done at a node, in order: what goes makes place for what comes. None if all is as it should be. `known` are graphs of
/// other nodes, and those that were removed.
pub fn steps(
    owner: &str,
    wanted: &BTreeMap<String, Wanted>,
    held: &BTreeMap<String, Held>,
    known: impl Fn(&str) -> bool,
) -> Vec<Step> {
    let ours = |h: &Held| h.owner.as_deref() == Some(owner);
    let gone = held.iter().filter(|(id, h)| ours(h) && !wanted.contains_key(*id));
    let gone =
        gone.map(|(id, _)| if known(id) { Step::Delete(id.clone()) } else { Step::Unknown(id.clone()) });
    let put = wanted.iter().filter_map(|(id, w)| match held.get(id) {
        Some(h) if h.owner.is_none() => Some(Step::Taken(id.clone())),
        Some(h) if ours(h) && w.tag.as_ref() == Some(&h.tag) => None,
        _ => Some(Step::Put(id.clone())),
    });
    gone.chain(put).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A node that does what it is told.
    fn perform(
        owner: &str,
        wanted: &mut BTreeMap<String, Wanted>,
        held: &mut BTreeMap<String, Held>,
        steps: &[Step],
    ) {
        for step in steps {
            match step {
                Step::Put(id) => {
                    let tag = format!("{id}-new");
                    held.insert(id.clone(), Held { tag: tag.clone(), owner: Some(owner.to_owned()) });
                    wanted.get_mut(id).unwrap().tag = Some(tag);
                }
                Step::Delete(id) => _ = held.remove(id),
                Step::Taken(_) | Step::Unknown(_) => {}
            }
        }
    }

    fn wanted() -> impl Strategy<Value = BTreeMap<String, Wanted>> {
        let tag = proptest::option::of("[ab]").prop_map(|tag| Wanted { tag });
        proptest::collection::btree_map("[g-k]", tag, 0..5)
    }

    fn held() -> impl Strategy<Value = BTreeMap<String, Held>> {
        let held = ("[ab]", proptest::option::of("[mo]")).prop_map(|(tag, owner)| Held { tag, owner });
        proptest::collection::btree_map("[g-k]", held, 0..5)
    }

    proptest! {
        #[test]
        fn after_the_steps_a_node_runs_what_it_is_to_run_and_keeps_what_is_its_own(
            mut wanted in wanted(), before in held()
        ) {
            let mut held = before.clone();
            let first = steps("m", &wanted, &held, |_| true);
            perform("m", &mut wanted, &mut held, &first);
            let again = steps("m", &wanted, &held, |_| true);
            prop_assert!(again.iter().all(|s| matches!(s, Step::Taken(_))), "{again:?}");
            for (id, h) in &before {
                if h.owner.is_none() {
                    prop_assert_eq!(held.get(id), Some(h), "its own graphs stay as they are");
                }
            }
            for id in wanted.keys() {
                let own = before.get(id).is_some_and(|h| h.owner.is_none());
                prop_assert!(own || held[id].owner.as_deref() == Some("m"));
            }
            let left = held.iter().filter(|(id, h)| h.owner.as_deref() == Some("m") && !wanted.contains_key(*id));
            prop_assert_eq!(left.count(), 0);
        }
    }

    #[test]
    fn nothing_is_done_where_all_is_as_it_should_be() {
        let wanted = BTreeMap::from([("g".to_owned(), Wanted { tag: Some("1".into()) })]);
        let held = BTreeMap::from([("g".to_owned(), Held { tag: "1".into(), owner: Some("m".into()) })]);
        assert_eq!(steps("m", &wanted, &held, |_| true), []);
        // An old disk, another controller's, and one that was applied at the node.
        let with = |tag: &str, owner: Option<&str>| {
            BTreeMap::from([("g".to_owned(), Held { tag: tag.into(), owner: owner.map(str::to_owned) })])
        };
        assert_eq!(steps("m", &wanted, &with("0", Some("m")), |_| true), [Step::Put("g".into())]);
        assert_eq!(steps("m", &wanted, &with("1", Some("o")), |_| true), [Step::Put("g".into())]);
        assert_eq!(steps("m", &wanted, &with("1", None), |_| true), [Step::Taken("g".into())]);
        let none = BTreeMap::new();
        assert_eq!(steps("m", &none, &held, |_| true), [Step::Delete("g".into())]);
        // What nobody removed is left alone.
        assert_eq!(steps("m", &none, &held, |_| false), [Step::Unknown("g".into())]);
    }
}
