use std::time::Duration;

use crate::prelude::*;

/// The longest that a thread is held at a time.
const LONGEST: Duration = Duration::from_secs(60);

engine_node! {
    /// Holds its thread for a while when asked to, to see how the rest of a graph takes it. It has no ports.
    ///
    /// Nothing else runs on that worker meanwhile: no packets are taken in, and no handlers answered.
    BlockThread: "0/0", "h/h", Sink, Process;
    example "b :: BlockThread; Script(wait 10ms, write b.block 5ms, stop);";
    handlers {
        /// Holds the thread for that time (at most a minute).
        write block = |_, value, _| {
            let time = <Duration as weir_elements::FromArg>::from_arg(value.trim())?;
            if time > LONGEST {
                return Err(format!("{value} is too long; at most {} seconds", LONGEST.as_secs()));
            }
            std::thread::sleep(time);
            Ok(())
        },
    }
}

impl Behavior for BlockThread {}
