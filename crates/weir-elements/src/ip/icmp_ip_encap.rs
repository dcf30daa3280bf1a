use super::icmp_encap::{Message, Type, code_number, encap};
use crate::prelude::*;

element! {
    /// Puts headers of ICMP and IPv4 in front of packets (RFC 792).
    ///
    /// Each packet has the number after that of the packet before, from 1, as identification and, where the type has
    /// one, as sequence number. The marks `net` and `transport` and the destination annotation are set. Packets that
    /// would be longer than 65,535 bytes are dropped (`TooLong`), as are those without space (`NoSpace`).
    ///
    /// Packets that a kernel left to the device to segment are dropped (`NotSegmented`): `FinishOffloads` cuts them.
    ICMPIPEncap: "1/1", "a/a";
    example "Idle -> ICMPIPEncap(10.0.0.1, 10.0.1.1, unreachable, host) -> Discard;";
    params {
        /// Source address.
        pos src: Ipv4Addr,
        /// Destination address.
        pos dst: Ipv4Addr,
        /// ICMP type: a number or name.
        pos r#type: Type,
        /// ICMP code: a number, or a name that the type has.
        pos code: String = "0".to_owned() => "0",
        /// Identifier, for types that have one.
        key identifier: u16 = 0,
    }
    check |e| code_number(e.r#type, &e.code).map(|_| ());
    handlers {
        /// Source address.
        cell src: Ipv4Addr,
        /// Destination address.
        cell dst: Ipv4Addr,
    }
}

fn program(e: &ICMPIPEncap, b: &mut Builder) {
    let src = b.live("src", W32, e.src.bits());
    let dst = b.live("dst", W32, e.dst.bits());
    let number = b.cell("number", W16, 1);
    let message = Message {
        kind: e.r#type.0,
        code: code_number(e.r#type, &e.code).unwrap_or(0),
        identifier: e.identifier,
    };
    b.input(0, |b| encap(b, message, [src, dst, number]));
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_net::{Ipv4, checksum::checksum};
    use weir_packet::Layer;

    fn sent(args: &[&str]) -> Vec<u8> {
        let out = Harness::new("ICMPIPEncap", args, 1, 1).send(0, b"hello");
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert!(Ipv4::new(p.bytes()).unwrap().checksum_ok());
        assert_eq!(checksum(p.from_layer(Layer::Transport)), 0);
        assert_eq!(p.anno[..4], [10, 0, 1, 1]);
        p.bytes().to_vec()
    }

    #[test]
    fn types_have_their_headers() {
        let p = sent(&["10.0.0.1", "10.0.1.1", "echo", "IDENTIFIER 9"]);
        assert_eq!(p[..10], [0x45, 0, 0, 33, 0, 1, 0, 0, 255, 1]);
        assert_eq!((&p[20..22], &p[24..]), (&[8, 0][..], &b"\0\x09\0\x01hello"[..]));
        let p = sent(&["10.0.0.1", "10.0.1.1", "unreachable", "hostprohibited", "IDENTIFIER 9"]);
        assert_eq!((&p[20..22], &p[24..]), (&[3, 10][..], &b"\0\0\0\0hello"[..]));
        let p = sent(&["10.0.0.1", "10.0.1.1", "timestamp"]);
        assert_eq!((p.len(), &p[24..28]), (45, &[0, 0, 0, 1][..]));
    }

    #[test]
    fn wrong_arguments_say_what_is_right() {
        let class = crate::class_named("ICMPIPEncap").unwrap();
        let errors = |t: &str, c: &str| {
            let args = ["1.2.3.4", "1.2.3.5", t, c].map(str::to_owned);
            class.configure(&args).err().unwrap().join("; ")
        };
        assert!(errors("pong", "0").contains("TYPE: 'pong' is not a number or ICMP type"));
        assert!(errors("redirect", "port").contains("CODE: 'port' is not a number or one of net, host"));
        assert!(errors("echo", "256").contains("CODE: 256 is too large"));
    }
}
