//! What is to be done so that a node runs what it is to run. Pure: no I/O, no clock.

use std::collections::BTreeMap;

use weir_api::mark::Mark;

/// A graph that a node is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The entity tag that the node gave when it took the graph. Without one it has not taken it yet.
    pub tag: Option<String>,
    /// Whether it may have been changed, moved or removed since by changes that this store does not have: only the operator knows.
    pub doubtful: bool,
}

/// A graph that a node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its entity tag.
    pub tag: String,
    /// As whom it was applied: a controller, or nobody if that was at the node itself.
    pub owner: Option<String>,
}

/// A step at a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It gets a graph, new or again.
    Put(String),
    /// It loses one.
    Delete(String),
    /// It has a graph of this controller's that it is not to have as far as the controller knows: an older store was put back, or the node lies.
    Unknown(String),
    /// It does not have a doubtful graph as the controller knows it.
    Doubtful(String),
    /// It has a graph of its own that has the name of one that it is to run: that cannot run.
    Taken(String),
}

impl Step {
    /// The graph that it is about.
    pub fn graph(&self) -> &str {
        let (Step::Put(id) | Step::Delete(id) | Step::Unknown(id) | Step::Doubtful(id) | Step::Taken(id)) =
            self;
        id
    }
}

/// What is to be done at a node, in order: what goes makes place for what comes. None if all is as it should be. `known` are graphs of
/// other nodes that are not doubtful, and those that were removed.
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
        _ if w.doubtful => Some(Step::Doubtful(id.clone())),
        _ => Some(Step::Put(id.clone())),
    });
    gone.chain(put).collect()
}

/// Whether a doubtful graph is as the controller knows it after all: all of its nodes have their parts, and no other node has any. `parts` are the tags of its parts
/// by node, and `held` is what each node has of it, as far as it has said.
pub fn is_as_known(
    owner: &str,
    parts: &BTreeMap<&str, Option<&str>>,
    held: &BTreeMap<&str, (&str, Option<&str>)>,
) -> bool {
    let ours = |node: &str| held.get(node).filter(|(_, of)| *of == Some(owner)).map(|(tag, _)| *tag);
    let there = parts.iter().all(|(node, tag)| tag.is_some() && ours(node) == *tag);
    there && held.keys().all(|node| parts.contains_key(node) || ours(node).is_none())
}

/// A run of the controller: the generation that it began with, and its name.
pub type Run = (u64, String);

/// Whether what a node remembers is in this controller's history, which are its runs in order. If not, the node has taken changes that this
/// controller's store does not have: an older one was put back.
pub fn has_been(runs: &[Run], generation: u64, mark: &Mark) -> bool {
    let Some(at) = runs.iter().position(|(_, run)| *run == mark.run) else { return false };
    match runs.get(at + 1) {
        Some((next, _)) => mark.generation < *next,
        None => mark.generation <= generation,
    }
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
                Step::Taken(_) | Step::Unknown(_) | Step::Doubtful(_) => {}
            }
        }
    }

    fn wanted() -> impl Strategy<Value = BTreeMap<String, Wanted>> {
        let tag = proptest::option::of("[ab]").prop_map(|tag| Wanted { tag, doubtful: false });
        proptest::collection::btree_map("[g-k]", tag, 0..5)
    }

    fn held() -> impl Strategy<Value = BTreeMap<String, Held>> {
        let held = ("[ab]", proptest::option::of("[mo]")).prop_map(|(tag, owner)| Held { tag, owner });
        proptest::collection::btree_map("[g-k]", held, 0..5)
    }

    proptest! {
        #[test]
        fn doubtful_graphs_are_left_alone(mut wanted in wanted(), held in held()) {
            wanted.values_mut().for_each(|w| w.doubtful = true);
            for step in steps("m", &wanted, &held, |_| false) {
                prop_assert!(!matches!(step, Step::Put(_) | Step::Delete(_)), "{step:?}");
            }
        }

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
        let wanted = BTreeMap::from([("g".to_owned(), Wanted { tag: Some("1".into()), doubtful: false })]);
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
    #[test]
    fn a_doubtful_graph_is_trusted_again_when_its_nodes_have_it_and_no_others() {
        let parts = BTreeMap::from([("n1", Some("1")), ("n2", Some("2"))]);
        let all = BTreeMap::from([("n1", ("1", Some("m"))), ("n2", ("2", Some("m"))), ("n3", ("2", None))]);
        assert!(is_as_known("m", &parts, &all), "n3 has one of its own");
        let with = |node: &'static str, held| {
            let mut all = all.clone();
            all.insert(node, held);
            is_as_known("m", &parts, &all)
        };
        assert!(
            !with("n2", ("3", Some("m"))) && !with("n2", ("2", Some("o"))) && !with("n4", ("7", Some("m")))
        );
        assert!(!is_as_known("m", &parts, &BTreeMap::from([("n1", ("1", Some("m")))])), "n2 has not said");
        assert!(!is_as_known("m", &BTreeMap::from([("n1", None)]), &BTreeMap::new()), "it was never there");
    }

    #[test]
    fn a_node_that_has_seen_what_the_store_has_not_is_found_out() {
        let runs = [(1, "a".to_owned()), (10, "b".to_owned())];
        let been = |text: &str| has_been(&runs, 12, &text.parse().unwrap());
        assert!(been("1 a") && been("9 a") && been("10 b") && been("12 b"));
        assert!(!been("10 a"), "that run went on after the backup");
        assert!(!been("13 b") && !been("11 c"));
    }
}
