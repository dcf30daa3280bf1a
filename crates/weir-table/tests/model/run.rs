//! Runs edits on the tables and on the model.

use std::collections::VecDeque;

use proptest::sample::Index;
use weir_packet::{Layer, Packet};
use weir_table::{EditError, EntryRef, KeyMatch, Kind, Row, SetSnapshot, TableDecl, TableSet};

use crate::naive::{Entry, Naive};

/// An entry, as an edit names it: a table, and one of its (first) entries by number modulo their number.
pub type Which = (usize, Index);

/// One thing that happens. Tables are numbered as declared.
#[derive(Debug)]
pub enum Edit {
    /// What a program's `insert` does.
    Insert(usize, Vec<u128>),
    /// `insert_row`; the row is cut to the table's number of fields.
    InsertRow(usize, Row),
    Lookup(usize, Vec<u128>),
    /// In the first table: key, hole, lo, hi, start.
    Claim(Vec<u128>, usize, u128, u128, u128),
    Set(Which, Index, u128),
    Touch(Which, u64),
    Link(Which, Which),
    Remove(Which),
    /// A packet with this byte.
    Hold(Which, u8),
    Release(Which),
    /// Whatever a program may do with an entry that was removed.
    Dead(usize, u32, u64),
    Clear(usize),
    Wait(u64),
    /// Lets entries expire; for each, what its program does: nothing, touch it for a while or for ever, remove it.
    Expire(Vec<u8>),
    /// Snapshot and restore of some tables: as it is (0), through JSON text (1) or a JSON value (2).
    Restore(u8, u8),
    /// Hot swap into a set that has the tables in another order, and takes only some.
    Adopt(usize, u8),
}

/// Names for entries.
pub struct Pair;

impl Pair {
    pub fn entry(table: u32, slot: u32) -> EntryRef {
        EntryRef { table, slot }
    }
}

/// The tables and the model of them.
pub struct World {
    set: TableSet,
    /// Number in the set of each table as declared.
    at: Vec<u32>,
    tables: Vec<Naive>,
    now: u64,
    ids: u64,
}

impl World {
    pub fn new(decls: Vec<TableDecl>) -> World {
        let set = TableSet::new(&decls).unwrap();
        let at = (0..decls.len() as u32).collect();
        World { set, at, tables: decls.into_iter().map(Naive::new).collect(), now: 100, ids: 1000 }
    }

    fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn pick(&self, w: &Which) -> Option<(usize, usize)> {
        let n = self.tables[w.0].entries.len();
        (n > 0).then(|| (w.0, w.1.index(n.min(8))))
    }

    fn entry(&mut self, (t, i): (usize, usize)) -> &mut Entry {
        &mut self.tables[t].entries[i]
    }

    fn real(&self, (t, i): (usize, usize)) -> EntryRef {
        Pair::entry(self.at[t], self.tables[t].entries[i].slot)
    }

    fn partner(&self, (t, i): (usize, usize)) -> Option<(usize, usize)> {
        let own = &self.tables[t].entries[i];
        let link = own.link?;
        let mut all = self
            .tables
            .iter()
            .enumerate()
            .flat_map(|(t, n)| n.entries.iter().enumerate().map(move |(i, e)| ((t, i), e)));
        all.find(|(at, e)| *at != (t, i) && e.link == Some(link)).map(|(at, _)| at)
    }

    fn touch(&mut self, e: (usize, usize), now: u64, after: u64) {
        let when = if after == 0 { 0 } else { now + after };
        let latest = when + after / 64;
        let own = self.entry(e).expires;
        if own > now && (when..=latest).contains(&own) {
            return;
        }
        let is_large = self.tables[e.0].entries.len() > 64;
        self.entry(e).expires = if is_large && own > now && own < when { latest } else { when };
        if let Some(p) = self.partner(e).filter(|_| own == 0 || when < own) {
            self.entry(p).expires = when;
        }
    }

