use super::prelude::*;
use super::pull_switch::pull_switch_node;

pull_switch_node! {
    /// Pulls from one of its inputs, which a handler can change: the same as `PullSwitch`.
    SimplePullSwitch;
    example "s :: SimplePullSwitch(1); Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
}
