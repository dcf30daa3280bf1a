use crate::prelude::*;

engine_node! {
    /// Pulls from one of its inputs, which a handler can change. With a negative number, or one that no input has,
    /// there is no packet.
    PullSwitch: "-/1", "l/l", Choose, Graph;
    example "s :: PullSwitch(1); Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
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
            s.state.asked = true;
            Ok(())
        },
    }
    state Known;
}

#[derive(Default)]
struct Known {
    /// Whether it was asked for a packet; before that there may be one on any input.
    asked: bool,
}

impl Behavior for PullSwitch {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        self.state.asked = true;
        let input = u32::try_from(self.input).ok().filter(|&i| i < cx.ports().0)?;
        cx.pull(input)
    }

    fn gives(&self, _port: u32, asks: &dyn Fn(u32) -> bool) -> Option<bool> {
        Some(u32::try_from(self.input).is_ok_and(|input| !self.state.asked || asks(input)))
    }
}
