use std::fmt::Write;

use weir_net::Ipv6;

use crate::basic::ip_print::dump;
use crate::basic::print::{Contents, first, print_packets};
use crate::prelude::*;

element! {
    /// Prints a line for each IPv6 packet, and passes packets on unchanged.
    ///
    /// The line has the label and what the header says:
    /// `in: fd00::1 -> fd00::2 plen 64, next 58, hlim 255`. Nothing is printed for packets without an IPv6 header at the
    /// `net` mark.
    IP6Print: "1/1", "a/a";
    example "Idle -> CheckIP6Header -> IP6Print(in, CONTENTS true, NBYTES 64) -> Discard;";
    params {
        /// What lines start with.
        pos label: String = String::new() => "",
        /// How the packet is printed below the line: `none`, `hex` or `ascii`; `true` is `hex`.
        key contents: Contents = Contents::None => "none",
        /// Most bytes of the packet to print; -1 is all.
        key nbytes: i32 = 1500,
        /// Whether anything is printed.
        key active: bool = true,
    }
    handlers {
        /// Whether anything is printed.
        cell active: bool,
    }
    describe |e, _, _, packet| packet.and_then(|p| line(e, p));
}

fn program(e: &IP6Print, b: &mut Builder) {
    print_packets(b, e.active);
}

fn line(e: &IP6Print, packet: &Packet) -> Option<String> {
    packet.layer(Layer::Net)?;
    let ip = Ipv6::new(packet.from_layer(Layer::Net)).ok()?;
    let mut out = if e.label.is_empty() { String::new() } else { format!("{}: ", e.label) };
    let (plen, next, hlim) = (ip.payload_len(), ip.next_header(), ip.hop_limit());
    _ = write!(out, "{} -> {} plen {plen}, next {next}, hlim {hlim}", ip.src(), ip.dst());
    dump(&mut out, first(packet.bytes(), e.nbytes), e.contents);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{sent, udp};
    use crate::testing::Harness;

    #[test]
    fn the_line_tells_the_header() {
        let printed = |args: &[&str], p: &[u8]| {
            let mut e = Harness::new("IP6Print", args, 1, 1);
            assert_eq!(sent(&mut e, p)[0].out(), (0, p));
            e.lines.concat()
        };
        let line = "2001:db8::1 -> 2001:db8::2 plen 9, next 17, hlim 64";
        assert_eq!(printed(&[], &udp(b"x")), line);
        assert_eq!(
            printed(&["l", "CONTENTS true", "NBYTES 5"], &udp(b"x")),
            format!("l: {line}\n  60000000 00")
        );
        assert_eq!(printed(&["ACTIVE false"], &udp(b"x")), "");
        assert_eq!(printed(&[], &[0x45; 60]), "");
        for n in 0..40 {
            assert_eq!(printed(&[], &udp(b"")[..n]), "");
        }
    }
}
