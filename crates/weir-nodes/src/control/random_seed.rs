use crate::prelude::*;

engine_node! {
    /// Makes random numbers repeatable.
    ///
    /// A seed gives the series of the C library's `random()` on Linux, as in Click: a rewriter's pattern with a range of
    /// ports chooses the same ports.
    RandomSeed: "0/0", "h/h", Sink, Process;
    example "RandomSeed(42); Idle -> RandomSample(0.5) -> Discard;";
    params {
        /// Where the series of random numbers begins; none: anywhere.
        pos seed: Option<u64> = None,
    }
    handlers {
        /// Begins a series.
        write seed = |_, value, env| {
            env.set_seed(<u64 as weir_elements::FromArg>::from_arg(value.trim())?);
            Ok(())
        },
    }
}

impl Behavior for RandomSeed {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        if let Some(seed) = self.seed {
            env.set_seed(seed);
        }
        Ok(())
    }
}
