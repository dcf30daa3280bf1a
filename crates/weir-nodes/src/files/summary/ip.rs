//! The IPv4 header.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use super::view::{byte, long, word};
use super::{Absent, Draft, Field, Form, Got, Value, View, ip_options, order::NET, order::PAYLOAD};

/// Don't fragment, and more fragments follow (RFC 791 3.1).
const DF: u64 = 0x4000;
const MF: u64 = 0x2000;
const ECN: [&str; 4] = ["no", "ect1", "ect2", "ce"];

pub(super) const FIELDS: &[Field] = &[
    address("ip_src", |v| Ok(Value::Number(long(v.ip(16)?, 12).into()))).sets(NET, |d, n| number32(d, 12, n)),
    address("ip_dst", |v| Ok(Value::Number(long(v.ip(20)?, 16).into()))).sets(NET, |d, n| number32(d, 16, n)),
    Field::new("ip_tos", Form::U8, |v| Ok(Value::Number(byte(v.ip(2)?, 1).into())))
        .sets(NET, |d, n| number8(d, 1, n)),
    Field::new("ip_dscp", Form::U8, |v| Ok(Value::Number((byte(v.ip(2)?, 1) >> 2).into())))
        .sets(NET, |d, n| bits(d, 0x03, (n.number() as u8) << 2)),
    Field::new("ip_ecn", Form::U8, |v| Ok(Value::Number((byte(v.ip(2)?, 1) & 3).into())))
        .printed(|_, value, out| out.push_str(ECN[value.number() as usize & 3]))
        .parsed(|_, _, text| parse_ecn(text))
        .sets(NET, |d, n| bits(d, 0xfc, n.number() as u8 & 3)),
    Field::new("ip_ttl", Form::U8, |v| Ok(Value::Number(byte(v.ip(9)?, 8).into())))
        .sets(NET, |d, n| number8(d, 8, n)),
    Field::new("ip_frag", Form::U8, fragment)
        .printed(|_, value, out| out.push(char::from(value.number() as u8)))
        .parsed(|_, _, text| match text {
            "." | "!" | "F" | "f" => Some(Value::Number(byte(text.as_bytes(), 0).into())),
            _ => None,
        })
        .sets(NET - 2, |d, n| {
            // Of a later fragment, the summary does not have the offset: any that is not zero will do.
            let bits = match n.number() as u8 {
                b'!' => DF,
                b'F' => MF,
                b'f' => 100,
                _ => 0,
            };
            number16(d, 6, &Value::Number(bits));
        }),
    Field::new("ip_fragoff", Form::U16, |v| Ok(Value::Number(word(v.ip(8)?, 6).into())))
        .printed(print_offset)
        .parsed(|_, draft, text| parse_offset(draft, text))
        .sets(NET - 1, |d, n| number16(d, 6, n)),
    Field::new("ip_id", Form::U16, |v| Ok(Value::Number(word(v.ip(6)?, 4).into())))
        .sets(NET, |d, n| number16(d, 4, n)),
    Field::new("ip_sum", Form::U16, |v| Ok(Value::Number(word(v.ip(12)?, 10).into())))
        .sets(NET + 2, |d, n| number16(d, 10, n)),
    Field::new("ip_proto", Form::U8, |v| Ok(Value::Number(byte(v.ip(10)?, 9).into())))
        .printed(|_, value, out| match value.number() {
            6 => out.push('T'),
            17 => out.push('U'),
            1 => out.push('I'),
            n => out.push_str(&n.to_string()),
        })
        .parsed(|field, draft, text| match text {
            "T" => Some(Value::Number(6)),
            "U" => Some(Value::Number(17)),
            "I" => Some(Value::Number(1)),
            _ => super::parse_number(field, draft, text),
        })
        .sets(NET, |d, n| number8(d, 9, n)),
    Field::new("ip_hl", Form::U8, |v| Ok(Value::Number(u64::from(byte(v.ip(1)?, 0) & 15) * 4)))
        .sets(NET - 1, set_header_len),
    Field::new("ip_len", Form::U32, |v| {
        let len = v.net.map_or(v.data().len() as u64, |ip| word(ip, 2).into());
        Ok(Value::Number(len + u64::from(v.extra_length)))
    })
    .sets(NET + 1, |d, n| {
        if d.make_ip(0) {
            d.want_len = d.net_at() as u32 + n.number().min(0xffff) as u32;
        }
    }),
    Field::new("ip_capture_len", Form::U32, |v| {
        let there = v.net.map_or(v.data().len(), <[u8]>::len);
        Ok(Value::Number(v.net.map_or(there, |ip| there.min(word(ip, 2).into())) as u64))
    })
    // How much was captured says nothing about the packet that is made.
    .sets(PAYLOAD + 2, |_, _| {}),
    Field::new("ip_opt", Form::Counted, options)
        .printed(|_, value, out| ip_options::print(value.bytes(), out))
        .parsed(|_, _, text| ip_options::parse(text).map(|o| Value::Bytes(Cow::Owned(o))))
        .sets(NET, set_options),
];

