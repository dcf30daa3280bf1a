//! From tree to text.

use super::read::same_line;
use super::tree::{Body, Config, File, Link, Part, Remark, Statement, Word};
use crate::lexer::Tok;

/// Characters of a line.
const WIDTH: usize = 100;
/// Spaces that something broken is indented by.
const STEP: usize = 4;

/// The tree as text.
pub(super) fn print(file: &File) -> String {
    let mut out = Printer::default();
    out.statements(&file.statements, 0);
    out.remarks(&file.end.remarks, Gap::Line, 0);
    if !out.text.is_empty() {
        out.text.push('\n');
    }
    out.text
}

/// The space between two words.
#[derive(Clone, Copy, PartialEq)]
enum Gap {
    None,
    Space,
    Line,
}

#[derive(Default)]
struct Printer {
    text: String,
    /// Where the last line of `text` begins.
    line_start: usize,
    /// How many more characters fit, if everything must stand on one line.
    space: Option<usize>,
    /// It does not.
    failed: bool,
}

impl Printer {
    fn push(&mut self, text: &str) {
        if let Some(space) = &mut self.space {
            match space.checked_sub(text.chars().count()) {
                Some(left) if !text.contains(['\n', '\r']) => *space = left,
                _ => self.failed = true,
            }
        }
        // What has failed is thrown away.
        if self.failed {
            return;
        }
        if let Some(end) = text.rfind('\n') {
            self.line_start = self.text.len() + end + 1;
        }
        self.text.push_str(text);
    }

    /// Makes a gap; a line is indented by `indent` and may have an empty line before it.
    fn gap(&mut self, gap: Gap, indent: usize, blank: bool) {
        match gap {
            Gap::None => {}
            // At the start of the text a comment has nothing to keep away from.
            Gap::Space if self.text.is_empty() && self.space.is_none() => {}
            Gap::Space => self.push(" "),
            Gap::Line if self.space.is_some() => self.failed = true,
            Gap::Line => {
                if !self.text.is_empty() {
                    let opened = self.text.ends_with(['{', '(', '|']);
                    self.push(if blank && !opened { "\n\n" } else { "\n" });
                }
                self.push(&" ".repeat(indent));
            }
        }
    }

    /// Prints what `what` prints if it fits on the rest of the line with `after` more characters.
    fn fits(&mut self, after: usize, what: impl FnOnce(&mut Printer)) -> bool {
        let line = self.text.get(self.line_start..).unwrap_or("");
        // A character has at most four bytes.
        let column = if line.len() > 4 * WIDTH { WIDTH } else { line.chars().count() };
        let Some(space) =
            self.space.unwrap_or(WIDTH).checked_sub(if self.space.is_some() { 0 } else { column + after })
        else {
            return false;
        };
        let mut one_line = Printer { space: Some(space), ..Printer::default() };
        what(&mut one_line);
        if !one_line.failed {
            self.push(&one_line.text);
        }
        !one_line.failed
    }

    /// Prints remarks, lines of theirs indented by `indent`, and returns the gap to what follows, which would be `gap`
    /// without them.
    fn remarks(&mut self, remarks: &[Remark], gap: Gap, indent: usize) -> Gap {
        let mut gap = gap;
        let mut same_line = same_line(remarks);
        for remark in remarks {
            let here = if same_line > 0 {
                same_line -= 1;
                Gap::Space
            } else if remark.own_line {
                Gap::Line
            } else if gap == Gap::None {
                Gap::Space
            } else {
                gap
            };
            let indent = if remark.directive { 0 } else { indent };
            self.gap(here, indent, remark.blank);
            self.push(&remark.text);
            gap = if remark.ends_line { Gap::Line } else { Gap::Space };
        }
        gap
    }

    /// A word in the middle of a statement; new lines are indented by `indent`.
    fn word(&mut self, word: &Word, gap: Gap, indent: usize) {
        let gap = self.remarks(&word.remarks, gap, indent);
        self.gap(gap, indent, false);
        self.push(&word.text);
    }

    fn statements(&mut self, statements: &[Statement], indent: usize) {
        for (i, statement) in statements.iter().enumerate() {
            if self.space.is_some() {
                self.one_line(statement);
                if i + 1 < statements.len() {
                    self.push(";");
                }
                continue;
            }
            if let Some(first) = statement.first() {
                let gap = self.remarks(&first.remarks, Gap::Line, indent);
                self.gap(gap, indent, first.blank);
            }
            let ends = if statement.is_class() { "" } else { ";" };
            if !self.fits(ends.len(), |one_line| one_line.links(statement, None)) {
                self.links(statement, Some(indent));
            }
            self.push(ends);
        }
    }

    fn one_line(&mut self, statement: &Statement) {
        if let Some(first) = statement.first() {
            let gap = self.remarks(&first.remarks, Gap::Space, 0);
            self.gap(gap, 0, false);
        }
        self.links(statement, None);
    }

    /// The statement without the remarks before it: on one line, or broken with its first line indented by `indent`.
    fn links(&mut self, statement: &Statement, indent: Option<usize>) {
        let several = statement.links.len() > 1;
        // Whether nothing of the statement has been printed.
        let mut first = true;
        for link in &statement.links {
            let base = indent.unwrap_or(0) + if several && !first { STEP } else { 0 };
            if let Some(arrow) = &link.arrow {
                if first {
                    self.push(&arrow.text);
                } else {
                    let gap = if indent.is_some() && !link.parts.is_empty() { Gap::Line } else { Gap::Space };
                    self.word(arrow, gap, base);
                }
                first = false;
            }
            if !link.parts.is_empty() {
                self.parts(link, first, base);
                first = false;
            }
        }
    }

