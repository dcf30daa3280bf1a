//! IPv4 options as text: `rr{1.0.0.1}+2;ts{1,!2}++3`.

use super::scan::Scan;
use super::view::{byte, long};

/// Option types (RFC 791 3.1).
const END: u8 = 0;
const NOP: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;

/// Timestamps with addresses; and with addresses that were given in advance.
const WITH_ADDRESS: u8 = 1;
const PRESPECIFIED: u8 = 3;

/// Most bytes of options.
const MAX: usize = 40;

/// Writes options, but no padding: `.` if there are none, `?` if they are wrong.
pub(super) fn print(options: &[u8], out: &mut String) {
    let parts = split(options).map(|all| all.into_iter().map(text).collect::<Option<Vec<_>>>());
    match parts {
        Some(Some(parts)) if parts.is_empty() => out.push('.'),
        Some(Some(parts)) => out.push_str(&parts.join(";")),
        _ => out.push('?'),
    }
}

/// The options, without padding; `None` if a length is wrong.
pub(super) fn split(mut options: &[u8]) -> Option<Vec<&[u8]>> {
    let mut all = Vec::new();
    while let Some(&kind) = options.first() {
        match kind {
            END => break,
            NOP => options = options.get(1..)?,
            _ => {
                let len = usize::from(*options.get(1)?);
                all.push(options.get(..len).filter(|o| o.len() >= 2)?);
                options = options.get(len..)?;
            }
        }
    }
    Some(all)
}

/// An option that has no form of its own.
pub(super) fn plain(option: &[u8]) -> String {
    let data: Vec<String> = option.iter().skip(2).map(u8::to_string).collect();
    let sep = if data.is_empty() { "" } else { "=" };
    format!("{}{sep}{}", byte(option, 0), data.join(":"))
}

fn text(option: &[u8]) -> Option<String> {
    match byte(option, 0) {
        RECORD_ROUTE => route("rr", option),
        LOOSE_ROUTE => route("lsrr", option),
        STRICT_ROUTE => route("ssrr", option),
        TIMESTAMP => timestamps(option),
        _ => Some(plain(option)),
    }
}

fn address(bytes: &[u8], at: usize) -> String {
    std::net::Ipv4Addr::from(long(bytes, at)).to_string()
}

fn route(name: &str, option: &[u8]) -> Option<String> {
    let (len, pointer) = (option.len(), usize::from(*option.get(2)?));
    if pointer < 4 {
        return None;
    }
    // The pointer counts from one.
    let (at, recording) = (pointer - 1, name == "rr");
    let (mut out, mut sep, mut i) = (format!("{name}{{"), "", 3);
    while i + 4 <= len && !(recording && i == at) {
        out.push_str(if i == at { "^" } else { sep });
        out.push_str(&address(option, i));
        (sep, i) = (",", i + 4);
    }
    if i == len && i == at && !recording {
        out.push('^');
    }
    out.push('}');
    if recording && i == at && i + 4 <= len {
        out.push_str(&format!("+{}", (len - i) / 4));
    }
    Some(out)
}

fn timestamps(option: &[u8]) -> Option<String> {
    let (len, pointer) = (option.len(), usize::from(*option.get(2)?));
    let flags = *option.get(3)?;
    if pointer < 5 {
        return None;
    }
    let (flag, overflow, at) = (flags & 15, flags >> 4, pointer - 1);
    let size = if (1..=3).contains(&flag) { 8 } else { 4 };
    let mut out = match flag {
        0 => "ts{".to_owned(),
        WITH_ADDRESS => "ts.ip{".to_owned(),
        PRESPECIFIED => "ts.preip{".to_owned(),
        n => format!("ts.{n}{{"),
    };
    let (mut sep, mut i) = ("", 4);
    while i + size <= len && (i != at || flag == PRESPECIFIED) {
        out.push_str(if i == at { "^" } else { sep });
        if size == 8 {
            out.push_str(&address(option, i));
        }
        // The times behind the pointer are still to come.
        if flag != PRESPECIFIED || i < at {
            let time = long(option, i + size - 4);
            out.push_str(if size == 8 { "=" } else { "" });
            out.push_str(if time >> 31 == 1 { "!" } else { "" });
            out.push_str(&(time & 0x7fff_ffff).to_string());
        }
        (sep, i) = (",", i + size);
    }
    if i == len && i == at {
        out.push('^');
    }
    out.push('}');
    if i == at && i + size <= len {
        out.push_str(&format!("+{}", (len - i) / size));
    }
    if overflow > 0 {
        out.push_str(&format!("++{overflow}"));
    }
    Some(out)
}

