//! What is found out of a program before it is translated.

pub(crate) mod lanes;
pub(crate) mod slices;
pub(crate) mod slow_paths;
pub(crate) mod starts;
pub(crate) mod uses;