    /// When an entry goes; 0 is never.
    fn expiry(&self, (t, i): (usize, usize)) -> u64 {
        let own = self.tables[t].entries[i].expires;
        match self.partner((t, i)).map(|(t, i)| self.tables[t].entries[i].expires) {
            Some(0) => 0,
            Some(other) if own != 0 => own.max(other),
            _ => own,
        }
    }

    /// Adds an entry that the real table has put into `slot`.
    fn add(&mut self, t: usize, slot: u32, key: Vec<KeyMatch>, priority: i32) -> usize {
        assert!(self.tables[t].entries.iter().all(|e| e.slot != slot), "slot {slot} was taken");
        let (id, fields) = (self.id(), self.tables[t].decl.value.len());
        let value = vec![0; fields];
        let entry = Entry { id, slot, key, priority, value, expires: 0, held: VecDeque::new(), link: None };
        self.tables[t].entries.push(entry);
        self.tables[t].entries.len() - 1
    }

    /// Removes an entry and its partner (one of an array stays); what they held, in order.
    fn remove(&mut self, e: (usize, usize)) -> Vec<u8> {
        let mut held = Vec::new();
        let both = [Some(e), self.partner(e)];
        let ids: Vec<(usize, u64)> =
            both.iter().flatten().map(|&(t, i)| (t, self.tables[t].entries[i].id)).collect();
        for (t, id) in ids {
            let n = &mut self.tables[t];
            let Some(i) = n.entries.iter().position(|e| e.id == id) else { continue };
            n.entries[i].link = None;
            n.entries[i].expires = 0;
            if n.decl.kind != Kind::Array {
                held.extend(n.entries.remove(i).held);
            }
        }
        held
    }

    fn orphans(&mut self) -> Vec<u8> {
        self.set.take_orphans().iter().map(|p| p.bytes()[0]).collect()
    }

    fn space(&self, t: usize) -> bool {
        self.tables[t].entries.len() < self.tables[t].decl.capacity as usize
    }

    /// A key with values that fit.
    fn fit(&self, t: usize, key: &[u128]) -> Vec<u128> {
        self.tables[t].decl.key.iter().zip(key).map(|(f, v)| v & f.width.max()).collect()
    }

