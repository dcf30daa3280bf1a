use std::collections::VecDeque;
use std::time::Duration;

use weir_elements::FromArg;
use weir_io::pcap::PcapReader;
use weir_packet::Layer;

use crate::common::limit::flag;
use crate::prelude::*;
use weir_io::with_causes;

/// A packet is not IP.
const NOT_IP: Reason = Reason::new("NotIp");
/// A packet is longer than packets are.
const TOO_LONG: Reason = Reason::new("TooLong");

engine_node! {
    /// Reads packets from a capture file (pcap or pcapng, of any link type).
    ///
    /// Packets come as they are in the file, whatever they begin with. With `FORCE_IP`, the IP header is looked for behind
    /// link headers of Ethernet, IEEE 802.11 (also with radiotap, Prism, AVS or PPI), Linux cooked captures (1 and 2), PPP,
    /// PPPoE, HDLC, frame relay, FDDI, ATM, IEEE 1394, and BSD's null, loop and log; raw IP has none.
    ///
    /// A packet of more than 262,144 bytes is dropped (`TooLong`), and reported. A file that is damaged or cut off is reported
    /// with the place, and ends `weir run` with the status 1. No more packets are read at a time than queues that they get to
    /// have space for, but for one.
    ///
    /// Times are those of the capture; give at most one of `START` and `START_AFTER`, and of `END`, `END_AFTER` and
    /// `INTERVAL`.
    FromDump: "0/1-2", "h/h", Source, Files;
    example "FromDump(in.pcap, STOP true) -> Discard;";
    params {
        /// The file; `-` is the standard input.
        pos filename: String,
        /// Whether packets come at the pace at which they were captured.
        pos timing: bool = false,
        /// Whether to end the run after the last packet.
        key stop: bool = false,
        /// Whether it reads now.
        key active: bool = true,
        /// Part of the packets that are kept, at random: 0 to 1.
        key sample: Share = Share(1.0),
        /// Whether packets that are not IP leave on output 1, or are dropped (`NotIp`); of the others the network and
        /// transport headers are marked.
        key force_ip: bool = false,
        /// Skips packets before this time, in seconds since the epoch.
        key start: Option<Duration> = None,
        /// Skips packets of this time after the first.
        key start_after: Option<Duration> = None,
        /// Ends at the first packet at or after this time, in seconds since the epoch.
        key end: Option<Duration> = None,
        /// Ends at the first packet that is this much after the first of the capture.
        key end_after: Option<Duration> = None,
        /// Ends at the first packet that is this much after the first one that was not skipped.
        key interval: Option<Duration> = None,
        /// Most packets that are read at a time.
        key burst: u32 = 32,
        /// Accepted for Click's sake: files are read in large blocks.
        key mmap: bool = false,
    }
    handlers {
        /// Number of packets read so far.
        read count = |d, _| Ok(d.state.count.to_string()),
        /// Sets the count to zero.
        write reset_counts = |d, _, _| { d.state.count = 0; Ok(()) },
        /// Part of the packets that are kept.
        read sampling_prob = |d, _| Ok(d.sample.0.to_string()),
        /// Whether it reads.
        read active = |d, _| Ok(d.active.to_string()),
        /// Lets it read, or not.
        write active = |d, value, _| { d.active = flag(value)?; Ok(()) },
        /// Name of the file.
        read filename = |d, _| Ok(d.filename.clone()),
    }
    state Reading;
}

#[derive(Default)]
struct Reading {
    reader: Option<PcapReader>,
    count: u64,
    /// Packets that were read and are next.
    ahead: VecDeque<Packet>,
    batch: Vec<Packet>,
    /// With timing: the packet whose time has not come, and how far the file's time is behind the clock.
    next: Option<Packet>,
    behind: Option<u64>,
    /// Once the first packet was read: from when, and to before when, packets are wanted (nanoseconds).
    window: Option<(u64, u64)>,
    /// Whether the window ends some time after the first packet in it.
    interval: Option<u64>,
    /// The queues that packets get to.
    queues: Vec<usize>,
    /// Whether a packet that is too long was reported.
    reported: bool,
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share(f64);

impl FromArg for Share {
    const SYNTAX: &'static str = "number from 0 to 1";
    fn from_arg(text: &str) -> Result<Share, String> {
        match text.trim().parse() {
            Ok(n) if (0.0..=1.0).contains(&n) => Ok(Share(n)),
            _ => Err(format!("'{text}' is not a number from 0 to 1 (like 0.01)")),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl FromDump {
    /// The next packet that is wanted.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let Some(packet) = self.state.ahead.pop_front() else {
                if !self.read(cx) {
                    return None;
                }
                continue;
            };
            let time = packet.timestamp;
            let (from, to) = *self.state.window.get_or_insert_with(|| {
                let after = |d: Duration| time.saturating_add(nanoseconds(d));
                self.state.interval = self.interval.map(nanoseconds);
                let from = self.start.map(nanoseconds).or(self.start_after.map(after)).unwrap_or(0);
                (from, self.end.map(nanoseconds).or(self.end_after.map(after)).unwrap_or(u64::MAX))
            });
            if time < from {
                continue;
            }
            if time >= to {
                self.state.ahead.clear();
                self.state.reader = None;
                if self.stop {
                    cx.env().ask_stop();
                }
                return None;
            }
            if let Some(interval) = self.state.interval.take() {
                self.state.window = Some((from, time.saturating_add(interval)));
            }
            if self.sample.0 >= 1.0 || f64::from(cx.env().random()) < self.sample.0 * f64::from(u32::MAX) {
                return Some(packet);
            }
        }
    }

