//! What is not in the packet's bytes: times, counts, marks.

use weir_elements::{parse_time, time_text};

use super::view::{AGGREGATE, EXTRA_PACKETS, FIRST_TIMESTAMP, PAINT, anno_u32, anno_u64};
use super::{Absent, Draft, Field, Form, Value, View, order::ANNO};

const SECOND: u64 = 1_000_000_000;

pub(super) const FIELDS: &[Field] = &[
    time("timestamp", Form::Micros),
    time("ntimestamp", Form::Nanos),
    Field::new("ts_sec", Form::U32, |v| Ok(Value::Number(v.timestamp / SECOND)))
        .sets(ANNO, |d, n| d.timestamp = d.timestamp % SECOND + n.number() * SECOND),
    Field::new("ts_usec", Form::U32, |v| Ok(Value::Number(v.timestamp % SECOND / 1000)))
        .sets(ANNO, |d, n| d.timestamp = d.timestamp / SECOND * SECOND + n.number() % 1_000_000 * 1000),
    Field::new("ts_usec1", Form::U64, |v| Ok(Value::Number(v.timestamp / 1000)))
        .sets(ANNO, |d, n| d.timestamp = n.number().saturating_mul(1000).min(i64::MAX as u64)),
    first_time("first_timestamp", Form::Micros),
    first_time("first_ntimestamp", Form::Nanos),
    Field::new("count", Form::U32, |v| Ok(Value::Number(u64::from(anno_u32(v.packet, EXTRA_PACKETS)) + 1)))
        .sets(ANNO, |d, n| {
            let more = n.number().saturating_sub(1) as u32;
            d.set_anno(EXTRA_PACKETS, &more.to_be_bytes());
        }),
    paint("link"),
    paint("paint"),
    paint("direction").printed(|_, value, out| match value.number() {
        0 => out.push('>'),
        1 => out.push('<'),
        n => out.push_str(&n.to_string()),
    }),
    Field::new("aggregate", Form::U32, |v| Ok(Value::Number(anno_u32(v.packet, AGGREGATE).into())))
        .sets(ANNO, |d, n| d.set_anno(AGGREGATE, &(n.number() as u32).to_be_bytes())),
    Field::new("wire_len", Form::U32, |v| Ok(Value::Number(v.packet.len() as u64)))
        .sets(ANNO, |d, n| d.want_len = n.number() as u32),
];

const fn time(name: &'static str, form: Form) -> Field {
    Field::new(name, form, |v| Ok(Value::Number(v.timestamp)))
        .printed(print_time)
        .parsed(|_, _, text| parse_time(text).map(Value::Number))
        .sets(ANNO, |d, n| d.timestamp = n.number())
}

const fn first_time(name: &'static str, form: Form) -> Field {
    Field::new(name, form, |v| Ok(Value::Number(anno_u64(v.packet, FIRST_TIMESTAMP))))
        .printed(print_time)
        .parsed(|_, _, text| parse_time(text).map(Value::Number))
        .sets(ANNO, |d, n| d.set_anno(FIRST_TIMESTAMP, &n.number().to_be_bytes()))
}

const fn paint(name: &'static str) -> Field {
    Field::new(name, Form::U8, |v| {
        v.packet.anno.get(PAINT).map(|p| Value::Number(u64::from(*p))).ok_or(Absent::Silent)
    })
    .parsed(parse_paint)
    .sets(ANNO, |d, n| d.set_anno(PAINT, &[n.number() as u8]))
}

fn parse_paint(field: &Field, draft: &Draft, text: &str) -> Option<Value<'static>> {
    match text {
        ">" | "L" => Some(Value::Number(0)),
        "<" | "R" | "X" => Some(Value::Number(1)),
        _ => super::parse_number(field, draft, text),
    }
}

fn print_time(_: &View<'_>, value: &Value<'_>, out: &mut String) {
    out.push_str(&time_text(value.number()));
}
