//! Targets of rules and their options.

use std::iter::Peekable;
use std::net::IpAddr;

use weir_filter::text::quote;

use super::matches::is_option;
use super::read::{Mistake, missing};
use super::value::port_range;
use super::{NatRange, Target};

/// Targets that do nothing to the packet, or only what matches that are not modelled ask for (marks); how their options begin.
const CONTINUE: &[(&str, &[&str])] = &[
    ("LOG", &["--log-"]),
    ("NFLOG", &["--nflog-"]),
    ("ULOG", &["--ulog-"]),
    ("AUDIT", &["--type"]),
    ("TRACE", &[]),
    ("MARK", &["--set-mark", "--set-xmark", "--and-mark", "--or-mark", "--xor-mark"]),
    (
        "CONNMARK",
        &[
            "--set-mark",
            "--set-xmark",
            "--and-mark",
            "--or-mark",
            "--xor-mark",
            "--save-mark",
            "--restore-mark",
            "--mask",
            "--nfmask",
            "--ctmask",
            "--left-shift-mark",
            "--right-shift-mark",
        ],
    ),
    ("SECMARK", &["--selctx"]),
    ("CONNSECMARK", &["--save", "--restore"]),
];

/// Reads the target `name` with its options; `chain` is the chain of that name, if there is one. One that is not known is
/// [`Target::Unknown`].
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
        "TCPMSS" => {
            options(words, &["--set-mss", "--clamp-mss-to-pmtu"]);
            Ok(Target::ClampMss)
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
            if let Some((_, prefixes)) = CONTINUE.iter().find(|(target, _)| *target == name) {
                options(words, prefixes);
                return Ok(Target::Continue);
            }
            // What belongs to it ends where a match begins that every rule may have.
            let of_all = ["-p", "-s", "-d", "-i", "-o", "-m", "-f", "!"];
            while words.next_if(|w| !of_all.contains(w)).is_some() {}
            Ok(Target::Unknown)
        }
    }
}

/// Passes over options that begin so, with their values.
fn options<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>, prefixes: &[&str]) {
    while words.next_if(|w| prefixes.iter().any(|p| w.starts_with(p))).is_some() {
        while words.next_if(|w| !is_option(w)).is_some() {}
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
