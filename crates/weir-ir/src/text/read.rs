//! Reads programs.
//!
//! The text is gone through four times, because a line may refer to what stands below it: for elements, for tables
//! and events, for blocks and the types of values, and for the rest.

use std::collections::{BTreeMap, HashMap};

use super::TextError;
use super::line::{Fault, Line, Result, Token, numbered};
use super::names::Names;
use super::table;
use crate::program::{
    Block, BlockId, End, Entry, EntryKind, Event, Op, Program, TableId, TableInit, Type, Value, Width,
};

/// Most errors that are reported, those of the first lines.
const MAX_ERRORS: usize = 100;

/// Value numbers below this are always allowed, larger ones in texts that are longer than this.
const MIN_VALUES: usize = 1 << 20;

/// Reads the text form of a program. What the program means is not looked at: that is for [`check`](crate::check).
///
/// # Errors
/// One for each line that is wrong, at most 100, in the order of the lines.
pub fn parse(text: &str) -> std::result::Result<Program, Vec<TextError>> {
    let mut r = Reader::new(text);
    r.each_line(text, Reader::element_line);
    r.elements = Names::elements(&r.program);
    r.each_line(text, Reader::table_line);
    r.tables = Names::tables(&r.program);
    r.events = Names::events(&r.program);
    r.each_line(text, Reader::definition_line);
    r.each_line(text, Reader::code_line);
    r.close_block();
    if !r.errors.is_empty() {
        return Err(r.errors.into_values().collect());
    }
    let values = r.types.keys().max().map_or(0, |&n| n as usize + 1);
    // What is left of this are numbers that stand nowhere in the text.
    let mut types = vec![Type::Int(Width::W1); values];
    for (v, ty) in r.types {
        if let (Some(slot), Some(ty)) = (types.get_mut(v as usize), ty) {
            *slot = ty;
        }
    }
    Ok(Program { types, ..r.program })
}

pub(super) struct Reader {
    pub program: Program,
    pub elements: Names,
    pub tables: Names,
    pub events: Names,
    /// Types of the values that are defined or listed; `None` if the type could not be read.
    pub types: HashMap<u32, Option<Type>>,
    /// Positions of the blocks by their numbers.
    labels: HashMap<u32, u32>,
    blocks: u32,
    ports: bool,
    values: usize,
    open: Option<Open>,
    /// The first error of each line.
    errors: BTreeMap<usize, TextError>,
    /// The line being read, from 1.
    at: usize,
}

/// A block being read.
struct Open {
    block: Block,
    line: usize,
    end: Ended,
}

#[derive(PartialEq)]
enum Ended {
    No,
    Yes,
    /// An error in the block was reported, so that it may only seem to have no end, or several.
    Unknown,
}

pub(super) enum Step {
    Op(Op),
    End(End),
}

impl Reader {
    fn new(text: &str) -> Reader {
        let program = Program::default();
        let (elements, tables) = (Names::elements(&program), Names::tables(&program));
        Reader {
            events: Names::events(&program),
            program,
            elements,
            tables,
            types: HashMap::new(),
            labels: HashMap::new(),
            blocks: 0,
            ports: false,
            // Each type of a printed program takes more than one character, so no program is too large.
            values: text.len().max(MIN_VALUES),
            open: None,
            errors: BTreeMap::new(),
            at: 0,
        }
    }

    fn each_line<'a>(&mut self, text: &'a str, read: impl Fn(&mut Reader, &mut Line<'a>) -> Result<()>) {
        for (i, line) in text.lines().enumerate() {
            self.at = i + 1;
            if let Err(fault) = read(self, &mut Line::new(line)) {
                self.report(self.at, fault);
            }
        }
    }

    fn report(&mut self, line: usize, Fault { column, message }: Fault) {
        self.errors.entry(line).or_insert(TextError { line, column, message });
        if self.errors.len() > MAX_ERRORS {
            self.errors.pop_last();
        }
    }

    // --- elements, tables, events -----------------------------------------------------------------------------

    fn element_line(&mut self, l: &mut Line<'_>) -> Result<()> {
        match l.peek_word() {
            "element" => {
                l.advance();
                let name = l.name("the name of the element")?;
                self.program.elements.push(name);
            }
            "ports" => {
                if std::mem::replace(&mut self.ports, true) {
                    return l.fault("the numbers of ports stand above already");
                }
                l.advance();
                self.program.inputs = l.number("a number of inputs")?;
                l.mark("->")?;
                self.program.outputs = l.number("a number of outputs")?;
                if l.peek_word() == "plain" {
                    l.advance();
                    while *l.token() != Token::End {
                        let exit = l.number("the number of an exit where only bytes are read")?;
                        self.program.plain_exits.push(exit);
                    }
                }
            }
            _ => return Ok(()),
        }
        l.finish()
    }

