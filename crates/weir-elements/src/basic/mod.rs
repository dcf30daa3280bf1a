//! Basic sources, sinks, counters, switches and annotations.

use crate::class::{Class, class};

mod null;
mod tee;

pub(crate) const CLASSES: &[Class] = &[class::<null::Null>("basic"), class::<tee::Tee>("basic")];
