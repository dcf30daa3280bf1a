use weir_table::Sharing;

use crate::prelude::*;

element! {
    /// A learning Ethernet switch: input and output of the same number belong to one network.
    ///
    /// Where a frame comes from is remembered, and frames for that address leave there. Frames for groups and for
    /// addresses that are not known leave on all outputs but that of the network they came from. Frames that are for
    /// that network are dropped (`SameNetwork`), and so are those that are shorter than a header (`Truncated`). An
    /// address that has sent nothing for `TIMEOUT` is forgotten. While `CAPACITY` addresses are known, no other is
    /// learnt. With a timeout of 0, nothing is learnt: the element is a hub.
    EtherSwitch: "2-/=", "h/h", flow "#/[^#]";
    example "s :: EtherSwitch; Idle -> [0] s [0] -> Discard; Idle -> [1] s [1] -> Discard; Idle -> [2] s [2] -> Discard;";
    params {
        /// How long a silent address is remembered.
        key timeout: Duration = Duration::from_secs(300),
        /// Most addresses that are remembered.
        key capacity: u32 = 1 << 20,
    }
    check |e| match e.capacity {
        1..=weir_table::MAX_CAPACITY => Ok(()),
        n => Err(format!("CAPACITY: {n} addresses; write a number from 1 to {}", weir_table::MAX_CAPACITY)),
    };
    handlers {
        /// The addresses, one a line, with the number of their port.
        read table = |_, s| Ok(table(s)),
        /// How many seconds a silent address is remembered. A change counts for an address from its next frame on.
        read timeout = |_, s| Ok((s.cell("timeout") as f64 / 1e9).to_string()),
        /// Changes the timeout.
        write timeout = |_, s, v| {
            let timeout = Duration::from_arg(v.trim())?;
            s.set_cell("timeout", nanoseconds(timeout).into());
            Ok(())
        },
        /// For each port, the ports that its frames may leave on.
        read port_forwarding = |_, s| Ok(forwarding(s)),
        /// Closes paths: frames of a port do not leave on these outputs, but are dropped (`NotForwarded`). Written as
        /// `PORT OUTPUT...`, several of these separated by commas.
        write remove_port_forwarding = |_, s, v| remove_forwarding(s, v),
        /// Opens all paths.
        write reset_port_forwarding = |_, s, _| {
            let all = s.table("forwarding").decl().capacity;
            (0..all).for_each(|i| s.table_mut("forwarding").set(i, 0, 0));
            Ok(())
        },
    }
}

fn nanoseconds(t: Duration) -> u64 {
    u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)
}

/// The tables that all programs of the element share.
struct Parts {
    /// Addresses (48 bits) and their ports.
    stations: TableId,
    timeout: TableId,
    /// For each input and each output, in that order, whether frames may not go there.
    forwarding: TableId,
}

fn program(e: &EtherSwitch, b: &mut Builder) {
    let ports = b.inputs();
    let stations = TableDecl::new("stations", Kind::Exact, &[("eth", W64)], &[("port", W32)], e.capacity);
    let forwarding =
        TableDecl::new("forwarding", Kind::Array, &[("path", W32)], &[("closed", W1)], ports * ports);
    let parts = Parts {
        stations: b.table(stations.sharing(Sharing::Shared), vec![]),
        timeout: b.live("timeout", W64, nanoseconds(e.timeout).into()),
        forwarding: b.table(forwarding.configured(), vec![]),
    };
    for port in 0..ports {
        b.input(port, |b| switch(b, &parts, port));
    }
}

fn switch(b: &mut Builder, parts: &Parts, port: u32) {
    b.require(Layer::Data, ETHER_LEN, Reason::TRUNCATED);
    let timeout = b.read_cell(parts.timeout);
    let hub = b.eq(timeout, 0);
    b.when(hub, |b| flood(b, parts, port));
    // Each address with two bytes behind it.
    let src = b.load(W64, Layer::Data, 6);
    let src = b.shr(src, 16);
    let dst = b.load(W64, Layer::Data, 0);
    let dst = b.shr(dst, 16);
    b.lookup(
        parts.stations,
        &[src],
        |b, entry| {
            let known = b.get(entry, "port");
            let moved = b.ne(known, port);
            b.when(moved, |b| b.set(entry, "port", port));
            b.touch(entry, timeout);
        },
        |b| learn(b, parts, src, port, timeout),
    );
    // A group is never learnt, so it is not found.
    let entry = b.find(parts.stations, &[dst], |b| flood(b, parts, port));
    let output = b.get(entry, "port");
    let outputs: Vec<u128> = (0..b.outputs().into()).collect();
    b.switch(output, &outputs, |b, case| match case.map(|i| i as u32) {
        Some(output) if output == port => b.drop(Reason::new("SameNetwork")),
        Some(output) => {
            let closed = closed(b, parts, port, output);
            b.when(closed, |b| b.drop(Reason::new("NotForwarded")));
            b.emit(output);
        }
        // After a hot swap, an address may be behind a port that is gone.
        None => b.drop(Reason::UNCONNECTED),
    });
}

