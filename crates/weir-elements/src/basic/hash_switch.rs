use super::switch::{emit_on, spread};
use crate::prelude::*;

element! {
    /// Sends packets to an output that a hash of some of their bytes chooses.
    ///
    /// Packets with the same `LENGTH` bytes at `OFFSET` leave on the same output. Packets that are too short leave on
    /// output 0.
    HashSwitch: "1/1-", "h/h";
    example "Idle -> CheckIPHeader -> s :: HashSwitch(16, 4); s [0] -> Discard; s [1] -> Discard;";
    params {
        /// Where the bytes start.
        pos offset: u32,
        /// Number of bytes, 1 to 256.
        pos length: u32,
    }
    check |e| match e.length {
        1..=256 => Ok(()),
        n => Err(format!("LENGTH: {n} bytes cannot be hashed; write a number from 1 to 256")),
    };
}

fn program(e: &HashSwitch, b: &mut Builder) {
    b.input(0, |b| {
        let end = e.offset.saturating_add(e.length);
        b.require_or(Layer::Data, end, |b| b.emit(0));
        let mut words = Vec::new();
        let mut at = e.offset;
        for width in [W128, W64, W32, W16, W8] {
            while end - at >= width.bytes() {
                words.push(b.load(width, Layer::Data, at));
                at += width.bytes();
            }
        }
        let hash = b.hash(&words);
        let port = spread(b, hash, b.outputs());
        emit_on(b, port, &Reason::UNCONNECTED);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn equal_bytes_go_one_way_and_different_ones_spread() {
        let mut e = Harness::new("HashSwitch", &["1", "2"], 1, 3);
        let mut used = [0; 3];
        for i in 0..=255_u8 {
            let first = e.send(0, &[0, i, 7, 0])[0].out().0;
            assert_eq!(
                e.send(0, &[9, i, 7, 9, 9])[0].out().0,
                first,
                "bytes outside of the range do not matter"
            );
            used[first as usize] += 1;
        }
        assert!(used.iter().all(|&n| n > 40), "{used:?}");
    }

    #[test]
    fn every_byte_of_the_range_matters() {
        let mut e = Harness::new("HashSwitch", &["0", "31"], 1, 1024);
        let same = e.send(0, &[0; 31])[0].out().0;
        for i in 0..31 {
            let mut bytes = [0; 31];
            bytes[i] = 1;
            let other = e.send(0, &bytes)[0].out().0;
            bytes[i] = 2;
            assert!(other != same || e.send(0, &bytes)[0].out().0 != same, "byte {i}");
        }
    }

    #[test]
    fn short_packets_leave_on_output_0() {
        let mut e = Harness::new("HashSwitch", &["16", "4"], 1, 4);
        for n in 0..20 {
            assert_eq!(e.send(0, &vec![1; n])[0].out().0, 0);
        }
        let mut never = Harness::new("HashSwitch", &["0xffffffff", "256"], 1, 4);
        assert_eq!(never.send(0, &[1; 99])[0].out().0, 0);
        for wrong in ["0", "257"] {
            let args = ["0".to_owned(), wrong.to_owned()];
            let errors = crate::class_named("HashSwitch").unwrap().configure(&args).err().unwrap();
            assert!(errors[0].contains("LENGTH") && errors[0].contains("1 to 256"), "{errors:?}");
        }
    }
}
