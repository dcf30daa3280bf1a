//! Rates: meters, splitters and samplers of packets.

use crate::class::{Class, class};

mod bandwidth_meter;
mod bandwidth_rated_splitter;
mod block;
mod bucket;
mod meter;
mod moving_average;
mod random_sample;
pub(crate) mod rate;
mod rated_splitter;

pub(crate) const CLASSES: &[Class] = &[
    class::<bandwidth_meter::BandwidthMeter>("shaping"),
    class::<bandwidth_rated_splitter::BandwidthRatedSplitter>("shaping"),
    class::<block::Block>("shaping"),
    class::<meter::Meter>("shaping"),
    class::<random_sample::RandomSample>("shaping"),
    class::<rated_splitter::RatedSplitter>("shaping"),
];
