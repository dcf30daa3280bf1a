//! Ports and controllers around the pipeline, in turns.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_io::{Poller, Port, PortError, PortSpec, interface, offload};
use weir_openflow::connection::{Notification, Time};
use weir_packet::Packet;
use weir_pipeline::{Effect, Pipeline};

use crate::controllers::Controllers;
use crate::tls::Tls;
use crate::{Fail, Options, SwitchError, privileges};

/// Most packets of a port before the next one has its turn.
const BATCH: usize = 64;
/// How often links are looked at, and the status is written.
const OFTEN: Duration = Duration::from_millis(250);
/// How long it sleeps while something has to be tried again.
const SHORT: Duration = Duration::from_millis(1);

/// A switch at work.
#[derive(Debug)]
pub struct Switch {
    links: Vec<Link>,
    pipeline: Pipeline,
    controllers: Controllers,
    poller: Poller,
    /// What the poller said last.
    ready: Vec<u64>,
    /// Packets of the port that has its turn; empty between turns.
    batch: Vec<Packet>,
    start: Instant,
    fail: Fail,
    patience: Duration,
    /// Since when no controller is there.
    alone: Option<Time>,
    status: Option<(File, String)>,
    /// When links are looked at next.
    look: Time,
}

/// A port, and what waits to leave there.
struct Link {
    name: String,
    port: Box<dyn Port>,
    waiting: Vec<Packet>,
    gone: bool,
    /// What was said of it last: it may be refused the same at each turn.
    trouble: String,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Runs a switch until it is to end.
///
/// # Errors
/// It cannot start, or cannot go on.
pub fn run(options: &Options, end: &AtomicBool) -> Result<(), SwitchError> {
    let mut switch = Switch::new(options)?;
    while !end.load(Ordering::Relaxed) {
        switch.turn()?;
    }
    Ok(())
}

impl Switch {
    /// Opens all that it needs, and gives up the rest.
    ///
    /// # Errors
    /// A port is not there, or something is refused.
    pub fn new(options: &Options) -> Result<Switch, SwitchError> {
        let poller = Poller::new().map_err(SwitchError::system("wait for packets"))?;
        let mut links = Vec::new();
        for name in &options.ports {
            // Whoever sends into the other end may leave packets unfinished: they are carried as they are.
            let given =
                interface::Options { method: interface::Method::Packet, ..interface::Options::default() };
            let spec = PortSpec::Interface { name: name.clone(), options: given };
            let mut port = spec.open()?;
            if let Some(fd) = port.fd() {
                poller.add(links.len() as u64, fd).map_err(SwitchError::system("wait for packets"))?;
            }
            links.push(Link {
                name: name.clone(),
                port,
                waiting: Vec::new(),
                gone: false,
                trouble: String::new(),
            });
        }
        let first = links.first().and_then(|l| l.port.mac()).unwrap_or_default();
        let datapath = options.datapath.unwrap_or(first.0.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
        let mut pipeline = Pipeline::new(weir_pipeline::Options {
            datapath,
            name: options.name.clone(),
            tables: options.tables,
            version: options.version.clone(),
        });
        for (i, link) in links.iter().enumerate() {
            pipeline.add_port(i as u32 + 1, &link.name, link.port.mac().unwrap_or_default(), Time::ZERO);
        }
        let tls = options.tls.as_ref().map(Tls::read).transpose()?;
        let status = match &options.status {
            Some(path) => {
                let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
                let failed = SwitchError::system(format!("write to {}", path.display()));
                Some((file.map_err(failed)?, String::new()))
            }
            None => None,
        };
        if let Some(netns) = &options.control_netns {
            let failed = SwitchError::system(format!("enter the network namespace {}", netns.display()));
            privileges::enter(netns).map_err(failed)?;
        }
        let controllers = Controllers::new(options, pipeline.features(), tls, &poller)?;
        privileges::give_up().map_err(SwitchError::system("give up privileges"))?;
        Ok(Switch {
            links,
            pipeline,
            controllers,
            poller,
            ready: Vec::new(),
            batch: Vec::new(),
            start: Instant::now(),
            fail: options.fail,
            patience: options.patience,
            alone: Some(Time::ZERO),
            status,
            look: Time::ZERO,
        })
    }

    /// Packets, then controllers, then what time brings; sleeps if there is nothing.
    ///
    /// # Errors
    /// It cannot sleep.
    pub fn turn(&mut self) -> Result<(), SwitchError> {
        let now = self.start.elapsed();
        let mut busy = false;
        for i in 0..self.links.len() {
            busy |= self.receive(i, now);
        }
        busy |= self.controllers.step(&mut self.pipeline, &self.poller, &self.ready, now);
        self.pipeline.tick(now);
        self.carry_out();
        if now >= self.look {
            self.look = now + OFTEN;
            self.look_at_links();
            self.decide(now);
            self.write_status();
        }
        let failed = SwitchError::system("wait for packets");
        if busy {
            return self.poller.poll(&mut self.ready).map_err(failed);
        }
        let due = [self.controllers.next_timeout(), self.pipeline.next_timeout(), Some(self.look)];
        let sleep = due.into_iter().flatten().min().map(|at| at.saturating_sub(now).max(SHORT));
        self.poller.sleep(sleep, &mut self.ready).map_err(failed)
    }

    /// Takes packets of a port; says whether there may be more.
    fn receive(&mut self, i: usize, now: Time) -> bool {
        let Some(link) = self.links.get_mut(i).filter(|l| !l.gone) else { return false };
        let mut packets = std::mem::take(&mut self.batch);
        match link.port.receive(&mut packets, BATCH) {
            // Its link says so.
            Ok(_) | Err(PortError::Down { .. }) => {}
            Err(e) => {
                let trouble = weir_io::with_causes(&e).to_string();
                if link.trouble != trouble {
                    eprintln!("{}: {trouble}", link.name);
                    link.trouble = trouble;
                }
                link.gone = matches!(e, PortError::Gone { .. });
                if link.gone {
                    self.pipeline.remove_port(i as u32 + 1);
                    // It is in error for ever, which would end each sleep.
                    _ = link.port.fd().map(|fd| self.poller.remove(fd));
                }
            }
        }
        let full = packets.len() == BATCH;
        if self.pipeline.wants_plain() {
            finish(&mut packets);
        }
        for packet in packets.drain(..) {
            self.pipeline.receive(i as u32 + 1, packet, now);
            if self.pipeline.is_loaded() {
                self.carry_out();
            }
        }
        self.batch = packets;
        self.carry_out();
        full
    }

    /// What the pipeline wants to be done.
    fn carry_out(&mut self) {
        for effect in self.pipeline.effects() {
            match effect {
                Effect::Send { port, packet } => {
                    if let Some(link) = self.links.get_mut(port as usize - 1) {
                        link.waiting.push(packet);
                    }
                }
                Effect::Controller { packet, upcall } => {
                    let mut packets = vec![packet];
                    finish(&mut packets);
                    for packet in packets {
                        let message = self.pipeline.packet_in(packet, upcall);
                        self.controllers.notify(Notification::PacketIn(message));
                    }
                }
            }
        }
        for notification in self.pipeline.notifications() {
            self.controllers.notify(notification);
        }
        for (link, number) in self.links.iter_mut().zip(1..).filter(|(l, _)| !l.waiting.is_empty()) {
            _ = link.port.send(&mut link.waiting);
            _ = link.port.flush();
            // What the port cannot take now is dropped, as by a switch whose queue is full.
            if !link.waiting.is_empty() {
                self.pipeline.not_sent(number, link.waiting.len());
                link.waiting.clear();
            }
        }
    }

    fn look_at_links(&mut self) {
        for (i, link) in self.links.iter().enumerate().filter(|(_, l)| !l.gone) {
            let carrier = fs::read_to_string(format!("/sys/class/net/{}/carrier", link.name));
            // One that is down has none to be read.
            self.pipeline.set_link(i as u32 + 1, carrier.is_ok_and(|c| c.trim() == "1"));
        }
    }

    /// Whether it goes on without its tables.
    fn decide(&mut self, now: Time) {
        let there = self.controllers.are_there();
        self.alone = if there { None } else { self.alone.or(Some(now)) };
        let long = self.alone.is_some_and(|since| now.saturating_sub(since) >= self.patience);
        self.pipeline.set_standalone(self.fail == Fail::Standalone && long);
    }

    fn write_status(&mut self) {
        let text = self.controllers.status();
        let Some((file, before)) = &mut self.status else { return };
        if *before != text {
            let written =
                file.rewind().and_then(|()| file.set_len(0)).and_then(|()| file.write_all(text.as_bytes()));
            if written.is_ok() {
                *before = text;
            }
        }
    }
}

/// Finishes packets as they are on a wire; what makes no sense stays as it is.
fn finish(packets: &mut Vec<Packet>) {
    for i in (0..packets.len()).rev() {
        _ = offload::finish(packets, i);
    }
}
