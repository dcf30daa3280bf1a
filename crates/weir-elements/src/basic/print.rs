use std::fmt::Write;

use crate::prelude::*;

element! {
    /// Prints a line for each packet, and passes packets on unchanged.
    ///
    /// The line has the label, the length of the packet in bytes, and the first bytes of its contents:
    /// `in:   60 | ffffffff ffff0200 00000001 08060001 08000604 0001`.
    Print: "1/1", "a/a";
    example "Idle -> Print(in, 64, TIMESTAMP true) -> Discard;";
    example "Idle -> Print(CONTENTS ascii) -> Discard;";
    params {
        /// What lines start with.
        pos label: String = String::new() => "",
        /// Most bytes of contents to print; -1 is all.
        pos maxlength: i32 = 24,
        /// How contents are printed: `none`, `hex` or `ascii`.
        key contents: Contents = Contents::Hex => "hex",
        /// Whether the packet's time of arrival is printed, in seconds since 1970.
        key timestamp: bool = false,
        /// Whether the annotation area is printed, in hexadecimal.
        key printanno: bool = false,
        /// Kept for Click configurations, where only the Linux kernel module prints the CPU.
        key cpu: bool = false,
        /// Whether the free bytes before and behind the packet in its buffer are printed.
        key headroom: bool = false,
        /// Whether anything is printed.
        key active: bool = true,
    }
    handlers {
        /// Whether anything is printed.
        cell active: bool,
    }
    describe |e, _, _, packet| packet.map(|p| line(e, p));
}

/// The form in which the contents of packets are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Not at all.
    None,
    /// In hexadecimal.
    Hex,
    /// As text, with a point for each byte that is none.
    Ascii,
}

impl FromArg for Contents {
    const SYNTAX: &'static str = "none, hex or ascii";
    fn from_arg(text: &str) -> Result<Contents, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "hex" => Ok(Contents::Hex),
            "ascii" => Ok(Contents::Ascii),
            "none" => Ok(Contents::None),
            // A boolean stands for hexadecimal or nothing.
            _ => match bool::from_arg(text) {
                Ok(true) => Ok(Contents::Hex),
                Ok(false) => Ok(Contents::None),
                Err(_) => Err(format!("'{text}' is no way to print contents: write none, hex or ascii")),
            },
        }
    }
}

fn program(e: &Print, b: &mut Builder) {
    print_packets(b, e.active);
}

/// The program of an element that shows each packet to the host while its `active` handler says so.
pub(crate) fn print_packets(b: &mut Builder, active: bool) {
    let active = b.live("active", W1, active.into());
    let packet = b.event("packet");
    b.input(0, |b| {
        let on = b.read_cell(active);
        b.when(on, |b| b.notify_packet(packet, &[]));
        b.emit(0);
    });
}

fn line(e: &Print, packet: &Packet) -> String {
    let mut out = e.label.clone();
    if e.timestamp {
        separate(&mut out);
        out += &seconds(packet.timestamp);
    }
    separate(&mut out);
    _ = write!(out, "{:4}", packet.len());
    if e.headroom {
        _ = write!(out, " (h{} t{})", packet.data(), packet.capacity() - packet.end());
    }
    if e.printanno {
        out += " | ";
        packet.anno.iter().for_each(|byte| _ = write!(out, "{byte:02x}"));
    }
    let shown = first(packet.bytes(), e.maxlength);
    if e.contents != Contents::None && !shown.is_empty() {
        out += " | ";
    }
    for (i, &byte) in shown.iter().enumerate() {
        match e.contents {
            Contents::None => {}
            Contents::Hex if i > 0 && i % 4 == 0 => _ = write!(out, " {byte:02x}"),
            Contents::Hex => _ = write!(out, "{byte:02x}"),
            Contents::Ascii if i % 8 == 0 => out.extend([' ', printable(byte)]),
            Contents::Ascii => out.push(printable(byte)),
        }
    }
    out
}

fn separate(out: &mut String) {
    if !out.is_empty() {
        out.push_str(": ");
    }
}

/// So many bytes, all if `max` is negative.
pub(crate) fn first(bytes: &[u8], max: i32) -> &[u8] {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    &bytes[..bytes.len().min(max)]
}

/// A byte as a character of ASCII.
pub(crate) fn printable(byte: u8) -> char {
    if matches!(byte, b' '..=b'~') { byte.into() } else { '.' }
}

/// A time in nanoseconds as seconds, with six digits or, if needed, nine.
pub(crate) fn seconds(nanos: u64) -> String {
    crate::time_text(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Harness;

    fn printed(args: &[&str], bytes: &[u8]) -> String {
        let mut e = Harness::new("Print", args, 1, 1);
        let mut p = Packet::from_bytes(bytes).unwrap();
        p.timestamp = 1_500_000_000;
        p.anno[0] = 0xab;
        assert_eq!(e.send_packet(0, p)[0].out(), (0, bytes));
        e.lines.concat()
    }

    #[test]
    fn the_line_has_the_form_of_click() {
        let bytes: Vec<u8> = (0..30).collect();
        assert_eq!(
            printed(&["in"], &bytes),
            "in:   30 | 00010203 04050607 08090a0b 0c0d0e0f 10111213 14151617"
        );
        assert_eq!(printed(&["", "3"], &bytes), "  30 | 000102");
        assert_eq!(printed(&["MAXLENGTH -1"], b"abcde"), "   5 | 61626364 65");
        assert_eq!(printed(&["x"], b""), "x:    0");
    }

    #[test]
    fn options_add_to_it() {
        assert_eq!(printed(&["x", "CONTENTS ascii"], b"GET /a\r\n89"), "x:   10 |  GET /a.. 89");
        assert_eq!(printed(&["x", "CONTENTS NONE", "TIMESTAMP yes"], b"abc"), "x: 1.500000:    3");
        assert_eq!(printed(&["TIMESTAMP true", "CONTENTS false"], b"abc"), "1.500000:    3");
        assert_eq!(
            printed(&["PRINTANNO true", "CONTENTS none"], b"abc"),
            format!("   3 | ab{}", "00".repeat(weir_packet::ANNO_LEN - 1))
        );
        let headroom = printed(&["HEADROOM true", "CONTENTS none"], b"abc");
        assert!(headroom.starts_with(&format!("   3 (h{} t", weir_packet::HEADROOM)), "{headroom}");
        assert_eq!(seconds(1_000_000_001), "1.000000001");
    }

    #[test]
    fn it_can_be_switched_off() {
        let mut e = Harness::new("Print", &["ACTIVE false"], 1, 1);
        e.send(0, b"x");
        e.write("active", "true").unwrap();
        e.send(0, b"y");
        assert_eq!(e.lines, ["   1 | 79"]);
    }

    #[test]
    fn contents_have_three_forms() {
        let errors = crate::class_named("Print").unwrap().configure(&["CONTENTS oct".into()]).err().unwrap();
        assert!(errors[0].contains("CONTENTS") && errors[0].contains("none, hex or ascii"), "{errors:?}");
    }
}
