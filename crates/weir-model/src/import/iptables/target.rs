//! Targets of rules and their options.

use std::iter::Peekable;
use std::net::IpAddr;

use super::matches::is_option;
use super::read::{Mistake, missing};
use super::value::port_range;
use super::{NatRange, Target};
use crate::error::quote;

/// Reads the target `name` with its options; `chain` is the chain of that name, if there is one.
pub(super) fn target<'a>(
    name: &str,
    chain: Option<usize>,
    goto: bool,
    table: &str,
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Target, Mistake> {
    if let Some(chain) = chain {
        return Ok(if goto { Target::Goto(chain) } else { Target::Jump(chain) });
    }
    if goto {
        return Err((
            format!("there is no chain {}", quote(name)),
            "-g leads to a chain of the table".into(),
        ));
    }
    let nat = |target: Target| match table {
        "nat" => Ok(target),
        _ => {
            Err((format!("{name} stands in the table {table}"), "it belongs into the table nat".to_string()))
        }
    };
    match name {
        "ACCEPT" => Ok(Target::Accept),
        "DROP" => Ok(Target::Drop),
        "RETURN" => Ok(Target::Return),
        "LOG" | "NFLOG" | "ULOG" => {
            while words
                .next_if(|w| w.starts_with("--log-") || w.starts_with("--nflog-") || w.starts_with("--ulog-"))
                .is_some()
            {
                words.next_if(|w| !is_option(w));
            }
            Ok(Target::Continue)
        }
        "REJECT" => {
            let mut with = "icmp-port-unreachable".to_string();
            while let Some(option) = words.next_if_eq(&"--reject-with") {
                with = words.next().ok_or_else(|| missing(option))?.to_string();
            }
            Ok(Target::Reject(with))
        }
        "SNAT" => nat(Target::Snat(range(words, "--to-source")?)),
        "DNAT" => nat(Target::Dnat(range(words, "--to-destination")?)),
        "MASQUERADE" => nat(Target::Masquerade(ports(words)?)),
        "REDIRECT" => nat(Target::Redirect(ports(words)?)),
        _ => {
            let help = "known here: ACCEPT, DROP, REJECT, RETURN, LOG, SNAT, DNAT, MASQUERADE, REDIRECT and chains of the table";
            Err((format!("the target {} is not modelled", quote(name)), help.into()))
        }
    }
}

/// Options that say how a port is chosen, not which.
fn choice(word: &str) -> bool {
    matches!(word, "--random" | "--random-fully" | "--persistent")
}

/// `--to-source 192.0.2.1-192.0.2.9:1024-65535`.
fn range<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>, option: &str) -> Result<NatRange, Mistake> {
    let mut range = None;
    loop {
        if words.next_if(|w| choice(w)).is_some() {
            continue;
        }
        if words.next_if_eq(&option).is_none() {
            return range.ok_or_else(|| {
                (format!("{option} is missing"), format!("write, for example, \"{option} 192.0.2.1\""))
            });
        }
        let text = words.next().ok_or_else(|| missing(option))?;
        if range.is_some() {
            return Err((format!("{option} is given twice"), "write one range of addresses".into()));
        }
        let bad = || {
            (
                format!("{} is not a range of addresses", quote(text)),
                "write, for example, 192.0.2.1-192.0.2.9:1024-65535".to_string(),
            )
        };
        range = Some(nat_range(text).ok_or_else(bad)?);
    }
}

fn nat_range(text: &str) -> Option<NatRange> {
    // `[2001:db8::1]:80`, `192.0.2.1:80`, `2001:db8::1`, `:80`.
    let (addrs, ports) = match text.strip_prefix('[') {
        Some(rest) => {
            let (addrs, ports) = rest.split_once(']')?;
            (addrs, ports.strip_prefix(':'))
        }
        None if text.bytes().filter(|b| *b == b':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(a, p)| (a, Some(p))),
    };
    let addresses = match addrs.split_once('-') {
        _ if addrs.is_empty() => None,
        None => Some((addrs.parse().ok()?, addrs.parse().ok()?)),
        Some((lo, hi)) => {
            let (lo, hi): (IpAddr, IpAddr) = (lo.parse().ok()?, hi.trim_start_matches('[').parse().ok()?);
            (lo <= hi && lo.is_ipv4() == hi.is_ipv4()).then_some(Some((lo, hi)))?
        }
    };
    let ports = ports.map(|p| port_range(p, '-')).transpose().ok()?;
    Some(NatRange { addresses, ports })
}

/// `--to-ports 1024-65535`.
fn ports<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> Result<Option<(u16, u16)>, Mistake> {
    let mut ports = None;
    loop {
        if words.next_if(|w| choice(w)).is_some() {
            continue;
        }
        let Some(option) = words.next_if_eq(&"--to-ports") else { return Ok(ports) };
        ports = Some(port_range(words.next().ok_or_else(|| missing(option))?, '-')?);
    }
}
