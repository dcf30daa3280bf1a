//! Scalars that several parts of a graph have.

use std::net::IpAddr;

use crate::doc::{At, Reader};
use crate::error::quote;
use crate::value::VlanId;

pub(super) fn vlan(r: &mut Reader, at: &At<'_>) -> Option<VlanId> {
    r.number(at, "a VLAN", 1, 4094).and_then(|n| VlanId::new(u16::try_from(n).ok()?))
}

pub(super) fn ip(r: &mut Reader, at: &At<'_>) -> Option<IpAddr> {
    let text = r.text(at, "an IP address")?;
    let ip = text.parse().ok();
    if ip.is_none() {
        r.error(
            at,
            format!("{} is not an IP address", quote(text)),
            "write one such as 10.0.0.1 or 2001:db8::1",
        );
    }
    ip
}

pub(super) fn byte(r: &mut Reader, at: &At<'_>, what: &str, max: u8) -> Option<u8> {
    r.number(at, what, 0, max.into()).and_then(|n| u8::try_from(n).ok())
}

pub(super) fn word(r: &mut Reader, at: &At<'_>, what: &str) -> Option<u16> {
    r.number(at, what, 0, u16::MAX.into()).and_then(|n| u16::try_from(n).ok())
}
