use super::prelude::*;

/// Declares an element that pulls from one of its inputs.
macro_rules! pull_switch_node {
    ($(#[doc = $doc:expr])* $name:ident; example $example:expr;) => {
        engine_node! {
            $(#[doc = $doc])*
            $name: "-/1", "l/l", Choose;
            example $example;
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

        impl Behavior for $name {
            fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
                let input = u32::try_from(self.input).ok().filter(|&i| i < cx.ports().0)?;
                cx.pull(input)
            }
        }
    };
}
pub(super) use pull_switch_node;

pull_switch_node! {
    /// Pulls from one of its inputs, which a handler can change. With a negative number, or one that no input has,
    /// there is no packet.
    PullSwitch;
    example "s :: PullSwitch(1); Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
}