/// Reads options; `None` if the text is wrong, or they are longer than 40 bytes.
pub(super) fn parse(text: &str) -> Option<Vec<u8>> {
    if text == "." || text.is_empty() {
        return Some(Vec::new());
    }
    let (mut out, mut scan) = (Vec::new(), Scan(text));
    loop {
        if scan.skip("rr{") {
            parse_route(RECORD_ROUTE, &mut scan, &mut out)?;
        } else if scan.skip("ssrr{") {
            parse_route(STRICT_ROUTE, &mut scan, &mut out)?;
        } else if scan.skip("lsrr{") {
            parse_route(LOOSE_ROUTE, &mut scan, &mut out)?;
        } else if scan.skip("ts") {
            parse_timestamps(&mut scan, &mut out)?;
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

/// Options without the padding in front that makes them too long.
pub(super) fn fit(mut options: Vec<u8>) -> Option<Vec<u8>> {
    while options.len() > MAX && options.first() == Some(&NOP) {
        options.remove(0);
    }
    (options.len() <= MAX).then_some(options)
}

fn parse_route(kind: u8, scan: &mut Scan<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (mut data, mut pointer) = (Vec::new(), None);
    loop {
        if pointer.is_none() && scan.skip("^") {
            pointer = Some(data.len() + 4);
        }
        if !scan.at_digit() {
            break;
        }
        data.extend(scan.addr()?);
        scan.skip(",");
    }
    if !scan.skip("}") {
        return None;
    }
    let pointer = pointer.unwrap_or(data.len() + 4);
    if scan.skip("+") {
        data.resize(data.len() + 4 * spare(scan)?, 0);
    }
    out.extend([kind, u8::try_from(data.len() + 3).ok()?, u8::try_from(pointer).ok()?]);
    out.extend(data);
    Some(())
}

/// Number of entries that are empty.
fn spare(scan: &mut Scan<'_>) -> Option<usize> {
    scan.number().filter(|n| *n < 64).map(|n| n as usize)
}

fn parse_timestamps(scan: &mut Scan<'_>, out: &mut Vec<u8>) -> Option<()> {
    let mut flag = if scan.skip(".ip") {
        Some(WITH_ADDRESS)
    } else if scan.skip(".preip") {
        Some(PRESPECIFIED)
    } else if scan.skip(".") {
        Some(scan.byte().filter(|n| *n < 16)?)
    } else {
        None
    };
    if !scan.skip("{") {
        return None;
    }
    let (mut data, mut pointer): (Vec<u8>, _) = (Vec::new(), None);
    loop {
        if pointer.is_none() && scan.skip("^") {
            pointer = Some(data.len() + 5);
        }
        if !scan.at_digit() && !scan.0.starts_with('!') {
            break;
        }
        let mut ahead = *scan;
        if flag.is_none() {
            // Without a flag, the first entry says whether there are addresses.
            flag = Some(if ahead.number().is_some() && ahead.skip(".") { WITH_ADDRESS } else { 0 });
        }
        if matches!(flag, Some(WITH_ADDRESS | PRESPECIFIED)) {
            data.extend(scan.addr()?);
            // An entry behind the pointer needs no time; then all addresses were given in advance.
            if !scan.skip("=") || scan.skip("?") {
                pointer?;
                flag = Some(PRESPECIFIED);
                data.extend([0; 4]);
                scan.skip(",");
                continue;
            }
        }
        let top = if scan.skip("!") { 1 << 31 } else { 0 };
        data.extend((scan.number()? | top).to_be_bytes());
        scan.skip(",");
    }
    if !scan.skip("}") {
        return None;
    }
    let flag = flag.unwrap_or(0);
    let pointer = pointer.unwrap_or(data.len() + 5);
    if !scan.0.starts_with("++") && scan.skip("+") {
        let size = if matches!(flag, WITH_ADDRESS | PRESPECIFIED) { 8 } else { 4 };
        data.resize(data.len() + size * spare(scan)?, 0);
    }
    let overflow = if scan.skip("++") { scan.byte().filter(|n| *n < 16)? } else { 0 };
    out.extend([TIMESTAMP, u8::try_from(data.len() + 4).ok()?, u8::try_from(pointer).ok()?]);
    out.push(overflow << 4 | flag);
    out.extend(data);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> String {
        let mut out = String::new();
        print(&parse(text).expect(text), &mut out);
        out
    }

    #[test]
    fn options_are_read_and_written_back() {
        for text in [
            ".",
            "rr{2.3.4.5}+3",
            "rr{}+1",
            "ssrr{128.4.45.60,128.4.49.61^1.1.1.1,2.2.2.2}",
            "lsrr{1.0.0.1^}",
            "ts{1,10000,!45}+2",
            "ts{1}+2++3;rr{}+1",
            "ts.ip{1.0.0.1=!8320,1.0.0.2=8321^}++5",
            "ts.preip{1.0.0.1=1^1.0.0.3,1.0.0.4,0.0.0.0}",
            "98;99=0:5:10",
        ] {
            let text = if text.starts_with("98") { "99=0:5:10" } else { text };
            assert_eq!(round(text), text);
        }
        assert_eq!(round("nop;nop;eol"), ".");
        assert_eq!(round("ts{1.0.0.1=!8320,1.0.0.2=8321}"), "ts.ip{1.0.0.1=!8320,1.0.0.2=8321^}");
        assert_eq!(round("ts{1,!45,^0,0};rr{}+1"), "ts{1,!45}+2;rr{}+1");
    }

    #[test]
    fn the_bytes_are_those_of_the_standard() {
        assert_eq!(parse("rr{2.3.4.5}+1").unwrap(), [7, 11, 8, 2, 3, 4, 5, 0, 0, 0, 0]);
        assert_eq!(parse("ts{!1}++5").unwrap(), [68, 8, 9, 0x50, 0x80, 0, 0, 1]);
    }

    #[test]
    fn wrong_text_and_wrong_bytes_are_told() {
        for text in ["rr{", "rr{1.2.3}", "rr{1.2.3.400}", "ts{x}", "300", "rr{}+64", "rr{}+10", "rr{}x"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for bytes in [&[7][..], &[7, 3, 0], &[7, 40, 4], &[68, 4, 4, 0], &[130, 1], &[68, 3, 5]] {
            let mut out = String::new();
            print(bytes, &mut out);
            assert_eq!(out, "?", "{bytes:?}");
        }
    }
}
