//! Three network namespaces in a row.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use weir_io::Netns;
use weir_net::EtherAddr;

use crate::references::process::{need_root, program, run};

/// Address of the interface that packets are for.
pub const SINK: EtherAddr = EtherAddr([2, 0, 0, 0, 2, 2]);

/// The namespaces, which go away with this: `lan` and `wan` are in the middle, and lead to `eth0` of the sender and of the
/// sink.
pub struct Lab {
    number: u32,
}

impl Lab {
    /// Makes them. Nobody forwards yet.
    pub fn new() -> Result<Lab> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        program("ip", "iproute2")?;
        need_root()?;
        let lab = Lab { number: NEXT.fetch_add(1, Ordering::Relaxed) };
        for place in PLACES {
            run(Command::new("ip").args(["netns", "add", &lab.name(place)]), "")?;
            // IPv6 would send packets of its own.
            lab.exec(
                place,
                "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
            )?;
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
        format!("weirbench-{}-{}-{place}", std::process::id(), self.number)
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

const PLACES: [&str; 3] = ["sender", "middle", "sink"];

impl Drop for Lab {
    fn drop(&mut self) {
        for place in PLACES {
            _ = run(Command::new("ip").args(["netns", "del", &self.name(place)]), "");
        }
    }
}
