//! Groups: buckets of actions, of which a packet takes all, one, or the first that is live (section 5.6).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use weir_openflow::action::Action;
use weir_openflow::connection::Time;
use weir_openflow::error::group_mod_failed;
use weir_openflow::meter::{self, GroupMod};
use weir_openflow::numbers::{GROUP_MAX, GroupType};
use weir_openflow::stats::{Counter, GroupDesc, GroupStats};
use weir_openflow::{ErrorCode, GroupId, PortNo};

use crate::set;

/// Most groups, and most buckets of one.
pub const MAX_GROUPS: usize = 4096;
pub const MAX_BUCKETS: usize = 256;
/// Most groups that one is live by. If it watches more of them, it is not live.
const MAX_WATCHED: usize = 16;

/// A bucket.
#[derive(Debug)]
pub struct Bucket {
    /// As the controller said it.
    pub said: meter::Bucket,
    /// Its actions, a set, in the order in which they are done.
    pub actions: Vec<Action>,
}

/// A group.
#[derive(Debug)]
pub struct Group {
    /// Which buckets a packet takes.
    pub kind: GroupType,
    /// Its buckets. They are shared with packets on their path through them.
    pub buckets: Rc<[Bucket]>,
    created: Time,
    packets: u64,
    bytes: u64,
    counters: Vec<Counter>,
}

impl Group {
    /// A group as a controller says it; `groups` are there.
    ///
    /// # Errors
    /// It cannot be.
    pub fn new(m: &GroupMod, groups: &BTreeMap<u32, Group>, now: Time) -> Result<Group, ErrorCode> {
        if m.group.0 > GROUP_MAX {
            return Err(group_mod_failed::INVALID_GROUP);
        }
        if m.buckets.len() > MAX_BUCKETS {
            return Err(group_mod_failed::OUT_OF_BUCKETS);
        }
        if m.kind == GroupType::Indirect && m.buckets.len() != 1 {
            return Err(group_mod_failed::INVALID_GROUP);
        }
        let watches = |b: &meter::Bucket| b.watch_port != PortNo::ANY || b.watch_group != GroupId::ANY;
        if m.kind == GroupType::FastFailover && !m.buckets.iter().all(watches) {
            return Err(group_mod_failed::BAD_WATCH);
        }
        let bucket = |said: &meter::Bucket| Bucket { said: said.clone(), actions: set::of(&said.actions) };
        let buckets: Rc<[Bucket]> = m.buckets.iter().map(bucket).collect();
        if leads_to(&buckets, m.group.0, groups) {
            return Err(group_mod_failed::LOOP);
        }
        let counters = m.buckets.iter().map(|_| Counter { packet_count: 0, byte_count: 0 }).collect();
        Ok(Group { kind: m.kind, buckets, created: now, packets: 0, bytes: 0, counters })
    }

    /// Counts a packet.
    pub fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    /// Counts a packet of a bucket.
    pub fn count_bucket(&mut self, bucket: usize, bytes: usize) {
        if let Some(counter) = self.counters.get_mut(bucket) {
            counter.packet_count += 1;
            counter.byte_count += bytes as u64;
        }
    }

    /// What it is.
    pub fn desc(&self, id: u32) -> GroupDesc {
        GroupDesc {
            kind: self.kind,
            group: GroupId(id),
            buckets: self.buckets.iter().map(|b| b.said.clone()).collect(),
        }
    }

    /// What it did; `references` lead to it.
    pub fn stats(&self, id: u32, references: usize, now: Time) -> GroupStats {
        let age = now.saturating_sub(self.created);
        GroupStats {
            group: GroupId(id),
            ref_count: references as u32,
            packet_count: self.packets,
            byte_count: self.bytes,
            duration_sec: age.as_secs() as u32,
            duration_nsec: age.subsec_nanos(),
            buckets: self.counters.clone(),
        }
    }
}

/// The groups that actions lead to.
pub fn leads<'a>(actions: impl IntoIterator<Item = &'a Action>) -> impl Iterator<Item = u32> {
    actions.into_iter().filter_map(|a| match a {
        Action::Group(g) => Some(g.0),
        _ => None,
    })
}

/// Whether buckets lead to a group, directly or by others.
fn leads_to(buckets: &[Bucket], to: u32, groups: &BTreeMap<u32, Group>) -> bool {
    let next =
        |buckets: &[Bucket]| -> BTreeSet<u32> { buckets.iter().flat_map(|b| leads(&b.actions)).collect() };
    let mut seen = next(buckets);
    // No other one leads to a group that is not there yet.
    let mut open: Vec<u32> = if groups.contains_key(&to) { seen.iter().copied().collect() } else { vec![] };
    while let Some(group) = open.pop().filter(|_| !seen.contains(&to)) {
        let others = groups.get(&group).map(|g| next(&g.buckets)).unwrap_or_default();
        open.extend(others.into_iter().filter(|id| seen.insert(*id)));
    }
    seen.contains(&to)
}

/// Whether a bucket is live: by the port and by the group that it watches (section 6.5); one that watches nothing is.
///
/// A group is live by any of its buckets: so what is looked for is one that watches no further group, and each group is looked at once.
pub fn is_live(bucket: &Bucket, groups: &BTreeMap<u32, Group>, port_is_live: &dyn Fn(u32) -> bool) -> bool {
    let (mut open, mut seen) = (Vec::new(), BTreeSet::new());
    let mut next = Some(bucket);
    while let Some(meter::Bucket { watch_port, watch_group, .. }) = next.map(|b| &b.said) {
        if *watch_port == PortNo::ANY || port_is_live(watch_port.0) {
            if *watch_group == GroupId::ANY {
                return true;
            }
            if seen.len() < MAX_WATCHED
                && seen.insert(watch_group.0)
                && let Some(group) = groups.get(&watch_group.0)
            {
                open.extend(group.buckets.iter());
            }
        }
        next = open.pop();
    }
    false
}

/// The bucket of a flow, by weights: the same for all packets of a flow as long as the same buckets are live.
pub fn select(buckets: &[Bucket], live: &[bool], hash: u64) -> Option<usize> {
    let weight = |(bucket, live): (&Bucket, &bool)| if *live { u64::from(bucket.said.weight) } else { 0 };
    let total: u64 = buckets.iter().zip(live).map(weight).sum();
    // None has a weight: they are equal.
    if total == 0 {
        let live: Vec<usize> = (0..buckets.len()).filter(|i| live[*i]).collect();
        return live.get(hash as usize % live.len().max(1)).copied();
    }
    let mut place = hash % total;
    buckets.iter().zip(live).map(weight).position(|weight| {
        let here = place < weight;
        place = place.saturating_sub(weight);
        here
    })
}
