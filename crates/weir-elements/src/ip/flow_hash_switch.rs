use crate::basic::switch::{emit_on, spread};
use crate::fields::{ipv4, ipv6};
use crate::prelude::*;

element! {
    /// Spreads flows of IPv4 packets over its outputs: a hash of addresses, protocol and ports chooses.
    ///
    /// All packets of a flow leave on the same output, as long as the graph runs. Only TCP, UDP and SCTP have ports
    /// that count, and no fragment has any, so that all fragments of a packet leave together. If `SYMMETRIC`, the
    /// answers of a flow leave where the flow does. The `net` and `transport` marks have to be those of
    /// `CheckIPHeader`; packets without an IPv4 header are dropped (`Unmarked`).
    FlowHashSwitch: "1/1-", "h/h";
    example "Idle -> CheckIPHeader -> s :: FlowHashSwitch;
             s [0] -> SetIPDst(10.0.0.1) -> Discard; s [1] -> SetIPDst(10.0.0.2) -> Discard;";
    params {
        /// Whether both directions of a flow leave on the same output.
        pos symmetric: bool = false,
    }
}

/// Stream Control Transmission Protocol (RFC 9260).
const SCTP: u8 = 132;

/// The protocols that have ports where TCP has them.
const WITH_PORTS: [u8; 3] = [proto::TCP, proto::UDP, SCTP];

/// Bits of the word from flags and fragment offset to the protocol: more fragments, offset, and protocol. Of a packet
/// that is no fragment, only the protocol is left.
const FRAGMENT_AND_PROTOCOL: u32 = 0x3fff_00ff;

/// Bits of the 16 bytes from the time to live on: protocol, addresses and, in a header without options, ports.
const FLOW: u128 = 0x00ff_0000_ffff_ffff_ffff_ffff_ffff_ffff;

fn program(e: &FlowHashSwitch, b: &mut Builder) {
    b.input(0, |b| {
        require_ip(b);
        let kind = b.load(W32, Layer::Net, 6);
        let kind = b.and(kind, FRAGMENT_AND_PROTOCOL);
        let [tcp, udp, sctp] = WITH_PORTS.map(|p| b.eq(kind, p));
        let has_ports = b.or(tcp, udp);
        let has_ports = b.or(has_ports, sctp);
        let hash = if e.symmetric {
            let ends = ordered_ends(b, has_ports);
            b.hash(&ends)
        } else {
            let first = ipv4::VERSION_IHL.load(b);
            let plain = b.eq(first, 0x45);
            let quick = b.and(has_ports, plain);
            let flow = b.choose(
                quick,
                |b| {
                    let load = |b: &mut Builder| {
                        let bytes = ipv6::SRC.load(b);
                        b.and(bytes, FLOW)
                    };
                    b.choose_has(Layer::Net, 24, load, |b| flow(b, has_ports))
                },
                |b| flow(b, has_ports),
            );
            b.hash(&[flow])
        };
        let port = spread(b, hash, b.outputs());
        emit_on(b, port, &Reason::UNCONNECTED);
    });
}

/// Both ports (32 bits), or 0.
fn ports(b: &mut Builder, has_ports: V) -> V {
    let none = |b: &mut Builder| b.constant(W32, 0_u32);
    let load = |b: &mut Builder| b.load(W32, Layer::Transport, 0);
    b.choose(has_ports, |b| b.choose_has(Layer::Transport, 4, load, none), none)
}

/// What [`FLOW`] leaves, of a header that may have options.
fn flow(b: &mut Builder, has_ports: V) -> V {
    let ports = ports(b, has_ports);
    let protocol = ipv4::PROTOCOL.load(b);
    let addresses = b.load(W64, Layer::Net, 12);
    let [ports, protocol, addresses] = [ports, protocol, addresses].map(|v| b.resize(W128, v));
    let protocol = b.shl(protocol, 112);
    let addresses = b.shl(addresses, 32);
    let flow = b.or(protocol, addresses);
    b.or(flow, ports)
}

