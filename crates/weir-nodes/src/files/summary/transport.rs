//! Ports, and the headers of TCP and UDP.

use std::borrow::Cow;

use super::draft::TCP_LEN;
use super::tcp_options::{self, Kinds};
use super::view::{byte, first_fragment, long, word};
use super::{Absent, Draft, Field, Form, Got, Proto, Value, View, order::TRANSPORT};

/// Characters of TCP flags, from the lowest bit.
const FLAGS: &[u8; 9] = b"FSRPAUECN";

pub(super) const FIELDS: &[Field] = &[
    Field::new("sport", Form::U16, |v| port(v, 0)).sets(TRANSPORT, |d, n| set_port(d, 0, n)),
    Field::new("dport", Form::U16, |v| port(v, 2)).sets(TRANSPORT, |d, n| set_port(d, 2, n)),
    Field::new("tcp_seq", Form::U32, |v| Ok(Value::Number(long(tcp(v, 8)?, 4).into())))
        .sets(TRANSPORT, |d, n| set_tcp(d, 4, &(n.number() as u32).to_be_bytes())),
    Field::new("tcp_ack", Form::U32, |v| Ok(Value::Number(long(tcp(v, 12)?, 8).into())))
        .sets(TRANSPORT, |d, n| set_tcp(d, 8, &(n.number() as u32).to_be_bytes())),
    Field::new("tcp_off", Form::U8, |v| Ok(Value::Number(u64::from(byte(tcp(v, 13)?, 12) >> 4) * 4)))
        .sets(TRANSPORT - 1, set_offset),
    // Nine flags: in a binary record, there is space for eight.
    Field::new("tcp_flags", Form::U8, |v| Ok(Value::Number((word(tcp(v, 14)?, 12) & 0x1ff).into())))
        .printed(print_flags)
        .parsed(|_, _, text| parse_flags(text))
        .sets(TRANSPORT, |d, n| {
            let above = word(d.segment(), 12) & 0xf000;
            set_tcp(d, 12, &(above | n.number() as u16 & 0xfff).to_be_bytes());
        }),
    Field::new("tcp_window", Form::U16, |v| Ok(Value::Number(word(tcp(v, 16)?, 14).into())))
        .sets(TRANSPORT, |d, n| set_tcp(d, 14, &(n.number() as u16).to_be_bytes())),
    Field::new("tcp_urp", Form::U16, |v| Ok(Value::Number(word(tcp(v, 20)?, 18).into())))
        .sets(TRANSPORT, |d, n| set_tcp(d, 18, &(n.number() as u16).to_be_bytes())),
    Field::new("tcp_opt", Form::Counted, options)
        .printed(|_, value, out| tcp_options::print(value.bytes(), Kinds::ALL, out))
        .parsed(|_, _, text| parse_options(text, Kinds::ALL))
        .sets(TRANSPORT + 3, set_options),
    Field::new("tcp_ntopt", Form::Counted, options_but_timestamps)
        .printed(|_, value, out| tcp_options::print(value.bytes(), Kinds::NO_TIMESTAMP, out))
        .parsed(|_, _, text| parse_options(text, Kinds::NO_TIMESTAMP))
        .sets(TRANSPORT + 2, set_options),
    Field::new("tcp_sack", Form::Counted, options_but_timestamps)
        .printed(|_, value, out| tcp_options::print(value.bytes(), Kinds::SACK, out))
        .parsed(|_, _, text| parse_options(text, Kinds::SACK))
        .sets(TRANSPORT + 1, set_options),
    Field::new("udp_len", Form::U32, |v| {
        let udp = v.udp.filter(|b| b.len() >= 6).ok_or(Absent::Transport(Proto::Udp, 6))?;
        Ok(Value::Number(word(udp, 4).into()))
    })
    .sets(TRANSPORT, set_udp_len),
];

/// Whether a protocol has ports where TCP and UDP have them; zero is a protocol that is not known.
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 136)
}

fn port<'a>(view: &View<'a>, at: usize) -> Got<'a> {
    let absent = Absent::Transport(Proto::TcpOrUdp, at + 2);
    let ip = view.net.ok_or(absent)?;
    let behind = ip.len() > usize::from(byte(ip, 0) & 15) * 4;
    if behind && first_fragment(ip) && has_ports(byte(ip, 9)) && view.transport.len() >= at + 2 {
        Ok(Value::Number(word(view.transport, at).into()))
    } else {
        Err(absent)
    }
}

