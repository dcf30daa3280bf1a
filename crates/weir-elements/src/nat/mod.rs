//! Address translation and limits on connections.

use crate::class::{Class, class};

mod connection_limit;
mod ip_addr_rewriter;
mod ip_rewriter;
mod ip_rewriter_patterns;
mod mapping;
mod pattern;

pub(crate) const CLASSES: &[Class] = &[
    class::<connection_limit::ConnectionLimit>("nat"),
    class::<ip_addr_rewriter::IPAddrRewriter>("nat"),
    class::<ip_rewriter::IPRewriter>("nat"),
    class::<ip_rewriter_patterns::IPRewriterPatterns>("nat"),
];
