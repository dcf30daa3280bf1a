use super::switch::emit_on;
use crate::prelude::*;

element! {
    /// Sends packets to its outputs in turn.
    RoundRobinSwitch: "1/1-", "h/h";
    example "Idle -> s :: RoundRobinSwitch; s [0] -> Discard; s [1] -> Discard;";
}

fn program(_: &RoundRobinSwitch, b: &mut Builder) {
    let next = b.cell("next", W32, 0);
    b.input(0, |b| {
        let port = b.read_cell(next);
        let following = b.add(port, 1);
        // A hot swap may bring a number from an element that had more outputs.
        let round = b.ge(following, b.outputs());
        let first = b.constant(W32, 0_u32);
        let following = b.select(round, first, following);
        b.write_cell(next, following);
        let beyond = b.ge(port, b.outputs());
        let port = b.select(beyond, first, port);
        emit_on(b, port, &Reason::UNCONNECTED);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn outputs_take_turns() {
        let mut e = Harness::new("RoundRobinSwitch", &[], 1, 3);
        let ports: Vec<_> = (0..7).map(|_| e.send(0, b"x")[0].out().0).collect();
        assert_eq!(ports, [0, 1, 2, 0, 1, 2, 0]);
    }
}
