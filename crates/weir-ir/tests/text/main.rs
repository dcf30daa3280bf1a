//! The text form: what is printed reads back as the same program, and what is no program gives errors.

mod errors;
mod every;
mod random;
mod whole;

use weir_ir::{Program, parse};

/// Prints, reads back and compares.
#[track_caller]
fn round_trip(p: &Program) -> String {
    let text = p.to_string();
    match parse(&text) {
        Ok(q) => assert_eq!(q, *p, "{text}"),
        Err(e) => panic!("{}\n{text}", e.iter().map(|e| format!("{e}\n")).collect::<String>()),
    }
    text
}
