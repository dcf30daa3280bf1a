//! Transfer functions of header space analysis (Kazemian et al., NSDI 2012), in the text form of its public tool: `hassel-public`,
//! whose data hold the networks of Stanford and Internet2.
//!
//! The first line is `2L$PREFIX$NEXT-ID$LAZY$SEND-ON-RECEIVING-PORT$` for headers of L bytes, the second lists bytes of lazy
//! evaluation, and each further line is a rule:
//! `ACTION$[IN PORTS]$MATCH$MASK$REWRITE$INVERSE MATCH$INVERSE REWRITE$[OUT PORTS]$#AFFECTED BY#$#INFLUENCES#$FILE$LINES$ID$`.
//! ACTION is `fwd`, `rw` or `link`. A wildcard has 8 characters `0`, `1`, `x` a byte, with or without commas between bytes, the most
//! significant byte first; `None` stands for no wildcard. Older files leave fields at the end out.
//!
//! Mask and rewrite count for `rw` only, as in the tool. What follows from the rest is checked for its form and not kept: inverses, and which rules affect which. Of the rules of a port,
//! the first that matches decides.

use std::fmt;

use weir_filter::text::quote;
use weir_model::DocErrors;
use weir_model::requirement::HeaderField;

use super::{Errors, MAX_LINES};

/// What mistakes are reported of.
const NAME: &str = "transfer function";

/// Longest header, in bytes.
pub const MAX_HEADER: usize = 256;
/// Most ports of a rule.
pub const MAX_PORTS: usize = 4_096;

/// A transfer function: of a box, or of the links between boxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferFunction {
    /// The length of headers, in bytes.
    pub header_len: usize,
    /// The box's name, with which the identifiers of its rules begin; empty for a topology.
    pub prefix: String,
    /// A packet may leave by the port that it came in by. Otherwise that port is left out of `out_ports`.
    pub send_on_receiving_port: bool,
    /// The rules. Of those with the packet's port among `in_ports`, the first whose `matches` fits decides.
    pub rules: Vec<Rule>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Packets of these ports.
    pub in_ports: Vec<u32>,
    /// Which packets; a rule for links takes all.
    pub matches: Option<Wildcard>,
    /// What becomes of the header.
    pub rewrite: Option<Rewrite>,
    /// Where the packet goes: to all of them. Empty drops it.
    pub out_ports: Vec<u32>,
    /// The rule is a link between boxes.
    pub is_link: bool,
    /// The identifier, such as `roza_rtr_1`; may be empty.
    pub id: String,
    /// The line of the text, from 1.
    pub line: usize,
}

/// A header with bits that do not matter. Byte 0 is the first of the text, the most significant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wildcard {
    /// The bits' values; 0 where they do not matter.
    pub value: Vec<u8>,
    /// 1 for bits that matter.
    pub mask: Vec<u8>,
}

/// A change of the header: `(header & mask) | value`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rewrite {
    /// 1 for bits that stay.
    pub mask: Vec<u8>,
    /// What the others become; 0 where bits stay.
    pub value: Vec<u8>,
}

/// Where a field lies in the text form of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldBytes {
    /// Which field.
    pub field: HeaderField,
    /// First byte, from 0.
    pub offset: usize,
    /// Number of bytes, in network order.
    pub len: usize,
}

const fn at(field: HeaderField, offset: usize, len: usize) -> FieldBytes {
    FieldBytes { field, offset, len }
}

