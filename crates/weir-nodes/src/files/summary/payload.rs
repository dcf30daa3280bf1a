//! What follows the headers.

use std::borrow::Cow;

use super::draft::TCP_LEN;
use super::view::{byte, first_fragment, word};
use super::{Absent, Draft, Field, Form, Got, Value, View, md5, order::PAYLOAD};

pub(super) const FIELDS: &[Field] = &[
    Field::new("payload_len", Form::U32, |v| {
        let len = extent(v).1 as u64;
        let more = if v.net.is_none() { v.extra_length } else { 0 };
        Ok(Value::Number(len + u64::from(more)))
    })
    .sets(PAYLOAD + 1, |d, n| {
        make(d);
        account(d, start(d), n.number().min(0xffff) as usize);
    }),
    Field::new("payload", Form::TextOnly, |v| Ok(Value::Bytes(Cow::Borrowed(payload(v)?))))
        .printed(|_, value, out| out.push_str(&weir_click::quote(value.bytes())))
        .parsed(|_, _, text| Some(Value::Bytes(Cow::Owned(weir_click::unquote(text)))))
        .sets(PAYLOAD, set_payload),
    Field::new("payload_md5", Form::Fixed(16), digest)
        .printed(|_, value, out| out.push_str(&md5::text(value.bytes()))),
    Field::new("payload_md5_hex", Form::Fixed(16), digest)
        .printed(|_, value, out| out.push_str(&md5::hex(value.bytes()))),
];

/// Length of the transport header, from the protocol and the bytes that follow the IP header.
fn header_len(ip: &[u8], segment: &[u8]) -> usize {
    match byte(ip, 9) {
        _ if !first_fragment(ip) => 0,
        6 => (usize::from(byte(segment, 12) >> 4) * 4).max(TCP_LEN),
        17 | 136 => 8,
        _ => 0,
    }
}

/// Where the payload begins in the buffer, and its length according to the headers.
fn extent(view: &View<'_>) -> (usize, usize) {
    let Some(ip) = view.net else { return (view.packet.data() as usize, view.data().len()) };
    let at = view.transport_at + header_len(ip, view.transport);
    (at, usize::from(word(ip, 2)).saturating_sub(at.saturating_sub(view.net_at)))
}

fn payload<'a>(view: &View<'a>) -> Result<&'a [u8], Absent> {
    let (at, len) = extent(view);
    if len == 0 {
        return Ok(&[]);
    }
    view.packet.buffer().get(at..view.end.min(at + len)).filter(|b| !b.is_empty()).ok_or(Absent::Silent)
}

fn digest<'a>(view: &View<'a>) -> Got<'a> {
    Ok(Value::Bytes(Cow::Owned(md5::digest(payload(view)?).to_vec())))
}

/// Makes the headers that go in front of a payload.
fn make(d: &mut Draft) {
    if d.make_ip(0) {
        d.make_transport();
    }
}

/// Where the payload of the packet that is made begins.
fn start(d: &Draft) -> usize {
    match d.transport {
        Some(at) if d.is_ip => at + header_len(d.ip(), d.segment()),
        _ => 0,
    }
}

/// The packet has `len` bytes of payload from `at` on: that gives its length, or, where that is known, leaves space
/// for options in the headers.
fn account(d: &mut Draft, at: usize, len: usize) {
    if d.want_len == 0 || !d.is_ip {
        d.want_len = (at + len) as u32;
        return;
    }
    let mut space = (d.want_len as usize).saturating_sub(at + len);
    if space > 0
        && first_fragment(d.ip())
        && byte(d.ip(), 9) == 6
        && !d.has_tcp_options
        && byte(d.segment(), 12) >> 4 == 5
    {
        let more = (space - space % 4).min(60 - TCP_LEN);
        insert(d, d.transport.unwrap_or(0) + TCP_LEN, more);
        d.put_transport(12, &[(((TCP_LEN + more) / 4) << 4) as u8]);
        space -= more;
    }
    if space > 0 && !d.has_ip_options && d.ip_header_len() == 20 {
        let more = (space - space % 4).min(40);
        insert(d, d.net_at() + 20, more);
        d.set_ip_header_len(20 + more);
    }
}

/// Puts zeros into the packet.
fn insert(d: &mut Draft, at: usize, n: usize) {
    if at <= d.bytes.len() {
        d.bytes.splice(at..at, std::iter::repeat_n(0, n));
    }
}

fn set_payload(d: &mut Draft, value: &Value<'_>) {
    make(d);
    let payload = value.bytes();
    if payload.is_empty() {
        return;
    }
    account(d, start(d), payload.len());
    let at = start(d);
    d.grow((at + payload.len()).saturating_sub(d.bytes.len()));
    for (to, from) in d.bytes.iter_mut().skip(at).zip(payload) {
        *to = *from;
    }
}
