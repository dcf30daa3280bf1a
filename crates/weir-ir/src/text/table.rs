//! Reads tables and their rows.

use weir_table::{FieldDecl, KeyMatch, Kind, Row, TableDecl, Width};

use super::line::{Line, Result, Token};
use super::names::shortened;
use super::{KINDS, SHARING, by_word};

/// A table without its name: `KIND (KEY) -> (FIELDS) capacity N …`, up to `of`. What stands before an error is kept
/// in `decl`, so that the rest of the text can refer to it.
pub(super) fn declaration(l: &mut Line<'_>, decl: &mut TableDecl) -> Result<()> {
    decl.kind = match by_word(&KINDS, l.peek_word()) {
        Some(kind) => kind,
        None => return l.expected("a kind of table (exact, lpm, rules, array)"),
    };
    l.advance();
    decl.key = l.list(field)?;
    l.mark("->")?;
    decl.value = l.list(field)?;
    l.keyword("capacity")?;
    decl.capacity = l.number("a capacity")?;
    loop {
        match l.peek_word() {
            "held" => {
                l.advance();
                decl.held = l.number("a number of packets")?;
            }
            "group" => {
                l.advance();
                decl.group = Some(field_number(l, &decl.value, "value", &decl.name)?);
            }
            "sharing" => {
                l.advance();
                decl.sharing = match by_word(&SHARING, l.peek_word()) {
                    Some(sharing) => sharing,
                    None => return l.expected("a kind of sharing (local, read-mostly, shared, owner)"),
                };
                l.advance();
            }
            "configured" => {
                l.advance();
                decl.configured = true;
            }
            "counting" => {
                l.advance();
                (decl.configured, decl.counts) = (true, true);
            }
            "shared" => {
                l.advance();
                decl.shared_name = Some(l.name("the name of the shared table")?);
            }
            _ => return Ok(()),
        }
    }
}

/// A declaration to fill in.
pub(super) fn unknown(name: &str) -> TableDecl {
    TableDecl::new(name, Kind::Exact, &[], &[], 0)
}

/// The words that may follow where a declaration stops.
pub(super) const OPTIONS: &str =
    "held, group, sharing, configured, counting, shared, of or the end of the line";

fn field(l: &mut Line<'_>) -> Result<FieldDecl> {
    let name = l.name("the name of a field")?;
    l.mark(":")?;
    Ok(FieldDecl { name, width: width(l)? })
}

/// A number of bits.
pub(super) fn width(l: &mut Line<'_>) -> Result<Width> {
    let &Token::Number(bits) = l.token() else { return l.expected("a number of bits") };
    match u32::try_from(bits).ok().and_then(Width::from_bits) {
        Some(width) => {
            l.advance();
            Ok(width)
        }
        None => l.fault(format!("{bits} bits: a width is 1, 8, 16, 32, 64 or 128")),
    }
}

/// A field by name or number.
pub(super) fn field_number(l: &mut Line<'_>, fields: &[FieldDecl], side: &str, table: &str) -> Result<u32> {
    if l.eat("#") {
        return l.number("the number of a field");
    }
    let position = l.position();
    let name = l.name("the name of a field")?;
    match fields.iter().position(|f| f.name == name) {
        Some(i) => Ok(i as u32),
        None => {
            let known: Vec<String> = fields.iter().take(16).map(|f| shortened(&f.name)).collect();
            let (name, table, known) = (shortened(&name), shortened(table), known.join(", "));
            let known = if known.is_empty() { "it has none".into() } else { format!("there are: {known}") };
            l.fault_at(position, format!("table {table} has no {side} field '{name}'; {known}"))
        }
    }
}

/// A row after the word `row`.
pub(super) fn row(l: &mut Line<'_>) -> Result<Row> {
    let key = l.list(key_match)?;
    l.mark("->")?;
    let value = l.list(|l| l.number("a number"))?;
    let mut row = Row { key, value, priority: 0, ttl: None };
    loop {
        if l.eat_word("priority") {
            row.priority = priority(l)?;
        } else if l.eat_word("ttl") {
            row.ttl = Some(l.number("a number of nanoseconds")?);
        } else if *l.token() == Token::End {
            return Ok(row);
        } else {
            return l.expected("priority, ttl or the end of the line");
        }
    }
}

fn key_match(l: &mut Line<'_>) -> Result<KeyMatch> {
    if l.eat_word("any") {
        return Ok(KeyMatch::ANY);
    }
    let value = l.number("a number or 'any'")?;
    Ok(if l.eat("&") {
        KeyMatch::Mask(value, l.number("a mask")?)
    } else if l.eat("..") {
        KeyMatch::Range(value, l.number("the end of the range")?)
    } else if l.eat("/") {
        KeyMatch::Prefix(value, l.number("the length of the prefix")?)
    } else {
        KeyMatch::Exact(value)
    })
}

fn priority(l: &mut Line<'_>) -> Result<i32> {
    let position = l.position();
    let negative = l.eat("-");
    let n: u32 = l.number("a priority")?;
    let n = if negative { -i64::from(n) } else { i64::from(n) };
    i32::try_from(n).or_else(|_| l.fault_at(position, format!("{n} is beyond 32 bits with a sign")))
}
