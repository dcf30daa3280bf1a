//! Probes by which nodes find the links between them: LLDPDUs (IEEE 802.1AB) that are sent to a group address of their own, so that switches pass them on.
//! Any tool that knows LLDP can read them.
//!
//! Whoever is on a link can send one that says anything. So what a probe says is little and short, and whoever gets it does not take its word for it alone.

use crate::{EtherAddr, Ethernet};

/// LLDP's `EtherType`.
pub const ETHERTYPE: u16 = 0x88cc;
/// Where probes go: a group address of those that nobody is assigned (locally administered). Bridges keep LLDP's own to themselves.
pub const GROUP: [u8; 6] = [0x03, 0x57, 0x45, 0x49, 0x52, 0x01];
/// Longest name of a node (RFC 1123, a label of a host name), and of an interface (`IFNAMSIZ` less one).
const MAX_NODE: usize = 63;
const MAX_INTERFACE: usize = 15;
/// Most fields of a probe: whoever adds some for others stays below.
const MAX_FIELDS: usize = 32;
/// The prefix of fields of our own. It is locally administered: nobody else's.
const ORGANISATION: [u8; 4] = [0x02, 0x57, 0x52, 1];

/// Types of fields (802.1AB, table 8-1), and the subtypes that are used here.
mod field {
    pub const END: u16 = 0;
    pub const CHASSIS: u16 = 1;
    pub const PORT: u16 = 2;
    pub const TIME: u16 = 3;
    pub const OWN: u16 = 127;
    /// A name that the administrator gave.
    pub const LOCAL: u8 = 7;
    /// The name of an interface.
    pub const INTERFACE: u8 = 5;
}

/// What a probe says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The domain of the node: the first bytes of its controller's pin.
    pub domain: [u8; 8],
    /// The node.
    pub node: String,
    /// The interface that it sent the probe from.
    pub interface: String,
    /// How long that is good, in seconds.
    pub seconds: u16,
}

/// A frame is no probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoProbe {
    /// It is not LLDP to the group of probes.
    #[error("it is no frame for the group of probes")]
    Other,
    /// It ends within a field.
    #[error("it ends within a field")]
    Short,
    /// The fields that come first are not those of LLDP.
    #[error("it begins with other fields than name, interface and time")]
    Order,
    /// A field has something else in it than it may.
    #[error("the field of type {0} has something else in it than it may")]
    Field(u16),
    /// It has too many fields.
    #[error("it has more than {MAX_FIELDS} fields")]
    Long,
    /// It is of another program that speaks LLDP.
    #[error("it names no domain")]
    NoDomain,
}

fn is_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=MAX_NODE).contains(&name.len()) && name.bytes().all(inner)
}

/// Whether this can be the name of an interface, and be shown to people.
fn is_interface(name: &str) -> bool {
    (1..=MAX_INTERFACE).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
}

fn put(frame: &mut Vec<u8>, kind: u16, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|p| p.len()).sum();
    // A length has nine bits; what is written here is shorter.
    let length = u16::try_from(length).unwrap_or(0x1ff).min(0x1ff);
    frame.extend((kind << 9 | length).to_be_bytes());
    parts.iter().for_each(|p| frame.extend_from_slice(p));
}

impl Probe {
    /// The frame of it, from an interface with this address; none if a name is none.
    pub fn frame(&self, from: EtherAddr) -> Option<Vec<u8>> {
        if !is_label(&self.node) || !is_interface(&self.interface) {
            return None;
        }
        let mut frame = [&GROUP[..], &from.0, &ETHERTYPE.to_be_bytes()].concat();
        put(&mut frame, field::CHASSIS, &[&[field::LOCAL], self.node.as_bytes()]);
        put(&mut frame, field::PORT, &[&[field::INTERFACE], self.interface.as_bytes()]);
        put(&mut frame, field::TIME, &[&self.seconds.to_be_bytes()]);
        put(&mut frame, field::OWN, &[&ORGANISATION, &self.domain]);
        put(&mut frame, field::END, &[]);
        Some(frame)
    }

