//! Writes programs.

use std::fmt::{self, Display, Formatter, Write};

use super::names::{Names, quoted};
use super::{BINARY, COMPARE, KINDS, SHARING, word_for};
use crate::program::{
    Amount, Block, End, EntryKind, Layer, Op, Program, Row, TableDecl, TableId, TableInit, Target, Type,
    Value,
};
use weir_table::{FieldDecl, KeyMatch, Sharing};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = (Names::elements(self), Names::tables(self), Names::events(self));
        Printer { p: self, elements: names.0, tables: names.1, events: names.2 }.program(f)
    }
}

struct Printer<'a> {
    p: &'a Program,
    elements: Names,
    tables: Names,
    events: Names,
}

impl Printer<'_> {
    fn program(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for name in &self.p.elements {
            writeln!(f, "element {}", quoted(name))?;
        }
        write!(f, "ports {} -> {}", self.p.inputs, self.p.outputs)?;
        if !self.p.plain_exits.is_empty() {
            f.write_str(" plain")?;
            self.p.plain_exits.iter().try_for_each(|exit| write!(f, " {exit}"))?;
        }
        writeln!(f)?;
        for t in &self.p.tables {
            self.table(f, t)?;
        }
        for e in &self.p.events {
            writeln!(f, "event {}{}", quoted(&e.name), self.of(e.owner))?;
        }
        for e in &self.p.entries {
            let kind = match &e.kind {
                EntryKind::Packet { port } => format!("packet {port}"),
                EntryKind::Timer { every } => format!("timer {every}"),
                EntryKind::Expire { table } => format!("expire {}", self.table_name(*table)),
                EntryKind::Message { name } => format!("message {}", quoted(name)),
            };
            writeln!(f, "entry {kind} -> b{}{}", e.block.0, self.of(e.owner))?;
        }
        for (i, block) in self.p.blocks.iter().enumerate() {
            self.block(f, i, block)?;
        }
        self.undefined(f)
    }

    /// Values that are defined nowhere still have a type.
    fn undefined(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut defined = vec![false; self.p.types.len()];
        let mut see = |v: Value| {
            if let Some(d) = defined.get_mut(v.0 as usize) {
                *d = true;
            }
        };
        for block in &self.p.blocks {
            block.params.iter().copied().for_each(&mut see);
            block.ops.iter().filter_map(Op::dst).for_each(&mut see);
        }
        let rest: Vec<String> =
            (0..).zip(&defined).filter(|(_, d)| !**d).map(|(i, _)| self.typed(Value(i))).collect();
        rest.chunks(8).try_for_each(|some| writeln!(f, "values {}", some.join(", ")))
    }

    /// Which element something belongs to.
    fn of(&self, owner: u32) -> String {
        if owner == 0 && self.p.elements.len() <= 1 {
            return String::new();
        }
        format!(" of {}", self.elements.reference(owner))
    }

    fn table(&self, f: &mut Formatter<'_>, t: &TableInit) -> fmt::Result {
        let TableDecl {
            name,
            kind,
            key,
            value,
            capacity,
            held,
            group,
            sharing,
            configured,
            counts,
            shared_name,
        } = &t.decl;
        write!(f, "table {} {} ", quoted(name), word_for(&KINDS, kind))?;
        write!(f, "{} -> {} capacity {capacity}", fields(key), fields(value))?;
        if *held != 0 {
            write!(f, " held {held}")?;
        }
        if let Some(group) = group {
            write!(f, " group {}", field(Some(value), *group))?;
        }
        if *sharing != Sharing::Local {
            write!(f, " sharing {}", word_for(&SHARING, sharing))?;
        }
        match (configured, counts) {
            (_, true) => f.write_str(" counting")?,
            (true, false) => f.write_str(" configured")?,
            (false, false) => {}
        }
        if let Some(name) = shared_name {
            write!(f, " shared {}", quoted(name))?;
        }
        writeln!(f, "{}", self.of(t.owner))?;
        t.rows.iter().try_for_each(|r| row(f, r))
    }

    fn block(&self, f: &mut Formatter<'_>, i: usize, b: &Block) -> fmt::Result {
        write!(f, "\nb{i}")?;
        if !b.params.is_empty() {
            write!(f, "({})", joined(b.params.iter().map(|&v| self.typed(v))))?;
        }
        if let Some(limit) = b.loop_limit {
            write!(f, " loop {limit}")?;
        }
        writeln!(f, "{}:", self.of(b.owner))?;
        for op in &b.ops {
            f.write_str("  ")?;
            if let Some(dst) = op.dst() {
                write!(f, "{} = ", self.typed(dst))?;
            }
            self.op(f, op)?;
            f.write_char('\n')?;
        }
        f.write_str("  ")?;
        self.end(f, &b.end)?;
        f.write_char('\n')
    }

    fn op(&self, f: &mut Formatter<'_>, op: &Op) -> fmt::Result {
        match op {
            Op::Const { value, .. } => f.write_str(&number(*value)),
            Op::Binary { op, a, b, .. } => write!(f, "{} v{}, v{}", word_for(&BINARY, op), a.0, b.0),
            Op::Compare { op, a, b, .. } => write!(f, "{} v{}, v{}", word_for(&COMPARE, op), a.0, b.0),
            Op::Not { a, .. } => write!(f, "not v{}", a.0),
            Op::Resize { a, .. } => write!(f, "resize v{}", a.0),
            Op::Select { cond, a, b, .. } => write!(f, "select v{} ? v{} : v{}", cond.0, a.0, b.0),

            Op::Load { layer, off, .. } => write!(f, "load {}", place(*layer, *off)),
            Op::Store { layer, off, src } => write!(f, "store {}, v{}", place(*layer, *off), src.0),
            Op::Rest { layer, .. } => write!(f, "rest {}", layer.name()),
            Op::Distance { from, to, .. } => write!(f, "distance {} to {}", from.name(), to.name()),
            Op::SetMark { layer, base, off } => {
                write!(f, "mark {} = {}+{}", layer.name(), base.name(), amount(*off))
            }
            Op::ClearMark { layer } => write!(f, "unmark {}", layer.name()),
            Op::LoadAnno { off, .. } => write!(f, "load anno+{off}"),
            Op::StoreAnno { off, src } => write!(f, "store anno+{off}, v{}", src.0),
            Op::LoadMeta { field, .. } => write!(f, "load meta.{}", field.name()),
            Op::StoreMeta { field, src } => write!(f, "store meta.{}, v{}", field.name(), src.0),

            Op::Checksum { layer, start, end, .. } => {
                write!(f, "checksum {} {start}..{}", layer.name(), amount(*end))
            }
            Op::Sum16 { a, b, .. } => write!(f, "sum16 v{}, v{}", a.0, b.0),
            Op::CopyBytes { to, from, len } => {
                write!(f, "copy {} from {} bytes {len}", place(to.0, to.1), place(from.0, from.1))
            }
            Op::CompareBytes { a, b, len, .. } => {
                write!(f, "compare {} with {} bytes {len}", place(a.0, a.1), place(b.0, b.1))
            }
            Op::FindByte { layer, start, end, byte, .. } => {
                write!(f, "find v{} in {} {start}..{}", byte.0, layer.name(), amount(*end))
            }

            Op::Hash { args, .. } => write!(f, "hash ({})", values(args)),
            Op::Random { .. } => f.write_str("random"),
            Op::Now { .. } => f.write_str("now"),

            Op::Pull { n } => write!(f, "pull {}", amount(*n)),
            Op::Trim { len } => write!(f, "trim v{}", len.0),

            Op::Index { table, index, .. } => write!(f, "index {}[{index}]", self.table_name(*table)),
            Op::Get { entry, field, .. } => write!(f, "get {}", self.value_field(*entry, *field)),
            Op::GetKey { entry, field: i, .. } => {
                let key = self.entry_decl(*entry).map(|d| d.key.as_slice());
                write!(f, "key v{}.{}", entry.0, field(key, *i))
            }
            Op::Set { entry, field, src } => {
                write!(f, "set {}, v{}", self.value_field(*entry, *field), src.0)
            }
            Op::Touch { entry, after } => write!(f, "touch v{}, v{}", entry.0, after.0),
            Op::Link { a, b } => write!(f, "link v{}, v{}", a.0, b.0),
            Op::Remove { entry } => write!(f, "remove v{}", entry.0),
            Op::GroupCount { table, value, .. } => {
                write!(f, "count {} group v{}", self.table_name(*table), value.0)
            }
            Op::Size { table, .. } => write!(f, "size {}", self.table_name(*table)),

            Op::Fork { copy, target } => {
                write!(f, "fork {} to {}", if *copy { "copy" } else { "empty" }, to(target))
            }
            Op::Release { entry, target } => write!(f, "release v{} to {}", entry.0, to(target)),
            Op::Notify { event, args, packet } => {
                write!(f, "notify {} ({})", self.events.reference(*event), values(args))?;
                f.write_str(if *packet { " with packet" } else { "" })
            }
        }
    }

    fn end(&self, f: &mut Formatter<'_>, end: &End) -> fmt::Result {
        match end {
            End::Jump(t) => write!(f, "jump {}", to(t)),
            End::Branch { cond, then, other } => {
                write!(f, "branch v{} ? {} : {}", cond.0, to(then), to(other))
            }
            End::Switch { value, cases, default } => {
                write!(f, "switch v{} {{ ", value.0)?;
                for (case, t) in cases {
                    write!(f, "{}: {}, ", number(*case), to(t))?;
                }
                write!(f, "else: {} }}", to(default))
            }
            End::Again { header, exit } => write!(f, "again {} exit {}", to(header), to(exit)),
            End::Require { layer, n, ok, fail } => {
                write!(f, "require {} {} ok {} fail {}", layer.name(), amount(*n), to(ok), to(fail))
            }
            End::Push { n, ok, fail } => write!(f, "push {} ok {} fail {}", amount(*n), to(ok), to(fail)),
            End::Unpull { n, ok, fail } => write!(f, "unpull {} ok {} fail {}", amount(*n), to(ok), to(fail)),
            End::Put { n, ok, fail } => write!(f, "put {} ok {} fail {}", amount(*n), to(ok), to(fail)),
            End::Lookup { table, key, hit, miss } => {
                write!(f, "lookup {} ({}) ", self.table_name(*table), values(key))?;
                write!(f, "hit {} miss {}", to(hit), to(miss))
            }
            End::Insert { table, key, ok, full } => {
                write!(f, "insert {} ({}) ", self.table_name(*table), values(key))?;
                write!(f, "ok {} full {}", to(ok), to(full))
            }
            End::Claim { table, key, hole, lo, hi, start, ok, full } => {
                let fields = self.p.tables.get(table.0 as usize).map(|t| t.decl.key.as_slice());
                write!(f, "claim {} ({}) ", self.table_name(*table), values(key))?;
                write!(f, "hole {} in v{}..v{} from v{} ", field(fields, *hole), lo.0, hi.0, start.0)?;
                write!(f, "ok {} full {}", to(ok), to(full))
            }
            End::Soonest { table, hit, miss } => {
                write!(f, "soonest {} hit {} miss {}", self.table_name(*table), to(hit), to(miss))
            }
            End::Meter { entry, field, cost, rate, burst, ok, over } => {
                write!(f, "meter {} ", self.value_field(*entry, *field))?;
                write!(f, "cost v{} rate v{} burst v{} ", cost.0, rate.0, burst.0)?;
                write!(f, "ok {} over {}", to(ok), to(over))
            }
            End::Hold { entry, full } => write!(f, "hold v{} full {}", entry.0, to(full)),
            End::Emit { port } => write!(f, "emit {port}"),
            End::Drop { reason } => write!(f, "drop {}", quoted(reason.name())),
            End::Finish => f.write_str("finish"),
            End::Enter { block, back: false } => write!(f, "enter b{}", block.0),
            End::Enter { block, back: true } => write!(f, "recirculate b{}", block.0),
            End::Exit { exit } => write!(f, "exit {exit}"),
        }
    }

    fn table_name(&self, t: TableId) -> String {
        self.tables.reference(t.0)
    }

    /// A value where it is defined. A value without a type (no valid program has one) shows a `?`.
    fn typed(&self, v: Value) -> String {
        match self.p.types.get(v.0 as usize) {
            Some(Type::Int(width)) => format!("v{}:{}", v.0, width.bits()),
            Some(Type::Entry(t)) => format!("v{}:entry {}", v.0, self.table_name(*t)),
            None => format!("v{}:?", v.0),
        }
    }

    fn entry_decl(&self, entry: Value) -> Option<&TableDecl> {
        match self.p.types.get(entry.0 as usize)? {
            Type::Entry(t) => self.p.tables.get(t.0 as usize).map(|t| &t.decl),
            Type::Int(_) => None,
        }
    }

    fn value_field(&self, entry: Value, i: u32) -> String {
        let fields = self.entry_decl(entry).map(|d| d.value.as_slice());
        format!("v{}.{}", entry.0, field(fields, i))
    }
}

