//! `define` and `require`.

use super::{Enclosed, Parser};
use crate::ast::Statement;
use crate::config::{first_word, split_args, split_words, unquote_text};
use crate::expand::variable_name;
use crate::lexer::{Lexer, Token};
use crate::source::{Loc, Source};
use crate::{MAX_NESTING, MAX_TEXT};

impl Parser<'_> {
    pub(super) fn define(&mut self, keyword: &Token, out: &mut Vec<Statement>) {
        if !self.expect('(') {
            return;
        }
        for arg in split_args(&self.config()) {
            let (word, value) = first_word(&arg).unwrap_or(("", ""));
            match variable_name(word) {
                Some(name) => out.push(Statement::Define {
                    name: name.to_string(),
                    value: value.to_string(),
                    loc: keyword.loc,
                }),
                None if arg.is_empty() => {}
                None => self.error(keyword.loc, "bad 'define' declaration: not a variable"),
            }
        }
    }

    pub(super) fn require(&mut self, keyword: &Token, out: &mut Vec<Statement>) {
        if !self.expect('(') {
            return;
        }
        for arg in split_args(&self.config()) {
            let words = split_words(&arg);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let value = |word: &str| unquote_text(word).filter(|v| !v.is_empty());
            match words.as_slice() {
                [] => {}
                ["library", file] if value(file).is_some() => {
                    self.library(&value(file).unwrap_or_default(), keyword.loc, out);
                }
                ["package", name] | [name]
                    if value(name).is_some() && !matches!(*name, "package" | "library") =>
                {
                    let name = value(name).unwrap_or_default();
                    if !self.requirements.contains(&name) {
                        self.requirements.push(name);
                    }
                }
                _ => self.error(keyword.loc, "syntax error at requirement"),
            }
        }
    }

    /// Parses a required library into `out`, once.
    fn library(&mut self, name: &str, loc: Loc, out: &mut Vec<Statement>) {
        if self.nesting > 0 {
            self.error(loc, "'require library' must be used at file scope");
            return;
        }
        if self.libraries.iter().any(|known| known == name) {
            return;
        }
        let Some(text) = self.options.library.and_then(|load| load(name)) else {
            self.error(loc, format!("library '{name}' not found"));
            return;
        };
        let size = text.len() + self.sources.size();
        if size > MAX_TEXT || self.libraries.len() >= MAX_NESTING {
            self.give_up(loc, format!("library '{name}': too much text or too many libraries"));
            return;
        }
        self.libraries.push(name.to_string());
        let source = self.sources.add(Source::new(name, &text));
        let lexer = Lexer::new(text.as_str().into(), source);
        let outer_lexer = std::mem::replace(&mut self.lexer, lexer);
        let outer_unread = std::mem::take(&mut self.unread);
        self.statements(Enclosed::File, out);
        let done = std::mem::replace(&mut self.lexer, outer_lexer);
        self.sources.set_marks(source, done.marks);
        self.unread = outer_unread;
        if self.stopped {
            self.unread.clear();
            self.lexer.stop();
        }
    }
}
