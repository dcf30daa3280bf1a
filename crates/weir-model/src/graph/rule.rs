//! Flow rules: match and actions, with OpenFlow's meaning.

use std::fmt;
use std::net::IpAddr;

use serde::{Serialize, Serializer};
use weir_filter::{AddressOf, Cmp, Dir, Expr, Field, Layer, Ports, Prim, Tags};
use weir_net::EtherAddr;

use super::schema;
use crate::value::{EtherType, Id, IpPrefix, PortRange, TcpFlags, VlanId, is_false, one_or_list};
use schemars::JsonSchema;

/// A flow rule. Of the rules that match a packet, one with the highest priority applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Rule {
    /// The identifier, unique among the graph's rules.
    pub id: Id,
    /// The priority; higher wins.
    pub priority: u16,
    /// Which packets.
    #[serde(rename = "match")]
    pub matches: Match,
    /// What to do with them.
    #[schemars(schema_with = "schema::actions")]
    pub actions: Actions,
}

/// A place that packets come from or go to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortRef {
    /// A service access point; written `sap:ID`, and `service-access-point:ID` in canonical documents.
    Sap(Id),
    /// A function's port; written `sf:FUNCTION:PORT`.
    Function {
        /// The function's identifier.
        function: Id,
        /// The port's identifier.
        port: Id,
    },
}

impl fmt::Display for PortRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortRef::Sap(id) => write!(f, "sap:{id}"),
            PortRef::Function { function, port } => write!(f, "sf:{function}:{port}"),
        }
    }
}

/// As the paper prints it.
impl Serialize for PortRef {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            PortRef::Sap(id) => s.collect_str(&format_args!("service-access-point:{id}")),
            PortRef::Function { .. } => s.collect_str(self),
        }
    }
}

/// Which packets a rule applies to: all fields that are given must fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub struct Match {
    /// Where the packet comes from.
    pub port_in: PortRef,
    /// Ethernet source address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ether_src: Option<EtherAddr>,
    /// Ethernet destination address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ether_dst: Option<EtherAddr>,
    /// EtherType, after any VLAN tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ethertype: Option<EtherType>,
    /// The outermost VLAN tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<VlanMatch>,
    /// IP source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_src: Option<IpPrefix>,
    /// IP destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_dst: Option<IpPrefix>,
    /// IPv4 protocol or IPv6 next header; a number, or a name when read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ip_proto")]
    pub ip_proto: Option<u8>,
    /// The whole IPv4 type-of-service byte. (IPv4 only.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_tos: Option<u8>,
    /// The upper six bits of the type-of-service byte, 0 to 63. (IPv4 only.)
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 63))]
    pub ip_dscp: Option<u8>,
    /// Transport source port; of `ip_proto`, else of TCP or UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tp_src: Option<PortRange>,
    /// Transport destination port; of `ip_proto`, else of TCP or UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tp_dst: Option<PortRange>,
    /// TCP flags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_flags: Option<TcpFlags>,
    /// ICMP type; of ICMPv6 if `ip_proto` says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u8>,
    /// ICMP code; of ICMPv6 if `ip_proto` says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_code: Option<u8>,
    /// A pcap filter expression that must match too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
}

/// A match of the outermost VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VlanMatch {
    /// The packet has no tag; written `none`.
    None,
    /// The packet's tag has this identifier.
    Id(VlanId),
}

impl Serialize for VlanMatch {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            VlanMatch::None => s.serialize_str("none"),
            VlanMatch::Id(id) => id.serialize(s),
        }
    }
}

impl Match {
    /// A match on the place alone.
    pub fn port_in(port_in: PortRef) -> Self {
        Self {
            port_in,
            ether_src: None,
            ether_dst: None,
            ethertype: None,
            vlan_id: None,
            ip_src: None,
            ip_dst: None,
            ip_proto: None,
            ip_tos: None,
            ip_dscp: None,
            tp_src: None,
            tp_dst: None,
            tcp_flags: None,
            icmp_type: None,
            icmp_code: None,
            filter: None,
        }
    }

