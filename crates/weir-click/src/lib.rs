//! The Click language: lexer, parser and elaboration to a flat graph.
//!
//! [`parse`] reads a configuration in the language of Click's manual, click(5), against an [`ElementSet`] and returns
//! a checked [`Graph`] or all [`Errors`]. The stages:
//!
//! 1. `lexer`, `parser`: text to statements. Configuration strings stay text.
//! 2. `resolve`, `connect`: names to elements and classes by scope, arrows to wires between ports.
//! 3. `flatten`, `expand`, `arguments`: compound elements to their contents, parameters to their values.
//! 4. `check`: port counts, push and pull, ports unused or used twice.
//!
//! Errors of names and syntax keep stages 3 or 4 from running, since they would show as follow-up errors there.
//! The language is Click's, in these points not: `#` directives are obeyed in configuration strings also (as Click
//! does, against its manual); limits on sizes are errors.
//!
//! ```
//! use weir_click::{ClassInfo, ElementSet, parse};
//!
//! struct Two;
//! impl ElementSet for Two {
//!     fn class(&self, name: &str) -> Option<ClassInfo> {
//!         match name {
//!             "Source" => ClassInfo::new("0/1", "h/h", "x/x").ok(),
//!             "Sink" => ClassInfo::new("1/0", "h/h", "x/x").ok(),
//!             _ => None,
//!         }
//!     }
//!     fn names(&self) -> Vec<String> {
//!         vec!["Source".into(), "Sink".into()]
//!     }
//! }
//!
//! let graph = parse("two.click", "Source(64) -> s :: Sink", &Two).unwrap();
//! assert_eq!(graph.to_string(), "Source@1 :: Source(64);\ns :: Sink;\n\nSource@1 -> s;\n");
//! let errors = parse("two.click", "Source -> Sinc", &Two).unwrap_err();
//! assert_eq!(errors.list[0].message, "undeclared element 'Sinc' (did you mean 'Sink'?)");
//! ```

#![forbid(unsafe_code)]

mod arguments;
mod ast;
mod builder;
mod check;
mod class;
mod config;
mod connect;
mod diagnostic;
mod expand;
mod flatten;
mod format;
mod graph;
mod lexer;
mod parser;
mod program;
mod resolve;
mod scan;
mod source;

pub use class::{ClassInfo, ElementSet, FlowCode, Kind, PortCounts, Processing, SpecError};
pub use config::{first_word, join_args, quote, split_args, split_words, uncomment, unquote, unquote_text};
pub use diagnostic::{Diagnostic, Errors, Note};
pub use format::format;
pub use graph::{Connection, ElementDecl, Graph, PortKinds};
pub use source::Span;

use diagnostic::Report;
use source::{Loc, Sources};

/// Bytes of text that are read, libraries included.
const MAX_TEXT: usize = 16 << 20;
/// How deep compounds and groups may be nested in the text; Click's limit.
const MAX_NESTING: usize = 50;
/// How deep compound elements may contain compound elements once expanded.
const MAX_INSTANCE_DEPTH: usize = 100;
/// The largest port number.
const MAX_PORT: u32 = 65_535;
/// Port numbers written in the text, ranges counted in full.
const MAX_PORTS_WRITTEN: usize = 1 << 20;
/// Elements written in the text, uses of elements included.
const MAX_NODES_WRITTEN: usize = 1 << 20;
/// Parameters of a compound.
const MAX_FORMALS: usize = 1000;
/// Connections at any stage.
const MAX_CONNECTIONS: usize = 1 << 20;
/// Ports of all elements together.
const MAX_PORTS: u64 = 1 << 20;
/// Pairs of agnostic input and output with flow between them.
const MAX_FLOWS: usize = 1 << 22;
/// Bytes that parameter substitution reads and writes.
const MAX_EXPANDED_TEXT: usize = 64 << 20;
/// Overloads tried and passages of compounds followed.
const MAX_STEPS: usize = 1 << 22;

/// Finds the text of a library by the name in `require(library NAME)`.
pub type LoadLibrary<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Options of [`parse_with`].
#[derive(Clone)]
pub struct Options<'a> {
    /// Values for parameters of the whole configuration, without `$`; they go before its own `define`s.
    pub defines: Vec<(String, String)>,
    /// Loads libraries; without it each library is reported as not found.
    pub library: Option<&'a LoadLibrary<'a>>,
    /// How many elements the flat graph may have.
    pub max_elements: usize,
    /// How many errors are kept.
    pub max_errors: usize,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { defines: Vec::new(), library: None, max_elements: 100_000, max_errors: 100 }
    }
}

/// Reads a configuration and checks it against `set`. `file_name` is for error messages only.
///
/// # Errors
/// Everything that is wrong with the text, see [`Errors`]. Never panics, whatever the text.
pub fn parse(file_name: &str, text: &str, set: &dyn ElementSet) -> Result<Graph, Errors> {
    parse_with(file_name, text, set, &Options::default())
}

/// [`parse`] with parameters from outside, libraries and limits.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(
    file_name: &str,
    text: &str,
    set: &dyn ElementSet,
    options: &Options<'_>,
) -> Result<Graph, Errors> {
    let mut report = Report::new(options.max_errors);
    if text.len() > MAX_TEXT {
        return Err(too_long(file_name, text, report));
    }
    let parsed = parser::parse(file_name, text, options, &mut report);
    let well_formed = report.is_empty();
    let program = resolve::resolve(&parsed.statements, set, &mut report);
    report.sort();
    let mut flat = flatten::Flat::default();
    let mut ports = Vec::new();
    if well_formed && !program.broken {
        flat = flatten::flatten(&program, options, &mut report);
        if report.is_empty() {
            ports = check::check(&flat, &program, set, &mut report);
        }
    }
    if !report.is_empty() {
        return Err(report.into_errors(&parsed.sources));
    }
    let class_name = |class: usize| program.primitives.get(class).map_or("", |p| &p.name).to_string();
    let elements = flat.elements.into_iter().map(|e| ElementDecl {
        name: e.name,
        class: class_name(e.class),
        args: e.args,
        span: parsed.sources.span(e.loc),
    });
    let connections = flat.connections.into_iter().map(|c| Connection {
        from: c.from,
        to: c.to,
        span: parsed.sources.span(c.loc),
    });
    Ok(Graph {
        elements: elements.collect(),
        connections: connections.collect(),
        ports,
        requirements: parsed.requirements,
    })
}

/// The error of a text longer than [`MAX_TEXT`].
fn too_long(file_name: &str, text: &str, mut report: Report) -> Errors {
    let start = Loc { source: 0, offset: 0 };
    report.error(start, format!("text of {} bytes; the most is {MAX_TEXT}", text.len()));
    let mut sources = Sources::default();
    sources.add(source::Source::new(file_name, ""));
    report.into_errors(&sources)
}
