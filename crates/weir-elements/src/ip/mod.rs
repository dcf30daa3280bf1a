//! IP: checks, routing, addresses, errors.

use crate::class::{Class, class};

mod check_ip_header;
mod dec_ip_ttl;
mod icmp_error;

pub(crate) const CLASSES: &[Class] = &[
    class::<check_ip_header::CheckIPHeader>("ip"),
    class::<dec_ip_ttl::DecIPTTL>("ip"),
    class::<icmp_error::ICMPError>("ip"),
];
