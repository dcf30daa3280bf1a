//! Matches of rules.

use std::iter::Peekable;

use weir_filter::text::quote;
use weir_filter::{Cmp, Dir, Expr, Field, Layer, Ports, Prim};
use weir_model::doc::did_you_mean;
use weir_net::EtherAddr;

use super::read::{Mistake, missing};
use super::value::{address, address_range, flags, icmp, port_range, protocol, tcp_flags};
use super::{ConnState, InterfaceMatch};

/// Most ports or ranges after `--dports`.
const MAX_PORTS: usize = 256;
/// Modules of matches that are read; their options are known below.
const MODULES: &[&str] = &[
    "tcp",
    "udp",
    "udplite",
    "sctp",
    "dccp",
    "icmp",
    "icmp6",
    "icmpv6",
    "conntrack",
    "state",
    "multiport",
    "comment",
    "iprange",
    "mac",
    "addrtype",
];

/// The matches of a rule, as read so far.
#[derive(Debug, Default)]
pub(super) struct Matches {
    pub in_interface: Option<InterfaceMatch>,
    pub out_interface: Option<InterfaceMatch>,
    pub states: Option<Vec<ConnState>>,
    /// What is not modelled.
    pub unknown: Vec<String>,
    arms: Vec<Expr>,
    /// The protocol of `-p`, unless negated: ports and flags are of it.
    proto: Option<u8>,
    /// `!` stood before the option that comes.
    negated: bool,
}

/// Whether a word begins an option.
pub(super) fn is_option(word: &str) -> bool {
    word == "!"
        || (word.starts_with('-') && word.len() > 1 && !word[1..].starts_with(|c: char| c.is_ascii_digit()))
}

impl Matches {
    /// All but interfaces and states, as one filter.
    pub(super) fn filter(self) -> Result<Expr, Mistake> {
        if self.negated {
            return Err(("\"!\" stands before nothing".into(), "it stands before an option".into()));
        }
        Ok(Expr::and(self.arms))
    }

