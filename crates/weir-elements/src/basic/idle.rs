use crate::prelude::*;

element! {
    /// Sends nothing, and drops what it gets (`Discarded`).
    ///
    /// It has any number of inputs and outputs, and stands where a port has to be connected but nothing should come.
    Idle: "-/-", "a/a", flow "x/y";
    example "Idle -> Discard;";
    example "Idle -> t :: Tee; t [0] -> Discard; t [1] -> Idle;";
}

// The builder lets inputs that nothing was written for drop their packets.
fn program(_: &Idle, _: &mut Builder) {}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn no_packet_leaves() {
        let mut e = Harness::new("Idle", &[], 2, 2);
        for port in 0..2 {
            assert_eq!(e.send(port, b"x")[0].reason(), "Discarded");
        }
        Harness::new("Idle", &[], 0, 1);
    }
}
