use crate::PACKET_BYTES;
use crate::prelude::*;

engine_node! {
    /// Gives the packet with the earliest time of all its inputs.
    ///
    /// The packets of an input have to come in the order of their times, or nearly so: of each input, BUFFER packets are
    /// looked at.
    TimeSortedSched: "0-/1", "l/l", Choose, Graph;
    example "s :: TimeSortedSched(STOP true); Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
    params {
        /// Whether to end the run when no input has a packet.
        key stop: bool = false,
        /// How many packets of each input are looked at.
        key buffer: u32 = 1,
    }
    handlers {
        /// Whether no packet was earlier than the one given before it.
        read well_ordered = |s, _| Ok((!s.state.disordered).to_string()),
    }
    state Sorting;
}

#[derive(Default)]
struct Sorting {
    /// Packets that wait, with the input from which they came, in the order in which they came.
    packets: Vec<(u32, Packet)>,
    /// The time of the packet given last.
    last: u64,
    disordered: bool,
    /// How many pulls were in vain since the last packet.
    vain: u32,
}

impl TimeSortedSched {
    fn fill(&mut self, cx: &mut Cx<'_>) {
        let (inputs, _) = cx.ports();
        for input in 0..inputs {
            let mut waiting = self.state.packets.iter().filter(|(i, _)| *i == input).count();
            while waiting < self.buffer.max(1) as usize
                && let Some(packet) = cx.pull(input)
            {
                cx.waits(&packet);
                self.state.packets.push((input, packet));
                waiting += 1;
            }
        }
    }
}

impl Behavior for TimeSortedSched {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        self.fill(cx);
        let waiting = self.state.packets.iter().enumerate();
        let Some((at, _)) = waiting.min_by_key(|(at, (_, packet))| (packet.timestamp, *at)) else {
            // A source that pushes into a queue may be about to send: only a second pull in vain is the end, and further
            // ones, of which there may be many, are nothing new.
            self.state.vain = self.state.vain.saturating_add(1);
            if self.stop && self.state.vain == 1 {
                cx.again();
            }
            if self.stop && self.state.vain == 2 {
                cx.env().ask_stop();
            }
            return None;
        };
        self.state.vain = 0;
        let (_, packet) = self.state.packets.remove(at);
        if packet.timestamp != 0 {
            self.state.disordered |= packet.timestamp < self.state.last;
            self.state.last = packet.timestamp;
        }
        Some(packet)
    }

    fn memory(&self, inputs: usize) -> u64 {
        u64::from(self.buffer.max(1)).saturating_mul(inputs as u64).saturating_mul(PACKET_BYTES)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<TimeSortedSched>() {
            self.state = std::mem::take(&mut old.state);
        }
    }

    fn waiting(&mut self) -> Option<Vec<Packet>> {
        Some(std::mem::take(&mut self.state.packets).into_iter().map(|(_, packet)| packet).collect())
    }

    fn restore(&mut self, packets: Vec<Packet>) {
        self.state.packets = packets.into_iter().map(|packet| (0, packet)).collect();
    }
}
