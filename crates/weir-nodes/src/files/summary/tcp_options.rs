//! TCP options as text: `mss1400;wscale10;sackok;ts1:2`.

use super::ip_options::{fit, plain, split};
use super::scan::Scan;
use super::view::{byte, long, word};

/// Option kinds (RFC 9293 3.1, 7323, 2018).
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Which options a field is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds {
    timestamp: bool,
    others: bool,
}

impl Kinds {
    pub const ALL: Kinds = Kinds { timestamp: true, others: true };
    pub const NO_TIMESTAMP: Kinds = Kinds { timestamp: false, others: true };
    pub const SACK: Kinds = Kinds { timestamp: false, others: false };

    fn has(self, kind: u8) -> bool {
        match kind {
            SACK_PERMITTED | SACK => true,
            TIMESTAMPS => self.timestamp,
            _ => self.others,
        }
    }
}

/// Writes options, but no padding: `.` if there are none, `?` if they are wrong.
pub(super) fn print(options: &[u8], kinds: Kinds, out: &mut String) {
    let parts: Option<Vec<String>> =
        split(options).and_then(|all| all.into_iter().map(|o| text(o, kinds)).collect());
    let parts = parts.map(|p| p.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>());
    match parts {
        Some(parts) if parts.is_empty() => out.push('.'),
        Some(parts) => out.push_str(&parts.join(";")),
        None => out.push('?'),
    }
}

/// An option; empty if it is of another kind, `None` if its length is wrong.
fn text(option: &[u8], kinds: Kinds) -> Option<String> {
    let (kind, len) = (byte(option, 0), option.len());
    let right = match kind {
        MSS => len == 4,
        WINDOW_SCALE => len == 3,
        SACK_PERMITTED => len == 2,
        SACK => len % 8 == 2,
        TIMESTAMPS => len == 10,
        _ => true,
    };
    if !right || !kinds.has(kind) {
        return right.then(String::new);
    }
    Some(match kind {
        MSS => format!("mss{}", word(option, 2)),
        WINDOW_SCALE => format!("wscale{}", byte(option, 2)),
        SACK_PERMITTED => "sackok".to_owned(),
        SACK => {
            let blocks = (2..len).step_by(8);
            let blocks = blocks.map(|i| format!("sack{}-{}", long(option, i), long(option, i + 4)));
            blocks.collect::<Vec<_>>().join(";")
        }
        TIMESTAMPS => format!("ts{}:{}", long(option, 2), long(option, 6)),
        _ => plain(option),
    })
}

/// Reads options; `None` if the text is wrong or names others than `kinds`, or they are longer than 40 bytes.
pub(super) fn parse(text: &str, kinds: Kinds) -> Option<Vec<u8>> {
    if text == "." || text.is_empty() {
        return Some(Vec::new());
    }
    let (mut out, mut scan) = (Vec::new(), Scan(text));
    loop {
        if scan.skip("sackok") {
            out.extend([SACK_PERMITTED, 2]);
        } else if scan.skip("sack") {
            blocks(&mut scan, &mut out)?;
        } else if kinds.timestamp && scan.skip("ts") {
            let first = scan.number()?;
            let second = scan.skip(":").then(|| scan.number())??;
            // In front, two bytes of padding align the numbers.
            if out.is_empty() {
                out.extend([NOP, NOP]);
            }
            out.extend([TIMESTAMPS, 10]);
            out.extend(first.to_be_bytes());
            out.extend(second.to_be_bytes());
        } else if kinds == Kinds::SACK {
            return None;
        } else if scan.skip("mss") {
            let mss = u16::try_from(scan.number()?).ok()?;
            out.extend([MSS, 4]);
            out.extend(mss.to_be_bytes());
        } else if scan.skip("wscale") {
            out.extend([WINDOW_SCALE, 3, scan.byte()?]);
        } else if scan.skip("nop") {
            out.push(NOP);
        } else if scan.skip("eol") {
            out.push(END);
        } else {
            scan.plain_option(&mut out)?;
        }
        if scan.0.is_empty() {
            return fit(out);
        }
        if !scan.skip(";") && !scan.skip(",") {
            return None;
        }
    }
}

/// SACK blocks behind each other's comma are one option.
fn blocks(scan: &mut Scan<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend([SACK, 0]);
    loop {
        let left = scan.number()?;
        if !scan.skip("-") && !scan.skip(":") {
            return None;
        }
        let right = scan.number()?;
        out.extend(left.to_be_bytes());
        out.extend(right.to_be_bytes());
        let mut next = *scan;
        if !(next.skip(",sack") && next.at_digit()) {
            break;
        }
        *scan = next;
    }
    let len = u8::try_from(out.len() - start).ok()?;
    *out.get_mut(start + 1)? = len;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str, read: Kinds, written: Kinds) -> String {
        let mut out = String::new();
        print(&parse(text, read).expect(text), written, &mut out);
        out
    }

    #[test]
    fn options_are_read_and_written_back() {
        for text in ["mss1400;wscale10;sackok", "ts669063908:38382731", "sack95-98;sack1-2", "99=0:5:10", "."]
        {
            assert_eq!(round(text, Kinds::ALL, Kinds::ALL), text);
        }
        let all = "mss1400;sackok;ts1:2;99=7";
        assert_eq!(round(all, Kinds::ALL, Kinds::NO_TIMESTAMP), "mss1400;sackok;99=7");
        assert_eq!(round(all, Kinds::ALL, Kinds::SACK), "sackok");
        assert_eq!(parse("mss1400", Kinds::ALL).unwrap(), [2, 4, 5, 120]);
        assert_eq!(parse("sack1-2,sack3-4", Kinds::ALL).unwrap()[..2], [5, 18]);
    }

    #[test]
    fn wrong_text_and_wrong_bytes_are_told() {
        for text in ["mss70000", "sack1", "ts1", "wscale", "x", "mss1;", "sackok mss1"] {
            assert_eq!(parse(text, Kinds::ALL), None, "{text}");
        }
        assert_eq!(parse("mss5", Kinds::SACK), None);
        for bytes in [&[2, 3, 5][..], &[3], &[5, 3, 0], &[8, 10, 0]] {
            let mut out = String::new();
            print(bytes, Kinds::ALL, &mut out);
            assert_eq!(out, "?", "{bytes:?}");
        }
    }
}