    fn table_line(&mut self, l: &mut Line<'_>) -> Result<()> {
        match l.peek_word() {
            "table" => {
                l.advance();
                let mut decl = table::unknown(&l.name("the name of the table")?);
                let mut owner = 0;
                let read = table::declaration(l, &mut decl).and_then(|()| {
                    owner = self.owner(l)?;
                    if *l.token() == Token::End { Ok(()) } else { l.expected(table::OPTIONS) }
                });
                self.program.tables.push(TableInit { decl, rows: Vec::new(), owner });
                read
            }
            "row" => {
                let Some(table) = self.program.tables.last_mut() else {
                    return l.fault("a row belongs to the table above it, and there is none");
                };
                l.advance();
                table.rows.push(table::row(l)?);
                Ok(())
            }
            "event" => {
                l.advance();
                let name = l.name("the name of the event")?;
                let owner = self.owner(l);
                self.program.events.push(Event { name, owner: *owner.as_ref().unwrap_or(&0) });
                owner?;
                l.finish()
            }
            _ => Ok(()),
        }
    }

    /// `of ELEMENT`, which may be missing if there is only one.
    fn owner(&self, l: &mut Line<'_>) -> Result<u32> {
        if l.eat_word("of") {
            return find(&self.elements, l, "the name of an element");
        }
        if self.program.elements.len() > 1 {
            return l.expected("'of' and an element, as there are several");
        }
        Ok(0)
    }

    // --- blocks and types -------------------------------------------------------------------------------------

    fn definition_line(&mut self, l: &mut Line<'_>) -> Result<()> {
        let word = l.peek_word();
        if numbered(word, 'v').is_some() {
            return self.define(l);
        }
        if word == "values" {
            l.advance();
            loop {
                self.define(l)?;
                if *l.token() == Token::End {
                    return Ok(());
                }
                if !l.eat(",") {
                    return l.expected("',' or the end of the line");
                }
            }
        }
        if numbered(word, 'b').is_some() {
            let position = l.position();
            let expected = self.blocks;
            self.blocks += 1;
            let number = l.numbered('b', "a block")?;
            self.labels.entry(number).or_insert(expected);
            if *l.token() == Token::Mark("(") {
                l.list(|l| self.define(l))?;
            }
            if number != expected {
                return l.fault_at(
                    position,
                    format!(
                        "expected b{expected}, found b{number}: blocks stand in the order of their numbers"
                    ),
                );
            }
        }
        Ok(())
    }

    /// `vN:TYPE`, noted.
    fn define(&mut self, l: &mut Line<'_>) -> Result<()> {
        let position = l.position();
        let v = l.numbered('v', "a value")?;
        if v as usize >= self.values {
            return l.fault_at(position, format!("v{v}: numbers of values are below {}", self.values));
        }
        l.mark(":")?;
        let ty = self.ty(l);
        match (self.types.insert(v, ty.as_ref().ok().copied()), &ty) {
            (Some(Some(before)), Ok(ty)) if before != *ty => {
                let before = match before {
                    Type::Int(width) => format!("{} bits", width.bits()),
                    Type::Entry(t) => format!("entry {}", self.tables.reference(t.0)),
                };
                l.fault_at(position, format!("v{v} has another type above: {before}"))
            }
            _ => ty.map(|_| ()),
        }
    }

    fn ty(&self, l: &mut Line<'_>) -> Result<Type> {
        if l.eat_word("entry") {
            return Ok(Type::Entry(self.table(l)?));
        }
        match l.token() {
            Token::Number(_) => Ok(Type::Int(table::width(l)?)),
            _ => l.expected("a type (a number of bits, or 'entry' and a table)"),
        }
    }

    // --- entries and code -------------------------------------------------------------------------------------

