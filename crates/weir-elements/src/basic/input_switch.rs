use super::switch::check_output;
use crate::prelude::*;

element! {
    /// Passes on the packets of one of its inputs, which a handler can change. Those of the others are dropped
    /// (`Discarded`).
    InputSwitch: "-/1", "h/h";
    example "Idle -> s :: InputSwitch(1) -> Discard; Idle -> [1] s;";
    params {
        /// Number of the input, or -1 to drop all packets.
        pos input: i32 = 0,
    }
    check |e| check_output(e.input).map_err(|_| format!("INPUT: there is no input {}; write a number below 65536, or -1 for none", e.input));
    handlers {
        /// Number of the input, or -1 to drop all packets.
        cell switch: i32,
    }
}

fn program(e: &InputSwitch, b: &mut Builder) {
    let switch = b.live("switch", W32, e.input.bits());
    for port in 0..b.inputs() {
        b.input(port, |b| {
            let chosen = b.read_cell(switch);
            let this = b.eq(chosen, port);
            b.when(this, |b| b.emit(0));
            b.drop(Reason::DISCARDED);
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn packets_of_one_input_pass() {
        let mut e = Harness::new("InputSwitch", &["1"], 3, 1);
        assert_eq!(e.send(1, b"x")[0].out().0, 0);
        assert_eq!(e.send(0, b"x")[0].reason(), "Discarded");
        e.write("switch", "2").unwrap();
        assert_eq!(e.send(1, b"x")[0].reason(), "Discarded");
        assert_eq!((e.send(2, b"x")[0].out().0, e.read("switch")), (0, "2".into()));
        e.write("switch", "-1").unwrap();
        assert_eq!(e.send(2, b"x")[0].reason(), "Discarded");
    }

    #[test]
    fn inputs_have_numbers_of_16_bits() {
        let class = crate::class_named("InputSwitch").unwrap();
        assert!(class.configure(&["65536".into()]).err().unwrap()[0].contains("there is no input 65536"));
    }
}
