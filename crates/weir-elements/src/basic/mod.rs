//! Basic sources, sinks, counters, switches and annotations.

use crate::class::{Class, class};

mod check_crc32;
mod check_length;
mod check_paint;
mod counter;
mod crc32;
mod discard;
mod hash_switch;
mod idle;
mod ip_print;
mod null;
mod pad;
mod paint;
mod paint_switch;
mod paint_tee;
mod print;
mod random_switch;
mod round_robin_switch;
mod set_anno_byte;
mod set_crc32;
mod static_switch;
mod stride_switch;
mod strip;
mod strip_to_network_header;
pub(crate) mod switch;
mod tee;
pub(crate) mod truncate;
mod unstrip;

pub(crate) const CLASSES: &[Class] = &[
    class::<check_crc32::CheckCRC32>("basic"),
    class::<check_length::CheckLength>("basic"),
    class::<check_paint::CheckPaint>("basic"),
    class::<counter::Counter>("basic"),
    class::<discard::Discard>("basic"),
    class::<hash_switch::HashSwitch>("basic"),
    class::<idle::Idle>("basic"),
    class::<ip_print::IPPrint>("basic"),
    class::<null::Null>("basic"),
    class::<pad::Pad>("basic"),
    class::<paint::Paint>("basic"),
    class::<paint_switch::PaintSwitch>("basic"),
    class::<paint_tee::PaintTee>("basic"),
    class::<print::Print>("basic"),
    class::<random_switch::RandomSwitch>("basic"),
    class::<round_robin_switch::RoundRobinSwitch>("basic"),
    class::<set_anno_byte::SetAnnoByte>("basic"),
    class::<set_crc32::SetCRC32>("basic"),
    class::<static_switch::StaticSwitch>("basic"),
    class::<stride_switch::StrideSwitch>("basic"),
    class::<strip::Strip>("basic"),
    class::<strip_to_network_header::StripToNetworkHeader>("basic"),
    class::<switch::Switch>("basic"),
    class::<tee::Tee>("basic"),
    class::<truncate::Truncate>("basic"),
    class::<unstrip::Unstrip>("basic"),
];
