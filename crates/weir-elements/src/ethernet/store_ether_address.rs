use crate::ip::checks::check_offset;
use crate::prelude::*;

element! {
    /// Writes an Ethernet address into packets. Packets that end before the place leave on output 1, or are dropped
    /// (`Truncated`).
    StoreEtherAddress: "1/1-2", "a/ah";
    example "Idle -> StoreEtherAddress(02:00:00:00:00:01, src) -> Discard;";
    params {
        /// The address.
        pos addr: EtherAddr,
        /// Where it goes: a number of bytes from the start of the packet, or `dst` (0) or `src` (6).
        pos offset: EtherOffset,
    }
    handlers {
        /// The address.
        cell addr: EtherAddr,
    }
}

/// A place in a frame.
#[derive(Debug, Clone, Copy)]
pub struct EtherOffset(u32);

impl FromArg for EtherOffset {
    const SYNTAX: &'static str = "number, src or dst";
    fn from_arg(text: &str) -> Result<EtherOffset, String> {
        match text.trim() {
            "dst" => Ok(EtherOffset(0)),
            "src" => Ok(EtherOffset(6)),
            other => {
                let offset = u32::from_arg(other).map_err(|e| format!("{e}: write a number, src or dst"))?;
                check_offset(offset)?;
                Ok(EtherOffset(offset))
            }
        }
    }
}

fn program(e: &StoreEtherAddress, b: &mut Builder) {
    let addr = b.live("addr", W64, e.addr.bits());
    b.input(0, |b| {
        b.require_or(Layer::Data, e.offset.0 + 6, |b| b.emit_or_drop(1, Reason::TRUNCATED));
        let addr = b.read_cell(addr);
        store_ether(b, Layer::Data, e.offset.0, addr);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn the_address_is_written_where_it_belongs() {
        for (offset, at) in [("dst", 0), ("src", 6), ("2", 2)] {
            let mut e = Harness::new("StoreEtherAddress", &["02:00:00:00:00:01", offset], 1, 2);
            let mut frame = [0xee; 12];
            assert_eq!(e.send(0, &frame[..at + 5])[0].out(), (1, &frame[..at + 5]));
            frame[at..at + 6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
            assert_eq!(e.send(0, &[0xee; 12])[0].out(), (0, &frame[..]));
            e.write("addr", "02:00:00:00:00:07").unwrap();
            assert_eq!(e.send(0, &[0xee; 12])[0].out().1[at + 5], 7);
        }
    }

    #[test]
    fn short_packets_and_bad_places() {
        let mut e = Harness::new("StoreEtherAddress", &["02:00:00:00:00:01", "src"], 1, 1);
        for n in 0..12 {
            assert_eq!(e.send(0, &[0; 12][..n])[0].reason(), "Truncated");
        }
        let class = crate::class_named("StoreEtherAddress").unwrap();
        let error =
            |offset: &str| class.configure(&["2:0:0:0:0:1".into(), offset.into()]).err().unwrap().remove(0);
        assert!(error("here").contains("write a number, src or dst"));
        assert!(error("300000").contains("beyond the end of any packet"));
    }
}
