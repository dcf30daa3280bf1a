use super::checks::check_offset;
use super::set_ip_address::WordAnno;
use crate::prelude::*;

element! {
    /// Copies an IPv4 address from packets to their destination annotation, by which they are routed.
    ///
    /// Either from a place in the packet, or from the IPv4 header that the `net` mark stands on. Packets that end
    /// before the address are dropped (`Truncated`).
    GetIPAddress: "1/1", "a/a";
    example "Idle -> GetIPAddress(16) -> Discard;";
    example "Idle -> CheckIPHeader(14) -> GetIPAddress(IP src) -> Discard;";
    params {
        /// Where the address starts, in bytes: 16 for the destination in an IPv4 packet. Not together with IP.
        pos offset: Option<u32> = None,
        /// Which annotation is set: its offset in the annotation area, or the name of one that has 4 bytes.
        pos anno: WordAnno = WordAnno(anno::DST_IP) => "DST_IP",
        /// `src` or `dst`: the address of the IPv4 header. Not together with OFFSET.
        key ip: Option<Side> = None,
    }
    check |e| match (e.offset, e.ip) {
        (Some(offset), None) => check_offset(offset),
        (None, Some(_)) => Ok(()),
        _ => Err("write either OFFSET or IP".into()),
    };
}

/// An address of an IPv4 header.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

impl FromArg for Side {
    const SYNTAX: &'static str = "src or dst";
    fn from_arg(text: &str) -> Result<Side, String> {
        match text.trim() {
            "src" => Ok(Side::Source),
            "dst" => Ok(Side::Destination),
            _ => Err(format!("'{text}': write src or dst")),
        }
    }
}

fn program(e: &GetIPAddress, b: &mut Builder) {
    let (layer, offset) = match (e.offset, e.ip) {
        (_, Some(Side::Source)) => (Layer::Net, 12),
        (_, Some(Side::Destination)) => (Layer::Net, 16),
        (offset, None) => (Layer::Data, offset.unwrap_or_default()),
    };
    b.input(0, |b| {
        require_marked(b, layer, offset + 4);
        let addr = b.load(W32, layer, offset);
        b.store_anno(e.anno.0, addr);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, udp};

    fn anno(args: &[&str], packet: &[u8]) -> [u8; 48] {
        match &Harness::new("GetIPAddress", args, 1, 1).send_ip(0, packet)[0] {
            Outcome::Out(0, p) => p.anno,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_address_comes_from_where_it_is_said_to_be() {
        let p = udp(([1, 2, 3, 4], 1), ([5, 6, 7, 8], 2), b"x");
        assert_eq!(anno(&["12"], &p)[..4], [1, 2, 3, 4]);
        assert_eq!(anno(&["IP src"], &p)[..4], [1, 2, 3, 4]);
        assert_eq!(anno(&["IP dst", "ANNO AGGREGATE"], &p)[20..24], [5, 6, 7, 8]);
        assert_eq!(anno(&["12", "8"], &p)[..12], [5, 6, 7, 8, 0, 0, 0, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn packets_without_the_address_are_dropped() {
        let p = udp(([1, 2, 3, 4], 1), ([5, 6, 7, 8], 2), b"");
        for n in 0..20 {
            assert_eq!(Harness::new("GetIPAddress", &["16"], 1, 1).send(0, &p[..n])[0].reason(), "Truncated");
        }
        let unmarked = Harness::new("GetIPAddress", &["IP dst"], 1, 1).send(0, &p);
        assert_eq!(unmarked[0].reason(), "Unmarked");
    }

    #[test]
    fn one_place_has_to_be_given() {
        let errors = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            crate::class_named("GetIPAddress").unwrap().configure(&args).err().unwrap().join("; ")
        };
        assert_eq!(errors(&[]), "write either OFFSET or IP");
        assert_eq!(errors(&["16", "IP src"]), "write either OFFSET or IP");
        assert_eq!(errors(&["IP both"]), "IP: 'both': write src or dst");
        assert!(errors(&["4294967295"]).contains("OFFSET: 4294967295 is beyond"));
    }
}
