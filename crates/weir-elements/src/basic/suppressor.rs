use crate::prelude::*;

element! {
    /// Passes packets from each input to the output of that number, unless that is suppressed by a handler: then they
    /// are dropped (`Discarded`).
    Suppressor: "-/=", "a/a", flow "#/#";
    example "Idle -> s :: Suppressor -> Discard; Idle -> [1] s [1] -> Discard;";
    handlers {
        /// Whether packets of that input pass.
        each active = |_, s, i| {
            let ports = s.table("ports");
            if i < ports.decl().capacity { Ok((ports.get(i, 0) == 0).to_string()) } else { Err(no_port(i)) }
        },
        /// Lets them pass, or not.
        set_each active = |_, s, i, v| {
            let suppressed = !bool::from_arg(v.trim())?;
            let ports = s.table_mut("ports");
            if i >= ports.decl().capacity {
                return Err(no_port(i));
            }
            ports.set(i, 0, suppressed.into());
            Ok(())
        },
        /// Lets the packets of all inputs pass.
        write reset = |_, s, _| {
            let ports = s.table_mut("ports");
            (0..ports.decl().capacity).for_each(|i| ports.set(i, 0, 0));
            Ok(())
        },
    }
}

fn no_port(i: u32) -> String {
    format!("there is no input {i}")
}

fn program(_: &Suppressor, b: &mut Builder) {
    let n = b.inputs();
    let decl = TableDecl::new("ports", Kind::Array, &[("port", W32)], &[("suppressed", W1)], n.max(1));
    let ports = b.table(decl, vec![]);
    for port in 0..n {
        b.input(port, |b| {
            let entry = b.index(ports, port);
            let suppressed = b.get(entry, "suppressed");
            b.when(suppressed, |b| b.drop(Reason::DISCARDED));
            b.emit(port);
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn a_suppressed_input_is_closed_until_a_reset() {
        let mut e = Harness::new("Suppressor", &[], 2, 2);
        assert_eq!((e.send(0, b"x")[0].out().0, e.send(1, b"x")[0].out().0), (0, 1));
        e.write("active1", "false").unwrap();
        assert_eq!((e.read("active0"), e.read("active1")), ("true".into(), "false".into()));
        assert_eq!(e.send(1, b"x")[0].reason(), "Discarded");
        assert_eq!(e.send(0, b"x")[0].out().0, 0);
        e.write("reset", "").unwrap();
        assert_eq!(e.send(1, b"x")[0].out().0, 1);
        assert!(e.write("active2", "true").unwrap_err().contains("no input 2"));
        assert!(e.write("active0", "maybe").unwrap_err().contains("not a boolean"));
    }
}