    pub fn apply(&mut self, edit: &Edit) {
        let now = self.now;
        match edit {
            Edit::Insert(t, key) => {
                let key = self.fit(*t, key);
                let exact: Vec<KeyMatch> = key.iter().map(|&k| KeyMatch::Exact(k)).collect();
                let (there, space) = (self.tables[*t].find(&exact, 0), self.space(*t));
                let slot = self.set.table_mut(self.at[*t]).insert(&key);
                match there {
                    Some(i) => assert_eq!(slot, Some(self.tables[*t].entries[i].slot)),
                    None => assert_eq!(slot.is_some(), space),
                }
                if let (None, Some(slot)) = (there, slot) {
                    self.add(*t, slot, exact, 0);
                }
            }
            Edit::InsertRow(t, row) => self.insert_row(*t, row),
            Edit::Lookup(t, key) => {
                let key = self.fit(*t, key);
                let table = self.set.table(self.at[*t]);
                let (found, wanted) = (table.lookup(&key), self.tables[*t].lookup(&key));
                // A table by prefix shows a row with these values, not the entry.
                let says = |slot: u32| (0..table.decl().value.len() as u32).map(move |f| table.get(slot, f));
                let values = |slot: Option<u32>| slot.map(|slot| says(slot).collect::<Vec<_>>());
                assert_eq!(values(found), values(wanted), "lookup of {key:?}");
                if table.decl().kind != Kind::Lpm {
                    assert_eq!(found, wanted, "lookup of {key:?}");
                }
            }
            Edit::Claim(key, hole, lo, hi, start) => {
                let mut key = self.fit(0, key);
                let exact = |key: &[u128]| key.iter().map(|&k| KeyMatch::Exact(k)).collect::<Vec<_>>();
                let span = (hi + 1).saturating_sub(*lo);
                let wanted = (0..span).map(|i| lo + (start % span + i) % span).find(|&v| {
                    key[*hole] = v;
                    self.tables[0].find(&exact(&key), 0).is_none()
                });
                let wanted = wanted.filter(|_| self.space(0));
                let got = self.set.table_mut(self.at[0]).claim(&mut key, *hole, *lo, *hi, *start);
                assert_eq!(got.map(|(_, v)| v), wanted);
                if let Some((slot, v)) = got {
                    key[*hole] = v;
                    self.add(0, slot, exact(&key), 0);
                }
            }
            Edit::Set(w, field, v) => {
                let Some(e) = self.pick(w) else { return };
                let f = field.index(self.tables[e.0].decl.value.len());
                let real = self.real(e);
                self.set.table_mut(real.table).set(real.slot, f as u32, *v);
                let max = self.tables[e.0].decl.value[f].width.max();
                self.entry(e).value[f] = v & max;
            }
            Edit::Touch(w, after) => {
                let Some(e) = self.pick(w) else { return };
                self.set.touch(self.real(e), now, *after);
                self.touch(e, now, *after);
            }
            Edit::Link(a, b) => {
                let (Some(a), Some(b)) = (self.pick(a), self.pick(b)) else { return };
                self.set.link(self.real(a), self.real(b));
                let id = self.id();
                for e in [a, b] {
                    if let Some(p) = self.partner(e) {
                        self.entry(p).link = None;
                    }
                    self.entry(e).link = None;
                }
                if a != b {
                    self.entry(a).link = Some(id);
                    self.entry(b).link = Some(id);
                }
            }
            Edit::Remove(w) => {
                let Some(e) = self.pick(w) else { return };
                self.set.remove(self.real(e));
                let held = self.remove(e);
                assert_eq!(self.orphans(), held);
            }
            Edit::Hold(w, tag) => {
                let Some(e) = self.pick(w) else { return };
                let most = self.tables[e.0].decl.held as usize;
                let real = self.real(e);
                let mut packet = Packet::from_bytes(&[*tag, 1, 2]).unwrap();
                packet.set_layer(Layer::Net, Some(packet.data() + 1));
                packet.anno[3] = *tag;
                let got = self.set.table_mut(real.table).hold(real.slot, packet);
                assert_eq!(got.is_ok(), self.entry(e).held.len() < most);
                if got.is_ok() {
                    self.entry(e).held.push_back(*tag);
                }
            }
            Edit::Release(w) => {
                let Some(e) = self.pick(w) else { return };
                let real = self.real(e);
                let got = self.set.table_mut(real.table).release(real.slot);
                for p in &got {
                    assert_eq!(
                        (p.layer(Layer::Net), p.anno[3], p.len()),
                        (Some(p.data() + 1), p.bytes()[0], 3)
                    );
                }
                let tags: Vec<u8> = got.iter().map(|p| p.bytes()[0]).collect();
                assert_eq!(tags, std::mem::take(&mut self.entry(e).held).into_iter().collect::<Vec<_>>());
            }
            Edit::Dead(t, slot, after) => {
                if self.tables[*t].entries.iter().any(|e| e.slot == *slot) {
                    return;
                }
                let dead = Pair::entry(self.at[*t], *slot);
                assert!(!self.set.table(dead.table).is_live(*slot));
                self.set.table_mut(dead.table).set(*slot, 0, 1);
                self.set.touch(dead, now, *after);
                self.set.remove(dead);
                self.set.finish_expiry(dead, now);
                assert!(
                    self.set.table_mut(dead.table).hold(*slot, Packet::with_capacity(0).unwrap()).is_err()
                );
                assert!(self.set.table_mut(dead.table).release(*slot).is_empty());
                if !self.tables[0].entries.is_empty() {
                    let e = (0, 0);
                    self.set.link(dead, self.real(e));
                }
                assert_eq!((self.set.partner(dead), self.set.table(dead.table).expiry(*slot)), (None, 0));
            }
            Edit::Clear(t) => {
                self.set.clear(self.at[*t]);
                self.tables[*t].clear();
            }
            Edit::Wait(time) => self.now += time,
            Edit::Expire(acts) => self.expire(acts),
            Edit::Restore(through, which) => self.restore(*through, *which),
            Edit::Adopt(turn, which) => self.adopt(*turn, *which),
        }
    }