impl TransferFunction {
    /// Reads a transfer function; all mistakes are reported at once.
    pub fn parse(text: &str) -> Result<Self, DocErrors> {
        let mut errors = Errors::new(NAME);
        let mut lines = text.lines().zip(1..);
        let (first, _) = lines.next().unwrap_or_default();
        let mut head = first.split('$');
        let doubled = head.next().and_then(|n| n.trim().parse::<usize>().ok());
        let Some(header_len) =
            doubled.filter(|n| n % 2 == 0 && (1..=MAX_HEADER).contains(&(n / 2))).map(|n| n / 2)
        else {
            errors.add(
                1,
                format!("{} does not begin a transfer function", quote(first)),
                format!(
                    "the first line is 2*LENGTH$NAME$COUNT$0$0$, with a length of 1 to {MAX_HEADER} bytes"
                ),
            );
            return errors
                .finish(None)
                .and_then(|f| f.ok_or_else(|| DocErrors::one(None, "no transfer function", "")));
        };
        let prefix = head.next().unwrap_or_default().to_string();
        let send_on_receiving_port = head.nth(2).is_some_and(|t| t.trim() == "1");
        let mut rules = Vec::new();
        for (line, number) in lines {
            // The second line lists bytes of lazy evaluation, which is a way to compute, not a meaning.
            let lazy =
                number == 2 && line.split(['$', '#']).all(|w| w.trim().bytes().all(|b| b.is_ascii_digit()));
            if lazy || line.trim().is_empty() {
                continue;
            }
            if rules.len() == MAX_LINES {
                errors.add(number, "one rule too many", format!("at most {MAX_LINES} are read"));
                break;
            }
            match rule(line, number, header_len) {
                Ok(rule) => rules.push(rule),
                Err((message, help)) => errors.add(number, message, help),
            }
        }
        if !errors.errors.is_empty()
            && let Some(len) = length_of_all(text).filter(|&len| len != header_len)
        {
            // One mistake, and not one for each rule.
            errors = Errors::new(NAME);
            errors.add(
                1,
                format!("the first line says headers of {header_len} bytes, and all wildcards have {len}"),
                format!("for headers of {len} bytes, the first line begins with {}", 2 * len),
            );
        }
        errors.finish(Self { header_len, prefix, send_on_receiving_port, rules })
    }

    /// Where fields lie, for the lengths that the public data use: 16 bytes (Stanford), 6 (Internet2), 4 (destinations only).
    pub fn layout(&self) -> Option<&'static [FieldBytes]> {
        use HeaderField as F;
        const STANFORD: &[FieldBytes] = &[
            at(F::TcpFlags, 0, 1),
            at(F::DstPort, 1, 2),
            at(F::SrcPort, 3, 2),
            at(F::Proto, 5, 1),
            at(F::IpDst, 6, 4),
            at(F::IpSrc, 10, 4),
            at(F::Vlan, 14, 2),
        ];
        const INTERNET2: &[FieldBytes] = &[at(F::Vlan, 0, 2), at(F::IpDst, 2, 4)];
        const DESTINATION: &[FieldBytes] = &[at(F::IpDst, 0, 4)];
        match self.header_len {
            16 => Some(STANFORD),
            6 => Some(INTERNET2),
            4 => Some(DESTINATION),
            _ => None,
        }
    }

    /// All ports that rules name, each once, in ascending order.
    pub fn ports(&self) -> Vec<u32> {
        let mut ports: Vec<u32> =
            self.rules.iter().flat_map(|r| r.in_ports.iter().chain(&r.out_ports)).copied().collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// The links of a topology: from a port to a port.
    pub fn links(&self) -> impl Iterator<Item = (u32, u32)> {
        let links = self.rules.iter().filter(|r| r.is_link);
        links.flat_map(|r| r.in_ports.iter().flat_map(|i| r.out_ports.iter().map(|o| (*i, *o))))
    }
}

/// The length of headers in bytes that what the rules match has, if they agree.
fn length_of_all(text: &str) -> Option<usize> {
    let matches = text.lines().skip(1).filter_map(|line| line.split('$').nth(2)).map(str::trim);
    let mut bits = matches
        .filter(|text| !matches!(*text, "" | "None"))
        .map(|text| text.bytes().filter(|b| *b != b',').count());
    let first = bits.next()?;
    (first % 8 == 0 && bits.all(|n| n == first)).then_some(first / 8)
}

type Mistake = (String, String);

