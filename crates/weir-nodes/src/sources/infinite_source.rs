use crate::common::limit::{Data, Length};
use crate::prelude::*;
use crate::sources::generator::generator_node;

generator_node! {
    /// Generates packets as fast as they are taken.
    InfiniteSource;
    example "InfiniteSource(LENGTH 60, LIMIT 1000, STOP true) -> Discard;";
    params {
        /// What the packets contain.
        pos data: Data = Data::default(),
        /// Length of the packets: the data is repeated or cut.
        key length: Option<Length> = None,
    }
    handlers {
        /// Changes what the packets contain.
        write data = |s, value, _| {
            s.data = <Data as weir_elements::FromArg>::from_arg(value)?;
            s.state.bytes.clear();
            Ok(())
        },
        /// Length of the packets, if it was given.
        read length = |s, _| Ok(s.length.map_or(String::new(), |l| l.to_string())),
        /// Changes the length of the packets.
        write length = |s, value, _| {
            s.length = Some(<Length as weir_elements::FromArg>::from_arg(value)?);
            s.state.bytes.clear();
            Ok(())
        },
    }
    bytes |s, _| {
        if s.state.bytes.is_empty() {
            s.state.bytes = s.data.of_length(s.length);
        }
    };
    generates |s| Some(s.data.of_length(s.length));
}
