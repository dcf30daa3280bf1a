use super::tos::change_tos;
use crate::prelude::*;

element! {
    /// Sets the differentiated services code point of IPv4 packets (RFC 2474), and updates the header checksum.
    ///
    /// The `net` mark has to stand on an IPv4 header; other packets are dropped (`Unmarked`).
    SetIPDSCP: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> SetIPDSCP(46) -> Discard;";
    params {
        /// The code point, 0 to 63.
        pos dscp: Dscp,
    }
    handlers {
        /// The code point.
        cell dscp: Dscp,
    }
}

/// A code point.
#[derive(Debug, Clone, Copy)]
pub struct Dscp(u8);

impl FromArg for Dscp {
    const SYNTAX: &'static str = "number from 0 to 63";
    fn from_arg(text: &str) -> Result<Dscp, String> {
        match u8::from_arg(text)? {
            n @ 0..=63 => Ok(Dscp(n)),
            n => Err(format!("{n} is out of range; write a number from 0 to 63")),
        }
    }
}

impl CellValue for Dscp {
    fn bits(self) -> u128 {
        self.0.into()
    }
    fn show(bits: u128) -> String {
        bits.to_string()
    }
}

fn program(e: &SetIPDSCP, b: &mut Builder) {
    let dscp = b.live("dscp", W8, e.dscp.bits());
    b.input(0, |b| {
        require_ip(b);
        let dscp = b.read_cell(dscp);
        let dscp = b.shl(dscp, 2);
        change_tos(b, |b, tos| {
            let ecn = b.and(tos, 3);
            b.or(ecn, dscp)
        });
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::ip::tos::tests::each;
    use crate::testing::Harness;

    #[test]
    fn the_code_point_is_set_and_the_checksum_stays_right() {
        let mut e = Harness::new("SetIPDSCP", &["10"], 1, 1);
        each(&mut e, |tos| 10 << 2 | tos & 3);
        e.write("dscp", "63").unwrap();
        assert_eq!(e.read("dscp"), "63");
        each(&mut e, |tos| 63 << 2 | tos & 3);
        assert!(e.write("dscp", "64").unwrap_err().contains("write a number from 0 to 63"));
    }

    #[test]
    fn the_code_point_is_needed() {
        let errors = crate::class_named("SetIPDSCP").unwrap().configure(&[]).err().unwrap();
        assert!(errors[0].contains("missing mandatory DSCP argument (number from 0 to 63)"), "{errors:?}");
    }
}
