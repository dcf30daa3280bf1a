//! What stands in the network for an engine node.

use std::sync::Arc;

use weir_click::ElementDecl;
use weir_ir::{Builder, MetaField, Program, Reason};
use weir_packet::Checksum;
use weir_packet::entry::{self, Entry};
use weir_plan::Model;
use weir_verify::checks::Framing;
use weir_verify::{Body, Network, NodeId};

/// Queues: they lose packets when they are full, to output 1 if there is one.
const QUEUES: [&str; 8] = [
    "Queue",
    "SimpleQueue",
    "ThreadSafeQueue",
    "FullNoteQueue",
    "NotifierQueue",
    "QuickNoteQueue",
    "MixedQueue",
    "FrontDropQueue",
];

/// The part of the network that stands for an element.
#[derive(Debug, Clone)]
pub(super) struct Substitute {
    body: Body,
    /// Instead of the body.
    pub program: Option<Arc<Program>>,
    /// The output of the program behind which nothing is known.
    pub unknown: Option<u32>,
    /// What comes in has left; what leaves has come from outside.
    pub splits: bool,
    pub roles: Vec<Role>,
}

/// A role of an element as outsiders see it.
#[derive(Debug, Clone)]
pub(super) enum Role {
    /// Packets come in here: name, if it is not the element's, what they begin with, and how they come in.
    Entry(Option<String>, Framing, &'static Entry),
    /// Packets leave here.
    Exit(Option<String>, Framing),
    /// Packets come into being here.
    Origin(Framing, &'static Entry, Option<Vec<u8>>),
}

impl Substitute {
    /// Whether it is known what the element does.
    pub fn is_known(&self) -> bool {
        !matches!(self.body, Body::Opaque)
    }

    pub(super) fn of(body: Body) -> Substitute {
        Substitute { body, program: None, unknown: None, splits: false, roles: Vec::new() }
    }

    pub(super) fn program(program: impl Into<Arc<Program>>) -> Substitute {
        Substitute { program: Some(program.into()), ..Substitute::of(Body::Opaque) }
    }

    /// The same, whose packets pass a filter, if there is one, before they leave.
    pub(super) fn filtered(self, filter: Option<Arc<Program>>) -> Substitute {
        Substitute { program: filter.or(self.program), ..self }
    }

    fn with(self, roles: impl IntoIterator<Item = Role>) -> Substitute {
        Substitute { roles: roles.into_iter().collect(), ..self }
    }

    pub(super) fn add(&self, net: &mut Network, name: &str, scope: u32) -> NodeId {
        match &self.program {
            Some(p) => net.add_program(name, p, scope),
            None => net.add(name, self.body.clone()),
        }
    }
}

/// What stands for an engine node with so many connected inputs and outputs. `generated`: the bytes of the packets that
/// it generates, if they are always the same.
pub(super) fn of_node(
    e: &ElementDecl,
    model: Option<Model>,
    (inputs, outputs): (u32, u32),
    generated: Option<Vec<u8>>,
) -> Substitute {
    let pass = |lossy| Substitute::of(Body::Pass { lossy });
    let named = |position, keyword| Some(argument(&e.args, position, keyword)).filter(|n| !n.is_empty());
    let device = || named(0, "DEVNAME");
    let file = || named(0, "FILENAME");
    let netfront = || Some("netfront0".to_owned());
    match e.class.as_str() {
        "FromDevice" | "PollDevice" => {
            pass(false).with([Role::Entry(device(), Framing::Ethernet, &entry::DEVICE)])
        }
        "FromHost" => pass(false).with([Role::Entry(device(), Framing::Ethernet, &entry::TAP)]),
        "ToDevice" | "ToHost" => pass(true).with([Role::Exit(device(), Framing::Ethernet)]),
        "FromNetfront" => {
            pass(false).with([Role::Entry(device().or_else(netfront), Framing::Ip, &entry::TUN)])
        }
        "ToNetfront" => pass(true).with([Role::Exit(device().or_else(netfront), Framing::Ip)]),
        "FromLink" => pass(false).with([Role::Entry(named(0, "NAME"), Framing::Ethernet, &entry::LINK)]),
        "ToLink" => pass(false).with([Role::Exit(named(0, "NAME"), Framing::Ethernet)]),
        "KernelTap" => {
            let name = named(usize::MAX, "DEVNAME");
            both(Framing::Ethernet, &entry::TAP, name.as_ref(), (inputs, outputs))
        }
        "KernelTun" => {
            both(Framing::Ip, &entry::TUN, named(usize::MAX, "DEVNAME").as_ref(), (inputs, outputs))
        }
        "TunnelSocket" | "WireGuardSocket" => both(Framing::Ip, &entry::TUNNEL, None, (inputs, outputs)),
        "Socket" | "McastSocket" => both(Framing::Ethernet, &entry::SOCKET, None, (inputs, outputs)),
        "ICMPPingSource" => {
            let origin = Role::Origin(Framing::Ip, &entry::IP_SOURCE, None);
            Substitute { splits: true, ..pass(false) }.with([origin])
        }
        "FromDump" => {
            let ip = argument(&e.args, usize::MAX, "FORCE_IP");
            let framing =
                if ip.eq_ignore_ascii_case("true") || ip == "1" { Framing::Ip } else { Framing::Ethernet };
            let entry = if framing == Framing::Ip { &entry::IP_OF_FILE } else { &entry::FRAMES_OF_FILE };
            pass(false).with([Role::Entry(file(), framing, entry)])
        }
        "FromIPSummaryDump" => pass(false).with([Role::Origin(Framing::Ip, &entry::IP_SOURCE, None)]),
        "FastUDPSource" => pass(false).with([Role::Origin(Framing::Ethernet, &entry::SOURCE, None)]),
        "ToDump" | "ToIPSummaryDump" if outputs == 0 => {
            pass(false).with([Role::Exit(file(), Framing::Ethernet)])
        }
        "PullSwitch" | "SimplePullSwitch" | "StaticPullSwitch" => {
            Substitute::program(chosen(&e.name, inputs, argument(&e.args, 0, "INPUT").parse().ok()))
        }
        "TimeFilter" if outputs < 2 => Substitute::program(may_drop(&e.name)),
        "FinishOffloads" => Substitute { unknown: Some(1), ..Substitute::program(finished(&e.name)) },
        // They change annotations, wait for other packets, or run code of their own.
        "AggregateIPFlows" | "IPReassembler" => Substitute::of(Body::Opaque),
        class => match model {
            Some(Model::Source) if inputs == 0 => {
                pass(false).with([Role::Origin(Framing::Ethernet, &entry::SOURCE, generated)])
            }
            Some(Model::Delay) if outputs > 1 && (QUEUES.contains(&class) || class == "RED") => {
                Substitute::program(either(&e.name, outputs))
            }
            // Which output it is depends on what this does not know.
            Some(Model::Delay) if outputs > 1 || inputs > 1 => Substitute::of(Body::Opaque),
            Some(Model::Delay) => pass(QUEUES.contains(&class) || ["RED", "TimedUnqueue"].contains(&class)),
            Some(Model::Choose) => pass(false),
            Some(Model::Sink) => Substitute::of(Body::Sink),
            Some(Model::Source) | None => Substitute::of(Body::Opaque),
        },
    }
}

/// A node that takes packets from outside and gives packets to the outside.
fn both(
    framing: Framing,
    entry: &'static Entry,
    name: Option<&String>,
    (inputs, outputs): (u32, u32),
) -> Substitute {
    let exit = (inputs > 0).then(|| Role::Exit(name.cloned(), framing));
    let entry = (outputs > 0).then(|| Role::Entry(name.cloned(), framing, entry));
    Substitute { splits: true, ..Substitute::of(Body::Pass { lossy: true }) }
        .with(exit.into_iter().chain(entry))
}

/// The value of a parameter, by keyword or at its position; empty if it is not given.
pub(crate) fn argument(args: &[String], position: usize, keyword: &str) -> String {
    let by_word = |arg: &String| match weir_click::first_word(arg) {
        Some((word, rest)) if word == keyword => Some(rest.to_owned()),
        _ => None,
    };
    let text = args.iter().find_map(by_word).or_else(|| args.get(position).cloned()).unwrap_or_default();
    String::from_utf8_lossy(&weir_click::unquote(text.trim())).into_owned()
}

/// Packets leave by any of `n` outputs: who pulls first, or whether there was space, is for the host to say.
pub(crate) fn either(name: &str, n: u32) -> Program {
    let mut b = Builder::new(name, 1, n);
    b.input(0, |b| {
        let random = b.random();
        let cases: Vec<u128> = (1..n).map(u128::from).collect();
        b.switch(random, &cases, |b, case| b.emit(case.map_or(0, |i| i as u32 + 1)));
    });
    b.finish()
}

/// Packets of one input pass; those of others stay where they are.
fn chosen(name: &str, inputs: u32, input: Option<u32>) -> Program {
    let mut b = Builder::new(name, inputs, 1);
    for i in 0..inputs {
        b.input(i, |b| if Some(i) == input { b.emit(0) } else { b.drop(Reason::new("NeverPulled")) });
    }
    b.finish()
}

/// Packets pass or are dropped, as their times are.
fn may_drop(name: &str) -> Program {
    let mut b = Builder::new(name, 1, 1);
    b.input(0, |b| {
        let random = b.random();
        let late = b.eq(random, 0);
        b.when(late, |b| b.drop(Reason::new("OutOfTimeRange")));
        b.emit(0);
    });
    b.finish()
}

/// Packets that a kernel left nothing to do for pass unchanged by output 0.
fn finished(name: &str) -> Program {
    let mut b = Builder::new(name, 1, 2);
    b.input(0, |b| {
        let checksum = b.load_meta(MetaField::Checksum);
        let partial = b.eq(checksum, Checksum::Partial as u8);
        b.when(partial, |b| b.emit(1));
        let segment = b.load_meta(MetaField::SegmentSize);
        let large = b.ne(segment, 0);
        b.when(large, |b| b.emit(1));
        b.emit(0);
    });
    b.finish()
}
