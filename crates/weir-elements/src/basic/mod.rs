//! Basic sources, sinks, counters, switches and annotations.

use crate::class::{Class, class};

mod align;
mod bypass;
mod check_crc32;
mod check_length;
mod check_paint;
mod clipboard;
mod counter;
mod crc32;
mod discard;
mod hash_switch;
mod hub;
mod idle;
mod input_switch;
pub(crate) mod ip_print;
mod null;
mod pad;
mod paint;
mod paint_switch;
mod paint_tee;
pub(crate) mod print;
mod pull_null;
mod pull_tee;
mod push_null;
mod random_switch;
mod resize;
mod round_robin_switch;
mod set_anno_byte;
mod set_crc32;
mod set_packet_type;
mod static_switch;
mod stride_switch;
mod strip;
mod strip_to_network_header;
mod suppressor;
pub(crate) mod switch;
mod tee;
pub(crate) mod truncate;
mod unstrip;

pub(crate) const CLASSES: &[Class] = &[
    class::<align::Align>("basic"),
    class::<bypass::Bypass>("basic"),
    class::<check_crc32::CheckCRC32>("basic"),
    class::<check_length::CheckLength>("basic"),
    class::<check_paint::CheckPaint>("basic"),
    class::<clipboard::Clipboard>("basic"),
    class::<counter::Counter>("basic"),
    class::<discard::Discard>("basic"),
    class::<hash_switch::HashSwitch>("basic"),
    class::<hub::Hub>("basic"),
    class::<idle::Idle>("basic"),
    class::<input_switch::InputSwitch>("basic"),
    class::<ip_print::IPPrint>("basic"),
    class::<null::Null>("basic"),
    class::<pad::Pad>("basic"),
    class::<paint::Paint>("basic"),
    class::<paint_switch::PaintSwitch>("basic"),
    class::<paint_tee::PaintTee>("basic"),
    class::<print::Print>("basic"),
    class::<pull_null::PullNull>("basic"),
    class::<pull_tee::PullTee>("basic"),
    class::<push_null::PushNull>("basic"),
    class::<random_switch::RandomSwitch>("basic"),
    class::<resize::Resize>("basic"),
    class::<round_robin_switch::RoundRobinSwitch>("basic"),
    class::<set_anno_byte::SetAnnoByte>("basic"),
    class::<set_crc32::SetCRC32>("basic"),
    class::<set_packet_type::SetPacketType>("basic"),
    class::<static_switch::StaticSwitch>("basic"),
    class::<stride_switch::StrideSwitch>("basic"),
    class::<strip::Strip>("basic"),
    class::<strip_to_network_header::StripToNetworkHeader>("basic"),
    class::<suppressor::Suppressor>("basic"),
    class::<switch::Switch>("basic"),
    class::<tee::Tee>("basic"),
    class::<truncate::Truncate>("basic"),
    class::<unstrip::Unstrip>("basic"),
];
