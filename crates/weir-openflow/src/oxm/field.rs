//! The table of match fields (section 7.2.3.7).

/// A prerequisite of a match field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prerequisite {
    /// Nothing.
    None,
    /// This field, with any value.
    Present(Field),
    /// `VLAN_VID` with a tag present.
    Tagged,
    /// This field, with one of these values and no mask.
    Is(Field, &'static [u64]),
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `10`
    Decimal,
    /// `0x80`
    Hex,
    /// `0x0800`
    EtherType,
    /// `0x00080`
    Label,
    /// A port, with its names.
    Port,
    /// `00:11:22:33:44:55`
    Ether,
    /// `10.0.0.1`
    Ipv4,
    /// `fe80::1`
    Ipv6,
}

use Form::{Decimal, Ether, EtherType, Hex, Ipv4, Ipv6, Label, Port};
use Prerequisite::{Is, None as Nothing, Present, Tagged};

const IP: Prerequisite = Is(Field::EthType, &[0x800, 0x86dd]);
const IPV4: Prerequisite = Is(Field::EthType, &[0x800]);
const IPV6: Prerequisite = Is(Field::EthType, &[0x86dd]);
const ARP: Prerequisite = Is(Field::EthType, &[0x806]);
const MPLS: Prerequisite = Is(Field::EthType, &[0x8847, 0x8848]);
const PBB: Prerequisite = Is(Field::EthType, &[0x88e7]);
const TCP: Prerequisite = Is(Field::IpProto, &[6]);
const UDP: Prerequisite = Is(Field::IpProto, &[17]);
const SCTP: Prerequisite = Is(Field::IpProto, &[132]);
const ICMPV4: Prerequisite = Is(Field::IpProto, &[1]);
const ICMPV6: Prerequisite = Is(Field::IpProto, &[58]);
const ND: Prerequisite = Is(Field::Icmpv6Type, &[135, 136]);
const ND_SOLICIT: Prerequisite = Is(Field::Icmpv6Type, &[135]);
const ND_ADVERT: Prerequisite = Is(Field::Icmpv6Type, &[136]);

macro_rules! fields {
    ($($n:literal $field:ident $name:literal $match_name:literal $bits:literal $mask:literal $form:ident $needs:expr, $doc:literal;)*) => {
        /// A match field. Its number is that of `oxm_ofb_match_fields`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field { $(#[doc = $doc] $field = $n,)* }

        impl Field {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Field] = &[$(Field::$field),*];

            /// Its name in set-field actions.
            pub fn name(self) -> &'static str {
                match self { $(Field::$field => $name,)* }
            }

            /// Its name in matches.
            pub fn match_name(self) -> &'static str {
                match self { $(Field::$field => $match_name,)* }
            }

            /// How many bits it has.
            pub fn bits(self) -> u32 {
                match self { $(Field::$field => $bits,)* }
            }

            /// Whether a match may leave out bits of it.
            pub fn maskable(self) -> bool {
                match self { $(Field::$field => $mask,)* }
            }

            /// How its value is written.
            pub fn form(self) -> Form {
                match self { $(Field::$field => $form,)* }
            }

            /// What a match needs before it.
            pub fn needs(self) -> Prerequisite {
                match self { $(Field::$field => $needs,)* }
            }
        }
    };
}

