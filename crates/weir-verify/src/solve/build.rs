//! Turns a model into what a run starts from.

use weir_ir::program::{Layer, MetaField};
use weir_packet::{HUGE_CAPACITY, Packet};
use weir_table::{EntryRef, KeyMatch, Kind, Row, Table, TableSet};

use crate::checks::set_meta;
use crate::model::expr::{At, EntryAt, Expr, Exprs, Node, Source, SourceId, Symbol};
use crate::network::Network;
use crate::solve::eval::{Evaluator, HeldPackets, Model, moved};
use crate::solve::lazy_tables::LazyTables;
use crate::solve::{ConcreteInput, Entered, Goal};

/// Most entries that are made only to fill a table or a group.
const FILL: u128 = 1 << 16;

/// The input that a model describes. Symbols that it leaves open get any value.
pub(crate) fn build(
    net: &Network,
    goal: &Goal<'_>,
    symbols: &[Expr],
    model: &Model,
) -> Option<ConcreteInput> {
    let x = goal.exprs;
    let eval = Evaluator::of_model(x, net, model);
    let mut b = Build { x, net, model, eval, symbols, tables: LazyTables::default() };
    if goal.whole {
        (0..net.table_count()).try_for_each(|t| b.number(t).map(|_| ()))?;
    }
    for &e in symbols {
        let Node::Symbol(s) = x.node(e) else { continue };
        b.place(s, b.model.get(s).copied().unwrap_or(0))?;
    }
    for &e in symbols {
        let Node::Symbol(s) = x.node(e) else { continue };
        b.finish(s, b.model.get(s).copied().unwrap_or(0))?;
    }
    for &e in symbols {
        let Node::Symbol(s @ Symbol::Expires(t)) = x.node(e) else { continue };
        b.let_expire(*t, b.model.get(s).copied().unwrap_or(0))?;
    }
    let mut packets = Vec::new();
    for i in 0..goal.inputs {
        packets.push(b.packet(b.source(&Source::Input(i))?)?);
    }
    let mut args = Vec::new();
    match &goal.entry {
        Entered::Packets => {}
        Entered::Expire { table } => {
            let fields = net.decl(*table).key.len() as u32;
            let key: Vec<u128> = (0..fields).map(|i| b.value(&Symbol::ArgKey(*table, i))).collect();
            args.push(b.table(*table)?.lookup(&key)?.into());
        }
        Entered::Message { params } => args.extend((0..*params).map(|i| b.value(&Symbol::Arg(i)))),
    }
    let draws = symbols.iter().filter_map(|&e| match x.node(e) {
        Node::Symbol(Symbol::Random(i)) => Some(i + 1),
        _ => None,
    });
    let count = draws.max().unwrap_or(0);
    let randoms = (0..count).map(|i| b.value(&Symbol::Random(i)) as u32).collect();
    let now = b.value(&Symbol::Now) as u64;
    let hash_seed = b.value(&Symbol::HashSeed) as u64;
    let mut tables = b.tables;
    let held = copy_held(&mut tables.set);
    Some(ConcreteInput { packets, args, now, randoms, hash_seed, tables, held })
}

/// Copies of all packets that table entries hold.
pub(crate) fn copy_held(tables: &mut TableSet) -> HeldPackets {
    let mut all = HeldPackets::new();
    for t in 0..tables.len() as u32 {
        if tables.table(t).decl().held == 0 {
            continue;
        }
        for (slot, _) in tables.table(t).rows() {
            let packets = tables.table_mut(t).release(slot);
            if packets.is_empty() {
                continue;
            }
            all.insert(EntryRef { table: t, slot }, packets.iter().map(Packet::copy).collect());
            for p in packets {
                // They were there, so there is space for them.
                drop(tables.table_mut(t).hold(slot, p));
            }
        }
    }
    all
}

struct Build<'a> {
    x: &'a Exprs,
    net: &'a Network,
    model: &'a Model,
    eval: Evaluator<'a>,
    symbols: &'a [Expr],
    tables: LazyTables,
}