fn row(f: &mut Formatter<'_>, row: &Row) -> fmt::Result {
    let key = row.key.iter().map(|k| match *k {
        KeyMatch::ANY => "any".to_owned(),
        KeyMatch::Exact(v) => number(v),
        KeyMatch::Mask(v, mask) => format!("{}&{}", number(v), number(mask)),
        KeyMatch::Range(lo, hi) => format!("{}..{}", number(lo), number(hi)),
        KeyMatch::Prefix(v, len) => format!("{}/{len}", number(v)),
    });
    write!(f, "  row ({}) -> ({})", joined(key), joined(row.value.iter().map(|&v| number(v))))?;
    if row.priority != 0 {
        write!(f, " priority {}", row.priority)?;
    }
    if let Some(ttl) = row.ttl {
        write!(f, " ttl {ttl}")?;
    }
    f.write_char('\n')
}

fn fields(list: &[FieldDecl]) -> String {
    format!("({})", joined(list.iter().map(|d| format!("{}:{}", quoted(&d.name), d.width.bits()))))
}

/// The name of a field; its number if the name is not known or says less.
fn field(list: Option<&[FieldDecl]>, i: u32) -> String {
    let list = list.unwrap_or_default();
    match list.get(i as usize) {
        Some(d) if list.iter().position(|e| e.name == d.name) == Some(i as usize) => quoted(&d.name),
        _ => format!("#{i}"),
    }
}

fn to(t: &Target) -> String {
    if t.args.is_empty() { format!("b{}", t.block.0) } else { format!("b{}({})", t.block.0, values(&t.args)) }
}

fn place(layer: Layer, off: u32) -> String {
    format!("{}+{off}", layer.name())
}

fn amount(n: Amount) -> String {
    match n {
        Amount::Const(n) => n.to_string(),
        Amount::Value(v) => format!("v{}", v.0),
    }
}

fn values(list: &[Value]) -> String {
    joined(list.iter().map(|v| format!("v{}", v.0)))
}

fn joined(list: impl Iterator<Item = String>) -> String {
    list.collect::<Vec<_>>().join(", ")
}

/// Ports and round numbers (times, rates) in decimal, addresses and masks in hexadecimal.
fn number(n: u128) -> String {
    if n < 1 << 16 || n.is_multiple_of(1000) { n.to_string() } else { format!("{n:#x}") }
}
