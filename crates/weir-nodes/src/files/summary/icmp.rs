//! The ICMP header.

use weir_filter::ICMP_TYPES;

use super::view::{byte, word};
use super::{Absent, Draft, Field, Form, Got, Proto, Value, View, order::TRANSPORT};

/// Codes: type, name, code (RFC 792, 1108, 1122, 1812).
const CODES: &[(u8, &str, u8)] = &[
    (3, "net", 0),
    (3, "host", 1),
    (3, "protocol", 2),
    (3, "port", 3),
    (3, "needfrag", 4),
    (3, "srcroutefail", 5),
    (3, "netunknown", 6),
    (3, "hostunknown", 7),
    (3, "isolated", 8),
    (3, "netprohibited", 9),
    (3, "hostprohibited", 10),
    (3, "tosnet", 11),
    (3, "toshost", 12),
    (3, "filterprohibited", 13),
    (3, "hostprecedence", 14),
    (3, "precedencecutoff", 15),
    (5, "net", 0),
    (5, "host", 1),
    (5, "tosnet", 2),
    (5, "toshost", 3),
    (11, "transit", 0),
    (11, "reassembly", 1),
    (12, "erroratptr", 0),
    (12, "missingopt", 1),
    (12, "length", 2),
];

/// Destination unreachable, and its code "fragmentation needed" (RFC 1191).
const UNREACHABLE: u8 = 3;
const NEED_FRAGMENT: u8 = 4;

pub(super) const FIELDS: &[Field] = &[
    kind("icmp_type"),
    code("icmp_code"),
    kind("icmp_type_name").printed(|_, value, out| {
        let name = ICMP_TYPES.iter().find(|(_, n)| u64::from(*n) == value.number());
        out.push_str(&name.map_or_else(|| value.number().to_string(), |(name, _)| (*name).to_owned()));
    }),
    code("icmp_code_name").printed(|v, value, out| {
        let kind = byte(v.icmp.unwrap_or(&[]), 0);
        let name = CODES.iter().find(|(k, _, n)| *k == kind && u64::from(*n) == value.number());
        out.push_str(&name.map_or_else(|| value.number().to_string(), |(_, name, _)| (*name).to_owned()));
    }),
    Field::new("icmp_flowid", Form::U16, |v| sequenced(v, 4))
        .sets(TRANSPORT + 2, |d, n| set_sequenced(d, 4, n)),
    Field::new("icmp_seq", Form::U16, |v| sequenced(v, 6)).sets(TRANSPORT + 2, |d, n| set_sequenced(d, 6, n)),
    Field::new("icmp_nextmtu", Form::U16, next_mtu).sets(TRANSPORT + 2, |d, n| {
        if make(d)
            && d.icmp_type.is_none_or(|t| t == UNREACHABLE)
            && d.icmp_code.is_none_or(|c| c == NEED_FRAGMENT)
        {
            d.put_transport(6, &(n.number() as u16).to_be_bytes());
        }
    }),
];

const fn kind(name: &'static str) -> Field {
    Field::new(name, Form::U8, |v| Ok(Value::Number(byte(icmp(v, 1)?, 0).into())))
        .parsed(|field, draft, text| {
            let named = ICMP_TYPES.iter().find(|(name, _)| *name == text);
            named
                .map(|(_, n)| Value::Number(u64::from(*n)))
                .or_else(|| super::parse_number(field, draft, text))
        })
        .sets(TRANSPORT, |d, n| {
            if make(d) {
                let kind = n.number() as u8;
                d.icmp_type = Some(kind);
                d.put_transport(0, &[kind]);
                // Timestamps have three times behind the sequence number (RFC 792).
                let len = if matches!(kind, 13 | 14) { 20 } else { 8usize };
                d.grow(len.saturating_sub(d.segment().len()));
            }
        })
}

const fn code(name: &'static str) -> Field {
    Field::new(name, Form::U8, |v| Ok(Value::Number(byte(icmp(v, 2)?, 1).into())))
        .parsed(|field, draft, text| {
            let named = CODES.iter().find(|(kind, name, _)| Some(*kind) == draft.icmp_type && *name == text);
            named
                .map(|(_, _, n)| Value::Number(u64::from(*n)))
                .or_else(|| super::parse_number(field, draft, text))
        })
        .sets(TRANSPORT + 1, |d, n| {
            if make(d) {
                d.icmp_code = Some(n.number() as u8);
                d.put_transport(1, &[n.number() as u8]);
            }
        })
}

fn icmp<'a>(view: &View<'a>, n: usize) -> Result<&'a [u8], Absent> {
    view.icmp.filter(|b| b.len() >= n).ok_or(Absent::Transport(Proto::Icmp, n))
}

/// Whether messages of a type have an identifier and a sequence number.
fn is_sequenced(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13..=16)
}

fn sequenced<'a>(view: &View<'a>, at: usize) -> Got<'a> {
    if !is_sequenced(byte(icmp(view, 1)?, 0)) {
        return Err(Absent::Silent);
    }
    Ok(Value::Number(word(icmp(view, at + 2)?, at).into()))
}

fn next_mtu<'a>(view: &View<'a>) -> Got<'a> {
    let bytes = icmp(view, 2)?;
    if byte(bytes, 0) != UNREACHABLE || byte(bytes, 1) != NEED_FRAGMENT {
        return Err(Absent::Silent);
    }
    Ok(Value::Number(word(icmp(view, 8)?, 6).into()))
}

/// Makes an ICMP header.
fn make(d: &mut Draft) -> bool {
    if !d.make_ip(1) || !d.make_transport() {
        return false;
    }
    d.grow(8usize.saturating_sub(d.segment().len()));
    true
}

fn set_sequenced(d: &mut Draft, at: usize, n: &Value<'_>) {
    if make(d) && d.icmp_type.is_none_or(is_sequenced) {
        d.put_transport(at, &(n.number() as u16).to_be_bytes());
    }
}
