//! Mistakes that a test must notice, each with that test.

mod domain;
mod engine;
mod io;
mod openflow;
mod verify;

/// A mistake made on purpose.
#[derive(Debug)]
pub(crate) struct Mutation {
    /// What it breaks.
    pub(crate) name: &'static str,
    /// The file, from the root.
    pub(crate) file: &'static str,
    /// A text that stands in the file once, and what replaces it.
    pub(crate) text: &'static str,
    pub(crate) instead: &'static str,
    /// The test that fails.
    pub(crate) test: Test,
}

/// Some tests of one test program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) package: &'static str,
    /// Name of the integration test; `None` is the library's own tests.
    pub(crate) target: Option<&'static str>,
    /// Part of the names of the tests.
    pub(crate) filter: &'static str,
}

/// All of them, those of a package together.
pub(crate) fn mutations() -> impl Iterator<Item = &'static Mutation> {
    domain::MUTATIONS
        .iter()
        .chain(engine::MUTATIONS)
        .chain(io::MUTATIONS)
        .chain(openflow::MUTATIONS)
        .chain(verify::MUTATIONS)
}
