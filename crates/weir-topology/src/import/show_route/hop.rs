//! Next hops of `show ip route`.

use std::net::IpAddr;

use weir_filter::text::quote;

use super::Mistake;
use crate::import::route::ImportedAction;

/// A next hop, as a line shows it.
pub(super) struct Hop {
    pub via: Option<IpAddr>,
    pub dev: Option<String>,
    pub used: Used,
    /// The VRF that the next hop is in, if it is not the table's.
    vrf: Option<String>,
}

/// The use of a next hop.
pub(super) enum Used {
    Forward,
    Action(ImportedAction),
    /// It is not in use: FRR lists the hops that it leads to below it.
    Not,
}

/// What follows a destination: `[110/2] via 10.0.0.2, eth0, weight 1, 00:10:00` and the like.
pub(super) fn hop(text: &str) -> Result<Hop, Mistake> {
    let text = behind_distance(text)?;
    let mut parts = text.split(',').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let mut words = first.split_whitespace();
    let mut hop = Hop { via: None, dev: None, used: Used::Forward, vrf: None };
    match words.next() {
        Some("via") => {
            let word = words.next().unwrap_or_default();
            match word.parse() {
                Ok(addr) => hop.via = Some(addr),
                // IPv6 in IOS: `via GigabitEthernet0/0, directly connected`.
                Err(_) if is_interface(word) => hop.dev = Some(word.to_string()),
                Err(_) => {
                    return Err((
                        format!("{} is not a next hop", quote(word)),
                        "it is an address such as 10.0.0.2".into(),
                    ));
                }
            }
        }
        Some("unreachable") => {
            let rest = first.split_once("unreachable").map_or("", |(_, rest)| rest.trim());
            let (why, rest) = match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
                Some((why, rest)) => (why, rest),
                None => ("ICMP unreachable", rest),
            };
            hop.used = Used::Action(match why {
                "blackhole" => ImportedAction::Blackhole,
                "ICMP unreachable" => ImportedAction::Unreachable,
                "ICMP admin-prohibited" => ImportedAction::Prohibit,
                other => {
                    let help = "known here: blackhole, ICMP unreachable, ICMP admin-prohibited";
                    return Err((format!("unreachable for {} is not known", quote(other)), help.into()));
                }
            });
            words = rest.split_whitespace();
        }
        Some("is" | "directly") if first.contains("directly connected") || first.contains("a summary") => {
            words.by_ref().for_each(drop);
        }
        _ => {
            let help = "write \"via ADDRESS, INTERFACE\", \"is directly connected, INTERFACE\" or \"unreachable (blackhole)\"";
            return Err((format!("{} is not understood", quote(text)), help.into()));
        }
    }
    modifiers(&mut hop, words, text)?;
    for part in parts {
        let mut words = part.split_whitespace();
        let Some(word) = words.next() else { continue };
        match word {
            // The source address that the system itself would use; the next hop in case this one fails.
            "weight" | "src" | "rmapsrc" | "backup" => {
                words.next();
            }
            // The further numbers of `backup 0,1`.
            _ if word.bytes().all(|b| b.is_ascii_digit()) => {}
            "label" if part == "label implicit-null" => continue,
            "directly" if part == "directly connected" => continue,
            // Of the router's own addresses in IOS; the code says so.
            "receive" => {}
            _ if is_time(word) => {}
            _ if hop.dev.is_none() && is_interface(word) => hop.dev = Some(word.to_string()),
            _ => modifiers(&mut hop, std::iter::once(word), text)?,
        }
        modifiers(&mut hop, words, text)?;
    }
    // Of a leaked route, packets leave by the interface that is shown. A VRF's own interface means that its table is asked, as does
    // a next hop alone.
    if let Some(vrf) = hop.vrf.as_deref().filter(|vrf| hop.dev.as_deref().is_none_or(|dev| dev == *vrf)) {
        return Err(not_understood(vrf, text));
    }
    match (hop.via, &hop.dev, &hop.used) {
        // The interface that takes packets to nowhere.
        (_, Some(dev), Used::Forward) if dev.eq_ignore_ascii_case("null0") => {
            Ok(Hop { via: None, dev: None, used: Used::Action(ImportedAction::Blackhole), vrf: None })
        }
        (None, None, Used::Forward) => {
            Err((format!("{} has no interface", quote(text)), "it stands behind a comma".into()))
        }
        _ => Ok(hop),
    }
}

/// What stands behind `[110/2]`, and behind the numbers of next hop groups `(12)`, `(pic_nh 3)`.
fn behind_distance(text: &str) -> Result<&str, Mistake> {
    let Some(rest) = text.strip_prefix('[') else { return Ok(text) };
    let Some((distance, rest)) = rest.split_once(']') else {
        return Err((format!("{} has no \"]\"", quote(text)), "distance and metric stand as [110/2]".into()));
    };
    if !distance.split('/').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
        return Err((format!("[{distance}] is not a distance and metric"), "they stand as [110/2]".into()));
    }
    let mut rest = rest.trim_start();
    while let Some((number, behind)) = rest.strip_prefix('(').and_then(|r| r.split_once(')'))
        && number.trim_start_matches("pic_nh ").bytes().all(|b| b.is_ascii_digit())
    {
        rest = behind.trim_start();
    }
    Ok(rest)
}

/// Words behind an address, an interface, or a comma.
fn modifiers<'a>(hop: &mut Hop, mut words: impl Iterator<Item = &'a str>, text: &str) -> Result<(), Mistake> {
    while let Some(word) = words.next() {
        match word {
            "(recursive)" | "inactive" | "dead" => hop.used = Used::Not,
            // Linux and FRR go on using a route whose link is down, unless told otherwise; then it is dead or inactive.
            "onlink" | "linkdown" => {}
            // `eth0 (vrf red)` of FRR; `10.0.0.2 (red)` of IOS, also `(default:ipv6)`.
            "(vrf" => hop.vrf = words.next().map(|vrf| vrf.trim_end_matches(')').to_string()),
            _ if word.starts_with('(') && word.ends_with(')') => {
                hop.vrf = Some(word.trim_matches(['(', ')']).to_string());
            }
            _ => return Err(not_understood(word, text)),
        }
    }
    Ok(())
}

fn not_understood(word: &str, text: &str) -> Mistake {
    (
        format!("{} in {} is not understood", quote(word), quote(text)),
        "tunnels, labels and routes into other VRFs are not modelled".into(),
    )
}

/// `00:10:00`, `1d02h`, `3w4d`.
fn is_time(word: &str) -> bool {
    let clock = word.split(':').count() == 3 && word.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let span = word.len() >= 2
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(|c: char| "ywdhms".contains(c))
        && word.chars().all(|c| c.is_ascii_digit() || "ywdhms".contains(c));
    clock || span || word == "never"
}

fn is_interface(word: &str) -> bool {
    const WORDS: [&str; 10] =
        ["label", "src", "onlink", "inactive", "dead", "linkdown", "seg6", "seg6local", "vrf", "SR-TE"];
    let first = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    first && !WORDS.contains(&word) && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-/@:".contains(c))
}
