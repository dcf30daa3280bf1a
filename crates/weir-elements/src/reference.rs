//! The element reference: manual pages in Markdown, made from what the elements say about themselves.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_ir::{ClassInfo, HandlerInfo, ParamInfo, ParamKind};

use crate::args::keyword;

/// The manual page of one element.
pub fn manual(info: &ClassInfo, family: &str) -> String {
    page(info, family, 1)
}

/// All manual pages as one, with an index by family. Families and elements stand in alphabetical order.
pub fn reference<'a>(classes: impl IntoIterator<Item = (&'a ClassInfo, &'a str)>) -> String {
    let mut families: BTreeMap<&str, Vec<&ClassInfo>> = BTreeMap::new();
    for (info, family) in classes {
        families.entry(family).or_default().push(info);
    }
    let mut out = String::from(
        "# Elements\n\n\
         <!-- Made from the elements' source; `BLESS=1 cargo test -p weir --test reference` renews it. -->\n",
    );
    for (family, list) in &mut families {
        list.sort_by_key(|info| info.name.to_lowercase());
        _ = write!(out, "\n**{family}**\n\n");
        for info in list {
            _ = writeln!(out, "- [{}](#{}): {}", info.name, info.name.to_lowercase(), summary(info));
        }
    }
    for (family, list) in &families {
        for info in list {
            out.push('\n');
            out += &page(info, family, 2);
        }
    }
    out
}

/// What an element does, in one sentence.
pub fn summary(info: &ClassInfo) -> String {
    let text = text(info.doc);
    let first: Vec<&str> = text.lines().take_while(|l| !l.is_empty()).collect();
    let first = first.join(" ");
    match first.find(". ") {
        Some(end) => first[..=end].to_owned(),
        None => first,
    }
}

fn page(info: &ClassInfo, family: &str, level: usize) -> String {
    let heading = "#".repeat(level);
    let mut out = format!("{heading} {}\n\n`{}`\n\n{}\n", info.name, synopsis(info), text(info.doc));
    _ = write!(out, "\n{}; {}.", ports(info.ports), processing(info.processing, info.ports));
    if info.flow != "x/x" {
        _ = write!(out, " Flow code `{}`.", info.flow);
    }
    _ = writeln!(out, " Family {family}.");
    if !info.params.is_empty() {
        out += "\n| parameter | value | default | meaning |\n|---|---|---|---|\n";
    }
    for p in info.params {
        let default = match default_text(p) {
            None => "has to be given".into(),
            Some(text) if text.is_empty() => String::new(),
            Some(text) => format!("`{text}`"),
        };
        let name = match p.kind {
            ParamKind::Positional => keyword(p.name),
            ParamKind::Keyword => format!("{} (keyword)", keyword(p.name)),
            ParamKind::Rest => format!("{} (any number)", keyword(p.name)),
        };
        _ = writeln!(out, "| {name} | {} | {} | {} |", cell(p.syntax), cell(&default), cell(p.doc));
    }
    if !info.handlers.is_empty() {
        out += "\n| handler | access | meaning |\n|---|---|---|\n";
    }
    for (i, h) in info.handlers.iter().enumerate() {
        if info.handlers[..i].iter().any(|earlier| earlier.name == h.name) {
            continue;
        }
        // Reading and writing may be declared apart.
        let same: Vec<&HandlerInfo> = info.handlers.iter().filter(|other| other.name == h.name).collect();
        let access = match (same.iter().any(|h| h.read), same.iter().any(|h| h.write)) {
            (true, true) => "read, write",
            (true, false) => "read",
            _ => "write",
        };
        let doc = same.iter().map(|h| h.doc).collect::<String>();
        _ = writeln!(out, "| {} | {access} | {} |", h.name.trim_start_matches("r#"), cell(&doc));
    }
    for example in info.examples {
        _ = write!(out, "\n```click\n{}\n```\n", example.trim());
    }
    out
}

