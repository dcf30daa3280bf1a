use std::collections::VecDeque;

use super::prelude::*;

engine_node! {
    /// Stores packets first in, first out, until they are pulled.
    ///
    /// A packet that comes when the queue is full is dropped (`Full`). A hot swap keeps the packets of a queue of the
    /// same name, as far as they fit.
    Queue: "1/1", "h/l", Delay;
    example "Idle -> Queue(500) -> Discard;";
    params {
        /// How many packets it stores.
        pos capacity: u32 = 1000,
    }
    handlers {
        /// Number of packets in the queue.
        read length = |q, _| Ok(q.state.packets.len().to_string()),
        /// The most packets that were in the queue at a time.
        read highwater_length = |q, _| Ok(q.state.highwater.to_string()),
        /// How many packets it stores.
        read capacity = |q, _| Ok(q.capacity.to_string()),
        /// Changes how many packets it stores; packets beyond that stay until they are pulled.
        write capacity = |q, value, _| {
            q.capacity = <u32 as weir_elements::FromArg>::from_arg(value.trim())?;
            Ok(())
        },
        /// Number of packets that were dropped.
        read drops = |q, _| Ok(q.state.drops.to_string()),
        /// Sets the counts to zero.
        write reset_counts = |q, _, _| {
            q.state.drops = 0;
            q.state.highwater = q.state.packets.len();
            Ok(())
        },
        /// Drops all packets in the queue.
        write reset = |q, _, _| {
            q.state.drops += q.state.packets.len() as u64;
            q.state.packets.clear();
            Ok(())
        },
    }
    state Stored;
}

#[derive(Default)]
struct Stored {
    packets: VecDeque<Packet>,
    highwater: usize,
    drops: u64,
}

impl Behavior for Queue {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        for packet in packets.drain(..) {
            if self.state.packets.len() >= self.capacity as usize {
                self.state.drops += 1;
                cx.drop(&Reason::FULL, packet);
            } else {
                cx.waits(&packet);
                self.state.packets.push_back(packet);
            }
        }
        self.state.highwater = self.state.highwater.max(self.state.packets.len());
    }

    fn pull(&mut self, _port: u32, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.state.packets.pop_front()
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        let Some(old) = old.as_any().downcast_mut::<Queue>() else { return };
        self.state = std::mem::take(&mut old.state);
        while self.state.packets.len() > self.capacity as usize {
            self.state.packets.pop_back();
            self.state.drops += 1;
        }
    }

    fn waiting(&mut self) -> Option<Vec<Packet>> {
        Some(std::mem::take(&mut self.state.packets).into())
    }

    fn restore(&mut self, packets: Vec<Packet>) {
        self.state.packets = packets.into();
    }
}
