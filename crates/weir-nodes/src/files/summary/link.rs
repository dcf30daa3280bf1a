//! The Ethernet header.

use std::borrow::Cow;

use weir_net::EtherAddr;
use weir_packet::Layer;

use super::view::word;
use super::{Absent, Field, Form, Got, Value, View, order::LINK};

const LEN: u32 = 14;

pub(super) const FIELDS: &[Field] = &[
    Field::new("eth_src", Form::Fixed(6), |v| address(v, 6))
        .printed(|_, value, out| print_address(value, out))
        .parsed(|_, _, text| parse_address(text))
        .sets(LINK, |d, v| {
            d.make_ether();
            d.put_ether(6, v.bytes());
        }),
    Field::new("eth_dst", Form::Fixed(6), |v| address(v, 0))
        .printed(|_, value, out| print_address(value, out))
        .parsed(|_, _, text| parse_address(text))
        .sets(LINK, |d, v| {
            d.make_ether();
            d.put_ether(0, v.bytes());
        }),
    Field::new("eth_type", Form::U16, |v| Ok(Value::Number(word(header(v)?, 12).into())))
        .printed(|_, value, out| out.push_str(&format!("{:04X}", value.number())))
        .parsed(|_, _, text| u16::from_str_radix(text, 16).ok().map(|n| Value::Number(n.into())))
        .sets(LINK, |d, v| {
            d.make_ether();
            d.put_ether(12, &(v.number() as u16).to_be_bytes());
            d.is_ip = matches!(v.number(), 0x0800 | 0x86dd);
        }),
];

/// The 14 bytes right in front of the network header, if the packet begins or is marked there.
fn header<'a>(view: &View<'a>) -> Result<&'a [u8], Absent> {
    let packet = view.packet;
    let net = packet.layer(Layer::Net);
    let mac = packet.layer(Layer::Mac).or(Some(packet.data()).filter(|&d| net.is_none_or(|n| d < n)));
    let net = net.unwrap_or(packet.end());
    let mac = mac.filter(|&m| m + LEN == net).ok_or(Absent::Ethernet)?;
    packet.buffer().get(mac as usize..net as usize).ok_or(Absent::Ethernet)
}

fn address<'a>(view: &View<'a>, at: usize) -> Got<'a> {
    let bytes = header(view)?.get(at..at + 6).ok_or(Absent::Ethernet)?;
    Ok(Value::Bytes(Cow::Borrowed(bytes)))
}

fn print_address(value: &Value<'_>, out: &mut String) {
    let bytes: Vec<String> = value.bytes().iter().map(|b| format!("{b:02X}")).collect();
    out.push_str(&bytes.join("-"));
}

fn parse_address(text: &str) -> Option<Value<'static>> {
    let address: EtherAddr = text.replace('-', ":").parse().ok()?;
    Some(Value::Bytes(Cow::Owned(address.0.to_vec())))
}
