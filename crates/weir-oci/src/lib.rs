//! Images in OCI registries, layouts and archives (Open Container Initiative: image specification 1.1, distribution specification 1.1).
//!
//! A [`Source`] says where an image is; [`Store::resolve`] gives the digest of its manifest, which names it for good, and
//! [`Store::unpack`] brings it to this machine as a root file system. [`function`] puts Weir's own function images into registries
//! and takes them out. What comes from elsewhere is held against its digest before it is used, and unpacked where it reaches nothing
//! else.

#![forbid(unsafe_code)]

mod archive;
mod content;
mod digest;
pub mod folder;
pub mod function;
mod registry;
mod source;
mod store;
mod unpack;

use std::io;

pub use digest::{Digest, Sha256Writer};
pub use registry::Registries;
pub use source::Source;
pub use store::{Root, Store};
pub use unpack::User;

/// Why an image cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A reference is none.
    #[error("{text:?} is no image: {what}")]
    Source {
        /// What was given.
        text: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// A registry did not give what was asked for, or did not take it.
    #[error("{reference}: {what}")]
    Registry {
        /// The image.
        reference: String,
        /// What happened.
        what: String,
    },
    /// The image is not what it should be.
    #[error("{image}: {what}")]
    Invalid {
        /// The image.
        image: String,
        /// What is wrong.
        what: String,
    },
    /// The machine refused something.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was to be done.
        what: String,
        /// Why it was not.
        source: io::Error,
    },
}

impl Error {
    /// What a failed system call means.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }

    /// An image that is not what it should be.
    pub(crate) fn invalid(image: &dyn std::fmt::Display, what: impl Into<String>) -> Error {
        Error::Invalid { image: image.to_string(), what: what.into() }
    }
}
