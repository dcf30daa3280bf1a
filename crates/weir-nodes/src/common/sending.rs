//! Giving packets to a device: what all elements that do so share.

use crate::env::device::between;
use crate::prelude::*;

/// The device and what went to it.
#[derive(Default)]
pub(crate) struct Sending {
    /// The device, once it is open.
    pub device: Option<usize>,
    /// Packets that the device took.
    pub sent: u64,
    /// Packets that were dropped because it took no more, or not these.
    pub drops: u64,
    batch: Vec<Packet>,
}

impl Sending {
    /// Gives packets to the device; those that it does not take are dropped.
    pub fn push(&mut self, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        self.send(packets, cx);
        self.drops += packets.len() as u64;
        packets.drain(..).for_each(|p| cx.drop(&Reason::FULL, p));
    }

    /// Pulls at most `burst` packets from input 0 if it is a pull input, when the device has sent all before.
    pub fn pull(&mut self, burst: u32, cx: &mut Cx<'_>) -> Ran {
        let Some(device) = self.device else { return Ran::Idle };
        if cx.ports().0 == 0 || cx.input_is_push(0) {
            return Ran::Idle;
        }
        if !cx.env().devices.is_sent(device) {
            let now = cx.now();
            cx.env().devices.flush(device, now);
            if !cx.env().devices.is_sent(device) {
                return Ran::Until(cx.env().devices.sends_again(device));
            }
        }
        let burst = burst.max(1) as usize;
        let mut batch = std::mem::take(&mut self.batch);
        while batch.len() < burst
            && let Some(packet) = cx.pull(0)
        {
            batch.push(packet);
        }
        let full = batch.len() >= burst;
        self.send(&mut batch, cx);
        self.batch = batch;
        if full { Ran::Busy } else { Ran::Idle }
    }

    /// Takes over the counts of a predecessor.
    pub fn adopt(&mut self, old: &Sending) {
        self.sent += old.sent;
        self.drops += old.drops;
    }

    fn send(&mut self, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let Some(device) = self.device else { return };
        if packets.iter().any(|p| p.trace != 0) {
            return self.send_followed(device, packets, cx);
        }
        let before = packets.len();
        let now = cx.now();
        let sender = cx.sender();
        cx.env().devices.send(device, sender, packets, now);
        self.sent += (before - packets.len()) as u64;
    }

    /// The same one by one, so that each that is followed is known to have been sent, or why not.
    fn send_followed(&mut self, device: usize, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let (now, sender) = (cx.now(), cx.sender());
        let name = cx.env().devices.name(device).unwrap_or_default().to_owned();
        while cx.env().devices.space(device) > 0 && !packets.is_empty() {
            let packet = packets.remove(0);
            let mut followed = (packet.trace != 0).then(|| packet.copy());
            let devices = &mut cx.env().devices;
            let before = devices.lost(device);
            devices.send(device, sender, &mut vec![packet], now);
            devices.flush(device, now);
            let lost = between(before, devices.lost(device)).next();
            if let Some(packet) = &mut followed {
                let path = match lost {
                    Some((why, _)) => format!("not sent to {name}: {why}"),
                    None => format!("sent to {name}"),
                };
                cx.leaves(packet, &path);
            }
            self.sent += 1;
        }
    }

    /// Some that were given to the device have ended there.
    pub fn lost(&mut self, packets: u64) {
        self.sent = self.sent.saturating_sub(packets);
        self.drops += packets;
    }
}

/// What an element does that gives packets to a device: methods of `Behavior` for a class with the state [`Sending`].
macro_rules! sends {
    ($class:ident, |$node:ident| $burst:expr) => {
        fn writes_device(&self) -> Option<usize> {
            self.state.device
        }

        fn is_plain(&self) -> bool {
            true
        }

        fn lost(&mut self, packets: u64) {
            self.state.lost(packets);
        }

        fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
            self.state.push(packets, cx);
        }

        fn has_task(&self) -> bool {
            true
        }

        fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
            let $node = &*self;
            let burst = $burst;
            self.state.pull(burst, cx)
        }

        fn adopt(&mut self, old: &mut dyn EngineNode) {
            let Some(old) = old.as_any().downcast_mut::<$class>() else { return };
            self.state.adopt(&old.state);
        }
    };
}
pub(crate) use sends;