    /// Reads packets ahead; `false` at the end.
    fn read(&mut self, cx: &mut Cx<'_>) -> bool {
        let state = &mut self.state;
        let Some(reader) = &mut state.reader else { return false };
        let result = reader.read(&mut state.batch, self.burst.max(1) as usize);
        state.ahead.extend(state.batch.drain(..));
        for long in reader.too_long() {
            state.count += 1;
            if !std::mem::replace(&mut state.reported, true) {
                let (number, len) = (long.number, long.len);
                let most = weir_packet::MAX_LEN;
                let text = format!(
                    "packet {number} has {len} bytes, and packets have at most {most}: it is dropped, as are all such"
                );
                cx.print(format!("{}: {}: {text}", cx.name(), self.filename));
            }
            cx.drop(&TOO_LONG, long.packet);
        }
        let more = match result {
            Ok(n) => n > 0,
            Err(e) => {
                cx.fail(with_causes(&e));
                !state.ahead.is_empty()
            }
        };
        if !more {
            state.reader = None;
            if self.stop {
                cx.env().ask_stop();
            }
        }
        more
    }

    fn send(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        self.state.count += 1;
        if self.force_ip && packet.layer(Layer::Net).is_none() {
            if cx.ports().1 > 1 {
                cx.emit(1, packet);
            } else {
                cx.drop(&NOT_IP, packet);
            }
            return;
        }
        cx.emit(0, packet);
    }
}

impl Behavior for FromDump {
    fn open(&mut self, _env: &mut Env) -> Result<(), String> {
        if self.start.is_some() && self.start_after.is_some() {
            return Err("give START or START_AFTER, not both".to_owned());
        }
        if [self.end, self.end_after, self.interval].iter().flatten().count() > 1 {
            return Err("give one of END, END_AFTER and INTERVAL".to_owned());
        }
        let reader = match self.filename.as_str() {
            "-" => PcapReader::new("standard input", std::io::stdin()),
            file => PcapReader::open(file),
        };
        let mut reader = reader.map_err(|e| with_causes(&e))?;
        if self.force_ip {
            reader.mark_ip().map_err(|e| with_causes(&e))?;
        }
        self.state.reader = Some(reader);
        Ok(())
    }

    fn place(&mut self, here: &Neighbours<'_>) -> Result<(), String> {
        self.state.queues = here.storages(true);
        Ok(())
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        // In Click, where one packet comes at a time, whoever pulls from a queue keeps up with that.
        let burst = (self.burst.max(1) as usize).min(cx.least_room_in(&self.state.queues).max(1));
        for _ in 0..burst {
            if !self.active {
                return Ran::Idle;
            }
            let waiting = self.state.next.take();
            let Some(packet) = waiting.or_else(|| self.next(cx)) else { return Ran::Idle };
            if self.timing {
                let now = cx.now();
                let behind = *self.state.behind.get_or_insert(now.saturating_sub(packet.timestamp));
                let when = packet.timestamp.saturating_add(behind);
                if when > now {
                    self.state.next = Some(packet);
                    return Ran::Until(when);
                }
            }
            self.send(packet, cx);
        }
        Ran::Busy
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        let Some(old) = old.as_any().downcast_mut::<FromDump>() else { return };
        if old.filename == self.filename {
            let queues = std::mem::take(&mut self.state.queues);
            self.state = Reading { queues, ..std::mem::take(&mut old.state) };
            if self.force_ip
                && let Some(reader) = &mut self.state.reader
            {
                // Packets of a link type that is not known are not IP.
                _ = reader.mark_ip();
            }
        }
    }
}