/// Makes an entry for an address, unless it is that of a group, or the table is full.
fn learn(b: &mut Builder, parts: &Parts, src: V, port: u32, timeout: V) {
    // A loop of one round: the paths that leave it meet.
    b.repeat(1, &[], |b, round, _| {
        let group = b.and(src, 1_u64 << 40);
        let group = b.ne(group, 0);
        b.when(group, |b| round.leave(b, &[]));
        let entry = b.insert(parts.stations, &[src], |b| round.leave(b, &[]));
        b.set(entry, "port", port);
        b.touch(entry, timeout);
        round.leave(b, &[]);
    });
}

/// Sends the frame to all networks but its own.
fn flood(b: &mut Builder, parts: &Parts, port: u32) {
    let mut others = (0..b.outputs()).filter(|&o| o != port);
    let first = others.next();
    for output in others {
        let closed = closed(b, parts, port, output);
        b.unless(closed, |b| b.fork(|b| b.emit(output)));
    }
    let Some(first) = first else { return b.drop(Reason::UNCONNECTED) };
    let closed = closed(b, parts, port, first);
    b.when(closed, |b| b.drop(Reason::new("NotForwarded")));
    b.emit(first);
}

fn closed(b: &mut Builder, parts: &Parts, port: u32, output: u32) -> V {
    let path = b.index(parts.forwarding, port * b.inputs() + output);
    b.get(path, "closed")
}

fn table(s: &State<'_>) -> String {
    let stations = s.table("stations");
    let mut lines: Vec<String> = stations
        .rows()
        .iter()
        .map(|&(slot, _)| format!("{} {}\n", EtherAddr::show(stations.key(slot, 0)), stations.get(slot, 0)))
        .collect();
    lines.sort();
    lines.concat()
}

/// Number of ports.
fn ports(s: &State<'_>) -> u32 {
    s.table("forwarding").decl().capacity.isqrt()
}

fn forwarding(s: &State<'_>) -> String {
    let n = ports(s);
    let line = |port: u32| {
        let open = (0..n).filter(|&o| o != port && s.table("forwarding").get(port * n + o, 0) == 0);
        let open: Vec<String> = open.map(|o| o.to_string()).collect();
        format!("{port}: {}\n", open.join(" "))
    };
    (0..n).map(line).collect()
}