    fn insert_row(&mut self, t: usize, row: &Row) {
        let decl = &self.tables[t].decl;
        let mut row = row.clone();
        row.key.truncate(decl.key.len());
        row.value.truncate(decl.value.len());
        // Most numbers are too large for most fields; half of the rows are made to fit.
        if row.priority >= 1 {
            let max = |i: usize| decl.key[i].width.max();
            for (i, m) in row.key.iter_mut().enumerate() {
                *m = match *m {
                    KeyMatch::Exact(v) if decl.kind == Kind::Array => {
                        KeyMatch::Exact(v % u128::from(decl.capacity))
                    }
                    KeyMatch::Exact(v) => KeyMatch::Exact(v & max(i)),
                    KeyMatch::Mask(v, m) => KeyMatch::Mask(v & max(i), m),
                    KeyMatch::Prefix(v, n) => {
                        KeyMatch::Prefix(v & max(i), n % (decl.key[i].width.bits() + 1))
                    }
                    range => range,
                };
            }
            row.value.iter_mut().zip(&decl.value).for_each(|(v, f)| *v &= f.width.max());
        }
        let got = self.set.table_mut(self.at[t]).insert_row(&row, self.now);
        if !self.tables[t].fits(&row) {
            assert!(matches!(got, Err(EditError::Shape { .. })), "{row:?}: {got:?}");
            return;
        }
        let key = self.tables[t].normal(&row.key);
        let i = match (self.tables[t].find(&key, row.priority), got) {
            (Some(i), Ok(slot)) => {
                assert_eq!(self.tables[t].entries[i].slot, slot);
                i
            }
            (None, Ok(slot)) => {
                assert!(self.space(t));
                self.add(t, slot, key, row.priority)
            }
            (there, Err(e)) => {
                assert!(there.is_none() && !self.space(t) && matches!(e, EditError::Full { .. }), "{e}");
                return;
            }
        };
        // The last of all times stands for never.
        let expires = row.ttl.map_or(0, |ttl| self.now.saturating_add(ttl).min(u64::MAX - 1));
        let e = self.entry((t, i));
        (e.value, e.expires) = (row.value, expires);
    }

    fn expire(&mut self, acts: &[u8]) {
        let now = self.now;
        let mut order: Vec<usize> = (0..self.tables.len()).collect();
        order.sort_by_key(|&t| self.at[t]);
        let mut acts = acts.iter().copied();
        loop {
            let first_of = |t: usize| {
                let all = (0..self.tables[t].entries.len()).map(|i| (self.expiry((t, i)), i));
                let due = all.filter(|&(expires, _)| expires != 0 && expires <= now);
                due.min_by_key(|&(expires, i)| (expires, self.tables[t].entries[i].slot)).map(|(_, i)| (t, i))
            };
            let wanted = order.iter().find_map(|&t| first_of(t));
            let due = self.set.next_due(now);
            assert_eq!(due, wanted.map(|e| self.real(e)), "the next entry that is due");
            let (Some(due), Some(e)) = (due, wanted) else { break };
            let mut held = Vec::new();
            match acts.next().unwrap_or(0) {
                act @ (1 | 2) => {
                    let after = if act == 1 { 5 } else { 0 };
                    self.set.touch(due, now, after);
                    self.touch(e, now, after);
                    // If it was made later, it stays; if its partner's time is later still, that counts.
                    let expires = self.expiry(e);
                    if expires != 0 && expires <= now {
                        held = self.remove(e);
                    }
                }
                act => {
                    if act == 3 {
                        self.set.remove(due);
                    }
                    held = self.remove(e);
                }
            }
            self.set.finish_expiry(due, now);
            assert_eq!(self.orphans(), held);
        }
    }

