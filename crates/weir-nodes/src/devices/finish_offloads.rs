use weir_io::offload;

use crate::prelude::*;

engine_node! {
    /// Does what a kernel left to the device: completes checksums, and cuts large packets into segments.
    ///
    /// Packets of senders on the same machine come in up to 64 KB long, with unfinished checksums, and leave so. Where
    /// their bytes go into other packets, as in a tunnel, this comes first. Packets have to be Ethernet frames; those
    /// that cannot be finished are dropped (`NotSegmentable`). Others pass unchanged.
    FinishOffloads: "1/1", "h/h", Delay, Graph;
    example "FromDevice(eth0) -> FinishOffloads -> VXLANEncap(10.0.0.1, 10.0.1.1, 42) -> Discard;";
    handlers {
        /// Number of packets that were cut.
        read cut = |f, _| Ok(f.state.to_string()),
    }
    state u64;
}

impl Behavior for FinishOffloads {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let mut one = Vec::with_capacity(1);
        for packet in packets.drain(..) {
            one.push(packet);
            match offload::finish(&mut one, 0) {
                Ok(()) => {
                    self.state += u64::from(one.len() > 1);
                    one.drain(..).for_each(|p| cx.emit(0, p));
                }
                Err(_) => one.drain(..).for_each(|p| cx.drop(&Reason::new("NotSegmentable"), p)),
            }
        }
    }
}
