use crate::prelude::*;

element! {
    /// Sends all packets to one of its outputs, which a handler can change.
    ///
    /// Packets for an output that is negative or does not exist are dropped (`Discarded`).
    Switch: "1/-", "h/h";
    example "Idle -> s :: Switch(1); s [0] -> Discard; s [1] -> Discard;";
    params {
        /// Number of the output, or -1 to drop packets.
        pos output: i32 = 0,
    }
    check |e| check_output(e.output);
    handlers {
        /// Number of the output, or -1 to drop packets.
        cell switch: i32,
    }
    ports |e| at_least(e.output);
}

/// Refuses outputs that no element has.
pub(crate) fn check_output(output: i32) -> Result<(), String> {
    match output {
        i32::MIN..=65_535 => Ok(()),
        _ => Err(format!(
            "OUTPUT: there is no output {output}; write a number below 65536, or -1 to drop packets"
        )),
    }
}

/// Port counts of a switch that is set to this output.
pub(crate) fn at_least(output: i32) -> String {
    match u32::try_from(output) {
        Ok(output) => format!("1/{}-", output + 1),
        Err(_) => "1/-".into(),
    }
}

/// The packet leaves on the output with a number that is known when the program runs, or is dropped.
pub(crate) fn emit_on(b: &mut Builder, port: V, reason: &Reason) {
    let outputs: Vec<u128> = (0..b.outputs()).map(u128::from).filter(|&o| o <= port.width.max()).collect();
    b.switch(port, &outputs, |b, case| match case {
        Some(port) => b.emit(port as u32),
        None => b.drop(reason.clone()),
    });
}

/// A number below `n` from 32 bits that are random or a hash: their high bits decide.
pub(crate) fn spread(b: &mut Builder, bits: V, n: u32) -> V {
    if n.is_power_of_two() {
        return b.shr(bits, 32 - n.ilog2());
    }
    let wide = b.resize(W64, bits);
    let scaled = b.mul(wide, n);
    let high = b.shr(scaled, 32);
    b.resize(W32, high)
}

fn program(e: &Switch, b: &mut Builder) {
    let switch = b.live("switch", W32, e.output.bits());
    b.input(0, |b| {
        let port = b.read_cell(switch);
        emit_on(b, port, &Reason::DISCARDED);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn the_output_can_change() {
        let mut e = Harness::new("Switch", &[], 1, 3);
        assert_eq!(e.send(0, b"x")[0].out(), (0, &b"x"[..]));
        e.write("switch", "2").unwrap();
        assert_eq!(e.send(0, b"x")[0].out().0, 2);
        for nowhere in ["3", "-1"] {
            e.write("switch", nowhere).unwrap();
            assert_eq!(e.send(0, b"x")[0].reason(), "Discarded");
            assert_eq!(e.read("switch"), nowhere);
        }
        assert!(e.write("switch", "out").unwrap_err().contains("not a number"));
    }

    #[test]
    fn the_output_has_to_exist_when_the_configuration_is_loaded() {
        let ports = |arg: &str| {
            let class = crate::class_named("Switch").unwrap();
            class.configure(&[arg.to_owned()]).unwrap().ports()
        };
        assert_eq!((ports("3").as_str(), ports("-1").as_str()), ("1/4-", "1/-"));
        let huge = crate::class_named("Switch").unwrap().configure(&["65536".into()]);
        assert!(huge.err().unwrap()[0].contains("below 65536"));
    }
}
