use super::declare::rewriter;
use super::eviction::Spare;
use super::flow::{self, Kinds};
use super::listing::flows;
use crate::prelude::*;

rewriter! {
    /// Rewrites addresses and ports of UDP packets: network address and port translation (NAPT, RFC 3022).
    ///
    /// It is as `IPRewriter`, whose manual describes the input specifications and the mappings, with these
    /// differences: a flow is known by its addresses and ports alone, so that TCP and UDP packets with the same ones
    /// share a mapping; and all flows, those of TCP too, have the timeouts of UDP.
    ///
    /// Packets that are neither TCP nor UDP (`NotRewritable`), fragments beyond the first (`Fragment`), and packets
    /// too short for their transport header (`Truncated`) are dropped, or leave unchanged if the input's
    /// specification is `pass`. Packets of unknown flows are dropped if the specification says so (`NoMatch`), or if
    /// there is no space for a mapping (`Full`) or no port is free (`NoPort`).
    UDPRewriter;
    example "Idle -> CheckIPHeader -> rw :: UDPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// Lifetime of mappings without packets.
        key timeout: Duration = Duration::from_secs(300) => "5 min",
        /// Another name of TIMEOUT.
        key udp_timeout: Option<Duration> = None,
        /// The same when there were three packets, and one in each direction; as TIMEOUT if not given.
        key streaming_timeout: Option<Duration> = None,
        /// Another name of STREAMING_TIMEOUT.
        key udp_streaming_timeout: Option<Duration> = None,
        /// How long after its last packet a mapping is not evicted for another.
        key udp_guarantee: Duration = Duration::from_secs(5) => "5 s",
        /// Another name of UDP_GUARANTEE.
        key guarantee: Option<Duration> = None,
        /// Whether the destination annotation becomes the new destination address.
        key dst_anno: bool = true,
    }
    handlers {
        /// All entries, one a line: flow, new flow, outputs (that of this direction with a star), input, seconds left.
        read table = |e, s| Ok(flows(&e.inputs, s, None)),
    }
}

impl UDPRewriter {
    /// What its program and its tables follow from.
    pub(super) fn settings(&self, name: &str) -> flow::Settings {
        let timeout = self.udp_timeout.unwrap_or(self.timeout);
        let guarantee = self.guarantee.unwrap_or(self.udp_guarantee);
        let streaming = self.streaming_timeout.or(self.udp_streaming_timeout).unwrap_or(timeout);
        let udp = [timeout, streaming];
        let spare = Spare::OfFlow(Kinds::Any, ([Duration::ZERO; 3], guarantee), (udp, guarantee));
        flow::Settings {
            kind: Kinds::Any,
            table: self.table(name, flow::KEY, flow::VALUE, spare),
            tcp_timeout: timeout,
            tcp_done_timeout: timeout,
            tcp_nodata_timeout: timeout,
            udp_timeout: timeout,
            udp_streaming_timeout: streaming,
            dst_anno: self.dst_anno,
        }
    }
}

fn program(e: &UDPRewriter, b: &mut Builder) {
    let name = b.name().to_owned();
    e.settings(&name).program(b);
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, tcp, udp};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn tcp_and_udp_share_a_mapping() {
        let mut h = Harness::new("UDPRewriter", &["pattern 1.0.0.1 1024-65535# - - 0 1", "drop"], 2, 2);
        let (client, server, out) = (([18, 26, 4, 44], 30), ([10, 0, 0, 4], 40), ([1, 0, 0, 1], 1024));
        assert_eq!(
            h.send_ip(0, &tcp(client, server, 2, 1, b"abc"))[0].out(),
            (0, &tcp(out, server, 2, 1, b"abc")[..])
        );
        assert_eq!(h.send_ip(0, &udp(client, server, b"abc"))[0].out(), (0, &udp(out, server, b"abc")[..]));
        assert_eq!(h.send_ip(1, &udp(server, out, b"x"))[0].out(), (1, &udp(server, client, b"x")[..]));
        assert_eq!(h.read("table").lines().count(), 2);
    }

    #[test]
    fn streams_live_longer() {
        let args = ["pattern 1.0.0.2 1024-65534# - - 0 1", "drop", "TIMEOUT 4", "STREAMING_TIMEOUT 9"];
        let mut h = Harness::new("UDPRewriter", &args, 2, 2);
        let server = ([2, 115, 2, 2], 2);
        for (client, port) in [(1, 1024), (2, 1025)] {
            h.send_ip(0, &tcp(([53, 1, 1, client], 1), server, 0, 1, b""))[0].out();
            h.send_ip(1, &tcp(server, ([1, 0, 0, 2], port), 0, 1, b""))[0].out();
        }
        h.send_ip(1, &tcp(server, ([1, 0, 0, 2], 1024), 0, 1, b""))[0].out();
        h.now += 5 * SECOND;
        h.expire();
        assert_eq!(h.send_ip(1, &tcp(server, ([1, 0, 0, 2], 1024), 0, 1, b""))[0].out().0, 1);
        assert_eq!(h.send_ip(1, &tcp(server, ([1, 0, 0, 2], 1025), 0, 1, b""))[0].reason(), "NoMatch");
    }
}