    fn restore(&mut self, through: u8, which: u8) {
        let now = self.now;
        let snapshot = self.set.snapshot(now, |t| format!("table {t}"));
        let again = match through {
            0 => snapshot.clone(),
            1 => {
                let text = serde_json::to_string(&snapshot).unwrap();
                serde_json::from_str::<SetSnapshot>(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
            }
            _ => serde_json::from_value(serde_json::to_value(&snapshot).unwrap()).unwrap(),
        };
        assert_eq!(again, snapshot);
        let taken: Vec<usize> = (0..self.tables.len()).filter(|t| which >> t & 1 == 1).collect();
        let place: Vec<(usize, u32)> = taken.iter().map(|&t| (self.at[t] as usize, self.at[t])).collect();
        self.set.restore(&again, now, &place).unwrap();
        self.unlink_except(|t| taken.contains(&t));
        for &t in &taken {
            let real = self.set.table(self.at[t]);
            for e in &mut self.tables[t].entries {
                e.slot = real.find_row(&e.key, e.priority).expect("restored");
                if e.expires != 0 {
                    e.expires = e.expires.max(now + 1);
                }
            }
        }
    }

    fn adopt(&mut self, turn: usize, which: u8) {
        let n = self.tables.len();
        let at: Vec<u32> = (0..n).map(|t| ((t + turn) % n) as u32).collect();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&t| at[t]);
        let mut set = TableSet::new(order.iter().map(|&t| &self.tables[t].decl)).unwrap();
        let taken: Vec<usize> = (0..n).filter(|t| which >> t & 1 == 1).collect();
        let pairs: Vec<(u32, u32)> = taken.iter().map(|&t| (self.at[t], at[t])).collect();
        set.adopt(&mut self.set, &pairs);
        (self.set, self.at) = (set, at);
        self.unlink_except(|t| taken.contains(&t));
        for t in (0..n).filter(|t| !taken.contains(t)) {
            self.tables[t].clear();
        }
    }

    /// Undoes links of which only one end is in a table that is kept.
    fn unlink_except(&mut self, kept: impl Fn(usize) -> bool) {
        for t in 0..self.tables.len() {
            for i in 0..self.tables[t].entries.len() {
                if let Some(p) = self.partner((t, i)).filter(|p| kept(t) != kept(p.0)) {
                    self.entry((t, i)).link = None;
                    self.entry(p).link = None;
                }
            }
        }
    }

    pub fn check(&self, when: &str) {
        for (t, n) in self.tables.iter().enumerate() {
            let (real, name) = (self.set.table(self.at[t]), &n.decl.name);
            assert_eq!(real.len() as usize, n.entries.len(), "{when}: length of {name}");
            assert_eq!(real.rows(), n.rows(), "{when}: rows of {name}");
            for (i, e) in n.entries.iter().enumerate() {
                let at = Pair::entry(self.at[t], e.slot);
                assert!(real.is_live(e.slot), "{when}: {name} {i}");
                assert_eq!(real.expiry(e.slot), e.expires, "{when}: expiry of {name} {i}");
                assert_eq!(real.held(e.slot) as usize, e.held.len(), "{when}: packets held by {name} {i}");
                let partner = self.partner((t, i)).map(|p| self.real(p));
                assert_eq!(self.set.partner(at), partner, "{when}: partner of {name} {i}");
                assert_eq!(real.find_row(&e.key, e.priority), Some(e.slot), "{when}: {name} {i}");
                if let Some(g) = n.decl.group {
                    let of = |v: u128| n.entries.iter().filter(|e| e.value[g as usize] == v).count();
                    for v in [e.value[g as usize], 0, 1, 2] {
                        assert_eq!(real.group_count(v) as usize, of(v), "{when}: group {v} of {name}");
                    }
                }
            }
            let first = (0..n.entries.len()).map(|i| self.expiry((t, i))).filter(|&e| e != 0).min();
            let said = self.set.next_expiry();
            assert!(
                first.is_none_or(|f| said.is_some_and(|s| s <= f)),
                "{when}: {first:?} is before {said:?}"
            );
        }
    }
}
