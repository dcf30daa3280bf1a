//! What other systems say of themselves: routing tables, firewall rules, transfer functions.
//!
//! A reader here either understands a line, or says that it does not: as an error, or as a [`Note`] where the rest still means
//! something. Nothing is passed over in silence.
//!
//! - [`ip_json_route`]: `ip -json route`
//! - [`ip_route`]: `ip route`
//! - [`show_ip_route`]: `show ip route` of FRR, Cisco IOS and their kin
//! - [`iptables_save`]: `iptables-save` and `ip6tables-save`
//! - [`hassel`]: transfer functions of header space analysis, `.tf`

pub mod hassel;
mod ip_json;
mod ip_route;
pub mod iptables;
mod linux;
mod paste;
mod route;
mod show_route;

#[cfg(test)]
mod tests;

use std::fmt;

pub use ip_json::ip_json_route;
pub use ip_route::ip_route;
pub use iptables::iptables_save;
pub use route::{ImportedAction, ImportedHop, ImportedRoute, RoutingTable};
pub use show_route::show_ip_route;

use weir_model::{DocError, DocErrors, Position};

/// Most lines, routes or rules of an imported text.
pub const MAX_LINES: usize = 2_000_000;

/// Something that was read but not taken over, and why. Who uses the rest must look at these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Line number, from 1; 0 if the text has no lines.
    pub line: usize,
    /// What it is about.
    pub text: String,
    /// Why it is not modelled, or what was taken instead.
    pub reason: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.text, self.reason)
    }
}

/// Collects mistakes of a text that is read line by line.
struct Errors {
    path: &'static str,
    errors: Vec<DocError>,
}

impl Errors {
    fn new(path: &'static str) -> Self {
        Self { path, errors: Vec::new() }
    }

    /// Records a mistake of a line.
    fn add(&mut self, line: usize, message: impl Into<String>, help: impl Into<String>) {
        if self.errors.len() < DocErrors::MAX {
            let position = Some(Position { line, column: 1 });
            let (message, help) = (message.into(), help.into());
            self.errors.push(DocError { path: self.path.into(), position, message, help });
        }
    }

    fn finish<T>(self, value: T) -> Result<T, DocErrors> {
        if self.errors.is_empty() { Ok(value) } else { Err(DocErrors::new(self.errors)) }
    }
}
