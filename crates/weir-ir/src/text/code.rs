//! Reads operations and ends.

use super::line::{Line, Result, Token, numbered};
use super::names::shortened;
use super::read::{Reader, Step};
use super::table::field_number;
use super::{BINARY, COMPARE, by_word};
use crate::program::{Amount, End, Layer, MetaField, Op, Reason, Target, Type, Value};

/// The place that a load or store goes to.
enum Cell {
    Packet(Layer, u32),
    Anno(u32),
    Meta(MetaField),
}

impl Reader {
    /// An operation or an end.
    pub(super) fn step(&self, l: &mut Line<'_>) -> Result<Step> {
        let step = if numbered(l.peek_word(), 'v').is_some() {
            let dst = self.defined(l)?;
            l.mark("=")?;
            Step::Op(self.result(l, dst)?)
        } else if let Some(op) = self.effect(l)? {
            Step::Op(op)
        } else if let Some(end) = self.end(l)? {
            Step::End(end)
        } else {
            return l.expected("an operation, the end of the block, or the next block");
        };
        l.finish()?;
        Ok(step)
    }

    /// An operation that defines `dst`.
    fn result(&self, l: &mut Line<'_>, dst: Value) -> Result<Op> {
        if let &Token::Number(value) = l.token() {
            l.advance();
            return Ok(Op::Const { dst, value });
        }
        let Token::Word(word) = *l.token() else { return l.expected(RESULT) };
        let position = l.position();
        l.advance();
        if let Some(op) = by_word(&BINARY, word) {
            let (a, b) = self.pair(l)?;
            return Ok(Op::Binary { op, dst, a, b });
        }
        if let Some(op) = by_word(&COMPARE, word) {
            let (a, b) = self.pair(l)?;
            return Ok(Op::Compare { op, dst, a, b });
        }
        Ok(match word {
            "not" => Op::Not { dst, a: self.value(l)? },
            "resize" => Op::Resize { dst, a: self.value(l)? },
            "select" => {
                let cond = self.value(l)?;
                l.mark("?")?;
                let a = self.value(l)?;
                l.mark(":")?;
                Op::Select { dst, cond, a, b: self.value(l)? }
            }
            "sum16" => {
                let (a, b) = self.pair(l)?;
                Op::Sum16 { dst, a, b }
            }
            "load" => match cell(l)? {
                Cell::Packet(layer, off) => Op::Load { dst, layer, off },
                Cell::Anno(off) => Op::LoadAnno { dst, off },
                Cell::Meta(field) => Op::LoadMeta { dst, field },
            },
            "rest" => Op::Rest { dst, layer: layer(l)? },
            "distance" => {
                let from = layer(l)?;
                l.keyword("to")?;
                Op::Distance { dst, from, to: layer(l)? }
            }
            "checksum" => {
                let layer = layer(l)?;
                let (start, end) = self.range(l)?;
                Op::Checksum { dst, layer, start, end }
            }
            "compare" => {
                let a = place(l)?;
                l.keyword("with")?;
                let b = place(l)?;
                l.keyword("bytes")?;
                Op::CompareBytes { dst, a, b, len: l.number("a number of bytes")? }
            }
            "find" => {
                let byte = self.value(l)?;
                l.keyword("in")?;
                let layer = layer(l)?;
                let (start, end) = self.range(l)?;
                Op::FindByte { dst, layer, start, end, byte }
            }
            "hash" => Op::Hash { dst, args: self.values(l)? },
            "random" => Op::Random { dst },
            "now" => Op::Now { dst },
            "index" => {
                let table = self.table(l)?;
                l.mark("[")?;
                let index = l.number("an index")?;
                l.mark("]")?;
                Op::Index { dst, table, index }
            }
            "get" => {
                let (entry, field) = self.field(l, Side::Value)?;
                Op::Get { dst, entry, field }
            }
            "key" => {
                let (entry, field) = self.field(l, Side::Key)?;
                Op::GetKey { dst, entry, field }
            }
            "count" => {
                let table = self.table(l)?;
                l.keyword("group")?;
                Op::GroupCount { dst, table, value: self.value(l)? }
            }
            "size" => Op::Size { dst, table: self.table(l)? },
            _ => {
                return l.fault_at(position, format!("expected {RESULT}, found '{}'", shortened(word)));
            }
        })
    }

