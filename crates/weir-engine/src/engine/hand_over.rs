//! All that an engine has, out of it and into another one that takes its place on the same machine.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use weir_io::hand_over::{Handed, PidFd};
use weir_nodes::env::device::Given;
use weir_protocol::HandedPort;
use weir_table::Frozen;

use super::Engine;

/// How long packets are on their way at most before all stands still.
const SETTLE: Duration = Duration::from_millis(20);
/// All of a graph, in place of one of its functions.
pub(crate) const WHOLE: &str = "";

/// The engine that takes the place of this one.
pub(crate) trait Successor {
    /// Gives it the last round of a graph's state.
    fn round(&mut self, graph: &str, text: String) -> Result<(), String>;

    /// It goes on with these ports. If this fails, it has ended.
    fn begin(&mut self, ports: Vec<HandedPort>) -> Result<(), String>;
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandOver {
    /// Of state, in the last rounds.
    pub bytes: u64,
    /// For how long nothing was received.
    pub pause: Duration,
}

fn port((worker, device, handed): Given) -> HandedPort {
    let Handed { fds, ring, shared, method } = handed;
    HandedPort { worker, device, fds, ring, shared, method }
}

impl Engine {
    /// Lets this engine wait for what another has, and move no packets meanwhile.
    pub(crate) fn set_parked(&mut self, parked: bool) {
        self.with_rest(|_, rest| rest.iter_mut().for_each(|e| e.parked = parked));
        self.parked = parked;
    }

    /// Why another engine cannot take the place of this one; nothing if it can.
    pub(crate) fn bound(&mut self) -> Vec<String> {
        let mut why = self.with_rest(|first, rest| {
            let mut why = first.rt.env.devices.bound();
            rest.iter_mut().for_each(|e| why.extend(e.rt.env.devices.bound()));
            why
        });
        why.sort();
        why.dedup();
        for (name, router) in self.graphs.iter().map(|(_, r)| (r.name.clone(), r)) {
            why.extend(
                router.moving().map(|f| format!("function '{f}' of graph '{name}', which is about to move")),
            );
        }
        why
    }

    /// Has another engine go on in place of this one, which has `before` of each graph's tables. If that fails, this one goes on.
    pub(crate) fn hand_over(
        &mut self,
        successor: &mut dyn Successor,
        before: &HashMap<String, Frozen>,
    ) -> Result<HandOver, String> {
        let begun = Instant::now();
        self.set_paused(true);
        let done = self.settle_down(begun).and_then(|()| self.give_all(successor, before));
        match done {
            Ok(bytes) => Ok(HandOver { bytes, pause: begun.elapsed() }),
            Err(e) => {
                self.with_rest(|first, rest| {
                    first.rt.env.devices.take_back_given();
                    rest.iter_mut().for_each(|e| e.rt.env.devices.take_back_given());
                });
                self.set_paused(false);
                Err(e)
            }
        }
    }

    fn set_paused(&mut self, paused: bool) {
        self.with_rest(|_, rest| rest.iter_mut().for_each(|e| e.rt.env.devices.set_paused(paused)));
        self.rt.env.devices.set_paused(paused);
    }

    /// Sends what has come, until nothing is under way.
    fn settle_down(&mut self, begun: Instant) -> Result<(), String> {
        loop {
            let more = self.round().map_err(|e| e.to_string())?;
            let sending = self.with_rest(|first, rest| {
                first.quiesce(rest);
                first.rt.env.devices.is_sending() || rest.iter().any(|e| e.rt.env.devices.is_sending())
            });
            if !more && !sending {
                return Ok(());
            }
            if begun.elapsed() > SETTLE {
                // A source that never rests is no obstacle; what a device does not take would be lost.
                return match sending {
                    true => Err("a device does not take its packets".to_owned()),
                    false => Ok(()),
                };
            }
        }
    }

    fn give_all(
        &mut self,
        successor: &mut dyn Successor,
        before: &HashMap<String, Frozen>,
    ) -> Result<u64, String> {
        self.with_rest(|first, rest| {
            first.rt.env.tick();
            let graphs: Vec<String> = first.names.keys().cloned().collect();
            let mut bytes = 0;
            for graph in &graphs {
                first.quiesce(rest);
                let (router, rt) = first.graph(graph)?;
                let text = router.look(rt, rest, WHOLE, true)?.written(before.get(graph))?;
                bytes += text.len() as u64;
                successor.round(graph, text)?;
            }
            let mut ports = first.rt.env.devices.give(0)?;
            for e in rest {
                let worker = e.worker();
                ports.extend(e.rt.env.devices.give(worker)?);
            }
            successor.begin(ports.into_iter().map(port).collect())?;
            Ok(bytes)
        })
    }

    /// Goes on with the ports of another process, whose graphs' state this engine has; with ports of its own, if these are none.
    pub(crate) fn begin(&mut self, pid: u32, ports: Vec<HandedPort>) -> Result<(), String> {
        if !self.parked {
            return Err("this data plane takes no other one's place".to_owned());
        }
        let giver = match ports.is_empty() {
            true => None,
            false => Some(PidFd::of(pid).map_err(|e| format!("process {pid}: {e}"))?),
        };
        let mut by_device: BTreeMap<String, Vec<(usize, Handed)>> = BTreeMap::new();
        for HandedPort { worker, device, fds, ring, shared, method } in ports {
            by_device.entry(device).or_default().push((worker, Handed { fds, ring, shared, method }));
        }
        self.with_rest(|first, rest| {
            let last = rest.len();
            let mut opened: Vec<BTreeMap<String, Vec<(usize, _)>>> =
                (0..=last).map(|_| BTreeMap::new()).collect();
            for (device, handed) in by_device {
                for (worker, handed) in handed {
                    if worker > last {
                        return Err(format!("there are {} workers here, and more there", last + 1));
                    }
                    // A worker that does not use the device leaves its port with the first.
                    let own = rest.iter().position(|e| e.worker() == worker);
                    let has = own.filter(|i| rest[*i].rt.env.devices.spec_of(&device).is_some());
                    let place = has.map_or(0, |i| i + 1);
                    let devices = match has {
                        Some(i) => &rest[i].rt.env.devices,
                        None => &first.rt.env.devices,
                    };
                    // One that no graph uses here ends with the process that has it.
                    let (Some(spec), Some(giver)) = (devices.spec_of(&device), &giver) else { continue };
                    let port = spec.go_on(giver, &handed).map_err(|e| weir_io::with_causes(&e))?;
                    opened[place].entry(device.clone()).or_default().push((worker, port));
                }
            }
            let now = first.rt.env.now;
            for (place, ports) in opened.into_iter().enumerate() {
                let (own, devices) = match place.checked_sub(1).map(|i| &mut rest[i]) {
                    Some(e) => (e.worker(), &mut e.rt.env.devices),
                    None => (0, &mut first.rt.env.devices),
                };
                devices.get(ports, own);
                devices.open_awaited(now);
            }
            Ok(())
        })
    }
}
