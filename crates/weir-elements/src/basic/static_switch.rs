use super::switch::{at_least, check_output};
use crate::prelude::*;

element! {
    /// Sends all packets to one of its outputs.
    ///
    /// Unlike `Switch`, the output is fixed. If it is negative, packets are dropped (`Discarded`).
    StaticSwitch: "1/-", "h/h";
    example "Idle -> s :: StaticSwitch(1); s [0] -> Discard; s [1] -> Discard;";
    params {
        /// Number of the output, or -1 to drop packets.
        pos output: i32,
    }
    check |e| check_output(e.output);
    ports |e| at_least(e.output);
}

fn program(e: &StaticSwitch, b: &mut Builder) {
    b.input(0, |b| match u32::try_from(e.output) {
        Ok(port) => b.emit(port),
        Err(_) => b.drop(Reason::DISCARDED),
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn the_output_is_fixed() {
        assert_eq!(Harness::new("StaticSwitch", &["1"], 1, 2).send(0, b"x")[0].out().0, 1);
        assert_eq!(Harness::new("StaticSwitch", &["-1"], 1, 2).send(0, b"x")[0].reason(), "Discarded");
        let errors = crate::class_named("StaticSwitch").unwrap().configure(&[]).err().unwrap();
        assert!(errors[0].contains("OUTPUT"), "{errors:?}");
    }
}