    /// An operation that defines nothing.
    fn effect(&self, l: &mut Line<'_>) -> Result<Option<Op>> {
        let word = l.peek_word();
        if !EFFECTS.contains(&word) {
            return Ok(None);
        }
        l.advance();
        Ok(Some(match word {
            "store" => {
                let cell = cell(l)?;
                l.mark(",")?;
                let src = self.value(l)?;
                match cell {
                    Cell::Packet(layer, off) => Op::Store { layer, off, src },
                    Cell::Anno(off) => Op::StoreAnno { off, src },
                    Cell::Meta(field) => Op::StoreMeta { field, src },
                }
            }
            "copy" => {
                let to = place(l)?;
                l.keyword("from")?;
                let from = place(l)?;
                l.keyword("bytes")?;
                Op::CopyBytes { to, from, len: l.number("a number of bytes")? }
            }
            "mark" => {
                let mark = layer(l)?;
                l.mark("=")?;
                let base = layer(l)?;
                l.mark("+")?;
                Op::SetMark { layer: mark, base, off: self.amount(l)? }
            }
            "unmark" => Op::ClearMark { layer: layer(l)? },
            "pull" => Op::Pull { n: self.amount(l)? },
            "trim" => Op::Trim { len: self.value(l)? },
            "set" => {
                let (entry, field) = self.field(l, Side::Value)?;
                l.mark(",")?;
                Op::Set { entry, field, src: self.value(l)? }
            }
            "touch" => {
                let (entry, after) = self.pair(l)?;
                Op::Touch { entry, after }
            }
            "link" => {
                let (a, b) = self.pair(l)?;
                Op::Link { a, b }
            }
            "remove" => Op::Remove { entry: self.value(l)? },
            "fork" => {
                let copy = l.eat_word("copy");
                if !copy && !l.eat_word("empty") {
                    return l.expected("'copy' or 'empty'");
                }
                l.keyword("to")?;
                Op::Fork { copy, target: self.target(l)? }
            }
            "release" => {
                let entry = self.value(l)?;
                l.keyword("to")?;
                Op::Release { entry, target: self.target(l)? }
            }
            _ => {
                let event = self.event(l)?;
                let args = self.values(l)?;
                let packet = l.eat_word("with");
                if packet {
                    l.keyword("packet")?;
                }
                Op::Notify { event, args, packet }
            }
        }))
    }

    fn end(&self, l: &mut Line<'_>) -> Result<Option<End>> {
        let word = l.peek_word();
        if !ENDS.contains(&word) {
            return Ok(None);
        }
        l.advance();
        Ok(Some(match word {
            "jump" => End::Jump(self.target(l)?),
            "branch" => {
                let cond = self.value(l)?;
                l.mark("?")?;
                let then = self.target(l)?;
                l.mark(":")?;
                End::Branch { cond, then, other: self.target(l)? }
            }
            "switch" => self.switch(l)?,
            "again" => {
                let header = self.target(l)?;
                End::Again { header, exit: self.after(l, "exit")? }
            }
            "require" => {
                let layer = layer(l)?;
                let n = self.amount(l)?;
                End::Require { layer, n, ok: self.after(l, "ok")?, fail: self.after(l, "fail")? }
            }
            "push" => {
                End::Push { n: self.amount(l)?, ok: self.after(l, "ok")?, fail: self.after(l, "fail")? }
            }
            "unpull" => {
                End::Unpull { n: self.amount(l)?, ok: self.after(l, "ok")?, fail: self.after(l, "fail")? }
            }
            "put" => End::Put { n: self.amount(l)?, ok: self.after(l, "ok")?, fail: self.after(l, "fail")? },
            "lookup" => End::Lookup {
                table: self.table(l)?,
                key: self.values(l)?,
                hit: self.after(l, "hit")?,
                miss: self.after(l, "miss")?,
            },
            "insert" => End::Insert {
                table: self.table(l)?,
                key: self.values(l)?,
                ok: self.after(l, "ok")?,
                full: self.after(l, "full")?,
            },
            "claim" => self.claim(l)?,
            "soonest" => End::Soonest {
                table: self.table(l)?,
                hit: self.after(l, "hit")?,
                miss: self.after(l, "miss")?,
            },
            "meter" => {
                let (entry, field) = self.field(l, Side::Value)?;
                l.keyword("cost")?;
                let cost = self.value(l)?;
                l.keyword("rate")?;
                let rate = self.value(l)?;
                l.keyword("burst")?;
                let burst = self.value(l)?;
                let (ok, over) = (self.after(l, "ok")?, self.after(l, "over")?);
                End::Meter { entry, field, cost, rate, burst, ok, over }
            }
            "hold" => End::Hold { entry: self.value(l)?, full: self.after(l, "full")? },
            "emit" => End::Emit { port: l.number("a port")? },
            "drop" => End::Drop { reason: Reason::named(&l.name("a reason")?) },
            "finish" => End::Finish,
            "enter" => End::Enter { block: self.block(l)?, back: false },
            "recirculate" => End::Enter { block: self.block(l)?, back: true },
            _ => End::Exit { exit: l.number("the number of an exit")? },
        }))
    }

    fn switch(&self, l: &mut Line<'_>) -> Result<End> {
        let value = self.value(l)?;
        l.mark("{")?;
        let mut cases = Vec::new();
        loop {
            if l.eat_word("else") {
                l.mark(":")?;
                let default = self.target(l)?;
                l.mark("}")?;
                return Ok(End::Switch { value, cases, default });
            }
            let case = l.number("a number or 'else'")?;
            l.mark(":")?;
            cases.push((case, self.target(l)?));
            l.mark(",")?;
        }
    }

