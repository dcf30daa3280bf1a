//! The canonical layout of a configuration text.
//!
//! `read` makes a tree of the text's own words, each with the comments that stand before it; `print` lays the tree
//! out. No word is added, left out, changed or moved, but for `;` and commas that mean nothing; arguments stay as
//! they are written, since elements may see the white space in them.

mod print;
mod read;
mod tree;

use crate::diagnostic::{Errors, Report};
use crate::{MAX_TEXT, Options, parser, too_long};

/// The canonical layout of a configuration, which means exactly what `text` means.
///
/// A statement stands on one line of at most 100 characters. One that is longer is broken before its arrows, and
/// argument lists that are still too long have one argument a line. Argument lists and bodies of compound elements
/// and groups that begin on several lines stay on several lines. Comments stay between the words where they stand; of
/// several empty lines one stays. Formatting twice is formatting once.
///
/// Classes and names need not be known, and required libraries are not read.
///
/// # Errors
/// What is wrong with the syntax. `file_name` is for these messages only.
pub fn format(file_name: &str, text: &str) -> Result<String, Errors> {
    let library = |_: &str| Some(String::new());
    let options = Options { library: Some(&library), ..Options::default() };
    let mut report = Report::new(options.max_errors);
    if text.len() > MAX_TEXT {
        return Err(too_long(file_name, text, report));
    }
    let parsed = parser::parse(file_name, text, &options, &mut report);
    if !report.is_empty() {
        report.sort();
        return Err(report.into_errors(&parsed.sources));
    }
    Ok(print::print(&read::read(text, &mut report)))
}
