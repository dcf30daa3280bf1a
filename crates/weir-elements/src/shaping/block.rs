use crate::prelude::*;

element! {
    /// Sends packets whose forward rate annotation is more than a threshold to output 1, and the others to output 0.
    ///
    /// `IPRateMonitor` sets the annotation. Without output 1, packets beyond the threshold are dropped (`RateLimit`).
    Block: "1/1-2", "h/h";
    example "Idle -> b :: Block(500) -> Discard; b [1] -> Discard;";
    params {
        /// The threshold; 0: all packets leave on output 0.
        pos thresh: u32,
    }
    handlers {
        /// The threshold.
        cell thresh: u32,
    }
}

fn program(e: &Block, b: &mut Builder) {
    let thresh = b.live("thresh", W32, e.thresh.into());
    b.input(0, |b| {
        let thresh = b.read_cell(thresh);
        let none = b.eq(thresh, 0);
        b.when(none, |b| b.emit(0));
        let rate = b.load_anno(W32, anno::AGGREGATE);
        let below = b.le(rate, thresh);
        b.when(below, |b| b.emit(0));
        b.emit_or_drop(1, super::rated_splitter::RATE_LIMIT);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_packet::Packet;

    fn passes(e: &mut Harness, rate: u32) -> Vec<Outcome> {
        let mut p = Packet::from_bytes(b"x").unwrap();
        p.anno[20..24].copy_from_slice(&rate.to_be_bytes());
        e.send_packet(0, p)
    }

    #[test]
    fn packets_of_a_high_rate_leave_on_output_1() {
        let mut e = Harness::new("Block", &["500"], 1, 2);
        assert_eq!((passes(&mut e, 500)[0].out().0, passes(&mut e, 501)[0].out().0), (0, 1));
        e.write("thresh", "0").unwrap();
        assert_eq!(passes(&mut e, u32::MAX)[0].out().0, 0);
        assert_eq!(passes(&mut Harness::new("Block", &["5"], 1, 1), 6)[0].reason(), "RateLimit");
    }
}
