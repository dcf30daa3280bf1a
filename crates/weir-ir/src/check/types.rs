//! Numbers and types: one rule an operation, to be read side by side with the operations.

use weir_table::Kind;

use super::Checker;
use crate::program::{
    Amount, BlockId, End, EntryKind, Layer, MAX_STRAND_ARGS, Op, TableId, Target, Type, Value, Width,
};

impl<'a> Checker<'a> {
    pub(super) fn references(&mut self) {
        let (blocks, values) = (self.p.blocks.len() as u32, self.p.types.len() as u32);
        if let Some(exit) = self.p.plain_exits.iter().find(|&&exit| exit >= self.p.outputs) {
            self.err(format!("exit {exit} is said to be plain, and does not exist"));
        }
        for e in &self.p.entries {
            if e.block.0 >= blocks {
                self.err(format!("an entry is at b{}, which does not exist", e.block.0));
                continue;
            }
            let params: Vec<Type> = self.param_types(e.block).collect();
            match &e.kind {
                EntryKind::Expire { table } if params != [Type::Entry(*table)] => {
                    self.err("the block of an expire program has the entry as its one parameter");
                }
                EntryKind::Packet { .. } | EntryKind::Timer { .. } if !params.is_empty() => {
                    self.err("the block of an entry has no parameters");
                }
                _ => {}
            }
        }
        self.each_block(|c, block| {
            let mut wrong = false;
            let mut see = |v: &Value| wrong |= v.0 >= values;
            block.params.iter().for_each(&mut see);
            block.ops.iter().for_each(|op| op.visit_values(|v, _| see(v)));
            block.end.visit_values(&mut see);
            if wrong {
                return c.err("a value has no type");
            }
            let bad = |t: &Target| t.block.0 >= blocks;
            let strands = block.ops.iter().any(|op| match op {
                Op::Fork { target, .. } | Op::Release { target, .. } => bad(target),
                _ => false,
            });
            if strands || block.end.targets().into_iter().any(bad) {
                return c.err("a jump goes to a block that does not exist");
            }
            for (i, op) in block.ops.iter().enumerate() {
                c.op = Some(i);
                c.types(op);
            }
            c.op = None;
            c.end_types(&block.end);
        });
    }

