//! Where annotations stand in the annotation area: Click's layout (include/click/packet_anno.hh, Click 2).

/// Destination IPv4 address (4 bytes) or IPv6 address (16 bytes): where routing looks.
pub(crate) const DST_IP: u32 = 0;
/// Paint colour (1 byte).
pub(crate) const PAINT: u32 = 16;
/// Offset of the header byte that an ICMP parameter problem points at (1 byte).
pub(crate) const ICMP_PARAM_PROB: u32 = 17;
/// Not 0 if the source address is to be set from the output interface (1 byte).
pub(crate) const FIX_IP_SRC: u32 = 19;
/// Aggregate that the packet belongs to (4 bytes).
pub(crate) const AGGREGATE: u32 = 20;
/// VLAN tag control information (2 bytes).
pub(crate) const VLAN_TCI: u32 = 20;
/// Time at which the first of several packets came, nanoseconds since 1970 (8 bytes).
pub(crate) const FIRST_TIMESTAMP: u32 = 32;
/// Bytes that a packet had on the wire beyond those that are there (4 bytes).
pub(crate) const EXTRA_LENGTH: u32 = 28;