/// Address and port of each end, the lesser first, and the protocol with it: the same for both directions.
fn ordered_ends(b: &mut Builder, has_ports: V) -> [V; 2] {
    let ports = ports(b, has_ports);
    let addresses = b.load(W64, Layer::Net, 12);
    let ports = b.resize(W64, ports);
    let ends =
        [(b.shr(addresses, 32), b.shr(ports, 16)), (b.and(addresses, u32::MAX), b.and(ports, 0xffff_u32))];
    let [one, other] = ends.map(|(addr, port)| {
        let addr = b.shl(addr, 16);
        b.or(addr, port)
    });
    let ordered = b.lt(one, other);
    let (lesser, greater) = (b.select(ordered, one, other), b.select(ordered, other, one));
    let protocol = ipv4::PROTOCOL.load(b);
    let protocol = b.resize(W64, protocol);
    let protocol = b.shl(protocol, 48);
    [b.or(lesser, protocol), greater]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::testing::{Harness, tcp, udp};
    use weir_net::{Ipv4, build, proto};

    type End = ([u8; 4], u16);

    fn port(e: &mut Harness, packet: &[u8]) -> u32 {
        let out = e.send_ip(0, packet);
        let (port, bytes) = out[0].out();
        assert_eq!(bytes, packet);
        port
    }

    fn ends(i: u16) -> (End, End) {
        let [a, b] = i.to_be_bytes();
        (([10, a, b, 1], 1024 + i), ([192, 0, 2, 1], 80))
    }

    #[test]
    fn flows_stay_together_and_spread() {
        for (args, outputs) in [(&[][..], 8), (&["true"], 3)] {
            let mut e = Harness::new("FlowHashSwitch", args, 1, outputs);
            let mut used = vec![0; outputs as usize];
            for i in 0..800 {
                let (src, dst) = ends(i);
                let first = port(&mut e, &udp(src, dst, b"first"));
                assert_eq!(port(&mut e, &udp(src, dst, b"another payload")), first);
                used[first as usize] += 1;
            }
            assert!(used.iter().all(|&n| n > 400 / outputs), "{used:?}");
        }
    }

    #[test]
    fn options_do_not_part_a_flow() {
        let (src, dst) = ends(3);
        let plain = udp(src, dst, b"x");
        let mut with_options = plain.clone();
        with_options.splice(20..20, [1, 1, 1, 0]);
        with_options[0] = 0x46;
        with_options[3] += 4;
        for symmetric in ["true", "false"] {
            let mut e = Harness::new("FlowHashSwitch", &[symmetric], 1, 4096);
            assert_eq!(port(&mut e, &plain), port(&mut e, &with_options));
        }
    }

    #[test]
    fn each_part_of_the_flow_matters() {
        for args in [&[][..], &["SYMMETRIC true"]] {
            let mut e = Harness::new("FlowHashSwitch", args, 1, 4096);
            let src = ([10, 0, 0, 1], 1000);
            let dst = ([10, 0, 0, 2], 53);
            let all: BTreeSet<u32> = [
                udp(src, dst, b""),
                tcp(src, dst, 2, 0, b""),
                udp(([10, 0, 0, 3], 1000), dst, b""),
                udp(src, ([10, 0, 0, 3], 53), b""),
                udp((src.0, 1001), dst, b""),
                udp(src, (dst.0, 54), b""),
            ]
            .iter()
            .map(|p| port(&mut e, p))
            .collect();
            assert_eq!(all.len(), 6, "{all:?}");
        }
    }

    #[test]
    fn answers_go_along_on_request() {
        let mut symmetric = Harness::new("FlowHashSwitch", &["true"], 1, 64);
        let mut plain = Harness::new("FlowHashSwitch", &[], 1, 64);
        let mut different = 0;
        for i in 0..100 {
            let (src, dst) = ends(i);
            let there = udp(src, dst, b"");
            let back = udp(dst, src, b"");
            assert_eq!(port(&mut symmetric, &there), port(&mut symmetric, &back));
            different += u32::from(port(&mut plain, &there) != port(&mut plain, &back));
            // The same ends with the ports exchanged are another flow.
            different += u32::from(
                port(&mut symmetric, &there)
                    != port(&mut symmetric, &udp((src.0, dst.1), (dst.0, src.1), b"")),
            );
        }
        assert!(different > 180, "{different}");
    }

    #[test]
    fn fragments_and_cut_packets_count_by_address() {
        let mut e = Harness::new("FlowHashSwitch", &[], 1, 1024);
        let (src, dst) = ends(1);
        let fragment = |p: &[u8], field: [u8; 2]| {
            let mut p = p.to_vec();
            p[6..8].copy_from_slice(&field);
            Ipv4::new(&mut p[..]).unwrap().fill_checksum();
            p
        };
        let whole = udp(src, dst, b"12345678");
        let first = port(&mut e, &fragment(&whole, [0x20, 0]));
        assert_eq!(
            port(&mut e, &fragment(&build::ipv4(src.0.into(), dst.0.into(), proto::UDP, b"more"), [0, 2])),
            first
        );
        assert_ne!(port(&mut e, &whole), first);
        assert_eq!(port(&mut e, &whole[..22]), first, "half a header has no ports");
        for n in 0..20 {
            assert_eq!(e.send_ip(0, &whole[..n])[0].reason(), "Truncated");
        }
    }
}
