use weir_packet::PacketType;

use crate::prelude::*;

element! {
    /// Sets the link-layer type of packets: to whom they go.
    SetPacketType: "1/1", "a/a";
    example "Idle -> SetPacketType(HOST) -> Discard;";
    params {
        /// The type: `HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST` or `OUTGOING`.
        pos r#type: Type,
    }
}

/// A packet type by its name.
#[derive(Debug, Clone, Copy)]
pub struct Type(PacketType);

impl FromArg for Type {
    const SYNTAX: &'static str = "packet type";
    fn from_arg(text: &str) -> Result<Type, String> {
        Ok(Type(match text.trim().to_ascii_uppercase().as_str() {
            "HOST" => PacketType::Host,
            "BROADCAST" => PacketType::Broadcast,
            "MULTICAST" => PacketType::Multicast,
            "OTHERHOST" => PacketType::OtherHost,
            "OUTGOING" => PacketType::Outgoing,
            _ => {
                return Err(format!(
                    "'{text}' is not a packet type: write HOST, BROADCAST, MULTICAST, OTHERHOST or OUTGOING"
                ));
            }
        }))
    }
}

fn program(e: &SetPacketType, b: &mut Builder) {
    b.input(0, |b| {
        let value = b.constant(W8, e.r#type.0 as u8);
        b.store_meta(MetaField::PacketType, value);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome};

    #[test]
    fn the_type_is_set() {
        for (name, want) in [("OTHERHOST", PacketType::OtherHost), ("host", PacketType::Host)] {
            let out = Harness::new("SetPacketType", &[name], 1, 1).send(0, b"x");
            assert!(matches!(&out[0], Outcome::Out(0, p) if p.packet_type == want as u8), "{out:?}");
        }
        let class = crate::class_named("SetPacketType").unwrap();
        assert!(class.configure(&["ANYONE".into()]).err().unwrap()[0].contains("write HOST"));
    }
}
