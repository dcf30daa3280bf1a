//! Names of elements, tables and events: how they are written, and what they refer to.

use std::collections::HashMap;
use std::fmt::Write;

use crate::program::Program;

/// The names of all things of one kind.
pub(super) struct Names {
    /// What they are, in the singular.
    what: &'static str,
    /// Element (of tables and events) and name.
    list: Vec<(Option<String>, String)>,
    /// Where a name stands; `None` if several times.
    plain: HashMap<String, Option<u32>>,
    /// The same for element and name.
    qualified: HashMap<(String, String), Option<u32>>,
}

/// A reference as it is written.
pub(super) enum Reference {
    Number(u32),
    Plain(String),
    Qualified(String, String),
}

impl Names {
    pub fn elements(p: &Program) -> Names {
        Names::new("element", p.elements.iter().map(|name| (None, name.clone())).collect())
    }

    pub fn tables(p: &Program) -> Names {
        let owner = |owner: u32| p.elements.get(owner as usize).cloned();
        Names::new("table", p.tables.iter().map(|t| (owner(t.owner), t.decl.name.clone())).collect())
    }

    pub fn events(p: &Program) -> Names {
        let owner = |owner: u32| p.elements.get(owner as usize).cloned();
        Names::new("event", p.events.iter().map(|e| (owner(e.owner), e.name.clone())).collect())
    }

    fn new(what: &'static str, list: Vec<(Option<String>, String)>) -> Names {
        let (mut plain, mut qualified) = (HashMap::new(), HashMap::new());
        for (i, (element, name)) in list.iter().enumerate() {
            let i = Some(i as u32);
            plain.entry(name.clone()).and_modify(|at| *at = None).or_insert(i);
            if let Some(element) = element {
                qualified.entry((element.clone(), name.clone())).and_modify(|at| *at = None).or_insert(i);
            }
        }
        Names { what, list, plain, qualified }
    }

    /// How to refer to the `i`th.
    pub fn reference(&self, i: u32) -> String {
        match self.list.get(i as usize) {
            Some((_, name)) if self.plain.get(name) == Some(&Some(i)) => quoted(name),
            Some((Some(element), name))
                if self.qualified.get(&(element.clone(), name.clone())) == Some(&Some(i)) =>
            {
                format!("{}/{}", quoted(element), quoted(name))
            }
            _ => format!("#{i}"),
        }
    }

    /// What a reference means, or why it means nothing.
    pub fn find(&self, reference: &Reference) -> Result<u32, String> {
        let (what, count) = (self.what, self.list.len());
        let (written, found) = match reference {
            Reference::Number(i) if (*i as usize) < count => return Ok(*i),
            Reference::Number(i) => return Err(format!("there is no {what} #{i}: there are {count}")),
            Reference::Plain(name) => (quoted(name), self.plain.get(name)),
            Reference::Qualified(element, name) => (
                format!("{}/{}", quoted(element), quoted(name)),
                self.qualified.get(&(element.clone(), name.clone())),
            ),
        };
        let written = shortened(&written);
        match (found, reference) {
            (Some(Some(i)), _) => Ok(*i),
            (Some(None), Reference::Plain(_)) if !self.qualified.is_empty() => Err(format!(
                "there are several {what}s {written}: write ELEMENT/{written}, or # and a number"
            )),
            (Some(None), _) => Err(format!("there are several {what}s {written}: write # and a number")),
            (None, _) => Err(format!("there is no {what} {written}; {}", self.known())),
        }
    }

    fn known(&self) -> String {
        const SHOWN: usize = 8;
        if self.list.is_empty() {
            return format!("no {} is declared", self.what);
        }
        let mut text = "there are ".to_owned();
        for i in 0..self.list.len().min(SHOWN) {
            let comma = if i > 0 { ", " } else { "" };
            _ = write!(text, "{comma}{}", shortened(&self.reference(i as u32)));
        }
        if self.list.len() > SHOWN {
            text.push_str(", …");
        }
        text
    }
}

/// Whether `c` may be at the start of a name without quotes.
pub(super) fn starts_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Whether `c` may be inside a name without quotes; `next` is the character after it.
pub(super) fn continues_word(c: char, next: Option<char>) -> bool {
    c.is_ascii_alphanumeric()
        || c == '_'
        || c == '@'
        || c == '-' && next.is_some_and(|n| n.is_ascii_alphanumeric())
}

/// A name as it is written.
pub(super) fn quoted(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let plain = chars.first().is_some_and(|&c| starts_word(c))
        && chars.iter().enumerate().skip(1).all(|(i, &c)| continues_word(c, chars.get(i + 1).copied()));
    if plain {
        return name.to_owned();
    }
    let mut text = String::with_capacity(name.len() + 2);
    text.push('"');
    for c in chars {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            // Whatever could break or reorder a line when it is shown.
            c if c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                _ = write!(text, "\\u{{{:x}}}", c as u32);
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// Text of hostile length, for a message.
pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