    fn claim(&self, l: &mut Line<'_>) -> Result<End> {
        let table = self.table(l)?;
        let key = self.values(l)?;
        l.keyword("hole")?;
        let hole = match self.program.tables.get(table.0 as usize) {
            Some(t) => field_number(l, &t.decl.key, "key", &self.tables.reference(table.0))?,
            None => return l.fault("the table does not exist"),
        };
        l.keyword("in")?;
        let lo = self.value(l)?;
        l.mark("..")?;
        let hi = self.value(l)?;
        l.keyword("from")?;
        let start = self.value(l)?;
        let (ok, full) = (self.after(l, "ok")?, self.after(l, "full")?);
        Ok(End::Claim { table, key, hole, lo, hi, start, ok, full })
    }

    /// A target after a word that says when it is gone to.
    fn after(&self, l: &mut Line<'_>, word: &str) -> Result<Target> {
        l.keyword(word)?;
        self.target(l)
    }

    fn target(&self, l: &mut Line<'_>) -> Result<Target> {
        let block = self.block(l)?;
        let args = if *l.token() == Token::Mark("(") { self.values(l)? } else { Vec::new() };
        Ok(Target { block, args })
    }

    fn values(&self, l: &mut Line<'_>) -> Result<Vec<Value>> {
        l.list(|l| self.value(l))
    }

    fn pair(&self, l: &mut Line<'_>) -> Result<(Value, Value)> {
        let a = self.value(l)?;
        l.mark(",")?;
        Ok((a, self.value(l)?))
    }

    fn amount(&self, l: &mut Line<'_>) -> Result<Amount> {
        match l.token() {
            Token::Number(_) => Ok(Amount::Const(l.number("a number of bytes")?)),
            Token::Word(_) => Ok(Amount::Value(self.value(l)?)),
            _ => l.expected("a number of bytes or a value"),
        }
    }

    /// `START..AMOUNT`
    fn range(&self, l: &mut Line<'_>) -> Result<(u32, Amount)> {
        let start = l.number("an offset")?;
        l.mark("..")?;
        Ok((start, self.amount(l)?))
    }

    /// `vN.FIELD`
    fn field(&self, l: &mut Line<'_>, side: Side) -> Result<(Value, u32)> {
        let position = l.position();
        let entry = self.value(l)?;
        l.mark(".")?;
        let ty = self.types.get(&entry.0).copied().flatten();
        let table = match ty {
            Some(Type::Entry(t)) => self.program.tables.get(t.0 as usize).map(|init| (t, &init.decl)),
            _ => None,
        };
        let field = match (table, ty) {
            (Some((t, decl)), _) => {
                let (fields, word) = match side {
                    Side::Key => (&decl.key, "key"),
                    Side::Value => (&decl.value, "value"),
                };
                field_number(l, fields, word, &self.tables.reference(t.0))?
            }
            _ if *l.token() == Token::Mark("#") => field_number(l, &[], "value", "")?,
            (None, Some(_)) => {
                return l.fault_at(position, format!("v{} is a number: only an entry has fields", entry.0));
            }
            // What is wrong with the type was said where it stands.
            (None, None) => {
                l.name("the name of a field")?;
                0
            }
        };
        Ok((entry, field))
    }
}

#[derive(Clone, Copy)]
enum Side {
    Key,
    Value,
}

const RESULT: &str = "a number or an operation with a result (add, load, get, …)";

const EFFECTS: [&str; 13] = [
    "store", "copy", "mark", "unmark", "pull", "trim", "set", "touch", "link", "remove", "fork", "release",
    "notify",
];

const ENDS: [&str; 20] = [
    "jump",
    "branch",
    "switch",
    "again",
    "require",
    "push",
    "unpull",
    "put",
    "lookup",
    "insert",
    "claim",
    "soonest",
    "meter",
    "hold",
    "emit",
    "drop",
    "finish",
    "enter",
    "recirculate",
    "exit",
];

fn layer(l: &mut Line<'_>) -> Result<Layer> {
    match Layer::from_name(l.peek_word()) {
        Some(layer) => {
            l.advance();
            Ok(layer)
        }
        None => l.expected("a layer (data, mac, net, transport, cursor)"),
    }
}

/// `LAYER+OFFSET`
fn place(l: &mut Line<'_>) -> Result<(Layer, u32)> {
    let layer = layer(l)?;
    l.mark("+")?;
    Ok((layer, l.number("an offset")?))
}

/// A place in the packet, its annotations or its metadata.
fn cell(l: &mut Line<'_>) -> Result<Cell> {
    if l.eat_word("anno") {
        l.mark("+")?;
        return Ok(Cell::Anno(l.number("an offset")?));
    }
    if l.eat_word("meta") {
        l.mark(".")?;
        let found = MetaField::ALL.into_iter().find(|f| f.name() == l.peek_word());
        return match found {
            Some(field) => {
                l.advance();
                Ok(Cell::Meta(field))
            }
            None => {
                let known = MetaField::ALL.map(MetaField::name).join(", ");
                l.expected(&format!("one of {known}"))
            }
        };
    }
    match Layer::from_name(l.peek_word()) {
        Some(_) => place(l).map(|(layer, off)| Cell::Packet(layer, off)),
        None => l.expected("a layer (data, mac, net, transport, cursor), anno or meta"),
    }
}
