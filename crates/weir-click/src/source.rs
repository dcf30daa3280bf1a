//! Source texts and positions in them.

use std::fmt;
use std::sync::Arc;

/// A place in a configuration text, as a person would name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// File name: the one given to the parser, or the one a `#line` directive set.
    pub file: Arc<str>,
    /// Line, from 1; `#line` directives are taken into account.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Byte offset in the text that was parsed, whatever directives say.
    pub offset: usize,
}

impl Span {
    /// `FILE:LINE`, as Click names places.
    pub fn file_and_line(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A compact position: which source, and the byte offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Loc {
    pub source: u32,
    pub offset: u32,
}

/// A `# LINE "FILE"` directive, about the physical line after it.
#[derive(Debug)]
pub(crate) struct LineMark {
    /// Offset of the first byte that the directive does not cover.
    pub from: u32,
    /// Line number that the next physical line has.
    pub line: u32,
    /// File name from here on; `None` for the name of the source itself.
    pub file: Option<Arc<str>>,
}

/// Distance of the bytes for which [`Source`] knows the number of characters before them. Keeps columns cheap in a
/// text of one long line.
const STRIDE: usize = 1024;

/// One text: the main configuration or a library.
#[derive(Debug)]
pub(crate) struct Source {
    name: Arc<str>,
    text: Arc<str>,
    line_starts: Vec<u32>,
    /// How many characters begin before each [`STRIDE`]th byte.
    chars_before: Vec<u32>,
    /// In the order of the text.
    pub marks: Vec<LineMark>,
}

impl Source {
    pub fn new(name: &str, text: &str) -> Source {
        let bytes = text.as_bytes();
        let mut line_starts = vec![0];
        for (i, &b) in bytes.iter().enumerate() {
            let ends_line = b == b'\n' || (b == b'\r' && bytes.get(i + 1) != Some(&b'\n'));
            if ends_line {
                line_starts.push(i as u32 + 1);
            }
        }
        let mut chars_before = vec![0];
        let mut chars = 0;
        for chunk in bytes.chunks(STRIDE) {
            chars += count_chars(chunk);
            chars_before.push(chars);
        }
        Source { name: name.into(), text: text.into(), line_starts, chars_before, marks: Vec::new() }
    }

    /// Index of the physical line that holds `offset`.
    fn physical_line(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|&start| start <= offset).saturating_sub(1)
    }

    fn line_start(&self, line: usize) -> usize {
        self.line_starts.get(line).map_or(self.text.len(), |&s| s as usize)
    }

    /// How many characters begin before this byte.
    fn chars_before(&self, offset: usize) -> u32 {
        let offset = offset.min(self.text.len());
        let stride = offset / STRIDE;
        let chunk = self.text.as_bytes().get(stride * STRIDE..offset).unwrap_or(&[]);
        self.chars_before.get(stride).copied().unwrap_or(0) + count_chars(chunk)
    }

    pub fn span(&self, offset: u32) -> Span {
        let physical = self.physical_line(offset);
        let before = self.chars_before(offset as usize) - self.chars_before(self.line_start(physical));
        let known = self.marks.partition_point(|m| m.from <= offset);
        let marks = self.marks.get(..known).unwrap_or(&[]);
        let line = match marks.last() {
            Some(mark) => {
                let past = physical.saturating_sub(self.physical_line(mark.from));
                mark.line.saturating_add(past as u32)
            }
            None => physical as u32 + 1,
        };
        let file = marks.last().and_then(|m| m.file.clone()).unwrap_or_else(|| self.name.clone());
        Span { file, line, column: before + 1, offset: offset as usize }
    }

    /// The physical line that holds `offset`, without its line end.
    pub fn line_text(&self, offset: u32) -> &str {
        let line = self.physical_line(offset);
        let text = self.text.get(self.line_start(line)..self.line_start(line + 1)).unwrap_or("");
        text.trim_end_matches(['\n', '\r'])
    }
}

fn count_chars(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|b| !matches!(b, 0x80..=0xbf)).count() as u32
}

/// All texts of one parse, by number.
#[derive(Debug, Default)]
pub(crate) struct Sources(Vec<Source>);

impl Sources {
    pub fn add(&mut self, source: Source) -> u32 {
        self.0.push(source);
        self.0.len() as u32 - 1
    }

    pub fn get(&self, source: u32) -> Option<&Source> {
        self.0.get(source as usize)
    }

    /// Bytes of all texts together.
    pub fn size(&self) -> usize {
        self.0.iter().map(|s| s.text.len()).sum()
    }

    pub fn set_marks(&mut self, source: u32, marks: Vec<LineMark>) {
        if let Some(s) = self.0.get_mut(source as usize) {
            s.marks = marks;
        }
    }

    pub fn span(&self, loc: Loc) -> Span {
        match self.get(loc.source) {
            Some(source) => source.span(loc.offset),
            None => Span { file: "config".into(), line: 0, column: 0, offset: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_and_all_line_ends() {
        let s = Source::new("f", "aé b\r\nc\rd\n");
        assert_eq!(s.span(4).to_string(), "f:1:4");
        assert_eq!(s.span(7).to_string(), "f:2:1");
        assert_eq!(s.span(9).to_string(), "f:3:1");
        assert_eq!(s.line_text(4), "aé b");
        assert_eq!(s.line_text(9), "d");
    }
}
