//! Flow rules as `FlowTable` takes them: one line of text each.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use weir_elements::FromArg;
use weir_filter::Expr;
use weir_net::EtherAddr;

/// A flow rule: `PRIORITY in PORT [FILTER] => ACTION; ACTION …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRule {
    /// Higher wins; of equal priorities the first.
    pub priority: u16,
    /// The input that the packet comes by.
    pub input: u32,
    /// What the packet has to match, beside the input.
    pub filter: Expr,
    /// What is done with it, in this order.
    pub actions: Vec<Action>,
}

/// An action of a flow rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Removes the outermost VLAN tag.
    PopVlan,
    /// Adds a VLAN tag with this identifier.
    PushVlan(u16),
    /// Sets the identifier of the outermost VLAN tag; adds one if there is none.
    SetVlan(u16),
    /// Decrements the IPv4 time to live or IPv6 hop limit; drops packets whose time is over.
    DecTtl,
    /// Sets the Ethernet source.
    SetEtherSrc(EtherAddr),
    /// Sets the Ethernet destination.
    SetEtherDst(EtherAddr),
    /// Sets the IP source of packets of that family.
    SetIpSrc(IpAddr),
    /// Sets the IP destination of packets of that family.
    SetIpDst(IpAddr),
    /// Sets the IPv4 type of service or IPv6 traffic class.
    SetTos(u8),
    /// Sets the TCP or UDP source port.
    SetTpSrc(u16),
    /// Sets the TCP or UDP destination port.
    SetTpDst(u16),
    /// Sends the packet, as it is now, to an output.
    Output(u32),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::PopVlan => write!(f, "pop_vlan"),
            Action::PushVlan(id) => write!(f, "push_vlan {id}"),
            Action::SetVlan(id) => write!(f, "set_vlan {id}"),
            Action::DecTtl => write!(f, "dec_ttl"),
            Action::SetEtherSrc(a) => write!(f, "set_ether_src {a}"),
            Action::SetEtherDst(a) => write!(f, "set_ether_dst {a}"),
            Action::SetIpSrc(a) => write!(f, "set_ip_src {a}"),
            Action::SetIpDst(a) => write!(f, "set_ip_dst {a}"),
            Action::SetTos(v) => write!(f, "set_ip_tos {v}"),
            Action::SetTpSrc(p) => write!(f, "set_tp_src {p}"),
            Action::SetTpDst(p) => write!(f, "set_tp_dst {p}"),
            Action::Output(n) => write!(f, "output {n}"),
        }
    }
}

impl FromStr for Action {
    type Err = String;
    fn from_str(text: &str) -> Result<Action, String> {
        let (word, value) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let value = value.trim();
        fn read<T: FromStr>(value: &str, what: &str, action: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("'{action}' needs {what}, not '{value}'"))
        }
        let vlan = |value: &str| match read::<u16>(value, "a VLAN (1 to 4094)", word)? {
            id @ 1..=4094 => Ok(id),
            id => Err(format!("VLAN {id} does not exist: 1 to 4094")),
        };
        Ok(match word {
            "pop_vlan" => Action::PopVlan,
            "dec_ttl" => Action::DecTtl,
            "push_vlan" => Action::PushVlan(vlan(value)?),
            "set_vlan" => Action::SetVlan(vlan(value)?),
            "set_ether_src" => Action::SetEtherSrc(EtherAddr::from_arg(value)?),
            "set_ether_dst" => Action::SetEtherDst(EtherAddr::from_arg(value)?),
            "set_ip_src" => Action::SetIpSrc(read(value, "an IP address", word)?),
            "set_ip_dst" => Action::SetIpDst(read(value, "an IP address", word)?),
            "set_ip_tos" => Action::SetTos(read(value, "a number below 256", word)?),
            "set_tp_src" => Action::SetTpSrc(read(value, "a port", word)?),
            "set_tp_dst" => Action::SetTpDst(read(value, "a port", word)?),
            "output" => Action::Output(read(value, "an output", word)?),
            _ => {
                return Err(format!(
                    "'{word}' is not an action: pop_vlan, push_vlan, set_vlan, dec_ttl, set_ether_src, set_ether_dst, \
                     set_ip_src, set_ip_dst, set_ip_tos, set_tp_src, set_tp_dst, output or drop"
                ));
            }
        })
    }
}

impl fmt::Display for FlowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.priority, self.input)?;
        if self.filter != Expr::True {
            write!(f, " {}", self.filter)?;
        }
        write!(f, " => ")?;
        if self.actions.is_empty() {
            return write!(f, "drop");
        }
        for (i, a) in self.actions.iter().enumerate() {
            write!(f, "{}{a}", if i > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl FromArg for FlowRule {
    const SYNTAX: &'static str = "flow rule";
    fn from_arg(text: &str) -> Result<FlowRule, String> {
        let form = "a flow rule is PRIORITY in PORT [FILTER] => ACTION; ACTION …";
        let (head, actions) =
            text.split_once("=>").ok_or_else(|| format!("'{text}': '=>' is missing; {form}"))?;
        let mut words = head.trim().splitn(4, char::is_whitespace);
        let mut number = |what: &str| {
            let word = words.next().unwrap_or("");
            word.parse::<u32>().map_err(|_| format!("'{text}': '{word}' is not {what}; {form}"))
        };
        let priority = number("a priority")?;
        let priority =
            u16::try_from(priority).map_err(|_| format!("'{text}': priority {priority} is above 65535"))?;
        if words.next() != Some("in") {
            return Err(format!("'{text}': 'in' is missing; {form}"));
        }
        let input = words.next().unwrap_or("");
        let input = input.parse().map_err(|_| format!("'{text}': '{input}' is not an input; {form}"))?;
        let filter = match words.next().map(str::trim).filter(|f| !f.is_empty()) {
            Some(filter) => Expr::parse(filter).map_err(|e| format!("'{filter}': {e}"))?,
            None => Expr::True,
        };
        let actions = match actions.trim() {
            "drop" => Vec::new(),
            list => list
                .split(';')
                .map(str::parse)
                .collect::<Result<_, _>>()
                .map_err(|e| format!("'{text}': {e}"))?,
        };
        Ok(FlowRule { priority, input, filter, actions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in [
            "10 in 0 => output 1",
            "1 in 3 tcp and dst port 80 => dec_ttl; set_ip_dst 10.0.0.1; set_tp_dst 8080; output 2; output 0",
            "65535 in 0 vlan 25 => pop_vlan; set_ether_src 02:00:00:00:00:01; output 1",
            "5 in 0 => drop",
        ] {
            let rule = FlowRule::from_arg(text).unwrap();
            assert_eq!(FlowRule::from_arg(&rule.to_string()).unwrap(), rule, "{rule}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wanted) in [
            ("10 in 0 output 1", "'=>' is missing"),
            ("x in 0 => drop", "'x' is not a priority"),
            ("70000 in 0 => drop", "above 65535"),
            ("1 0 => drop", "'in' is missing"),
            ("1 in 0 tpc => drop", "column"),
            ("1 in 0 => putput 1", "not an action"),
            ("1 in 0 => push_vlan 5000", "1 to 4094"),
            ("1 in 0 => set_ip_src x", "an IP address"),
        ] {
            let error = FlowRule::from_arg(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