    fn param_types(&self, block: BlockId) -> impl Iterator<Item = Type> + Clone + use<'a> {
        let p = self.p;
        p.blocks.get(block.0 as usize).into_iter().flat_map(|b| &b.params).map(|&v| p.ty(v))
    }

    fn want(&mut self, v: Value, ty: Type) {
        if self.p.ty(v) != ty {
            self.err(format!("v{} is {:?}, but {ty:?} is needed", v.0, self.p.ty(v)));
        }
    }

    fn want_int(&mut self, v: Value, width: Width) {
        self.want(v, Type::Int(width));
    }

    fn any_int(&mut self, v: Value) -> Width {
        if let Type::Entry(_) = self.p.ty(v) {
            self.err(format!("v{} is an entry, but a number is needed", v.0));
        }
        self.p.width(v)
    }

    fn amount(&mut self, n: Amount) {
        if let Amount::Value(v) = n {
            self.want_int(v, Width::W32);
        }
    }

    fn entry(&mut self, v: Value) -> Option<TableId> {
        match self.p.ty(v) {
            Type::Entry(t) if (t.0 as usize) < self.p.tables.len() => Some(t),
            _ => {
                self.err(format!("v{} is not an entry of a table", v.0));
                None
            }
        }
    }

    /// An entry that a program changes. One of a table by prefix is the control side's to change: programs see its
    /// [answer](weir_table::Table::lookup), which other entries share.
    fn changed_entry(&mut self, v: Value) -> Option<TableId> {
        let t = self.entry(v)?;
        let decl = &self.p.tables[t.0 as usize].decl;
        if decl.kind == Kind::Lpm {
            self.err(format!(
                "programs read the entries of table '{}', which is by prefix, and change none",
                decl.name
            ));
            return None;
        }
        Some(t)
    }

    fn table(&mut self, t: TableId, kinds: &[Kind]) -> bool {
        match self.p.tables.get(t.0 as usize) {
            None => self.err(format!("table {} does not exist", t.0)),
            Some(init) if !kinds.contains(&init.decl.kind) => {
                let found = init.decl.kind;
                self.err(format!("table '{}' is {found:?}; this works with {kinds:?} only", init.decl.name));
            }
            Some(_) => return true,
        }
        false
    }

    fn value_field(&mut self, entry: Value, field: u32, v: Value) {
        let Some(t) = self.entry(entry) else { return };
        match self.p.tables[t.0 as usize].decl.value.get(field as usize) {
            Some(f) => self.want_int(v, f.width),
            None => self.err(format!("the table has no value field {field}")),
        }
    }

    fn types(&mut self, op: &Op) {
        match op {
            Op::Const { dst, value } => {
                if *value > self.any_int(*dst).max() {
                    self.err(format!("constant {value} does not fit v{}", dst.0));
                }
            }
            Op::Binary { dst, a, b, .. } => {
                let w = self.any_int(*a);
                self.want_int(*b, w);
                self.want_int(*dst, w);
            }
            Op::Compare { dst, a, b, .. } => {
                let w = self.any_int(*a);
                self.want_int(*b, w);
                self.want_int(*dst, Width::W1);
            }
            Op::Not { dst, a } => {
                let w = self.any_int(*a);
                self.want_int(*dst, w);
            }
            Op::Resize { dst, a } => {
                self.any_int(*a);
                self.any_int(*dst);
            }
            Op::Select { dst, cond, a, b } => {
                self.want_int(*cond, Width::W1);
                let w = self.any_int(*a);
                self.want_int(*b, w);
                self.want_int(*dst, w);
            }
            Op::Load { dst: v, .. } | Op::Store { src: v, .. } => {
                if self.any_int(*v) == Width::W1 {
                    self.err("a packet is read and written in whole bytes");
                }
            }
            Op::Rest { dst, .. } | Op::Distance { dst, .. } | Op::Random { dst } => {
                self.want_int(*dst, Width::W32);
            }
            Op::SetMark { layer, off, .. } => {
                self.amount(*off);
                if *layer == Layer::Data {
                    self.err("the start of the packet moves by push and pull only");
                }
            }
            Op::ClearMark { layer } => {
                if *layer == Layer::Data {
                    self.err("the start of the packet is always set");
                }
            }
            Op::LoadAnno { dst: v, off } | Op::StoreAnno { off, src: v } => {
                let bytes = self.any_int(*v).bytes();
                if off.checked_add(bytes).is_none_or(|end| end as usize > weir_packet::ANNO_LEN) {
                    self.err(format!("annotations have {} bytes", weir_packet::ANNO_LEN));
                }
            }
            Op::LoadMeta { dst: v, field } | Op::StoreMeta { field, src: v } => {
                self.want_int(*v, field.width());
            }
            Op::Checksum { dst, end, .. } => {
                self.want_int(*dst, Width::W16);
                self.amount(*end);
            }
            Op::Sum16 { dst, a, b } => {
                [dst, a, b].into_iter().for_each(|v| self.want_int(*v, Width::W16));
            }
            Op::CopyBytes { .. } => {}
            Op::CompareBytes { dst, .. } => self.want_int(*dst, Width::W1),
            Op::FindByte { dst, end, byte, .. } => {
                self.want_int(*dst, Width::W32);
                self.want_int(*byte, Width::W8);
                self.amount(*end);
            }
            Op::Hash { dst, args } => {
                self.want_int(*dst, Width::W32);
                args.iter().for_each(|v| _ = self.any_int(*v));
            }
            Op::Now { dst } => self.want_int(*dst, Width::W64),
            Op::Pull { n } => self.amount(*n),
            Op::Trim { len } => self.want_int(*len, Width::W32),
            Op::Index { dst, table, index } => {
                if self.table(*table, &[Kind::Array]) {
                    self.want(*dst, Type::Entry(*table));
                    if *index >= self.p.tables[table.0 as usize].decl.capacity {
                        self.err(format!("index {index} is beyond the array"));
                    }
                }
            }
            Op::Get { dst, entry, field } => self.value_field(*entry, *field, *dst),
            Op::GetKey { dst, entry, field } => {
                let Some(t) = self.entry(*entry) else { return };
                if !self.table(t, &[Kind::Exact, Kind::Array]) {
                    return;
                }
                match self.p.tables[t.0 as usize].decl.key.get(*field as usize) {
                    Some(f) => self.want_int(*dst, f.width),
                    None => self.err(format!("the table has no key field {field}")),
                }
            }
            Op::Set { entry, field, src } => {
                if self.changed_entry(*entry).is_some() {
                    self.value_field(*entry, *field, *src);
                }
            }
            Op::Touch { entry, after } => {
                self.changed_entry(*entry);
                self.want_int(*after, Width::W64);
            }
            Op::Link { a, b } => {
                self.changed_entry(*a);
                self.changed_entry(*b);
            }
            Op::Remove { entry } => {
                if let Some(t) = self.changed_entry(*entry) {
                    self.table(t, &[Kind::Exact, Kind::Rules]);
                }
            }
            Op::GroupCount { dst, table, value } => {
                self.want_int(*dst, Width::W32);
                if !self.table(*table, &[Kind::Exact, Kind::Lpm, Kind::Rules, Kind::Array]) {
                    return;
                }
                let decl = &self.p.tables[table.0 as usize].decl;
                match decl.group.and_then(|g| decl.value.get(g as usize)) {
                    Some(f) => self.want_int(*value, f.width),
                    None => self.err(format!("table '{}' does not count by a group", decl.name)),
                }
            }
            Op::Size { dst, table } => {
                self.want_int(*dst, Width::W32);
                self.table(*table, &[Kind::Exact, Kind::Lpm, Kind::Rules, Kind::Array]);
            }
            Op::Fork { target, .. } => self.strand(target),
            Op::Release { entry, target } => {
                self.changed_entry(*entry);
                self.strand(target);
            }
            Op::Notify { event, args, .. } => {
                if *event as usize >= self.p.events.len() {
                    self.err(format!("event {event} does not exist"));
                }
                args.iter().for_each(|v| _ = self.any_int(*v));
            }
        }
    }

    fn strand(&mut self, target: &Target) {
        if target.args.len() > MAX_STRAND_ARGS {
            self.err(format!("at most {MAX_STRAND_ARGS} values go along with a packet"));
        }
        for &v in &target.args {
            if self.any_int(v) == Width::W128 {
                self.err("values that go along with a packet have at most 64 bits");
            }
        }
        self.target(target, &[]);
    }

    fn target(&mut self, target: &Target, supplied: &[Type]) {
        let given = supplied.iter().copied().chain(target.args.iter().map(|&v| self.p.ty(v)));
        let wanted = self.param_types(target.block);
        if !given.clone().eq(wanted.clone()) {
            let (given, wanted): (Vec<Type>, Vec<Type>) = (given.collect(), wanted.collect());
            self.err(format!(
                "the jump to b{} passes {given:?}, but the block takes {wanted:?}",
                target.block.0
            ));
        }
    }

    fn key(&mut self, table: TableId, key: &[Value]) {
        let fields = &self.p.tables[table.0 as usize].decl.key;
        if fields.len() != key.len() {
            return self.err(format!("the key has {} fields, not {}", fields.len(), key.len()));
        }
        for (f, v) in fields.iter().zip(key) {
            self.want_int(*v, f.width);
        }
    }

    fn end_types(&mut self, end: &'a End) {
        let mut supplied: Vec<Type> = Vec::new();
        match end {
            End::Branch { cond, .. } => self.want_int(*cond, Width::W1),
            End::Switch { value, cases, .. } => {
                let max = self.any_int(*value).max();
                if cases.iter().any(|(c, _)| *c > max) {
                    self.err("a case does not fit the value");
                }
            }
            End::Require { n, .. } | End::Push { n, .. } | End::Unpull { n, .. } | End::Put { n, .. } => {
                self.amount(*n);
            }
            End::Lookup { table, key, .. } => {
                if !self.table(*table, &[Kind::Exact, Kind::Lpm, Kind::Rules, Kind::Array]) {
                    return;
                }
                self.key(*table, key);
                supplied.push(Type::Entry(*table));
            }
            End::Insert { table, key, .. } => {
                if !self.table(*table, &[Kind::Exact]) {
                    return;
                }
                self.key(*table, key);
                supplied.push(Type::Entry(*table));
            }
            End::Claim { table, key, hole, lo, hi, start, .. } => {
                if !self.table(*table, &[Kind::Exact]) {
                    return;
                }
                self.key(*table, key);
                supplied.push(Type::Entry(*table));
                match self.p.tables[table.0 as usize].decl.key.get(*hole as usize) {
                    Some(f) => {
                        [lo, hi, start].into_iter().for_each(|v| self.want_int(*v, f.width));
                        supplied.push(Type::Int(f.width));
                    }
                    None => self.err(format!("the key has no field {hole}")),
                }
            }
            End::Soonest { table, .. } => {
                if !self.table(*table, &[Kind::Exact]) {
                    return;
                }
                supplied.extend([Type::Entry(*table), Type::Int(Width::W64)]);
            }
            End::Meter { entry, field, cost, rate, burst, .. } => {
                if let Some(t) = self.changed_entry(*entry) {
                    let f = self.p.tables[t.0 as usize].decl.value.get(*field as usize);
                    if f.is_none_or(|f| f.width != Width::W128) {
                        self.err("a bucket is a value field of 128 bits");
                    }
                }
                [cost, rate, burst].into_iter().for_each(|v| self.want_int(*v, Width::W64));
            }
            End::Hold { entry, .. } => {
                self.changed_entry(*entry);
            }
            End::Emit { port } if *port >= self.p.outputs => {
                self.err(format!("output {port} does not exist ({} outputs)", self.p.outputs));
            }
            End::Exit { exit } if *exit >= self.p.outputs => {
                self.err(format!("exit {exit} does not exist ({} exits)", self.p.outputs));
            }
            End::Enter { block, .. } => {
                if block.0 as usize >= self.p.blocks.len() {
                    self.err("an element is entered at a block that does not exist");
                } else if !self.p.block(*block).params.is_empty() {
                    self.err("no values go along from one element to another");
                }
            }
            _ => {}
        }
        for (i, t) in end.targets().into_iter().enumerate() {
            let given = &supplied[..end.supplied(i).min(supplied.len())];
            self.target(t, given);
        }
    }
}