// Number, field, its names (set-field, match), bits, whether it has masks, form, prerequisite.
fields! {
    0 InPort "in_port" "in_port" 32 false Port Nothing, "Where the packet came in.";
    1 InPhyPort "in_phy_port" "in_phy_port" 32 false Port Present(Field::InPort), "The physical port below it.";
    2 Metadata "metadata" "metadata" 64 true Hex Nothing, "What tables pass on.";
    3 EthDst "eth_dst" "dl_dst" 48 true Ether Nothing, "Ethernet destination.";
    4 EthSrc "eth_src" "dl_src" 48 true Ether Nothing, "Ethernet source.";
    5 EthType "eth_type" "dl_type" 16 false EtherType Nothing, "EtherType, behind VLAN tags.";
    6 VlanVid "vlan_vid" "dl_vlan" 13 true Decimal Nothing, "VLAN, with 0x1000 if there is a tag.";
    7 VlanPcp "vlan_pcp" "dl_vlan_pcp" 3 false Decimal Tagged, "VLAN priority.";
    8 IpDscp "ip_dscp" "nw_tos" 6 false Decimal IP, "Differentiated services.";
    9 IpEcn "nw_ecn" "nw_ecn" 2 false Decimal IP, "Congestion notification.";
    10 IpProto "nw_proto" "nw_proto" 8 false Decimal IP, "IP protocol.";
    11 Ipv4Src "ip_src" "nw_src" 32 true Ipv4 IPV4, "IPv4 source.";
    12 Ipv4Dst "ip_dst" "nw_dst" 32 true Ipv4 IPV4, "IPv4 destination.";
    13 TcpSrc "tcp_src" "tp_src" 16 false Decimal TCP, "TCP source port.";
    14 TcpDst "tcp_dst" "tp_dst" 16 false Decimal TCP, "TCP destination port.";
    15 UdpSrc "udp_src" "tp_src" 16 false Decimal UDP, "UDP source port.";
    16 UdpDst "udp_dst" "tp_dst" 16 false Decimal UDP, "UDP destination port.";
    17 SctpSrc "sctp_src" "tp_src" 16 false Decimal SCTP, "SCTP source port.";
    18 SctpDst "sctp_dst" "tp_dst" 16 false Decimal SCTP, "SCTP destination port.";
    19 Icmpv4Type "icmp_type" "icmp_type" 8 false Decimal ICMPV4, "ICMP type.";
    20 Icmpv4Code "icmp_code" "icmp_code" 8 false Decimal ICMPV4, "ICMP code.";
    21 ArpOp "arp_op" "arp_op" 16 false Decimal ARP, "ARP operation.";
    22 ArpSpa "arp_spa" "arp_spa" 32 true Ipv4 ARP, "ARP sender, IPv4.";
    23 ArpTpa "arp_tpa" "arp_tpa" 32 true Ipv4 ARP, "ARP target, IPv4.";
    24 ArpSha "arp_sha" "arp_sha" 48 true Ether ARP, "ARP sender, Ethernet.";
    25 ArpTha "arp_tha" "arp_tha" 48 true Ether ARP, "ARP target, Ethernet.";
    26 Ipv6Src "ipv6_src" "ipv6_src" 128 true Ipv6 IPV6, "IPv6 source.";
    27 Ipv6Dst "ipv6_dst" "ipv6_dst" 128 true Ipv6 IPV6, "IPv6 destination.";
    28 Ipv6Flabel "ipv6_label" "ipv6_label" 20 true Label IPV6, "IPv6 flow label.";
    29 Icmpv6Type "icmpv6_type" "icmp_type" 8 false Decimal ICMPV6, "ICMPv6 type.";
    30 Icmpv6Code "icmpv6_code" "icmp_code" 8 false Decimal ICMPV6, "ICMPv6 code.";
    31 Ipv6NdTarget "nd_target" "nd_target" 128 false Ipv6 ND, "Target of neighbor discovery.";
    32 Ipv6NdSll "nd_sll" "nd_sll" 48 false Ether ND_SOLICIT, "Source link layer of a solicitation.";
    33 Ipv6NdTll "nd_tll" "nd_tll" 48 false Ether ND_ADVERT, "Target link layer of an advertisement.";
    34 MplsLabel "mpls_label" "mpls_label" 20 false Decimal MPLS, "MPLS label.";
    35 MplsTc "mpls_tc" "mpls_tc" 3 false Decimal MPLS, "MPLS traffic class.";
    36 MplsBos "mpls_bos" "mpls_bos" 1 false Decimal MPLS, "MPLS bottom of stack.";
    37 PbbIsid "pbb_isid" "pbb_isid" 24 true Hex PBB, "Service of a provider backbone.";
    38 TunnelId "tun_id" "tun_id" 64 true Hex Nothing, "What a tunnel says of the packet.";
    39 Ipv6Exthdr "ipv6_exthdr" "ipv6_exthdr" 9 true Hex IPV6, "Which IPv6 extension headers there are.";
}

impl Field {
    /// The field of a number.
    pub fn from_number(n: u8) -> Option<Field> {
        Field::ALL.get(usize::from(n)).copied()
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// How many bytes a value has.
    pub fn bytes(self) -> usize {
        match self.bits() {
            // The two labels stand in whole words.
            20 => 4,
            bits => bits.div_ceil(8) as usize,
        }
    }

    /// All bits of a value.
    pub fn all_bits(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }
}
