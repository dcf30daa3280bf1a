//! Classification by patterns and filter expressions.

use crate::class::{Class, class};

mod classifier;
pub mod filter;
mod ip_classifier;
mod ip_filter;

pub(crate) const CLASSES: &[Class] = &[
    class::<classifier::Classifier>("classify"),
    class::<ip_classifier::IPClassifier>("classify"),
    class::<ip_filter::IPFilter>("classify"),
];
