//! What all queues are made of.

use std::collections::VecDeque;

use crate::prelude::*;

/// The packets of a queue, and counts.
#[derive(Default)]
pub(crate) struct Stored {
    pub packets: VecDeque<Packet>,
    pub highwater: usize,
    pub drops: u64,
    /// Whether a handler changed the capacity.
    pub changed: bool,
}

impl Stored {
    /// Puts a packet at the end, or gives it up.
    pub fn push_last(&mut self, packet: Packet, capacity: u32, cx: &mut Cx<'_>) {
        if self.packets.len() >= capacity as usize {
            return self.overflow(packet, cx);
        }
        cx.waits(&packet);
        self.packets.push_back(packet);
        self.highwater = self.highwater.max(self.packets.len());
    }

    /// Puts a packet at the end; if the queue is full, the first is given up.
    pub fn push_last_drop_first(&mut self, packet: Packet, capacity: u32, cx: &mut Cx<'_>) {
        if self.packets.len() >= capacity as usize
            && let Some(first) = self.packets.pop_front()
        {
            self.overflow(first, cx);
        }
        self.push_last(packet, capacity, cx);
    }

    /// Puts a packet in front; if the queue is full, the last is given up.
    pub fn push_first(&mut self, packet: Packet, capacity: u32, cx: &mut Cx<'_>) {
        if self.packets.len() >= capacity as usize
            && let Some(last) = self.packets.pop_back()
        {
            self.overflow(last, cx);
        }
        if self.packets.len() >= capacity as usize {
            return self.overflow(packet, cx);
        }
        cx.waits(&packet);
        self.packets.push_front(packet);
        self.highwater = self.highwater.max(self.packets.len());
    }

    fn overflow(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        self.drops += 1;
        if cx.ports().1 > 1 {
            cx.emit(1, packet);
        } else {
            cx.drop(&Reason::FULL, packet);
        }
    }

    /// Takes the first packet. A source that found the queue full may go on then.
    pub fn pull(&mut self, capacity: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.packets.len() >= capacity as usize {
            cx.again();
        }
        self.packets.pop_front()
    }

    /// Takes over what a queue before a hot swap had, as far as it fits.
    pub fn adopt(&mut self, old: &mut Stored, capacity: u32) {
        *self = std::mem::take(old);
        self.changed = false;
        self.shorten(capacity);
    }

    /// Drops the last packets, as many as there are too many.
    pub fn shorten(&mut self, capacity: u32) {
        while self.packets.len() > capacity as usize {
            self.packets.pop_back();
            self.drops += 1;
        }
    }
}

/// Declares a queue, as `engine_node!` does. `push` says what happens to a packet that comes in, `full` whether
/// sources stop while the queue is full.
macro_rules! queue_node {
    (
        $(#[doc = $doc:expr])*
        $name:ident: $ports:literal, $processing:literal;
        $(example $example:expr;)*
        push $push:expr;
        full $full:literal;
    ) => {
        engine_node! {
            $(#[doc = $doc])*
            $name: $ports, $processing, Delay, Graph;
            $(example $example;)*
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
                /// Changes how many packets it stores; the last packets are dropped if there are more.
                write capacity = |q, value, _| {
                    q.capacity = <u32 as weir_elements::FromArg>::from_arg(value.trim())?;
                    q.state.changed = true;
                    q.state.shorten(q.capacity);
                    Ok(())
                },
                /// Number of packets for which there was no space.
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
            state crate::queues::storage::Stored;
        }

        impl Behavior for $name {
            fn push(&mut self, port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
                let push: fn(&mut crate::queues::storage::Stored, u32, Packet, u32, &mut Cx<'_>) = $push;
                for packet in packets.drain(..) {
                    push(&mut self.state, port, packet, self.capacity, cx);
                }
            }

            fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
                self.state.pull(self.capacity, cx)
            }

            fn adopt(&mut self, old: &mut dyn EngineNode) {
                if let Some(old) = old.as_any().downcast_mut::<$name>() {
                    self.state.adopt(&mut old.state, self.capacity);
                }
            }

            fn waiting(&mut self) -> Option<Vec<Packet>> {
                Some(std::mem::take(&mut self.state.packets).into())
            }

            fn restore(&mut self, packets: Vec<Packet>) {
                self.state.packets = packets.into();
            }

            fn gives(&self, _port: u32, _asks: &dyn Fn(u32) -> bool) -> Option<bool> {
                Some(!self.state.packets.is_empty())
            }

            fn length(&self) -> Option<usize> {
                Some(self.state.packets.len())
            }

            fn space(&self) -> Option<usize> {
                self.free().filter(|_| $full)
            }

            fn free(&self) -> Option<usize> {
                Some((self.capacity as usize).saturating_sub(self.state.packets.len()))
            }

            fn memory(&self, _inputs: usize) -> u64 {
                u64::from(self.capacity) * crate::PACKET_BYTES
            }

            fn config(&self) -> Option<String> {
                self.state.changed.then(|| format!("CAPACITY {}", self.capacity))
            }
        }
    };
}
