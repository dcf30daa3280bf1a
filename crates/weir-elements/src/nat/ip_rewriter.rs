use super::declare::rewriter;
use super::eviction::Spare;
use super::flow::{self, Kinds};
use super::listing::{flows, lookup};
use crate::prelude::*;

rewriter! {
    /// Rewrites addresses and ports of TCP and UDP packets: network address and port translation (NAPT, RFC 3022).
    ///
    /// A table of *mappings* says how the packets of a flow are rewritten and where they leave. The flow of a packet
    /// is its protocol, source address, source port, destination address and destination port. A packet whose flow is
    /// in the table is rewritten and sent to the output of its mapping, whichever input it came on. Other packets are
    /// handled as the *input specification* of their input says; there is one for each input:
    ///
    /// - `drop` or `discard`: drops the packet (`NoMatch`).
    /// - `pass OUTPUT` (also `nochange`, `passthrough`): sends it to OUTPUT. No mapping is made.
    /// - `keep FOUTPUT ROUTPUT`: makes a mapping that changes nothing: packets of the flow leave on FOUTPUT, replies
    ///   on ROUTPUT.
    /// - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: makes a mapping that writes what the pattern says into
    ///   packets of the flow, which leave on FOUTPUT. Replies are rewritten back and leave on ROUTPUT. A dash `-`
    ///   leaves a part as it is. SPORT may be a range `L-H`: the port becomes one with which no other mapping has the
    ///   same replies, so that a port serves many destinations at a time. The port of the packet is taken if it is
    ///   free, else a random one. `L-H?` takes a random one from the start, `L-H#` the next in sequence. If none is
    ///   free, the packet is dropped (`NoPort`). The form `pattern SADDR DADDR FOUTPUT ROUTPUT` changes no ports; its
    ///   SADDR may be a range `A-B` or a prefix.
    /// - `pattern NAME FOUTPUT ROUTPUT`: as above, with a pattern of an `IPRewriterPatterns` element.
    /// - `ELEMENT`: makes a mapping by a pattern that a `RoundRobinIPMapper` or `SourceIPHashMapper` chooses.
    ///
    /// A new mapping takes both directions, or none. If a pattern without a range gives a flow replies that another
    /// mapping has, the other mapping is evicted. When the table has `MAPPING_CAPACITY` mappings, the one that
    /// expires next is evicted for that of a new flow (of more than 32, the first of some that are looked at); but if that
    /// had a packet within its guarantee, or new mappings have no guarantee and expire before it, the packet of the new
    /// flow is dropped (`Full`), and a number in sequence that it had got is used up.
    ///
    /// The `net` mark has to stand on a checked IPv4 header. Header checksums are updated, also those that the
    /// sender's kernel left to the device. Packets that are neither TCP nor UDP (`NotRewritable`), fragments beyond
    /// the first (`Fragment`), and packets too short for their transport header (`Truncated`) are dropped, or leave
    /// unchanged if the input's specification is `pass`.
    IPRewriter;
    example "Idle -> CheckIPHeader -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// Lifetime of TCP mappings without packets, when both sides have sent data.
        key tcp_timeout: Duration = Duration::from_secs(86400) => "24 h",
        /// Another name of TCP_TIMEOUT.
        key timeout: Option<Duration> = None,
        /// The same when both sides have sent FIN, or one RST.
        key tcp_done_timeout: Duration = Duration::from_secs(240) => "4 min",
        /// The same when one of the sides has sent no data.
        key tcp_nodata_timeout: Duration = Duration::from_secs(300) => "5 min",
        /// How long after its last packet a TCP mapping is not evicted for another.
        key tcp_guarantee: Duration = Duration::from_secs(5) => "5 s",
        /// Lifetime of UDP mappings without packets.
        key udp_timeout: Duration = Duration::from_secs(300) => "5 min",
        /// The same when there were three packets, and one in each direction; as UDP_TIMEOUT if not given.
        key udp_streaming_timeout: Option<Duration> = None,
        /// The same for UDP mappings.
        key udp_guarantee: Duration = Duration::from_secs(5) => "5 s",
        /// Another name of TCP_GUARANTEE.
        key guarantee: Option<Duration> = None,
        /// Whether the destination annotation becomes the new destination address.
        key dst_anno: bool = true,
    }
    handlers {
        /// All entries, one a line: flow, new flow, outputs (that of this direction with a star), input, seconds left.
        read table = |e, s| Ok(flows(&e.inputs, s, None)),
        /// The entries of TCP flows.
        read tcp_table = |e, s| Ok(flows(&e.inputs, s, Some(proto::TCP))),
        /// The entries of UDP flows.
        read udp_table = |e, s| Ok(flows(&e.inputs, s, Some(proto::UDP))),
        /// The new flow of a TCP flow, both as `SADDR SPORT DADDR DPORT`.
        read tcp_lookup = |_, s| lookup(s, proto::TCP),
        /// The timeouts in seconds.
        read timeouts = |e, _| Ok(timeouts(e)),
    }
}

impl IPRewriter {
    /// What its program and its tables follow from.
    pub(super) fn settings(&self, name: &str) -> flow::Settings {
        let tcp = [self.tcp_nodata_timeout, self.timeout.unwrap_or(self.tcp_timeout), self.tcp_done_timeout];
        let udp = [self.udp_timeout, self.udp_streaming_timeout.unwrap_or(self.udp_timeout)];
        let tcp_guarantee = self.guarantee.unwrap_or(self.tcp_guarantee);
        let spare = Spare::OfFlow(Kinds::TcpAndUdp, (tcp, tcp_guarantee), (udp, self.udp_guarantee));
        flow::Settings {
            kind: Kinds::TcpAndUdp,
            table: self.table(name, flow::KEY, flow::VALUE, spare),
            tcp_timeout: self.timeout.unwrap_or(self.tcp_timeout),
            tcp_done_timeout: self.tcp_done_timeout,
            tcp_nodata_timeout: self.tcp_nodata_timeout,
            udp_timeout: self.udp_timeout,
            udp_streaming_timeout: self.udp_streaming_timeout.unwrap_or(self.udp_timeout),
            dst_anno: self.dst_anno,
        }
    }
}

fn program(e: &IPRewriter, b: &mut Builder) {
    let name = b.name().to_owned();
    e.settings(&name).program(b);
}

fn timeouts(e: &IPRewriter) -> String {
    let tcp = e.timeout.unwrap_or(e.tcp_timeout);
    let streaming = e.udp_streaming_timeout.unwrap_or(e.udp_timeout);
    [
        ("tcp", tcp),
        ("tcp_done", e.tcp_done_timeout),
        ("tcp_nodata", e.tcp_nodata_timeout),
        ("udp", e.udp_timeout),
        ("udp_streaming", streaming),
    ]
    .iter()
    .map(|(name, t)| format!("{name} {}\n", t.as_secs_f64()))
    .collect()
}

#[cfg(test)]
mod tests;
