//! Which requests end. Pure: the time is a parameter.

use std::collections::{BTreeMap, BTreeSet};

use super::Kept;

/// The requests that are over at a time (in seconds since the epoch), and those whose graph is gone.
pub fn over(requests: &BTreeMap<u64, Kept>, graphs: &BTreeSet<String>, now: u64) -> Vec<u64> {
    let ends = |(number, kept): &(&u64, &Kept)| {
        kept.answer.until.is_some_and(|until| until <= now) || !graphs.contains(&super::id(**number))
    };
    requests.iter().filter(ends).map(|(number, _)| *number).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_api::requests::RequestAnswer;

    use super::*;
    use crate::requests::offer::Access;

    fn kept(until: Option<u64>) -> Kept {
        let answer = RequestAnswer {
            id: None,
            tenant: None,
            node: "n1".into(),
            until,
            modules: Vec::new(),
            findings: Vec::new(),
        };
        let access = Access { if_name: "lan".into(), vlan: None, share: None };
        Kept { answer, request: String::new(), access, since: 0 }
    }

    proptest! {
        #[test]
        fn what_is_left_has_a_graph_and_time(
            requests in proptest::collection::btree_map(0_u64..9, proptest::option::of(0_u64..20), 0..9),
            graphs in proptest::collection::btree_set(0_u64..9, 0..9),
            now in 0_u64..20,
        ) {
            let kept: BTreeMap<u64, Kept> = requests.iter().map(|(n, until)| (*n, kept(*until))).collect();
            let ids: BTreeSet<String> = graphs.iter().map(|n| super::super::id(*n)).collect();
            let over = over(&kept, &ids, now);
            for (n, until) in &requests {
                let stays = graphs.contains(n) && until.is_none_or(|u| u > now);
                prop_assert_eq!(over.contains(n), !stays);
            }
        }
    }
}
