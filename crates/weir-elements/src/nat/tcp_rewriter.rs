use super::declare::rewriter;
use super::eviction::Spare;
use super::flow::{self, Kinds};
use super::listing::{flows, lookup};
use crate::prelude::*;

rewriter! {
    /// Rewrites addresses and ports of TCP packets, and their sequence numbers where an element asks for it.
    ///
    /// It is as `IPRewriter`, whose manual describes the input specifications and the mappings, for TCP alone.
    /// `FTPPortMapper` changes the length of segments; then the sequence numbers behind them are shifted, and the
    /// acknowledgements of the other side (selective ones too, RFC 2018) shifted back. The last four changes of each
    /// direction are kept apart, for segments that are sent again.
    ///
    /// Packets that are not TCP (`NotRewritable`), fragments beyond the first (`Fragment`), and packets too short for
    /// their TCP header (`Truncated`) are dropped, or leave unchanged if the input's specification is `pass`. Packets
    /// of unknown flows are dropped if the specification says so (`NoMatch`), or if there is no space for a mapping
    /// (`Full`) or no port is free (`NoPort`).
    TCPRewriter;
    example "Idle -> CheckIPHeader -> rw :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// Lifetime of mappings without packets, when both sides have sent data.
        key tcp_timeout: Duration = Duration::from_secs(86400) => "24 h",
        /// Another name of TCP_TIMEOUT.
        key timeout: Option<Duration> = None,
        /// The same when both sides have sent FIN, or one RST.
        key tcp_done_timeout: Duration = Duration::from_secs(240) => "4 min",
        /// The same when one of the sides has sent no data.
        key tcp_nodata_timeout: Duration = Duration::from_secs(300) => "5 min",
        /// How long after its last packet a mapping is not evicted for another.
        key tcp_guarantee: Duration = Duration::from_secs(5) => "5 s",
        /// Another name of TCP_GUARANTEE.
        key guarantee: Option<Duration> = None,
        /// Whether the destination annotation becomes the new destination address.
        key dst_anno: bool = true,
    }
    handlers {
        /// All entries, one a line: flow, new flow, outputs (that of this direction with a star), input, seconds left.
        read table = |e, s| Ok(flows(&e.inputs, s, None)),
        /// The new flow of a flow, both as `SADDR SPORT DADDR DPORT`.
        read lookup = |_, s| lookup(s, proto::TCP),
    }
}

impl TCPRewriter {
    /// What its program and its tables follow from.
    pub(super) fn settings(&self, name: &str) -> flow::Settings {
        let guarantee = self.guarantee.unwrap_or(self.tcp_guarantee);
        let tcp = [self.tcp_nodata_timeout, self.timeout.unwrap_or(self.tcp_timeout), self.tcp_done_timeout];
        let spare = Spare::OfFlow(Kinds::Tcp, (tcp, guarantee), ([Duration::ZERO; 2], guarantee));
        flow::Settings {
            kind: Kinds::Tcp,
            table: self.table(name, flow::KEY, flow::VALUE, spare),
            tcp_timeout: self.timeout.unwrap_or(self.tcp_timeout),
            tcp_done_timeout: self.tcp_done_timeout,
            tcp_nodata_timeout: self.tcp_nodata_timeout,
            udp_timeout: self.tcp_nodata_timeout,
            udp_streaming_timeout: self.tcp_nodata_timeout,
            dst_anno: self.dst_anno,
        }
    }
}

fn program(e: &TCPRewriter, b: &mut Builder) {
    let name = b.name().to_owned();
    e.settings(&name).program(b);
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, tcp, udp};

    #[test]
    fn only_tcp_is_rewritten() {
        let mut h = Harness::new("TCPRewriter", &["pattern 1.0.0.1 1024-65535# - - 0 1", "pass 1"], 2, 2);
        let (client, server, out) = (([18, 26, 4, 44], 30), ([10, 0, 0, 4], 40), ([1, 0, 0, 1], 1024));
        assert_eq!(h.send_ip(0, &udp(client, server, b"abc"))[0].reason(), "NotRewritable");
        assert_eq!(
            h.send_ip(1, &udp(client, server, b"abc"))[0].out(),
            (1, &udp(client, server, b"abc")[..])
        );
        let sent = tcp(client, server, 2, 9, b"abc");
        assert_eq!(h.send_ip(0, &sent)[0].out(), (0, &tcp(out, server, 2, 9, b"abc")[..]));
        let reply = tcp(server, out, 16, 5, b"");
        assert_eq!(h.send_ip(1, &reply)[0].out(), (1, &tcp(server, client, 16, 5, b"")[..]));
        assert!(
            h.read("table")
                .starts_with("(10.0.0.4, 40, 1.0.0.1, 1024) => (10.0.0.4, 40, 18.26.4.44, 30) [0 *1] i0")
        );
    }
}
