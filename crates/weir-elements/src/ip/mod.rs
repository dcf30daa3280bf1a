//! IP: checks, routing, addresses, errors.

use crate::class::{Class, class};

mod check_ip_header;
mod dec_ip_ttl;
mod icmp_error;
mod linear_ip_lookup;
mod radix_ip_lookup;
mod routes;
mod static_ip_lookup;

pub(crate) const CLASSES: &[Class] = &[
    class::<check_ip_header::CheckIPHeader>("ip"),
    class::<dec_ip_ttl::DecIPTTL>("ip"),
    class::<icmp_error::ICMPError>("ip"),
    class::<linear_ip_lookup::LinearIPLookup>("ip"),
    class::<radix_ip_lookup::RadixIPLookup>("ip"),
    class::<static_ip_lookup::StaticIPLookup>("ip"),
];
