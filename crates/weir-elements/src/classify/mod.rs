//! Classification by patterns and filter expressions.

use crate::class::{Class, class};

mod classifier;
pub mod filter;
mod ip6_classifier;
mod ip6_filter;
mod ip_classifier;
mod ip_filter;
mod tree;

pub(crate) const CLASSES: &[Class] = &[
    class::<classifier::Classifier>("classify"),
    class::<ip6_classifier::IP6Classifier>("classify"),
    class::<ip6_filter::IP6Filter>("classify"),
    class::<ip_classifier::IPClassifier>("classify"),
    class::<ip_filter::IPFilter>("classify"),
];
