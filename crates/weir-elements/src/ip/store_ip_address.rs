use super::checks::check_offset;
use super::rewrite::set_address;
use crate::args::FromRest;
use crate::prelude::*;

element! {
    /// Writes an IPv4 address into packets: one that is given, or that of the destination annotation.
    ///
    /// `OFFSET` counts from the start of the packet, and no checksum changes. With `src` or `dst` instead, the address
    /// becomes the source or destination of the IPv4 header that the `net` mark stands on, and the checksums of
    /// that header and of TCP and UDP are updated. If the annotation is to be written and is 0, packets pass
    /// unchanged. Packets that end before the place leave on output 1, or are dropped (`Truncated`).
    StoreIPAddress: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> StoreIPAddress(10.0.0.7, dst) -> Discard;";
    example "Idle -> CheckIPHeader(14) -> StoreIPAddress(30) -> Discard;";
    params {
        /// `[ADDR,] OFFSET`: the address, and where it goes: a number of bytes, `src` or `dst`.
        rest to: Store,
    }
}

/// An address (none: the annotation), and where it goes.
#[derive(Debug)]
pub struct Store {
    addr: Option<Ipv4Addr>,
    place: Destination,
}

#[derive(Debug, Clone, Copy)]
enum Destination {
    /// Bytes from the start of the packet.
    Offset(u32),
    /// Offset in the IPv4 header.
    Header(u32),
}

impl FromRest for Store {
    const SYNTAX: &'static str = "[ADDR,] OFFSET";
    fn from_rest(args: &[String]) -> Result<Store, String> {
        let value = |name: &str, arg: &str| {
            let rest = arg.strip_prefix(name).filter(|rest| rest.starts_with(char::is_whitespace));
            rest.unwrap_or(arg).trim().to_owned()
        };
        let (addr, offset) = match args {
            [offset] => (None, offset),
            [addr, offset] => {
                let addr = Ipv4Addr::from_arg(&value("ADDR", addr)).map_err(|e| format!("ADDR: {e}"))?;
                (Some(addr), offset)
            }
            _ => return Err("write OFFSET, or ADDR and OFFSET".into()),
        };
        let offset = value("OFFSET", offset);
        let place = match offset.to_ascii_lowercase().as_str() {
            "src" => Destination::Header(12),
            "dst" => Destination::Header(16),
            _ => {
                let offset =
                    u32::from_arg(&offset).map_err(|e| format!("OFFSET: {e}: write a number, src or dst"))?;
                check_offset(offset)?;
                Destination::Offset(offset)
            }
        };
        Ok(Store { addr, place })
    }
}

fn program(e: &StoreIPAddress, b: &mut Builder) {
    b.input(0, |b| {
        let addr = if let Some(addr) = e.to.addr {
            b.constant(W32, u32::from(addr))
        } else {
            let addr = b.load_anno(W32, anno::DST_IP);
            let none = b.eq(addr, 0);
            b.when(none, |b| b.emit(0));
            addr
        };
        let short = |b: &mut Builder| b.emit_or_drop(1, Reason::TRUNCATED);
        match e.to.place {
            Destination::Offset(offset) => {
                b.require_or(Layer::Data, offset + 4, short);
                b.store(Layer::Data, offset, addr);
            }
            Destination::Header(offset) => {
                require_marked_or(b, Layer::Net, 20, |b, reason| b.emit_or_drop(1, reason));
                set_address(b, offset, addr);
            }
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, tcp, udp};

    const NINES: [u8; 20] = [0x99; 20];

    fn stored(args: &[&str]) -> Vec<u8> {
        let mut p = crate::testing::ip_packet(&NINES);
        p.anno[..4].copy_from_slice(&[1, 0, 0, 2]);
        Harness::new("StoreIPAddress", args, 1, 1).send_packet(0, p)[0].out().1.to_vec()
    }

    fn nines_with(at: usize, addr: [u8; 4]) -> Vec<u8> {
        let mut p = NINES.to_vec();
        p[at..at + 4].copy_from_slice(&addr);
        p
    }

    #[test]
    fn a_number_is_a_place_in_the_packet() {
        assert_eq!(stored(&["0"]), nines_with(0, [1, 0, 0, 2]));
        assert_eq!(stored(&["1.0.0.3", "4"]), nines_with(4, [1, 0, 0, 3]));
        assert_eq!(stored(&["0.0.0.0", "OFFSET 16"]), nines_with(16, [0; 4]));
    }

    #[test]
    fn src_and_dst_are_places_in_the_header_whose_checksum_follows() {
        // The checksums of Click's own test.
        for (args, at, addr, sum) in [
            (&["src"][..], 12, [1, 0, 0, 2], [0xcb, 0xca]),
            (&["dst"], 16, [1, 0, 0, 2], [0xcb, 0xca]),
            (&["1.0.0.4", "dst"], 16, [1, 0, 0, 4], [0xcb, 0xc8]),
        ] {
            let mut wanted = nines_with(at, addr);
            wanted[10..12].copy_from_slice(&sum);
            assert_eq!(stored(args), wanted, "{args:?}");
        }
        let (src, old, new) = (([10, 0, 0, 1], 1), ([9; 4], 2), ([1, 2, 3, 4], 2));
        let mut e = Harness::new("StoreIPAddress", &["1.2.3.4", "DST"], 1, 1);
        assert_eq!(e.send_ip(0, &udp(src, old, b"x"))[0].out().1, udp(src, new, b"x"));
        assert_eq!(e.send_ip(0, &tcp(src, old, 2, 0, b"x"))[0].out().1, tcp(src, new, 2, 0, b"x"));
    }

    #[test]
    fn packets_that_end_before_leave_on_output_1() {
        for args in [&["1.2.3.4", "16"][..], &["1.2.3.4", "dst"]] {
            let mut two = Harness::new("StoreIPAddress", args, 1, 2);
            let mut one = Harness::new("StoreIPAddress", args, 1, 1);
            for n in 0..20 {
                assert_eq!(two.send_ip(0, &NINES[..n])[0].out(), (1, &NINES[..n]));
                assert_eq!(one.send_ip(0, &NINES[..n])[0].reason(), "Truncated");
            }
            assert_eq!(two.send_ip(0, &NINES)[0].out().0, 0);
        }
    }

    #[test]
    fn an_annotation_of_0_changes_nothing() {
        for place in ["0", "src"] {
            let out = Harness::new("StoreIPAddress", &[place], 1, 2).send(0, &NINES);
            assert_eq!(out[0].out(), (0, &NINES[..]));
        }
    }

    #[test]
    fn wrong_arguments_say_what_is_right() {
        let errors = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            crate::class_named("StoreIPAddress").unwrap().configure(&args).err().unwrap().join("; ")
        };
        assert!(errors(&[]).contains("write OFFSET, or ADDR and OFFSET"), "{}", errors(&[]));
        assert!(errors(&["1.2.3", "4"]).contains("ADDR: '1.2.3' is not an IP address"));
        assert!(errors(&["there"]).contains("OFFSET: 'there' is not a number: write a number, src or dst"));
        assert!(errors(&["4294967295"]).contains("OFFSET: 4294967295 is beyond the end of any packet"));
    }
}
