use crate::prelude::*;

engine_node! {
    /// Pulls from one of its inputs, which a handler can change: as `PullSwitch`, but those who ask whether there may be a
    /// packet are notified of all inputs.
    SimplePullSwitch: "-/1", "l/l", Choose, Graph;
    example "s :: SimplePullSwitch(1); Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
    params {
        /// Number of the input, or -1 for none.
        pos input: i32 = 0,
    }
    handlers {
        /// Number of the input, or -1.
        read switch = |s, _| Ok(s.input.to_string()),
        /// Changes the input.
        write switch = |s, value, _| {
            s.input = <i32 as weir_elements::FromArg>::from_arg(value)?;
            Ok(())
        },
    }
}

impl Behavior for SimplePullSwitch {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let input = u32::try_from(self.input).ok().filter(|&i| i < cx.ports().0)?;
        cx.pull(input)
    }
}