    /// All of the match but `port_in`, as one filter expression: its meaning, and what tests hold a compiled form against.
    pub fn expr(&self) -> Expr {
        let mac = |addr: Option<EtherAddr>, dir| addr.map(|addr| Prim::EtherHost { dir, addr }.into());
        let ip = |prefix: Option<IpPrefix>, dir| {
            prefix.map(|p| match p.addr() {
                IpAddr::V4(addr) => {
                    let mask = u32::MAX.checked_shl(32 - u32::from(p.len())).unwrap_or(0).into();
                    Prim::Net { of: AddressOf::Ip, dir, addr, mask }.into()
                }
                IpAddr::V6(addr) => Prim::Net6 { dir, addr, len: p.len() }.into(),
            })
        };
        let proto = self.ip_proto.map_or(Ports::TcpUdp, Ports::Of);
        let port = |range: Option<PortRange>, dir| {
            range.map(|r| Prim::Port { dir, lo: r.lo(), hi: r.hi(), proto }.into())
        };
        let byte = |layer, offset, mask: u8, value: u8| -> Expr {
            let (mask, value) = (u32::from(mask), u32::from(value));
            Prim::Field(Field { layer, offset, width: 1, mask, cmp: Cmp::Eq, value }).into()
        };
        let icmp = Layer::Proto(self.ip_proto.unwrap_or(1));
        let vlan = self.vlan_id.map(|v| match v {
            VlanMatch::None => Expr::from(Prim::Vlan(None)).not(),
            VlanMatch::Id(id) => Prim::Vlan(Some(id.get())).into(),
        });
        let parts = [
            mac(self.ether_src, Dir::Src),
            mac(self.ether_dst, Dir::Dst),
            self.ethertype.map(|t| Prim::EtherType(t.get()).into()),
            ip(self.ip_src, Dir::Src),
            ip(self.ip_dst, Dir::Dst),
            self.ip_proto.map(|number| Prim::Proto { number, version: None }.into()),
            self.ip_tos.map(|tos| byte(Layer::Ip, 1, 0xff, tos)),
            self.ip_dscp.map(|dscp| byte(Layer::Ip, 1, 0xfc, dscp << 2)),
            port(self.tp_src, Dir::Src),
            port(self.tp_dst, Dir::Dst),
            self.tcp_flags.map(|f| byte(Layer::Proto(6), 13, f.set() | f.clear(), f.set())),
            self.icmp_type.map(|t| byte(icmp, 0, 0xff, t)),
            self.icmp_code.map(|c| byte(icmp, 1, 0xff, c)),
        ];
        // Fields are looked for behind all tags; the filter says itself where it looks.
        let fields = Expr::and(parts.into_iter().flatten()).behind(Tags::All);
        Expr::and([fields].into_iter().chain(self.filter.clone()).chain(vlan))
    }
}

/// Actions on a packet, as an OpenFlow action set (OpenFlow 1.3.5 section 5.10): the changes are made in the order of the fields here, then
/// the packet leaves by every port of `output_to_port`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Actions {
    /// Remove the outermost VLAN tag.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pop_vlan: bool,
    /// Add a VLAN tag with this identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_vlan: Option<VlanId>,
    /// Decrement the IPv4 time to live or IPv6 hop limit; packets whose time is over are dropped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dec_ttl: bool,
    /// Change the outermost VLAN tag's identifier; a packet without a tag gets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_vlan: Option<VlanId>,
    /// Set the Ethernet source address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_ether_src: Option<EtherAddr>,
    /// Set the Ethernet destination address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_ether_dst: Option<EtherAddr>,
    /// Set the IP source address, in packets of its family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_ip_src: Option<IpAddr>,
    /// Set the IP destination address, in packets of its family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_ip_dst: Option<IpAddr>,
    /// Set the IPv4 type-of-service byte or IPv6 traffic class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_ip_tos: Option<u8>,
    /// Set the TCP or UDP source port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_tp_src: Option<u16>,
    /// Set the TCP or UDP destination port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_tp_dst: Option<u16>,
    /// Where the packet goes; one place canonically without a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_list")]
    #[schemars(schema_with = "schema::outputs")]
    pub output_to_port: Vec<PortRef>,
    /// Drop the packet; stands alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drop: bool,
}