fn set_port(d: &mut Draft, at: usize, n: &Value<'_>) {
    if d.make_ip(0) && d.make_transport() && (has_ports(byte(d.ip(), 9)) || byte(d.ip(), 9) == 0) {
        d.put_transport(at, &(n.number() as u16).to_be_bytes());
    }
}

fn tcp<'a>(view: &View<'a>, n: usize) -> Result<&'a [u8], Absent> {
    view.tcp.filter(|b| b.len() >= n).ok_or(Absent::Transport(Proto::Tcp, n))
}

fn set_tcp(d: &mut Draft, at: usize, value: &[u8]) {
    if d.make_ip(6) && d.make_transport() {
        d.put_transport(at, value);
    }
}

fn set_offset(d: &mut Draft, n: &Value<'_>) {
    if !d.make_ip(6) || !d.make_transport() {
        return;
    }
    let len = (n.number() as usize).next_multiple_of(4).min(60);
    d.grow(len.saturating_sub(d.segment().len()));
    set_words(d, len);
}

/// Sets the header length and keeps the flag beside it.
fn set_words(d: &mut Draft, len: usize) {
    let low = byte(d.segment(), 12) & 15;
    d.put_transport(12, &[((len / 4) as u8) << 4 | low]);
}

fn print_flags(_: &View<'_>, value: &Value<'_>, out: &mut String) {
    match value.number() {
        0 => out.push('.'),
        // Click writes the commonest pair in this order.
        0x18 => out.push_str("PA"),
        bits => out.extend((0..9).filter(|i| bits >> i & 1 == 1).map(|i| char::from(FLAGS[i]))),
    }
}

fn parse_flags(text: &str) -> Option<Value<'static>> {
    if text == "." {
        return Some(Value::Number(0));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return text.parse::<u64>().ok().filter(|n| *n < 0x1000).map(Value::Number);
    }
    let mut bits = 0;
    for c in text.bytes() {
        // Letters of old dumps: X for ECE, Y or W for CWR.
        let c = match c {
            b'X' => b'E',
            b'Y' | b'W' => b'C',
            c => c,
        };
        bits |= 1 << FLAGS.iter().position(|f| *f == c)?;
    }
    Some(Value::Number(bits))
}

fn options<'a>(view: &View<'a>) -> Got<'a> {
    let tcp = tcp(view, 13)?;
    let len = usize::from(byte(tcp, 12) >> 4) * 4;
    let absent = Absent::Transport(Proto::Tcp, tcp.len() + 1);
    let options = if len <= TCP_LEN { &[] } else { tcp.get(TCP_LEN..len).ok_or(absent)? };
    Ok(Value::Bytes(Cow::Borrowed(options)))
}

/// As [`options`]; where there is nothing but a timestamp, the packet may be cut off within it.
fn options_but_timestamps<'a>(view: &View<'a>) -> Got<'a> {
    let tcp = tcp(view, 13)?;
    if byte(tcp, 12) >> 4 == 8 && long(tcp, TCP_LEN) == 0x0101_080a {
        return Ok(Value::Bytes(Cow::Borrowed(&[])));
    }
    options(view)
}

fn parse_options(text: &str, kinds: Kinds) -> Option<Value<'static>> {
    tcp_options::parse(text, kinds).map(|o| Value::Bytes(Cow::Owned(o)))
}

fn set_options(d: &mut Draft, value: &Value<'_>) {
    if !d.make_ip(6) || !d.make_transport() {
        return;
    }
    d.has_tcp_options = true;
    let options = value.bytes();
    if options.is_empty() {
        return;
    }
    let len = (TCP_LEN + options.len()).next_multiple_of(4).min(60);
    d.grow(len.saturating_sub(d.segment().len()));
    if len > usize::from(byte(d.segment(), 12) >> 4) * 4 {
        set_words(d, len);
    }
    let mut padded = options.get(..40).unwrap_or(options).to_vec();
    padded.resize(len - TCP_LEN, 0);
    d.put_transport(TCP_LEN, &padded);
}

fn set_udp_len(d: &mut Draft, n: &Value<'_>) {
    if d.make_ip(0) && d.make_transport() && matches!(byte(d.ip(), 9), 0 | 17 | 136) {
        d.grow(8usize.saturating_sub(d.segment().len()));
        d.put_transport(4, &(n.number() as u16).to_be_bytes());
    }
}