/// The class with its parameters as they are written in a configuration; brackets around those that may be left out.
fn synopsis(info: &ClassInfo) -> String {
    let param = |p: &ParamInfo| {
        let name = keyword(p.name);
        let text = match p.kind {
            ParamKind::Positional => name,
            ParamKind::Keyword => format!("{name} …"),
            ParamKind::Rest => format!("{name}, …"),
        };
        if p.default.is_some() { format!("[{text}]") } else { text }
    };
    let params: Vec<String> = info.params.iter().map(param).collect();
    if params.is_empty() { info.name.to_owned() } else { format!("{}({})", info.name, params.join(", ")) }
}

/// A doc comment without the space that each line starts with.
fn text(doc: &str) -> String {
    let lines: Vec<&str> = doc.lines().map(|l| l.strip_prefix(' ').unwrap_or(l).trim_end()).collect();
    lines.join("\n").trim().to_owned()
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The default of a parameter as it would be written in a configuration; empty if there is nothing to write. Well
/// known forms of Rust are translated.
fn default_text(p: &ParamInfo) -> Option<String> {
    let mut source = p.default?.trim();
    let unit = match source.split_once("::from_") {
        Some(("Duration", rest)) => rest.split_once('(').map_or("", |(unit, _)| unit),
        _ => "",
    };
    // A type around a value.
    while let Some((_, inside)) = source.strip_suffix(')').and_then(|s| s.split_once('(')) {
        source = inside;
    }
    Some(match (source, unit) {
        ("None" | "vec![]" | "" | "\"\"", _) => String::new(),
        (n, "secs") => format!("{n} s"),
        (n, "millis") => format!("{n} ms"),
        (text, _) if text.starts_with(|c: char| c.is_ascii_digit()) => text.replace('_', ""),
        (text, _) => text.trim_matches('"').to_owned(),
    })
}

/// Port counts in words, from Click's notation.
fn ports(code: &str) -> String {
    let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
    let outputs = match outputs.strip_prefix('=') {
        Some("") => "as many outputs".to_owned(),
        Some(more) => format!("{} more outputs than inputs", more.len()),
        None => range(outputs, "output"),
    };
    let words = format!("{}, {outputs}", range(inputs, "input"));
    words.chars().take(1).flat_map(char::to_uppercase).chain(words.chars().skip(1)).collect()
}

fn range(code: &str, noun: &str) -> String {
    match code.split_once('-') {
        None if code == "0" => format!("no {noun}s"),
        None if code == "1" => format!("1 {noun}"),
        None => format!("{code} {noun}s"),
        Some(("" | "0", "")) => format!("any number of {noun}s"),
        Some((low, "")) => format!("{low} or more {noun}s"),
        Some(("", high)) => format!("up to {high} {noun}s"),
        Some((low, high)) => format!("{low} to {high} {noun}s"),
    }
}

/// Push and pull in words, from Click's notation.
fn processing(code: &str, ports: &str) -> String {
    let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
    let (in_ports, out_ports) = ports.split_once('/').unwrap_or((ports, ports));
    let all: Vec<char> = inputs.chars().chain(outputs.chars()).filter(char::is_ascii_alphabetic).collect();
    match all.first() {
        Some(&first) if all.iter().all(|&c| c == first) => kind(first).to_owned(),
        _ => format!("{}, {}", side(inputs, in_ports, "input"), side(outputs, out_ports, "output")),
    }
}

/// The last code stands for all further ports.
fn side(codes: &str, ports: &str, noun: &str) -> String {
    let codes: Vec<char> = codes.chars().filter(char::is_ascii_alphabetic).collect();
    let most = ports.rsplit('-').next().and_then(|n| n.parse::<usize>().ok());
    let one = |(i, &code): (usize, &char)| {
        let further = most.is_none_or(|most| most > codes.len()) && i + 1 == codes.len();
        match (i, further) {
            (0, true) => format!("{noun}s {}", kind(code)),
            (0, false) if codes.len() == 1 => format!("{noun} {}", kind(code)),
            (i, true) => format!("{noun}s from {i} on {}", kind(code)),
            (i, false) => format!("{noun} {i} {}", kind(code)),
        }
    };
    codes.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

fn kind(code: char) -> &'static str {
    match code {
        'h' => "push",
        'l' => "pull",
        _ => "agnostic",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A sentence starts with a capital (or a name in code) and ends with a full stop.
    fn is_sentence(text: &str) -> bool {
        let text = text.trim();
        text.starts_with(|c: char| c.is_uppercase() || c == '`') && text.ends_with('.')
    }

    #[test]
    fn every_class_is_documented() {
        let mut names = BTreeSet::new();
        let mut wrong = Vec::new();
        for class in crate::classes() {
            let info = class.info;
            let mut expect = |ok: bool, what: String| {
                if !ok {
                    wrong.push(format!("{}: {what}", info.name));
                }
            };
            expect(names.insert(info.name), "a class of this name exists already".into());
            expect(is_sentence(&summary(info)), "the doc comment starts with a sentence".into());
            expect(!info.examples.is_empty(), "an example is missing".into());
            for p in info.params {
                let name = keyword(p.name);
                expect(is_sentence(p.doc), format!("parameter {name} has no doc comment that is a sentence"));
                expect(!p.syntax.is_empty(), format!("the type of parameter {name} has no SYNTAX"));
            }
            let mut accesses = BTreeSet::new();
            for h in info.handlers {
                // Of a handler that is declared for reading and for writing, one has to be documented.
                let same = || info.handlers.iter().filter(|other| other.name == h.name);
                expect(
                    same().any(|h| is_sentence(h.doc))
                        && same().all(|h| h.doc.is_empty() || is_sentence(h.doc)),
                    format!("handler {} has no doc comment that is a sentence", h.name),
                );
                expect(
                    !h.read || accesses.insert((h.name, "read")),
                    format!("handler {} is there twice", h.name),
                );
                expect(
                    !h.write || accesses.insert((h.name, "write")),
                    format!("handler {} is there twice", h.name),
                );
            }
            for example in info.examples {
                expect(example.contains(info.name), "an example does not have the element".into());
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn port_and_processing_codes_have_words() {
        for (code, words) in [
            ("1/1", "1 input, 1 output"),
            ("1/0", "1 input, no outputs"),
            ("1/1-2", "1 input, 1 to 2 outputs"),
            ("-/-", "Any number of inputs, any number of outputs"),
            ("1-/=", "1 or more inputs, as many outputs"),
            ("1-/=+", "1 or more inputs, 1 more outputs than inputs"),
        ] {
            assert_eq!(ports(code), words);
        }
        for (code, ports, words) in [
            ("a/a", "1/1", "agnostic"),
            ("h/h", "-/-", "push"),
            ("a/ah", "1/1-2", "input agnostic, output 0 agnostic, output 1 push"),
            ("a/ah", "1/-", "input agnostic, output 0 agnostic, outputs from 1 on push"),
            ("h/l", "1-/1", "inputs push, output pull"),
        ] {
            assert_eq!(processing(code, ports), words);
        }
    }

    #[test]
    fn a_page_has_all_parts() {
        let class = crate::class_named("DecIPTTL").unwrap();
        let page = manual(class.info, class.family);
        for part in [
            "# DecIPTTL\n\n`DecIPTTL([ACTIVE …], [MULTICAST …])`\n\nDecrements the IPv4 time to live",
            "1 input, 1 to 2 outputs; input agnostic, output 0 agnostic, output 1 push. Family ip.\n",
            "| ACTIVE (keyword) | boolean | `true` | Whether",
            "| active | read, write | Whether",
            "| drops | read | Number",
            "```click\nIdle -> CheckIPHeader",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(summary(class.info).ends_with("(RFC 1812 section 5.3.1, RFC 1624)."));
    }

    #[test]
    fn defaults_read_as_in_a_configuration() {
        let shown = |default: Option<&'static str>| {
            default_text(&ParamInfo { name: "x", kind: ParamKind::Keyword, default, syntax: "", doc: "" })
        };
        for (source, text) in [
            ("None", ""),
            ("vec![]", ""),
            ("List(vec![])", ""),
            ("String::new()", ""),
            ("Code(0)", "0"),
            ("65_536", "65536"),
            ("Duration::from_secs(300)", "300 s"),
            ("Duration::from_millis(5)", "5 ms"),
            ("true", "true"),
        ] {
            assert_eq!(shown(Some(source)).as_deref(), Some(text));
        }
        assert_eq!(shown(None), None);
    }
}
