use crate::common::limit::Length;
use crate::prelude::*;
use crate::sources::generator::generator_node;

generator_node! {
    /// Generates packets of random bytes as fast as they are taken.
    RandomSource;
    example "RandomSource(64, LIMIT 1000, STOP true) -> Discard;";
    params {
        /// Length of the packets.
        pos length: Length,
    }
    handlers {
        /// Length of the packets.
        read length = |s, _| Ok(s.length.to_string()),
        /// Changes the length of the packets.
        write length = |s, value, _| {
            s.length = <Length as weir_elements::FromArg>::from_arg(value)?;
            Ok(())
        },
    }
    bytes |s, cx| {
        let length = s.length.bytes();
        s.state.bytes.clear();
        while s.state.bytes.len() < length {
            s.state.bytes.extend_from_slice(&cx.env().random().to_ne_bytes());
        }
        s.state.bytes.truncate(length);
    };
    generates |_| None;
}
