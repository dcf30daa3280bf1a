use crate::prelude::*;

element! {
    /// Sends a copy of each packet to every output.
    ///
    /// The packet itself leaves on output 0, copies on the others, in order.
    Tee: "1/1-", "h/h";
    example "Idle -> t :: Tee(2); t [0] -> Discard; t [1] -> Discard;";
    params {
        /// Number of outputs. Left out, it is the number of outputs in use.
        pos n: Option<u32> = None,
    }
    check |e| match e.n {
        Some(n @ 65_537..) => Err(format!("N: {n} outputs are too many; at most 65536")),
        _ => Ok(()),
    };
    ports |e| e.n.map_or("1/1-".into(), |n| format!("1/{n}"));
}

fn program(_: &Tee, b: &mut Builder) {
    b.input(0, |b| {
        for port in 1..b.outputs() {
            b.fork(|b| b.emit(port));
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    #[test]
    fn every_output_gets_the_packet_in_order() {
        let out = Harness::new("Tee", &["3"], 1, 3).send(0, &[1, 2]);
        let out: Vec<_> = out.iter().map(Outcome::out).collect();
        assert_eq!(out, [(0, &[1, 2][..]), (1, &[1, 2]), (2, &[1, 2])]);
    }

    #[test]
    fn what_follows_from_a_copy_is_done_before_the_next_copy() {
        let tees = [("a", "Tee", &[][..], 1, 3), ("b", "Tee", &[], 1, 2), ("c", "Tee", &[], 1, 2)];
        // Exits in order: a's last output, both of b, both of c.
        let wires = [((0, 0), (1, 0)), ((0, 1), (2, 0))];
        let out = Harness::graph(&tees, &wires).send(0, b"x");
        let exits: Vec<u32> = out.iter().map(|o| o.out().0).collect();
        assert_eq!(exits, [1, 2, 3, 4, 0]);
    }

    #[test]
    fn the_number_of_outputs_is_bounded() {
        let tee = |n: &str| crate::class_named("Tee").unwrap().configure(&[n.to_owned()]);
        assert_eq!(tee("3").unwrap().ports(), "1/3");
        assert!(tee("65537").err().unwrap()[0].contains("at most 65536"));
    }
}
