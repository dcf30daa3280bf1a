use crate::PACKET_BYTES;
use crate::prelude::*;

engine_node! {
    /// Pulls from its inputs by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): each gets the same share of
    /// the bytes.
    ///
    /// It keeps a packet of each input at most, which it does not lose in a hot swap.
    DRRSched: "-/1", "l/l", Choose, Graph;
    example "s :: DRRSched(500); Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
    params {
        /// Bytes that an input may send more in each round.
        pos quantum: u32 = 500,
    }
    check |s| if s.quantum == 0 { Err("QUANTUM: write a number of bytes above 0".into()) } else { Ok(()) };
    state Rounds;
}

#[derive(Default)]
struct Rounds {
    next: usize,
    inputs: Vec<Input>,
}

#[derive(Default)]
struct Input {
    /// Pulled, but too long for its turn.
    head: Option<Packet>,
    deficit: u64,
}

impl Behavior for DRRSched {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let n = cx.ports().0 as usize;
        if n == 0 {
            return None;
        }
        self.state.inputs.resize_with(n, Input::default);
        self.state.next %= n;
        // One that has no packet long enough gains a quantum in each round: in the end one is sent.
        loop {
            let mut waiting = false;
            for _ in 0..n {
                let at = self.state.next;
                let input = &mut self.state.inputs[at];
                match input.head.take().or_else(|| cx.pull(at as u32)) {
                    None => input.deficit = 0,
                    Some(packet) if packet.len() as u64 <= input.deficit => {
                        input.deficit -= packet.len() as u64;
                        return Some(packet);
                    }
                    Some(packet) => {
                        input.head = Some(packet);
                        waiting = true;
                    }
                }
                self.state.next = (at + 1) % n;
                self.state.inputs[self.state.next].deficit += u64::from(self.quantum);
            }
            if !waiting {
                return None;
            }
        }
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<DRRSched>() {
            self.state = std::mem::take(&mut old.state);
        }
    }

    fn memory(&self, inputs: usize) -> u64 {
        inputs as u64 * PACKET_BYTES
    }

    fn waiting(&mut self) -> Option<Vec<Packet>> {
        Some(self.state.inputs.iter_mut().filter_map(|i| i.head.take()).collect())
    }

    fn restore(&mut self, packets: Vec<Packet>) {
        // Which input each came from does not show in a snapshot; the order of each flow stays.
        self.state.inputs = packets.into_iter().map(|p| Input { head: Some(p), deficit: 0 }).collect();
    }
}