impl Build<'_> {
    fn value(&self, s: &Symbol) -> u128 {
        self.model.get(s).copied().unwrap_or(0)
    }

    fn key(&mut self, key: &[Expr]) -> Vec<u128> {
        key.iter().map(|&k| self.eval.eval(k)).collect()
    }

    fn source(&self, s: &Source) -> Option<SourceId> {
        self.x.find_source(s)
    }

    /// The number in the set of a table, which is made if it is not there: with its first rows, but for those that are gone.
    fn number(&mut self, t: u32) -> Option<u32> {
        if let Some(known) = self.tables.numbers.get(t) {
            return Some(known);
        }
        // Rows by number, and by key.
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        for &e in self.symbols {
            let Node::Symbol(s @ Symbol::Has(at)) = self.x.node(e) else { continue };
            if at.table != t || self.value(s) != 0 {
                continue;
            }
            match &at.at {
                At::Row(i) => rows.push(*i as usize),
                At::Key(k) => keys.push(self.key(k).into_iter().map(KeyMatch::Exact).collect::<Vec<_>>()),
            }
        }
        self.tables.number(self.net, t, |r, row| !rows.contains(&r) && !keys.contains(&row.key))
    }

    fn table(&mut self, t: u32) -> Option<&mut Table> {
        let number = self.number(t)?;
        Some(self.tables.set.table_mut(number))
    }

    /// The slot of an entry, which is made if it is not there.
    fn slot(&mut self, at: &EntryAt) -> Option<u32> {
        match &at.at {
            At::Row(r) => {
                let row = self.net.rows(at.table).get(*r as usize)?;
                self.table(at.table)?.find_row(&row.key, row.priority)
            }
            At::Key(k) => {
                let key = self.key(k);
                let table = self.table(at.table)?;
                match (table.lookup(&key), table.decl().kind) {
                    (Some(slot), _) => Some(slot),
                    (None, Kind::Exact) => table.insert(&key),
                    (None, Kind::Array) => None,
                    (None, Kind::Lpm | Kind::Rules) => {
                        let value = vec![0; table.decl().value.len()];
                        table.insert_row(&Row { priority: i32::MAX, ..Row::exact(&key, &value) }, 0).ok()
                    }
                }
            }
        }
    }

    /// Makes the entries that have to be there, with their fields and packets.
    fn place(&mut self, s: &Symbol, v: u128) -> Option<()> {
        match s {
            Symbol::Has(at) if v == 1 => _ = self.slot(at)?,
            // A first row that is gone: the table is there, without it.
            Symbol::Has(at) if !self.net.rows(at.table).is_empty() => _ = self.number(at.table)?,
            Symbol::Field(at, f) => {
                let slot = self.slot(at)?;
                self.table(at.table)?.set(slot, *f, v);
            }
            Symbol::HeldCount(at) => {
                let slot = self.slot(at)?;
                for i in self.table(at.table)?.held(slot)..v as u32 {
                    let packet = match self.source(&Source::Held(at.clone(), i)) {
                        Some(s) => self.packet(s)?,
                        None => Packet::from_bytes(&[]).ok()?,
                    };
                    self.table(at.table)?.hold(slot, packet).ok()?;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Links entries, and fills tables and groups.
    fn finish(&mut self, s: &Symbol, v: u128) -> Option<()> {
        match s {
            Symbol::PartnerIn(at, other) if v == 1 => {
                let a = EntryRef { table: self.number(at.table)?, slot: self.slot(at)? };
                let fields = self.net.decl(*other).key.len() as u32;
                let key: Vec<u128> =
                    (0..fields).map(|f| self.value(&Symbol::PartnerKey(at.clone(), *other, f))).collect();
                let number = self.number(*other)?;
                let table = self.tables.set.table_mut(number);
                let slot = match table.lookup(&key) {
                    Some(slot) => slot,
                    None if table.decl().kind == Kind::Exact => table.insert(&key)?,
                    None => return None,
                };
                self.tables.set.link(a, EntryRef { table: number, slot });
            }
            Symbol::Group(t, value) => {
                let value = self.eval.eval(*value);
                let group = self.net.decl(*t).group?;
                for t in self.net.all_like(*t) {
                    let have = self.table(t)?.group_count(value).into();
                    self.fill(t, v.saturating_sub(have), Some((group, value)))?;
                }
            }
            Symbol::Size(t) => {
                for t in self.net.all_like(*t) {
                    let have = self.table(t)?.len().into();
                    self.fill(t, v.saturating_sub(have), None)?;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Lets the entry that is to expire next do so, and no other. To be done when links stand.
    fn let_expire(&mut self, t: u32, expires: u128) -> Option<()> {
        if expires == 0 {
            return Some(());
        }
        let fields = self.net.decl(t).key.len() as u32;
        let key: Vec<u128> = (0..fields).map(|f| self.value(&Symbol::SoonestKey(t, f))).collect();
        let e = EntryRef { table: self.number(t)?, slot: self.table(t)?.lookup(&key)? };
        let (now, left) = (self.value(&Symbol::Now) as u64, self.value(&Symbol::SoonestLeft(t)) as u64);
        let when = now.checked_add(left).filter(|when| *when > 0)?;
        for e in [Some(e), self.tables.set.partner(e)].into_iter().flatten() {
            self.tables.set.table_mut(e.table).set_expiry(e.slot, when);
        }
        Some(())
    }

    /// Makes `n` entries that nothing else refers to.
    fn fill(&mut self, t: u32, n: u128, field: Option<(u32, u128)>) -> Option<()> {
        let decl = self.net.decl(t);
        let group = decl.group.and_then(|g| Some((g, decl.value.get(g as usize)?.width.max())));
        if n > FILL || (n > 0 && decl.kind != Kind::Exact) {
            return None;
        }
        let mut made = 0;
        let widths: Vec<u128> = decl.key.iter().map(|f| f.width.max()).collect();
        for i in 0..n + FILL {
            if made == n {
                break;
            }
            // From the top down: low keys are what the search tries first.
            let key: Vec<u128> = widths.iter().map(|m| m.wrapping_sub(i) & m).collect();
            let table = self.table(t)?;
            if table.lookup(&key).is_some() {
                continue;
            }
            let slot = table.insert(&key)?;
            if let Some((g, v)) = field.or(group) {
                table.set(slot, g, v);
            }
            made += 1;
        }
        (made == n).then_some(())
    }

    fn packet(&mut self, s: SourceId) -> Option<Packet> {
        let pulled = self.value(&Symbol::Pulled(s)) as i64;
        let len = self.value(&Symbol::Len(s)) as i64;
        // A mark may stand behind the end, if the packet was cut after it was set.
        let marks = Layer::ALL.map(|l| {
            let set = l != Layer::Data && self.value(&Symbol::MarkSet(s, l)) == 1;
            set.then(|| i64::from(self.value(&Symbol::MarkAt(s, l)) as u32 as i32))
        });
        let longest = marks.into_iter().flatten().fold(len, i64::max);
        if longest > HUGE_CAPACITY.into() {
            return None;
        }
        let bytes: Vec<u8> = (-pulled..longest).map(|i| self.value(&Symbol::Byte(s, i)) as u8).collect();
        let front = moved(self.model, s);
        let mut p = Packet::from_bytes(bytes.get(front as usize..)?).ok()?;
        p.push(front).ok()?;
        p.bytes_mut().copy_from_slice(&bytes);
        p.pull(pulled as u32);
        for (layer, mark) in Layer::ALL.into_iter().zip(marks) {
            if let Some(mark) = mark {
                let at = u32::try_from(i64::from(p.data()) + mark).ok()?;
                if at < p.floor() || at > p.end() {
                    return None;
                }
                p.set_layer(layer, Some(at));
            }
        }
        p.trim(len as u32);
        for i in 0..p.anno.len() {
            p.anno[i] = self.value(&Symbol::Anno(s, i as u32)) as u8;
        }
        for f in MetaField::ALL {
            let v = self.value(&Symbol::Meta(s, f));
            set_meta(&mut p, f, v);
        }
        p.hops = self.value(&Symbol::Hops(s)) as u8;
        Some(p)
    }
}
