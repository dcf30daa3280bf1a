//! ethernet.

use crate::class::Class;

pub(crate) const CLASSES: &[Class] = &[];
