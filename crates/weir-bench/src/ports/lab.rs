//! Three network namespaces in a row.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};
use weir_io::Netns;
use weir_net::EtherAddr;
use weir_testkit::Namespace;

use crate::references::process::{need_root, program, run};

/// Address of the interface that packets are for.
pub const SINK: EtherAddr = EtherAddr([2, 0, 0, 0, 2, 2]);

/// The namespaces, which go away with this: `lan` and `wan` are in the middle, and lead to `eth0` of the sender and of the
/// sink.
pub struct Lab {
    places: BTreeMap<&'static str, Namespace>,
}

impl Lab {
    /// Makes them. Nobody forwards yet.
    pub fn new() -> Result<Lab> {
        program("ip", "iproute2")?;
        need_root()?;
        let mut lab = Lab { places: BTreeMap::new() };
        for place in ["sender", "middle", "sink"] {
            lab.places.insert(place, Namespace::try_new(place)?);
        }
        for (inner, place) in [("lan", "sender"), ("wan", "sink")] {
            let other = lab.name(place);
            lab.ip("middle", &format!("link add {inner} type veth peer name eth0 netns {other}"))?;
            lab.ip("middle", &format!("link set {inner} up"))?;
            lab.ip(place, "link set eth0 up")?;
        }
        lab.ip("sink", &format!("link set eth0 address {SINK}"))?;
        Ok(lab)
    }

    /// The full name of a namespace, unique on the machine.
    pub fn name(&self, place: &str) -> String {
        self.places.get(place).map_or(String::new(), |n| n.name().to_owned())
    }

    /// A namespace, for ports.
    pub fn netns(&self, place: &str) -> Netns {
        Netns::Named(self.name(place))
    }

    /// Runs `ip` in a namespace.
    pub fn ip(&self, place: &str, arguments: &str) -> Result<String> {
        run(Command::new("ip").args(["-n", &self.name(place)]).args(arguments.split(' ')), "")
    }

    /// A command that is to run in a namespace.
    pub fn command(&self, place: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(place), program]);
        command
    }

    /// Runs a command in a namespace.
    pub fn exec(&self, place: &str, line: &str) -> Result<String> {
        let (program, arguments) = line.split_once(' ').unwrap_or((line, ""));
        run(self.command(place, program).args(arguments.split(' ')), "")
    }

    /// Packets that have come to the sink.
    pub fn received(&self) -> Result<u64> {
        let text = self.ip("sink", "-j -s link show eth0")?;
        let json: serde_json::Value = serde_json::from_str(&text)?;
        json[0]["stats64"]["rx"]["packets"].as_u64().context("ip shows no received packets")
    }
}
