use crate::prelude::*;

element! {
    /// Copies bytes from the packets of input 0 into those of input 1.
    ///
    /// Packets leave on the output of their input's number. Of those of input 0 the bytes in the ranges are kept, until
    /// the next such packet comes; they replace those in the same ranges of the packets of input 1. Packets that
    /// end before a range are passed on as they are, and nothing is copied.
    Clipboard: "2/2", "a/a", flow "#/#";
    example "Idle -> c :: Clipboard(0/4, 12/8) -> Discard; Idle -> [1] c [1] -> Discard;";
    params {
        /// Ranges of bytes, as `OFFSET/LENGTH`.
        rest ranges: Vec<Range>,
    }
    check |e| match e.ranges.iter().map(|r| u64::from(r.len)).sum::<u64>() {
        0 => Err("write at least one range as OFFSET/LENGTH, like 0/4".into()),
        n if n > MAX_BYTES.into() => Err(format!("the ranges have {n} bytes; at most {MAX_BYTES}")),
        _ => Ok(()),
    };
}

/// Most bytes that are copied.
const MAX_BYTES: u32 = 1024;

/// A range of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    start: u32,
    len: u32,
}

impl FromArg for Range {
    const SYNTAX: &'static str = "OFFSET/LENGTH";
    fn from_arg(text: &str) -> Result<Range, String> {
        let wrong = || format!("'{text}' is not a range: write OFFSET/LENGTH, like 0/4");
        let (start, len) = text.split_once('/').ok_or_else(wrong)?;
        let (start, len) = (u16::from_arg(start.trim())?, u16::from_arg(len.trim())?);
        if len == 0 {
            return Err(wrong());
        }
        Ok(Range { start: start.into(), len: len.into() })
    }
}

/// The ranges in pieces that one value holds: offset and width.
fn pieces(ranges: &[Range]) -> Vec<(u32, Width)> {
    let mut pieces = Vec::new();
    for r in ranges {
        let mut done = 0;
        while done < r.len {
            let width = match r.len - done {
                8.. => W64,
                4.. => W32,
                2.. => W16,
                _ => W8,
            };
            pieces.push((r.start + done, width));
            done += width.bits() / 8;
        }
    }
    pieces
}

fn program(e: &Clipboard, b: &mut Builder) {
    let pieces = pieces(&e.ranges);
    let names: Vec<String> = (0..pieces.len()).map(|i| format!("piece{i}")).collect();
    let fields: Vec<(&str, Width)> = names.iter().zip(&pieces).map(|(n, p)| (n.as_str(), p.1)).collect();
    let decl = TableDecl::new("bytes", Kind::Array, &[("zero", W32)], &fields, 1);
    let bytes = b.table(decl, vec![]);
    let end = e.ranges.iter().map(|r| r.start + r.len).max().unwrap_or(0);
    b.input(0, |b| {
        b.require_or(Layer::Data, end, |b| b.emit(0));
        let entry = b.index(bytes, 0);
        for (name, &(at, width)) in names.iter().zip(&pieces) {
            let v = b.load(width, Layer::Data, at);
            b.set(entry, name, v);
        }
        b.emit(0);
    });
    b.input(1, |b| {
        b.require_or(Layer::Data, end, |b| b.emit(1));
        let entry = b.index(bytes, 0);
        for (name, &(at, _)) in names.iter().zip(&pieces) {
            let v = b.get(entry, name);
            b.store(Layer::Data, at, v);
        }
        b.emit(1);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn bytes_are_copied_from_one_packet_to_others() {
        let mut e = Harness::new("Clipboard", &["0/1", "2/1", "9/1"], 2, 2);
        assert_eq!(e.send(0, b"Simplistic")[0].out(), (0, &b"Simplistic"[..]));
        assert_eq!(e.send(1, b".a. is a .at,")[0].out(), (1, &b"Sam is a cat,"[..]));
        assert_eq!(e.send(0, b"Dance tour")[0].out().0, 0);
        assert_eq!(e.send(1, b".a. is a .at,")[0].out().1, b"Dan is a rat,");
    }

    #[test]
    fn long_ranges_are_whole() {
        let all: Vec<u8> = (0..100).collect();
        let mut e = Harness::new("Clipboard", &["3/17", "50/29"], 2, 2);
        e.send(0, &all);
        let out = e.send(1, &[0xff; 100]);
        for (i, &byte) in out[0].out().1.iter().enumerate() {
            let copied = (3..20).contains(&i) || (50..79).contains(&i);
            assert_eq!(byte, if copied { i as u8 } else { 0xff });
        }
    }

    #[test]
    fn short_packets_pass_unchanged() {
        let mut e = Harness::new("Clipboard", &["2/2"], 2, 2);
        e.send(0, b"abcd");
        for n in 0..4 {
            assert_eq!(e.send(0, &b"wxyz"[..n])[0].out().0, 0);
            assert_eq!(e.send(1, &b"wxyz"[..n])[0].out().1, &b"wxyz"[..n]);
        }
        assert_eq!(e.send(1, b"wxyz")[0].out().1, b"wxcd");
    }

    #[test]
    fn ranges_have_an_offset_and_a_length() {
        let class = crate::class_named("Clipboard").unwrap();
        for (arg, why) in [("3", "OFFSET/LENGTH"), ("3/0", "not a range"), ("0/2000", "at most 1024")] {
            let errors = class.configure(&[arg.into()]).err().unwrap();
            assert!(errors[0].contains(why), "{errors:?}");
        }
        assert!(class.configure(&[]).err().unwrap()[0].contains("at least one range"));
    }
}
