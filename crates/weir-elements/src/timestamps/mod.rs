//! Times of packets, and figures made from them.

use crate::class::{Class, class};

mod adjust_timestamp;
mod average_counter;
mod set_timestamp;
mod set_timestamp_delta;
mod time_range;

pub(crate) const CLASSES: &[Class] = &[
    class::<adjust_timestamp::AdjustTimestamp>("timestamps"),
    class::<average_counter::AverageCounter>("timestamps"),
    class::<set_timestamp::SetTimestamp>("timestamps"),
    class::<set_timestamp_delta::SetTimestampDelta>("timestamps"),
    class::<time_range::TimeRange>("timestamps"),
];