fn remove_forwarding(s: &mut State<'_>, text: &str) -> Result<(), String> {
    let n = ports(s);
    let mut paths = Vec::new();
    for list in text.split(',') {
        let numbers = list.split_whitespace().map(|w| match u32::from_arg(w)? {
            port if port < n => Ok(port),
            port => Err(format!("there is no port {port}; the last is {}", n - 1)),
        });
        let numbers = numbers.collect::<Result<Vec<u32>, String>>()?;
        let [port, outputs @ ..] = &numbers[..] else { return Err("write 'PORT OUTPUT...'".into()) };
        paths.extend(outputs.iter().map(|output| port * n + output));
    }
    paths.into_iter().for_each(|path| s.table_mut("forwarding").set(path, 0, 1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use weir_net::EtherAddr;
    use weir_net::build::ethernet;

    const A: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 0xa]);
    const B: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 0xb]);
    const GROUP: EtherAddr = EtherAddr([1, 0, 0x5e, 0, 0, 1]);
    const SECOND: u64 = 1_000_000_000;

    fn switch(args: &[&str]) -> Harness {
        Harness::new("EtherSwitch", args, 3, 3)
    }

    /// The outputs that a frame leaves on.
    fn send(e: &mut Harness, port: u32, src: EtherAddr, dst: EtherAddr) -> Vec<u32> {
        let frame = ethernet(dst, src, 0x0800, b"payload");
        let out = e.send(port, &frame);
        if let [crate::testing::Outcome::Drop(reason)] = &out[..] {
            assert_eq!(reason, "SameNetwork");
            return vec![];
        }
        out.iter()
            .map(|o| {
                assert_eq!(o.out().1, frame);
                o.out().0
            })
            .collect()
    }

    #[test]
    fn addresses_are_learnt_and_move() {
        let mut e = switch(&[]);
        assert_eq!(send(&mut e, 0, A, B), [1, 2], "nobody knows where B is");
        assert_eq!(send(&mut e, 2, B, A), [0]);
        assert_eq!(send(&mut e, 0, A, B), [2]);
        assert!(send(&mut e, 2, A, B).is_empty(), "A has moved to where B is");
        assert_eq!(send(&mut e, 1, B, A), [2]);
        assert_eq!(e.read("table"), "02:00:00:00:00:0a 2\n02:00:00:00:00:0b 1\n");
        assert!(send(&mut e, 1, B, B).is_empty(), "an address may send to itself");
    }

    #[test]
    fn groups_go_everywhere_and_are_not_learnt() {
        let mut e = switch(&[]);
        for group in [GROUP, EtherAddr::BROADCAST] {
            assert_eq!(send(&mut e, 1, group, B), [0, 2]);
            assert_eq!(send(&mut e, 0, A, group), [1, 2]);
        }
        assert_eq!(e.read("table"), "02:00:00:00:00:0a 0\n");
    }

    #[test]
    fn silent_addresses_are_forgotten() {
        let mut e = switch(&["TIMEOUT 10"]);
        assert_eq!(e.read("timeout"), "10");
        send(&mut e, 0, A, B);
        e.now += 9 * SECOND;
        e.expire();
        assert_eq!(send(&mut e, 1, B, A), [0]);
        send(&mut e, 0, A, B);
        e.now += 9 * SECOND;
        e.expire();
        assert_eq!(send(&mut e, 1, B, A), [0], "A was heard again meanwhile");
        e.now += 2 * SECOND;
        e.expire();
        assert_eq!(send(&mut e, 1, B, A), [0, 2]);
        e.write("timeout", "0").unwrap();
        assert_eq!(send(&mut e, 0, A, B), [1, 2], "a hub looks at nothing");
        e.write("timeout", "20").unwrap();
        assert_eq!(send(&mut e, 0, A, B), [1]);
        assert!(e.write("timeout", "soon").unwrap_err().contains("not a time"));
    }

    #[test]
    fn a_full_table_learns_nobody_else() {
        let mut e = switch(&["CAPACITY 1"]);
        send(&mut e, 0, A, B);
        assert_eq!(send(&mut e, 1, B, A), [0]);
        assert_eq!(send(&mut e, 0, A, B), [1, 2]);
        let errors =
            crate::class_named("EtherSwitch").unwrap().configure(&["CAPACITY 0".into()]).err().unwrap();
        assert!(errors[0].contains("CAPACITY: 0 addresses; write a number from 1 to"), "{errors:?}");
    }

    #[test]
    fn paths_between_ports_can_be_closed() {
        let mut e = switch(&[]);
        assert_eq!(e.read("port_forwarding"), "0: 1 2\n1: 0 2\n2: 0 1\n");
        e.write("remove_port_forwarding", "0 2, 1 0 2").unwrap();
        assert_eq!(e.read("port_forwarding"), "0: 1\n1: \n2: 0 1\n");
        assert_eq!(send(&mut e, 0, A, GROUP), [1]);
        let out = e.send(1, &ethernet(A, B, 0x0800, b""));
        assert_eq!((out.len(), out[0].reason()), (1, "NotForwarded"));
        let out = e.send(1, &ethernet(GROUP, B, 0x0800, b""));
        assert_eq!((out.len(), out[0].reason()), (1, "NotForwarded"));
        assert_eq!(send(&mut e, 2, A, B), [1]);
        e.write("reset_port_forwarding", "").unwrap();
        assert_eq!(send(&mut e, 1, B, GROUP), [0, 2]);
        for (wrong, why) in
            [("0 3", "there is no port 3; the last is 2"), ("0 1,", "PORT OUTPUT"), ("x", "number")]
        {
            assert!(e.write("remove_port_forwarding", wrong).unwrap_err().contains(why));
        }
        assert_eq!(e.read("port_forwarding"), "0: 1 2\n1: 0 2\n2: 0 1\n");
    }

    #[test]
    fn cut_frames_are_dropped() {
        let frame = ethernet(B, A, 0x0800, b"");
        let mut e = switch(&[]);
        for n in 0..14 {
            assert_eq!(e.send(0, &frame[..n])[0].reason(), "Truncated");
        }
        assert_eq!(e.send(0, &frame).len(), 2);
        assert_eq!(Harness::new("EtherSwitch", &[], 1, 1).send(0, &frame)[0].reason(), "Unconnected");
    }
}
