//! Groups: buckets of actions, of which a packet takes all, one, or the first that is live (section 5.6).

use std::collections::BTreeMap;

use weir_openflow::action::Action;
use weir_openflow::connection::Time;
use weir_openflow::error::group_mod_failed;
use weir_openflow::meter::{Bucket, GroupMod};
use weir_openflow::numbers::{GROUP_MAX, GroupType};
use weir_openflow::stats::{Counter, GroupDesc, GroupStats};
use weir_openflow::{ErrorCode, GroupId, PortNo};

/// Most groups, and most buckets of one.
pub const MAX_GROUPS: usize = 4096;
pub const MAX_BUCKETS: usize = 256;

/// A group.
#[derive(Debug)]
pub struct Group {
    /// Which buckets a packet takes.
    pub kind: GroupType,
    /// Its buckets. They are shared with packets on their path through them.
    pub buckets: std::rc::Rc<Vec<Bucket>>,
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
        let watches = |b: &Bucket| b.watch_port != PortNo::ANY || b.watch_group != GroupId::ANY;
        if m.kind == GroupType::FastFailover && !m.buckets.iter().all(watches) {
            return Err(group_mod_failed::BAD_WATCH);
        }
        for next in m.buckets.iter().flat_map(leads) {
            if next == m.group.0 || reaches(groups, next, m.group.0) {
                return Err(group_mod_failed::LOOP);
            }
        }
        let counters = m.buckets.iter().map(|_| Counter { packet_count: 0, byte_count: 0 }).collect();
        Ok(Group {
            kind: m.kind,
            buckets: m.buckets.clone().into(),
            created: now,
            packets: 0,
            bytes: 0,
            counters,
        })
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
        GroupDesc { kind: self.kind, group: GroupId(id), buckets: self.buckets.to_vec() }
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

/// The groups that a bucket's actions lead to.
pub fn leads(bucket: &Bucket) -> impl Iterator<Item = u32> + '_ {
    bucket.actions.iter().filter_map(|a| match a {
        Action::Group(g) => Some(g.0),
        _ => None,
    })
}

/// Whether a group leads to another one, or watches it.
fn reaches(groups: &BTreeMap<u32, Group>, from: u32, to: u32) -> bool {
    let (mut open, mut seen) = (vec![from], std::collections::BTreeSet::new());
    while let Some(id) = open.pop() {
        let Some(group) = groups.get(&id).filter(|_| seen.insert(id)) else { continue };
        for next in group.buckets.iter().flat_map(leads) {
            if next == to {
                return true;
            }
            open.push(next);
        }
    }
    false
}

/// Whether a bucket is live: by the port and by the group that it watches (section 6.5); one that watches nothing is.
pub fn is_live(
    bucket: &Bucket,
    groups: &BTreeMap<u32, Group>,
    port_is_live: &dyn Fn(u32) -> bool,
    depth: usize,
) -> bool {
    let port = bucket.watch_port == PortNo::ANY || port_is_live(bucket.watch_port.0);
    let group = bucket.watch_group == GroupId::ANY
        || depth > 0
            && groups
                .get(&bucket.watch_group.0)
                .is_some_and(|g| g.buckets.iter().any(|b| is_live(b, groups, port_is_live, depth - 1)));
    port && group
}

/// The bucket of a flow, by weights: the same for all packets of a flow as long as the same buckets are live.
pub fn select(buckets: &[Bucket], live: &[bool], hash: u64) -> Option<usize> {
    let weight = |(bucket, live): (&Bucket, &bool)| if *live { u64::from(bucket.weight) } else { 0 };
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