    /// The probe in a frame, and the address that it says it is from.
    ///
    /// # Errors
    /// It is none.
    pub fn read(frame: &[u8]) -> Result<(EtherAddr, Probe), NoProbe> {
        let ethernet = Ethernet::new(frame).map_err(|_| NoProbe::Other)?;
        if ethernet.dst().0 != GROUP || ethernet.ethertype() != ETHERTYPE {
            return Err(NoProbe::Other);
        }
        let mut rest = frame.get(14..).ok_or(NoProbe::Short)?;
        let (mut node, mut interface, mut seconds, mut domain) = (None, None, None, None);
        for n in 0..=MAX_FIELDS {
            let (kind, value) = next(&mut rest)?;
            let wrong = NoProbe::Field(kind);
            let name = |subtype: u8, is: fn(&str) -> bool| {
                let (first, name) = value.split_first().ok_or(wrong)?;
                let name = std::str::from_utf8(name).map_err(|_| wrong)?;
                (*first == subtype && is(name)).then(|| name.to_owned()).ok_or(wrong)
            };
            match (n, kind) {
                (0, field::CHASSIS) => node = Some(name(field::LOCAL, is_label)?),
                (1, field::PORT) => interface = Some(name(field::INTERFACE, is_interface)?),
                (2, field::TIME) => {
                    let time = value.first_chunk().ok_or(wrong)?;
                    seconds = Some(u16::from_be_bytes(*time));
                }
                (0..3, _) => return Err(NoProbe::Order),
                (_, field::CHASSIS | field::PORT | field::TIME) => return Err(NoProbe::Order),
                (_, field::END) => break,
                (_, field::OWN) if value.starts_with(&ORGANISATION) => {
                    let bytes = value.get(ORGANISATION.len()..).unwrap_or_default();
                    let bytes: [u8; 8] = bytes.try_into().map_err(|_| wrong)?;
                    if domain.replace(bytes).is_some() {
                        return Err(wrong);
                    }
                }
                (MAX_FIELDS, _) => return Err(NoProbe::Long),
                _ => {}
            }
        }
        let (Some(node), Some(interface), Some(seconds)) = (node, interface, seconds) else {
            return Err(NoProbe::Order);
        };
        let domain = domain.ok_or(NoProbe::NoDomain)?;
        Ok((ethernet.src(), Probe { domain, node, interface, seconds }))
    }
}

/// The next field: its type and what is in it.
fn next<'f>(rest: &mut &'f [u8]) -> Result<(u16, &'f [u8]), NoProbe> {
    let (head, behind) = rest.split_first_chunk().ok_or(NoProbe::Short)?;
    let head = u16::from_be_bytes(*head);
    let length = usize::from(head & 0x1ff);
    let (value, behind) = behind.split_at_checked(length).ok_or(NoProbe::Short)?;
    *rest = behind;
    Ok((head >> 9, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);

    fn probe() -> Probe {
        Probe { domain: *b"12345678", node: "n1".into(), interface: "eth0.5".into(), seconds: 3 }
    }

    #[test]
    fn a_probe_is_read_as_it_is_written_and_is_lldp() {
        let frame = probe().frame(FROM).unwrap();
        assert_eq!(Probe::read(&frame), Ok((FROM, probe())));
        // Short frames are filled up.
        let filled = [&frame[..], &[0; 60]].concat();
        assert_eq!(Probe::read(&filled), Ok((FROM, probe())));
        assert_eq!(frame[12..17], [0x88, 0xcc, 0x02, 0x03, 0x07]);
        for (node, interface) in [("", "e"), ("N", "e"), ("n", ""), ("n", "a b"), ("n", "0123456789abcdef")] {
            let probe = Probe { node: node.into(), interface: interface.into(), ..probe() };
            assert_eq!(probe.frame(FROM), None);
        }
        // Fields of others are left out.
        let end = frame.len() - 2;
        let more = [&frame[..end], &[0x0a, 2, b'h', b'i'], &frame[end..]].concat();
        assert_eq!(Probe::read(&more), Ok((FROM, probe())));
    }

    #[test]
    fn what_is_no_probe_is_refused_with_the_reason() {
        let frame = probe().frame(FROM).unwrap();
        for end in 0..frame.len() {
            assert!(Probe::read(&frame[..end]).is_err(), "{end}");
        }
        let end = frame.len() - 2;
        let with = |fields: &[u8]| Probe::read(&[&frame[..end], fields, &[0, 0]].concat()).unwrap_err();
        assert_eq!(with(&frame[14..19]), NoProbe::Order, "a second name");
        assert_eq!(with(&frame[end - 14..end]), NoProbe::Field(127), "a second domain");
        assert_eq!(with(&[0x0a, 0].repeat(40)), NoProbe::Long);
        let changed = |at: usize, byte: u8| {
            let mut frame = frame.clone();
            frame[at] = byte;
            Probe::read(&frame).unwrap_err()
        };
        assert_eq!(changed(5, 0x0e), NoProbe::Other);
        assert_eq!(changed(16, 4), NoProbe::Field(1), "another kind of name");
        assert_eq!(changed(17, b'\n'), NoProbe::Field(1));
        assert_eq!(changed(end - 9, 9), NoProbe::NoDomain, "another organisation's");
    }
}
