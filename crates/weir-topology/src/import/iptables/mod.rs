//! `iptables-save`, `ip6tables-save` and `iptables -S`: the tables filter and nat.

mod matches;
mod read;
mod target;
mod value;

use std::net::IpAddr;

use super::Note;
use weir_filter::Expr;
use weir_model::DocErrors;

/// The rules of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// Where the rules stand, for messages; empty if that is not known.
    pub file: String,
    /// The table `filter`.
    pub filter: Option<Table>,
    /// The table `nat`.
    pub nat: Option<Table>,
    /// Lines of rules of other tables (raw, mangle, security), which may do anything.
    pub other_tables: Vec<usize>,
    /// Rules of other tables, parts of rules that are not modelled, and what was taken for what is not said. What the rules let pass is
    /// known for certain only where no rule with [`Rule::unknown`] decides and no other table interferes.
    pub not_modelled: Vec<Note>,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The chains in the order of the text. Jumps lead to chains of the table, never in a circle.
    pub chains: Vec<Chain>,
}

/// A chain of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Its name, such as `FORWARD`.
    pub name: String,
    /// What becomes of packets that no rule decides on: true accepts, false drops. `None` for a user's chain, which returns.
    pub accepts: Option<bool>,
    /// The rules in their order.
    pub rules: Vec<Rule>,
}

/// A rule: what all of its matches fit takes its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Addresses, protocol, ports, ICMP types, flags: as a filter over the IP packet.
    pub filter: Expr,
    /// The interface that the packet came in by.
    pub in_interface: Option<InterfaceMatch>,
    /// The interface that it leaves by.
    pub out_interface: Option<InterfaceMatch>,
    /// States of the packet's connection, of which one fits; `None` for any.
    pub states: Option<Vec<ConnState>>,
    /// What of it is not modelled, such as `the match "limit"`: packets that fit the rest may or may not fit, or what happens to those
    /// that do is not known.
    pub unknown: Vec<String>,
    /// What happens.
    pub target: Target,
    /// The line of the text, from 1.
    pub line: usize,
    /// The rule as written.
    pub text: String,
}

/// `-i eth0`, `! -o ppp+`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceMatch {
    /// The name, or how it begins.
    pub name: String,
    /// Names that begin so (`ppp+`).
    pub is_prefix: bool,
    /// All others.
    pub negated: bool,
}

impl InterfaceMatch {
    /// Whether an interface of this name fits.
    pub fn fits(&self, name: &str) -> bool {
        let same = if self.is_prefix { name.starts_with(&self.name) } else { name == self.name };
        same != self.negated
    }
}

/// The state of a packet's connection (conntrack); a packet has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnState {
    /// The packet begins a connection, or is of one that was seen in one direction only.
    New,
    /// The connection was seen in both directions.
    Established,
    /// The packet begins a connection that belongs to another, or is an ICMP error about one.
    Related,
    /// The packet fits no connection.
    Invalid,
    /// The packet was excluded from tracking.
    Untracked,
}

impl ConnState {
    /// All states.
    pub const ALL: [ConnState; 5] = [
        ConnState::New,
        ConnState::Established,
        ConnState::Related,
        ConnState::Invalid,
        ConnState::Untracked,
    ];
}

/// The target of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The packet passes.
    Accept,
    /// It is dropped.
    Drop,
    /// It is dropped, and its sender notified, for example by `icmp-port-unreachable` or `tcp-reset`.
    Reject(String),
    /// The chain ends; the caller goes on behind its jump.
    Return,
    /// Nothing happens to the packet that another modelled rule sees (`LOG`, `MARK`, or no target): the next rule is next.
    Continue,
    /// The largest segment that the sender of a SYN takes becomes smaller (`TCPMSS`): the next rule is next.
    ClampMss,
    /// It is not modelled: [`Rule::unknown`] says so.
    Unknown,
    /// The chain of this number in [`Table::chains`] is next; what it returns goes on behind this rule.
    Jump(usize),
    /// As `Jump`, but what it returns goes on where this chain would return.
    Goto(usize),
    /// The source becomes one of these (table nat).
    Snat(NatRange),
    /// The source becomes the address of the interface that the packet leaves by, with one of these ports.
    Masquerade(Option<(u16, u16)>),
    /// The destination becomes one of these.
    Dnat(NatRange),
    /// The destination becomes this machine, with one of these ports.
    Redirect(Option<(u16, u16)>),
}

/// Addresses and ports for a translation; `None` keeps what the packet has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NatRange {
    /// First and last address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port.
    pub ports: Option<(u16, u16)>,
}

impl Table {
    /// The chain with this name.
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|c| c.name == name)
    }
}

/// Reads what `iptables-save` or `ip6tables-save` prints (with or without `-c`), or what `iptables -S` prints of the table filter or nat.
/// A match or target that is not modelled makes its rule [`unknown`](Rule::unknown) and is noted.
pub fn iptables_save(text: &str) -> Result<Ruleset, DocErrors> {
    read::ruleset(text)
}
