use crate::prelude::*;

element! {
    /// Sends a copy of each packet to all outputs but the one of its input's number, as an Ethernet hub does.
    Hub: "-/=", "h/h", flow "#/[^#]";
    example "Idle -> h :: Hub -> Discard; Idle -> [1] h [1] -> Discard;";
}

fn program(_: &Hub, b: &mut Builder) {
    for from in 0..b.inputs() {
        let to: Vec<u32> = (0..b.outputs()).filter(|&port| port != from).collect();
        b.input(from, |b| match to.split_first() {
            Some((&first, others)) => {
                for &port in others {
                    b.fork(|b| b.emit(port));
                }
                b.emit(first);
            }
            None => b.drop(Reason::UNCONNECTED),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    #[test]
    fn all_but_the_sender_get_the_packet_in_order() {
        let mut e = Harness::new("Hub", &[], 3, 3);
        for (from, want) in [(0, [1, 2]), (1, [0, 2]), (2, [0, 1])] {
            let out = e.send(from, b"x");
            assert_eq!(out.iter().map(|o| o.out().0).collect::<Vec<u32>>(), want);
            assert!(out.iter().all(|o| matches!(o, Outcome::Out(_, p) if p.bytes() == b"x")));
        }
        assert_eq!(Harness::new("Hub", &[], 1, 1).send(0, b"x")[0].reason(), "Unconnected");
    }
}
