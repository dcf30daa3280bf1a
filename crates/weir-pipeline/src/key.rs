//! A packet's fields as a row of words: what matches look at.
//!
//! Fields that no packet has at the same time share bits, such as the ports of TCP and UDP, or addresses of IPv4 and of ARP. A match
//! says by its prerequisites which of them it means (section 7.2.3.6), so that two matches are never taken for each other.

use weir_openflow::oxm::{Field, FieldValue};
use weir_openflow::{ErrorCode, Match, error::bad_match};

/// Words of a key.
pub const WORDS: usize = 16;

/// The fields of a packet, or which bits of them count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Key(pub [u64; WORDS]);

/// Where a field stands: its first word, and how far it is shifted there. One of 128 bits has the word behind it too.
#[derive(Debug, Clone, Copy)]
struct FieldPosition {
    word: usize,
    shift: u32,
}

fn place(field: Field) -> FieldPosition {
    let (word, shift) = match field {
        Field::InPort | Field::InPhyPort => (0, 0),
        Field::EthType => (0, 32),
        Field::VlanVid => (0, 48),
        Field::VlanPcp => (0, 61),
        Field::Metadata => (1, 0),
        Field::EthDst => (2, 0),
        Field::IpProto => (2, 48),
        Field::IpDscp => (2, 58),
        Field::IpEcn => (2, 56),
        Field::EthSrc => (3, 0),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc | Field::Icmpv4Type | Field::Icmpv6Type => (3, 48),
        Field::TunnelId => (4, 0),
        Field::Ipv4Src | Field::ArpSpa => (5, 0),
        Field::Ipv4Dst | Field::ArpTpa => (5, 32),
        Field::Ipv6Src => (6, 0),
        Field::Ipv6Dst => (8, 0),
        Field::Ipv6NdTarget => (10, 0),
        Field::ArpSha | Field::Ipv6NdSll => (12, 0),
        Field::TcpDst | Field::UdpDst | Field::SctpDst | Field::Icmpv4Code | Field::Icmpv6Code => (12, 48),
        Field::ArpTha | Field::Ipv6NdTll => (13, 0),
        Field::ArpOp => (13, 48),
        Field::Ipv6Flabel => (14, 0),
        Field::MplsLabel => (14, 20),
        Field::MplsTc => (14, 40),
        Field::MplsBos => (14, 43),
        Field::Ipv6Exthdr => (14, 44),
        Field::PbbIsid => (15, 0),
    };
    FieldPosition { word, shift }
}

impl Key {
    /// Sets a field, whose value fits it.
    pub fn set(&mut self, field: Field, value: u128) {
        let FieldPosition { word, shift } = place(field);
        if field.bits() == 128 {
            self.0[word] = (value >> 64) as u64;
            self.0[word + 1] = value as u64;
            return;
        }
        let bits = field.all_bits() as u64;
        self.0[word] = self.0[word] & !(bits << shift) | (value as u64 & bits) << shift;
    }

    /// A field.
    pub fn get(&self, field: Field) -> u128 {
        let FieldPosition { word, shift } = place(field);
        if field.bits() == 128 {
            return u128::from(self.0[word]) << 64 | u128::from(self.0[word + 1]);
        }
        u128::from(self.0[word] >> shift) & field.all_bits()
    }

    /// The bits of this that a mask has.
    #[must_use]
    pub fn masked(&self, mask: &Key) -> Key {
        Key(std::array::from_fn(|i| self.0[i] & mask.0[i]))
    }

    /// Which words have a bit.
    pub fn used(&self) -> Vec<u8> {
        (0..WORDS as u8).filter(|&i| self.0[usize::from(i)] != 0).collect()
    }
}

/// The pattern of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Pattern {
    /// Which bits count.
    pub mask: Key,
    /// What they are.
    pub value: Key,
}

impl Pattern {
    /// Of a match.
    ///
    /// # Errors
    /// A field that is not matched here: those of experimenters, and two numbers of one port that differ.
    pub fn of(matching: &Match) -> Result<Pattern, ErrorCode> {
        if matching.basic().count() != matching.fields().len() {
            return Err(bad_match::BAD_FIELD);
        }
        let mut pattern = Pattern::default();
        for field in matching.basic() {
            let name = field.field();
            // There is nothing below a port.
            let port = matching.get(Field::InPort).map(FieldValue::value);
            if name == Field::InPhyPort && port != Some(field.value()) {
                return Err(bad_match::BAD_VALUE);
            }
            pattern.value.set(name, field.value());
            pattern.mask.set(name, field.mask().unwrap_or(name.all_bits()));
        }
        Ok(pattern)
    }

    /// Whether all packets of the other one are of this (section 6.4: what a change that is not strict changes).
    pub fn covers(&self, other: &Pattern) -> bool {
        other.mask.masked(&self.mask) == self.mask && other.value.masked(&self.mask) == self.value
    }

    /// Whether a packet can be of both.
    pub fn overlaps(&self, other: &Pattern) -> bool {
        let both = self.mask.masked(&other.mask);
        self.value.masked(&both) == other.value.masked(&both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_holds_its_bits_and_touches_no_other_that_a_packet_has_with_it() {
        for &field in Field::ALL {
            let mut key = Key::default();
            key.set(field, field.all_bits());
            assert_eq!(key.get(field), field.all_bits(), "{field:?}");
            let set: u32 = key.0.iter().map(|w| w.count_ones()).sum();
            assert_eq!(set, field.bits(), "{field:?}");
            key.set(field, 0);
            assert_eq!(key, Key::default(), "{field:?}");
        }
        let apart = [
            Field::EthDst,
            Field::EthSrc,
            Field::EthType,
            Field::VlanVid,
            Field::VlanPcp,
            Field::IpDscp,
            Field::IpEcn,
        ];
        let more = [
            Field::IpProto,
            Field::Ipv6Src,
            Field::Ipv6Dst,
            Field::Ipv6Flabel,
            Field::Icmpv6Type,
            Field::Icmpv6Code,
        ];
        let last = [
            Field::Ipv6NdTarget,
            Field::Ipv6NdSll,
            Field::Ipv6NdTll,
            Field::InPort,
            Field::Metadata,
            Field::TunnelId,
        ];
        let all: Vec<Field> = [&apart[..], &more[..], &last[..], &[Field::Ipv6Exthdr]].concat();
        let mut key = Key::default();
        all.iter().for_each(|f| key.set(*f, f.all_bits()));
        let set: u32 = key.0.iter().map(|w| w.count_ones()).sum();
        assert_eq!(set, all.iter().map(|f| f.bits()).sum::<u32>());
    }

    #[test]
    fn wider_patterns_cover_and_overlap_narrower_ones() {
        let any = Pattern::default();
        let ip = Match::any_packet().with(Field::EthType, 0x800_u16).unwrap();
        let net = ip.clone().with_masked(Field::Ipv4Dst, 0x0a00_0000_u32, 0xff00_0000_u32).unwrap();
        let tcp = ip.clone().with(Field::IpProto, 6_u8).unwrap();
        let [ip, net, tcp] = [ip, net, tcp].map(|m| Pattern::of(&m).unwrap());
        assert!(any.covers(&ip) && ip.covers(&net) && !net.covers(&ip) && !net.covers(&tcp));
        assert!(net.overlaps(&tcp) && tcp.overlaps(&net) && !tcp.covers(&net));
        let arp = Pattern::of(&Match::any_packet().with(Field::EthType, 0x806_u16).unwrap()).unwrap();
        assert!(!arp.overlaps(&net));
    }
}