    fn code_line(&mut self, l: &mut Line<'_>) -> Result<()> {
        let word = l.peek_word();
        match word {
            // All of this was read before.
            "element" | "ports" | "table" | "row" | "event" | "values" => return Ok(()),
            "entry" => return self.entry(l),
            _ if *l.token() == Token::End => return Ok(()),
            _ => {}
        }
        if numbered(word, 'b').is_some() {
            self.close_block();
            let empty =
                Block { params: Vec::new(), loop_limit: None, ops: Vec::new(), end: End::Finish, owner: 0 };
            let mut open = Open { block: empty, line: self.at, end: Ended::No };
            let read = self.label(l, &mut open.block);
            self.open = Some(open);
            return read;
        }
        let position = l.position();
        let read = if self.open.is_some() {
            self.step(l)
        } else {
            l.expected("a declaration (element, ports, table, row, event, entry, values) or a block (b0:)")
        };
        let Some(open) = &mut self.open else { return read.map(|_| ()) };
        match (read, &open.end) {
            (Err(fault), _) => {
                open.end = Ended::Unknown;
                return Err(fault);
            }
            (Ok(_), Ended::Yes) => {
                open.end = Ended::Unknown;
                let next = self.program.blocks.len() + 1;
                let message = format!("the block has ended above: 'b{next}:' would start the next");
                return l.fault_at(position, message);
            }
            (Ok(Step::Op(op)), _) => open.block.ops.push(op),
            (Ok(Step::End(end)), _) => {
                open.block.end = end;
                open.end = Ended::Yes;
            }
        }
        Ok(())
    }

    fn close_block(&mut self) {
        let Some(open) = self.open.take() else { return };
        if open.end == Ended::No {
            let message = format!(
                "b{} has no end: its last line is a jump, emit, drop or the like",
                self.program.blocks.len()
            );
            self.report(open.line, Fault { column: 1, message });
        }
        self.program.blocks.push(open.block);
    }

    fn label(&self, l: &mut Line<'_>, block: &mut Block) -> Result<()> {
        l.numbered('b', "a block")?;
        if *l.token() == Token::Mark("(") {
            block.params = l.list(|l| self.defined(l))?;
        }
        if l.eat_word("loop") {
            block.loop_limit = Some(l.number("a number of rounds")?);
        }
        block.owner = self.owner(l)?;
        l.mark(":")?;
        l.finish()
    }

    fn entry(&mut self, l: &mut Line<'_>) -> Result<()> {
        l.advance();
        let word = l.peek_word();
        if !matches!(word, "packet" | "timer" | "expire" | "message") {
            return l.expected("packet, timer, expire or message");
        }
        l.advance();
        let kind = match word {
            "packet" => EntryKind::Packet { port: l.number("a port")? },
            "timer" => EntryKind::Timer { every: l.number("a number of nanoseconds")? },
            "expire" => EntryKind::Expire { table: self.table(l)? },
            _ => EntryKind::Message { name: l.name("the name of the message")? },
        };
        l.mark("->")?;
        let block = self.block(l)?;
        let owner = self.owner(l)?;
        l.finish()?;
        self.program.entries.push(Entry { kind, block, owner });
        Ok(())
    }

    // --- parts ------------------------------------------------------------------------------------------------

    /// `vN:TYPE`, of which the type was noted before.
    pub(super) fn defined(&self, l: &mut Line<'_>) -> Result<Value> {
        let v = l.numbered('v', "a value")?;
        l.mark(":")?;
        self.ty(l)?;
        Ok(Value(v))
    }

    /// A value that is used.
    pub(super) fn value(&self, l: &mut Line<'_>) -> Result<Value> {
        let position = l.position();
        let v = l.numbered('v', "a value (v0)")?;
        if !self.types.contains_key(&v) {
            return l.fault_at(position, format!("v{v} is defined nowhere: 'v{v}:BITS = …' would define it"));
        }
        Ok(Value(v))
    }

    pub(super) fn table(&self, l: &mut Line<'_>) -> Result<TableId> {
        find(&self.tables, l, "the name of a table").map(TableId)
    }

    pub(super) fn event(&self, l: &mut Line<'_>) -> Result<u32> {
        find(&self.events, l, "the name of an event")
    }

    pub(super) fn block(&self, l: &mut Line<'_>) -> Result<BlockId> {
        let position = l.position();
        let n = l.numbered('b', "a block (b0)")?;
        match self.labels.get(&n) {
            Some(&i) => Ok(BlockId(i)),
            None => l.fault_at(position, format!("there is no block b{n}: there are {}", self.blocks)),
        }
    }
}

/// What a reference means.
fn find(names: &Names, l: &mut Line<'_>, what: &str) -> Result<u32> {
    let position = l.position();
    let reference = l.reference(what)?;
    names.find(&reference).or_else(|message| l.fault_at(position, message))
}