const fn address(name: &'static str, get: for<'a> fn(&View<'a>) -> Got<'a>) -> Field {
    Field::new(name, Form::U32, get)
        .printed(|_, value, out| out.push_str(&Ipv4Addr::from(value.number() as u32).to_string()))
        .parsed(|_, _, text| text.parse::<Ipv4Addr>().ok().map(|a| Value::Number(u32::from(a).into())))
}

fn number8(d: &mut Draft, at: usize, n: &Value<'_>) {
    if d.make_ip(0) {
        d.put_ip(at, &[n.number() as u8]);
    }
}

fn number16(d: &mut Draft, at: usize, n: &Value<'_>) {
    if d.make_ip(0) {
        d.put_ip(at, &(n.number() as u16).to_be_bytes());
    }
}

fn number32(d: &mut Draft, at: usize, n: &Value<'_>) {
    if d.make_ip(0) {
        d.put_ip(at, &(n.number() as u32).to_be_bytes());
    }
}

/// Sets bits of the type of service and keeps those of `mask`.
fn bits(d: &mut Draft, mask: u8, bits: u8) {
    if d.make_ip(0) {
        let tos = byte(d.ip(), 1);
        d.put_ip(1, &[tos & mask | bits]);
    }
}

fn parse_ecn(text: &str) -> Option<Value<'static>> {
    let n = match text {
        "0" | "no" | "-" => 0,
        "1" | "ect1" | "ECT(1)" => 1,
        "2" | "ect2" | "ECT(0)" => 2,
        "3" | "ce" | "CE" => 3,
        _ => return None,
    };
    Some(Value::Number(n))
}

fn fragment<'a>(view: &View<'a>) -> Got<'a> {
    let bits = u64::from(word(view.ip(8)?, 6));
    let letter = match bits & 0x1fff {
        0 if bits & MF != 0 => b'F',
        0 if bits & DF != 0 => b'!',
        0 => b'.',
        _ => b'f',
    };
    Ok(Value::Number(letter.into()))
}

fn print_offset(_: &View<'_>, value: &Value<'_>, out: &mut String) {
    let bits = value.number();
    out.push_str(&((bits & 0x1fff) * 8).to_string());
    if bits & MF != 0 {
        out.push('+');
    }
    if bits & DF != 0 {
        out.push('!');
    }
}

fn parse_offset(draft: &Draft, text: &str) -> Option<Value<'static>> {
    let digits = text.trim_end_matches(['+', '!']);
    let flags = text.get(digits.len()..)?;
    let offset = digits.parse::<u64>().ok()?;
    // Version 1.0 counted in units of eight bytes.
    let offset = if draft.preset.minor == 0 { offset } else { offset / 8 };
    let more = if flags.contains('+') { MF } else { 0 };
    let whole = if flags.contains('!') { DF } else { 0 };
    (offset <= 0x1fff).then_some(Value::Number(offset | more | whole))
}

fn set_header_len(d: &mut Draft, n: &Value<'_>) {
    if !d.make_ip(0) {
        return;
    }
    d.has_ip_options = true;
    let len = (n.number() as usize).next_multiple_of(4).min(60);
    d.grow(len.saturating_sub(d.ip_header_len()));
    d.set_ip_header_len(len);
}

fn options<'a>(view: &View<'a>) -> Got<'a> {
    let ip = view.ip(1)?;
    let len = usize::from(byte(ip, 0) & 15) * 4;
    let options = if len <= 20 { &[] } else { ip.get(20..len).ok_or(Absent::Ip)? };
    Ok(Value::Bytes(Cow::Borrowed(options)))
}

fn set_options(d: &mut Draft, value: &Value<'_>) {
    if !d.make_ip(0) {
        return;
    }
    d.has_ip_options = true;
    let options = value.bytes();
    if options.is_empty() {
        return;
    }
    let len = (20 + options.len()).next_multiple_of(4).min(60);
    d.grow(len.saturating_sub(d.ip().len()));
    if len > d.ip_header_len() {
        d.set_ip_header_len(len);
    }
    d.put_ip(20, options.get(..40).unwrap_or(options));
}