fn rule(line: &str, number: usize, len: usize) -> Result<Rule, Mistake> {
    let mut fields = line.trim_end().split('$');
    let mut next = || fields.next().unwrap_or_default();
    let action = next();
    if !matches!(action, "fwd" | "rw" | "link") {
        return Err((
            format!("{} is not an action", quote(action)),
            "a rule begins with fwd$, rw$ or link$".into(),
        ));
    }
    let in_ports = ports(next())?;
    let [matches, mask, value, inverse_match, inverse_value] = [next(), next(), next(), next(), next()];
    let out_ports = ports(next())?;
    for inverse in [inverse_match, inverse_value] {
        wildcard(inverse, len)?;
    }
    let influences = [next(), next()];
    for part in influences.iter().flat_map(|text| text.split('#')).filter(|part| !part.is_empty()) {
        let mut part = part.split(';');
        let rule = part.next().is_some_and(|n| n.trim().parse::<u32>().is_ok());
        if !rule {
            let help = "the ninth and tenth fields are #RULE;WILDCARD;[PORTS]#… and #RULE#…";
            return Err(("the rules that it affects are not listed as they should be".into(), help.into()));
        }
        if let Some(affected) = part.next() {
            wildcard(affected, len)?;
        }
        part.next().map(ports).transpose()?;
    }
    // Older files end here with the identifier.
    let rest: Vec<&str> = std::iter::from_fn(|| fields.next()).collect();
    let id = match rest.as_slice() {
        [_file, _lines, id, ..] => *id,
        [id, ..] => *id,
        [] => "",
    };
    let matches = wildcard(matches, len)?;
    let rewrite = match (action, plain(mask, len)?, plain(value, len)?) {
        ("rw", Some(mask), Some(value)) => {
            if mask.iter().zip(&value).any(|(m, v)| m & v != 0) {
                let message = "the rewrite has a 1 where the mask keeps the bit".to_string();
                return Err((message, "the mask has 0 for each bit that is rewritten".into()));
            }
            Some(Rewrite { mask, value })
        }
        ("rw", _, _) => {
            return Err((
                "a rewrite without mask or value".into(),
                "the fourth and fifth fields are wildcards".into(),
            ));
        }
        // Public data have them with `fwd`, where the tool ignores them.
        _ => None,
    };
    if action != "link" && matches.is_none() {
        return Err((format!("{action:?} matches nothing"), "the third field is a wildcard".into()));
    }
    Ok(Rule {
        in_ports,
        matches,
        rewrite,
        out_ports,
        is_link: action == "link",
        id: id.to_string(),
        line: number,
    })
}

/// `[1, 2]`, without spaces too.
fn ports(text: &str) -> Result<Vec<u32>, Mistake> {
    let bad = || {
        (
            format!("{} is not a list of ports", quote(text)),
            "write numbers such as [100001, 100002]".to_string(),
        )
    };
    let inner = text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or_else(bad)?;
    if inner.trim().is_empty() {
        return Ok(Vec::new());
    }
    let ports: Option<Vec<u32>> =
        inner.split(',').take(MAX_PORTS + 1).map(|p| p.trim().parse().ok()).collect();
    let ports = ports.ok_or_else(bad)?;
    if ports.len() > MAX_PORTS {
        return Err((format!("more than {MAX_PORTS} ports"), format!("at most {MAX_PORTS} are read")));
    }
    Ok(ports)
}

/// A wildcard of `len` bytes; `None` and nothing stand for none.
fn wildcard(text: &str, len: usize) -> Result<Option<Wildcard>, Mistake> {
    let text = text.trim();
    if matches!(text, "" | "None") {
        return Ok(None);
    }
    let (mut value, mut mask) = (vec![0_u8; len], vec![0_u8; len]);
    let bits = text.bytes().filter(|b| *b != b',');
    let mut count = 0;
    for (i, bit) in bits.enumerate() {
        let at = 0x80_u8 >> (i % 8);
        let (Some(v), Some(m)) = (value.get_mut(i / 8), mask.get_mut(i / 8)) else {
            count = usize::MAX;
            break;
        };
        match bit {
            b'x' | b'X' => {}
            b'0' => *m |= at,
            b'1' => (*m, *v) = (*m | at, *v | at),
            _ => {
                let message = format!("{} is not a wildcard", quote(text));
                return Err((message, "it consists of 0, 1 and x".into()));
            }
        }
        count = i + 1;
    }
    if count != len * 8 {
        let message = format!("the wildcard {} does not have {} bits", quote(text), len * 8);
        return Err((message, format!("the first line says headers of {len} bytes")));
    }
    Ok(Some(Wildcard { value, mask }))
}

/// A wildcard without `x`.
fn plain(text: &str, len: usize) -> Result<Option<Vec<u8>>, Mistake> {
    match wildcard(text, len)? {
        Some(w) if w.mask.iter().any(|m| *m != 0xff) => {
            Err((format!("{} has an x", quote(text)), "mask and rewrite consist of 0 and 1".into()))
        }
        found => Ok(found.map(|w| w.value)),
    }
}

impl Wildcard {
    /// Whether a header of the same length matches.
    pub fn matches(&self, header: &[u8]) -> bool {
        let bits = self.value.iter().zip(&self.mask);
        header.len() == self.value.len() && header.iter().zip(bits).all(|(h, (v, m))| h & m == *v)
    }
}

/// Bytes with commas between, as the newer files have them.
impl fmt::Display for Wildcard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (value, mask)) in self.value.iter().zip(&self.mask).enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            for bit in (0..8).rev() {
                let (v, m) = (value >> bit & 1, mask >> bit & 1);
                f.write_str(if m == 0 {
                    "x"
                } else if v == 1 {
                    "1"
                } else {
                    "0"
                })?;
            }
        }
        Ok(())
    }
}
