use crate::prelude::*;

element! {
    /// Sends packets round through output 1, or passes them on to output 0, as a handler says.
    ///
    /// Packets of input 1, where those that went round come back, leave on output 0. On a pull path an active Bypass
    /// gives the packets that come from input 1. It costs next to nothing.
    Bypass: "1-2/1-2", "a/a", flow "xy/[xy]x";
    example "Idle -> b :: Bypass -> Discard; b [1] -> Print(debug) -> [1] b;";
    params {
        /// Whether packets go round.
        pos active: bool = false,
        /// Accepted for Click's sake: neighbours stay as they are.
        key inline: bool = false,
    }
    handlers {
        /// Whether packets go round.
        cell active: bool,
    }
}

fn program(e: &Bypass, b: &mut Builder) {
    let active = b.live("active", W1, e.active.into());
    b.input(0, |b| {
        if b.outputs() > 1 {
            let active = b.read_cell(active);
            b.when(active, |b| b.emit(1));
        }
        b.emit(0);
    });
    if b.inputs() > 1 {
        b.input(1, |b| b.emit(0));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn packets_go_round_when_it_is_active() {
        let mut e = Harness::new("Bypass", &[], 2, 2);
        assert_eq!((e.send(0, b"x")[0].out().0, e.read("active")), (0, "false".into()));
        e.write("active", "true").unwrap();
        assert_eq!((e.send(0, b"x")[0].out().0, e.send(1, b"x")[0].out().0), (1, 0));
        assert_eq!(Harness::new("Bypass", &["true"], 1, 1).send(0, b"x")[0].out().0, 0);
    }
}
