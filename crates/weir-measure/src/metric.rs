//! What is measured.

use std::collections::BTreeMap;

use crate::error::{Mistake, did_you_mean, quote};
use crate::units;
use crate::{DEFAULT_EVERY, EVERY, EVERY_FIGURES, EVERY_RISK};

/// Which packets are counted, seen from what is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Those that it receives.
    Rx,
    /// Those that it sends.
    Tx,
}

/// The subject of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// All ports of a function.
    Function(String),
    /// A port of a function.
    Port(String, String),
    /// An access point of the graph: what comes in is received.
    Sap(String),
}

/// The quantity that is measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Processor time of a function, as a share of a processor.
    Cpu(String),
    /// Memory of a function, as a share of what the node has for functions.
    Memory(String),
    /// The number that a handler of a function says.
    Handler(String, String),
    /// Bits in a second.
    Rate(Direction, Of),
    /// Packets in a second.
    Packets(Direction, Of),
    /// The probability that a rate exceeds a capacity, in bits in a second.
    OverloadRisk(Direction, Of, u64),
}

impl Metric {
    /// What it is measured of.
    pub fn of(&self) -> Of {
        match self {
            Metric::Cpu(function) | Metric::Memory(function) | Metric::Handler(function, _) => {
                Of::Function(function.clone())
            }
            Metric::Rate(_, of) | Metric::Packets(_, of) | Metric::OverloadRisk(_, of, _) => of.clone(),
        }
    }
}

const NAMES: &[&str] = &[
    "cpu",
    "mem",
    "handler",
    "rate.rx",
    "rate.tx",
    "packets.rx",
    "packets.tx",
    "overload.risk.rx",
    "overload.risk.tx",
    "overload_risk",
];

/// Takes parameters by name, and knows which were not taken.
struct Parameters<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Parameters<'a> {
    fn take(&mut self, name: &str) -> Option<&'a str> {
        self.0.remove(name)
    }

    fn need(&mut self, name: &str, what: &str) -> Result<&'a str, Mistake> {
        let missing =
            || Mistake::new(format!("the parameter {name:?} is missing"), format!("add {name} = {what}"));
        self.take(name).ok_or_else(missing)
    }

    /// `function`, or `vnf` as in the paper's project.
    fn function(&mut self) -> Option<&'a str> {
        self.take("function").or_else(|| self.take("vnf"))
    }

    fn needed_function(&mut self) -> Result<String, Mistake> {
        match self.function() {
            Some(function) => Ok(function.to_owned()),
            None => self.need("function", "a function of the graph").map(str::to_owned),
        }
    }

    /// What ports are meant by `function`, `function` and `port`, `sap`, or `interface`.
    fn of(&mut self) -> Result<Of, Mistake> {
        let interface = self.take("interface");
        let (function, port, sap) = (self.function(), self.take("port"), self.take("sap"));
        let whole = |of: &str| match of.split_once(':') {
            Some(("sap" | "service-access-point", sap)) => Ok(Of::Sap(sap.to_owned())),
            Some(("sf", rest)) if rest.contains(':') => {
                let (function, port) = rest.split_once(':').unwrap_or((rest, ""));
                Ok(Of::Port(function.to_owned(), port.to_owned()))
            }
            Some((function, port)) => Ok(Of::Port(function.to_owned(), port.to_owned())),
            None => {
                let help = "write interface = sap:ID, or interface = FUNCTION:PORT";
                Err(Mistake::new(format!("{} is no interface of the graph", quote(of)), help))
            }
        };
        match (interface, function, port, sap) {
            (Some(of), None, None, None) => whole(of),
            (None, Some(function), None, None) => Ok(Of::Function(function.to_owned())),
            (None, Some(function), Some(port), None) => Ok(Of::Port(function.to_owned(), port.to_owned())),
            (None, None, None, Some(sap)) => Ok(Of::Sap(sap.to_owned())),
            _ => Err(Mistake::new(
                "it is not clear what is measured",
                "give function, or function and port, or sap, or interface",
            )),
        }
    }
}

/// A metric of a name and parameters, and how often it is sampled.
pub(crate) fn read(name: &str, parameters: &[(String, String)]) -> Result<(Metric, u64), Vec<Mistake>> {
    if !NAMES.contains(&name) {
        return Err(vec![Mistake::new(
            format!("{} is not measured", quote(name)),
            did_you_mean(name, NAMES),
        )]);
    }
    let mut mistakes = Vec::new();
    let mut by_name = Parameters(BTreeMap::new());
    for (name, value) in parameters {
        if value.contains(['"', '\\', '\n', '\r']) {
            let message = format!("the parameter {} has a quote, a backslash or several lines", quote(name));
            mistakes.push(Mistake::new(message, "leave them out"));
        }
        if by_name.0.insert(name, value).is_some() {
            mistakes.push(Mistake::new(format!("the parameter {} is given twice", quote(name)), "keep one"));
        }
    }
    let every = by_name.take("every").map_or(Ok(DEFAULT_EVERY), units::time).and_then(|every| {
        let (mut least, most) = EVERY;
        if matches!(name, "cpu" | "mem") {
            least = EVERY_FIGURES;
        } else if name.starts_with("overload") {
            least = EVERY_RISK;
        }
        let help = format!("it is \"{least} ms\" to \"{}\"", units::show_time(most));
        let wrong = || Mistake::new(format!("every {} is out of range", units::show_time(every)), help);
        (least..=most).contains(&every).then_some(every).ok_or_else(wrong)
    });
    let direction = if name.ends_with(".tx") { Direction::Tx } else { Direction::Rx };
    let p = &mut by_name;
    let metric = match name {
        "cpu" => p.needed_function().map(Metric::Cpu),
        "mem" => p.needed_function().map(Metric::Memory),
        "handler" => p
            .needed_function()
            .and_then(|f| Ok(Metric::Handler(f, p.need("name", "a handler that can be read")?.to_owned()))),
        "rate.rx" | "rate.tx" => p.of().map(|of| Metric::Rate(direction, of)),
        "packets.rx" | "packets.tx" => p.of().map(|of| Metric::Packets(direction, of)),
        _ => {
            let capacity = p.need("capacity", "\"10 Mbit/s\", or what it has").and_then(units::rate);
            let of = p.of();
            match (of, capacity) {
                (Ok(of), Ok(capacity)) => Ok(Metric::OverloadRisk(direction, of, capacity)),
                (Err(e), Err(other)) => {
                    mistakes.push(other);
                    Err(e)
                }
                (Err(e), _) | (_, Err(e)) => Err(e),
            }
        }
    };
    for name in by_name.0.keys() {
        let known = ["function", "port", "sap", "interface", "name", "capacity", "every"];
        let message = format!("the parameter {} has no meaning here", quote(name));
        mistakes.push(Mistake::new(message, did_you_mean(name, &known)));
    }
    match (metric, every) {
        (Ok(metric), Ok(every)) if mistakes.is_empty() => Ok((metric, every)),
        (metric, every) => {
            mistakes.extend(metric.err());
            mistakes.extend(every.err());
            Err(mistakes)
        }
    }
}