    /// The nodes of a link. `first` says that the statement begins with them.
    fn parts(&mut self, link: &Link, first: bool, base: usize) {
        let mut before = None;
        let mut ports = false;
        for part in &link.parts {
            let word = part.first();
            let gap = match before {
                None if first => None,
                None => Some(Gap::Space),
                Some(before) => Some(gap_between(before, part, ports)),
            };
            match word.tok {
                Tok::Char('[') => ports = true,
                Tok::Char(']') => ports = false,
                _ => {}
            }
            if let Some(gap) = gap {
                let gap = self.remarks(&word.remarks, gap, base + STEP);
                self.gap(gap, base + STEP, false);
            }
            self.part(part, base);
            before = Some(part);
        }
    }

    /// A part without the remarks before it.
    fn part(&mut self, part: &Part, base: usize) {
        let one_line = self.space.is_some();
        match part {
            Part::Word(word) => self.push(&word.text),
            Part::Config(config) if one_line => self.config(config, None),
            Part::Body(body) if one_line => self.body(body, None),
            Part::Config(config) => {
                if !self.fits(1, |one_line| one_line.config(config, None)) {
                    self.config(config, Some(base));
                }
            }
            Part::Body(body) => {
                if !self.fits(1, |one_line| one_line.body(body, None)) {
                    self.body(body, Some(base));
                }
            }
        }
    }

    /// A configuration string, on one line or with an argument a line.
    fn config(&mut self, config: &Config, base: Option<usize>) {
        self.push("(");
        if let Some(text) = &config.verbatim {
            self.push(text);
            return self.push(")");
        }
        if config.lines && base.is_none() {
            self.failed = true;
        }
        let indent = base.unwrap_or(0) + STEP;
        let line = |or| if base.is_some() { Gap::Line } else { or };
        let mut end = line(Gap::None);
        for (i, arg) in config.args.iter().enumerate() {
            let gap = line(if i == 0 { Gap::None } else { Gap::Space });
            // A remark of the argument before may have ended its line.
            let gap = if end == Gap::Line { Gap::Line } else { gap };
            let gap = self.remarks(&arg.before, gap, indent);
            let last = i + 1 == config.args.len();
            if !arg.text.is_empty() || !last || config.last_comma {
                self.gap(gap, indent, arg.blank);
                self.push(&arg.text);
            }
            let inside = arg.after.iter().take_while(|r| !r.own_line && !r.ends_line).count();
            let inside = if arg.text.is_empty() { 0 } else { inside };
            let (inside, after) = arg.after.split_at(inside);
            self.remarks(inside, Gap::Space, indent);
            if !last || config.last_comma {
                self.push(",");
            }
            end = self.remarks(after, line(Gap::None), indent);
        }
        let end = if config.args.is_empty() { Gap::None } else { end };
        self.gap(end, base.unwrap_or(0), false);
        self.push(")");
    }

    /// A compound or group, on one line or with its statements on lines of their own.
    fn body(&mut self, body: &Body, base: Option<usize>) {
        if body.lines && base.is_none() {
            self.failed = true;
        }
        let indent = base.unwrap_or(0) + STEP;
        let line = if base.is_some() { Gap::Line } else { Gap::Space };
        self.push(&body.open.text);
        let group = body.open.tok.is('(');
        for variant in &body.variants {
            if let Some(bars) = &variant.bars {
                let gap = self.remarks(&bars.remarks, line, indent);
                self.gap(gap, base.unwrap_or(0), false);
                self.push(&bars.text);
            }
            for (i, formal) in variant.formals.iter().enumerate() {
                let gap = if i > 0 && formal.tok.is(',') { Gap::None } else { Gap::Space };
                self.word(formal, gap, indent);
            }
            self.statements_of(&variant.statements, indent, group);
        }
        let empty =
            body.variants.iter().all(|v| v.statements.is_empty() && v.formals.is_empty() && v.bars.is_none());
        let gap = match line {
            Gap::Line => Gap::Line,
            _ if group || empty => Gap::None,
            _ => Gap::Space,
        };
        let gap = self.remarks(&body.close.remarks, gap, indent);
        self.gap(gap, base.unwrap_or(0), false);
        self.push(&body.close.text);
    }

    /// The statements of a body; in a group on one line no space is before the first.
    fn statements_of(&mut self, statements: &[Statement], indent: usize, group: bool) {
        if let (Some(_), true, Some(first)) = (self.space, group, statements.first())
            && first.first().is_some_and(|word| word.remarks.is_empty())
        {
            self.links(first, None);
            if let Some(rest) = statements.get(1..).filter(|rest| !rest.is_empty()) {
                self.push(";");
                self.statements(rest, indent);
            }
            return;
        }
        self.statements(statements, indent);
    }
}

fn gap_between(before: &Part, part: &Part, in_ports: bool) -> Gap {
    let tok = &part.first().tok;
    match (before, part) {
        (Part::Word(_), Part::Config(_)) => Gap::None,
        _ if tok.is(',') => Gap::None,
        (Part::Word(word), Part::Word(_)) if in_ports && !word.tok.is(',') => Gap::None,
        (Part::Word(_), Part::Word(_)) if in_ports && tok.is(']') => Gap::None,
        _ => Gap::Space,
    }
}
