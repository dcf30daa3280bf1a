use super::tos::change_tos;
use crate::prelude::*;

element! {
    /// Sets the explicit congestion notification of IPv4 packets (RFC 3168), and updates the header checksum.
    ///
    /// The `net` mark has to stand on an IPv4 header; other packets are dropped (`Unmarked`).
    SetIPECN: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> SetIPECN(ce) -> Discard;";
    params {
        /// The value, 0 to 3, or its name: `no`, `ect1` or `ECT(1)`, `ect2` or `ECT(0)`, `ce` or `CE`.
        pos ecn: Ecn,
    }
    handlers {
        /// The value, 0 to 3.
        cell ecn: Ecn,
    }
}

/// An ECN field.
#[derive(Debug, Clone, Copy)]
pub struct Ecn(u8);

impl FromArg for Ecn {
    const SYNTAX: &'static str = "number from 0 to 3, or no, ect1, ect2 or ce";
    fn from_arg(text: &str) -> Result<Ecn, String> {
        match text.trim() {
            "0" | "no" | "-" => Ok(Ecn(0)),
            "1" | "ect1" | "ECT(1)" => Ok(Ecn(1)),
            "2" | "ect2" | "ECT(0)" => Ok(Ecn(2)),
            "3" | "ce" | "CE" => Ok(Ecn(3)),
            other => Err(format!("'{other}' is no ECN value: write 0 to 3, no, ect1, ect2 or ce")),
        }
    }
}

impl CellValue for Ecn {
    fn bits(self) -> u128 {
        self.0.into()
    }
    fn show(bits: u128) -> String {
        bits.to_string()
    }
}

fn program(e: &SetIPECN, b: &mut Builder) {
    let ecn = b.live("ecn", W8, e.ecn.bits());
    b.input(0, |b| {
        require_ip(b);
        let ecn = b.read_cell(ecn);
        change_tos(b, |b, tos| {
            let dscp = b.and(tos, 0xfc);
            b.or(dscp, ecn)
        });
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::ip::tos::tests::each;
    use crate::testing::Harness;

    #[test]
    fn the_value_is_set_and_the_checksum_stays_right() {
        for (name, ecn) in [("no", 0), ("ECT(1)", 1), ("ect2", 2), ("3", 3)] {
            each(&mut Harness::new("SetIPECN", &[name], 1, 1), |tos| tos & 0xfc | ecn);
        }
        let mut e = Harness::new("SetIPECN", &["no"], 1, 1);
        e.write("ecn", "ce").unwrap();
        assert_eq!(e.read("ecn"), "3");
        each(&mut e, |tos| tos | 3);
    }

    #[test]
    fn other_names_are_refused() {
        let errors = crate::class_named("SetIPECN").unwrap().configure(&["4".into()]).err().unwrap();
        assert!(errors[0].contains("ECN: '4' is no ECN value: write 0 to 3"), "{errors:?}");
    }
}