    /// Reads an option and its values.
    pub(super) fn option<'a>(
        &mut self,
        word: &str,
        words: &mut Peekable<impl Iterator<Item = &'a str>>,
    ) -> Result<(), Mistake> {
        if word == "!" {
            self.negated = !self.negated;
            return Ok(());
        }
        if let "-f" | "--fragment" = word {
            // Second and further fragments: the offset is not zero.
            let field = Field { layer: Layer::Ip, offset: 6, width: 2, mask: 0x1fff, cmp: Cmp::Ne, value: 0 };
            self.arm(Prim::Field(field).into());
            return Ok(());
        }
        if word == "--syn" {
            self.arm_of_header(tcp_flags(0x17, 0x02), Layer::Proto(6));
            return Ok(());
        }
        let mut value = || -> Result<&'a str, Mistake> {
            // Older versions put `!` behind the option.
            if words.next_if_eq(&"!").is_some() {
                self.negated = !self.negated;
            }
            words.next_if(|w| !is_option(w)).ok_or_else(|| missing(word))
        };
        match word {
            "-s" | "--source" | "--src" => {
                let arm = address(value()?, Dir::Src)?;
                self.arm(arm);
            }
            "-d" | "--destination" | "--dst" => {
                let arm = address(value()?, Dir::Dst)?;
                self.arm(arm);
            }
            "--src-range" => {
                let arm = address_range(value()?, Dir::Src)?;
                self.arm(arm);
            }
            "--dst-range" => {
                let arm = address_range(value()?, Dir::Dst)?;
                self.arm(arm);
            }
            "-p" | "--protocol" | "--proto" => {
                let proto = protocol(value()?)?;
                self.proto = proto.filter(|_| !self.negated);
                self.arm(proto.map_or(Expr::True, |p| Prim::Proto { number: p, version: None }.into()));
            }
            "-i" | "--in-interface" => {
                self.in_interface = Some(interface(value()?, std::mem::take(&mut self.negated)));
            }
            "-o" | "--out-interface" => {
                self.out_interface = Some(interface(value()?, std::mem::take(&mut self.negated)));
            }
            "-m" | "--match" => {
                let module = value()?;
                if !MODULES.contains(&module) {
                    self.unknown.push(format!("the match {}", quote(module)));
                }
            }
            "--sport" | "--source-port" | "--dport" | "--destination-port" => {
                let dir = if word.starts_with("--s") { Dir::Src } else { Dir::Dst };
                let (lo, hi) = port_range(value()?, ':')?;
                let proto = self.port_protocol(word)?;
                self.arm_of_header(
                    Prim::Port { dir, lo, hi, proto: Ports::Of(proto) }.into(),
                    Layer::Proto(proto),
                );
            }
            "--sports" | "--source-ports" | "--dports" | "--destination-ports" | "--ports" => {
                let dir = match word.get(..3) {
                    Some("--s") => Dir::Src,
                    Some("--d") => Dir::Dst,
                    _ => Dir::SrcOrDst,
                };
                let text = value()?;
                let proto = self.port_protocol(word)?;
                let ranges: Vec<_> = text
                    .split(',')
                    .take(MAX_PORTS + 1)
                    .map(|p| port_range(p, ':'))
                    .collect::<Result<_, _>>()?;
                if ranges.len() > MAX_PORTS {
                    return Err((
                        format!("more than {MAX_PORTS} ports"),
                        format!("at most {MAX_PORTS} are read"),
                    ));
                }
                let ports = ranges
                    .into_iter()
                    .map(|(lo, hi)| Prim::Port { dir, lo, hi, proto: Ports::Of(proto) }.into());
                self.arm_of_header(Expr::or(ports), Layer::Proto(proto));
            }
            "--tcp-flags" => {
                let mask = flags(value()?)?;
                let set = flags(words.next().ok_or_else(|| missing(word))?)?;
                self.arm_of_header(tcp_flags(mask, set & mask), Layer::Proto(6));
                if set & !mask != 0 {
                    return Err((
                        "flags are to be set that are not looked at".into(),
                        "--tcp-flags MASK SET: the mask holds the set".into(),
                    ));
                }
            }
            "--icmp-type" | "--icmpv6-type" => {
                let layer = Layer::Proto(if word == "--icmp-type" { 1 } else { 58 });
                let arm = icmp(value()?, layer)?;
                self.arm_of_header(arm, layer);
            }
            "--ctstate" | "--state" => {
                let text = value()?;
                self.states(text)?;
            }
            "--comment" => {
                value()?;
            }
            "--mac-source" => {
                let text = value()?;
                let addr: EtherAddr = text.parse().map_err(|e| {
                    let e = weir_model::ValueError::from(e);
                    (e.message, e.help)
                })?;
                // Nothing is known of the Ethernet addresses that packets come with.
                self.unknown.push(format!("the Ethernet source {addr}"));
                self.negated = false;
            }
            _ if word.starts_with('-') => {
                self.unknown.push(format!("the option {word}"));
                self.negated = false;
                while words.next_if(|w| !is_option(w)).is_some() {}
            }
            _ => return Err((format!("{} is not an option", quote(word)), "options begin with -".into())),
        }
        Ok(())
    }

    fn arm(&mut self, arm: Expr) {
        let arm = if std::mem::take(&mut self.negated) { arm.not() } else { arm };
        self.arms.push(arm);
    }

    /// A match on the transport header: without one, as in all but first fragments, its negation does not fit either.
    fn arm_of_header(&mut self, arm: Expr, layer: Layer) {
        if self.negated {
            let there = Field { layer, offset: 0, width: 1, mask: 0xff, cmp: Cmp::Ge, value: 0 };
            self.arms.push(Prim::Field(there).into());
        }
        self.arm(arm);
    }

    /// The protocol that ports are of: the rule's, which must have ports.
    fn port_protocol(&self, option: &str) -> Result<u8, Mistake> {
        match self.proto {
            Some(p @ (6 | 17 | 33 | 132 | 136)) => Ok(p),
            _ => Err((
                format!("{option} without a protocol that has ports"),
                "write -p tcp or -p udp before it".into(),
            )),
        }
    }

    fn states(&mut self, text: &str) -> Result<(), Mistake> {
        let mut states = Vec::new();
        for word in text.split(',') {
            states.push(match word {
                "NEW" => ConnState::New,
                "ESTABLISHED" => ConnState::Established,
                "RELATED" => ConnState::Related,
                "INVALID" => ConnState::Invalid,
                "UNTRACKED" => ConnState::Untracked,
                "SNAT" | "DNAT" => {
                    // Not states of their own: whether addresses of the connection are translated.
                    self.unknown.push(format!("the state {word}"));
                    self.negated = false;
                    return Ok(());
                }
                _ => {
                    let known = ["NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED"];
                    return Err((format!("{} is not a state", quote(word)), did_you_mean(word, &known)));
                }
            });
        }
        if std::mem::take(&mut self.negated) {
            states = ConnState::ALL.into_iter().filter(|s| !states.contains(s)).collect();
        }
        states.sort_unstable();
        states.dedup();
        let before = self.states.take();
        self.states = Some(match before {
            Some(before) => states.into_iter().filter(|s| before.contains(s)).collect(),
            None => states,
        });
        Ok(())
    }
}

fn interface(text: &str, negated: bool) -> InterfaceMatch {
    match text.strip_suffix('+') {
        Some(name) => InterfaceMatch { name: name.into(), is_prefix: true, negated },
        None => InterfaceMatch { name: text.into(), is_prefix: false, negated },
    }
}
