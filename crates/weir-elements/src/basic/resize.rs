use crate::prelude::*;

element! {
    /// Adds zero bytes in front and at the end of packets, or removes bytes.
    ///
    /// From a packet that has fewer bytes than are to be removed, all are. A packet without room for those that are to be
    /// added is dropped (`NoRoom`).
    Resize: "1/1", "a/a";
    example "Idle -> Resize(HEAD -2, TAIL 4) -> Discard;";
    params {
        /// How many bytes are added in front; a negative number removes them.
        pos head: i32 = 0,
        /// How many bytes are added at the end; a negative number removes them.
        pos tail: i32 = 0,
    }
    check |e| checked(e.head, "HEAD").and_then(|()| checked(e.tail, "TAIL"));
    handlers {
        /// How many bytes are added in front.
        read head = |_, s| Ok(i32::show(s.cell("head"))),
        /// Changes it.
        write head = |_, s, v| set(s, "head", v),
        /// How many bytes are added at the end.
        read tail = |_, s| Ok(i32::show(s.cell("tail"))),
        /// Changes it.
        write tail = |_, s, v| set(s, "tail", v),
    }
}

fn checked(n: i32, name: &str) -> Result<(), String> {
    if (-65_535..=65_535).contains(&n) {
        return Ok(());
    }
    Err(format!("{name}: {n} is out of range; write a number from -65535 to 65535"))
}

fn set(s: &mut State<'_>, cell: &str, text: &str) -> Result<(), String> {
    let n = i32::from_arg(text)?;
    checked(n, &cell.to_uppercase())?;
    s.set_cell(cell, n.bits());
    Ok(())
}

/// How many bytes are to be added and to be removed; one of both is 0.
fn change(b: &mut Builder, cell: TableId) -> [V; 2] {
    let n = b.read_cell(cell);
    let sign = b.shr(n, 31);
    let negative = b.eq(sign, 1);
    let zero = b.constant(W32, 0_u32);
    let opposite = b.sub(zero, n);
    let added = b.select(negative, zero, n);
    let removed = b.select(negative, opposite, zero);
    [b.and(added, 0xffff), b.and(removed, 0xffff)]
}

fn program(e: &Resize, b: &mut Builder) {
    let head = b.live("head", W32, e.head.bits());
    let tail = b.live("tail", W32, e.tail.bits());
    b.input(0, |b| {
        let [added, removed] = change(b, head);
        b.require_or(Layer::Data, removed, |b| {
            let none = b.constant(W32, 0_u32);
            b.trim(none);
            lengthen(b, tail);
        });
        b.pull(removed);
        b.push(added);
        lengthen(b, tail);
    });
}

fn lengthen(b: &mut Builder, tail: TableId) {
    let [added, removed] = change(b, tail);
    b.put(added);
    let len = b.len();
    let too_short = b.gt(removed, len);
    let left = b.sub(len, removed);
    let none = b.constant(W32, 0_u32);
    let left = b.select(too_short, none, left);
    b.trim(left);
    b.emit(0);
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn bytes_come_and_go_at_both_ends() {
        for (args, want) in [
            (&["HEAD -2"][..], &b"CD"[..]),
            (&["+2", "-2"], b"\0\0AB"),
            (&["0", "2"], b"ABCD\0\0"),
            (&[], b"ABCD"),
            (&["HEAD -8"], b""),
            (&["TAIL -8"], b""),
            (&["-3", "-2"], b""),
            (&["-4", "1"], b"\0"),
        ] {
            assert_eq!(Harness::new("Resize", args, 1, 1).send(0, b"ABCD")[0].out(), (0, want), "{args:?}");
        }
        assert_eq!(Harness::new("Resize", &["65535"], 1, 1).send(0, b"x")[0].reason(), "NoRoom");
    }

    #[test]
    fn it_can_change_while_it_runs() {
        let mut e = Harness::new("Resize", &["-1"], 1, 1);
        e.write("head", "1").unwrap();
        e.write("tail", "-1").unwrap();
        assert_eq!(e.send(0, b"AB")[0].out(), (0, &b"\0A"[..]));
        assert_eq!((e.read("head"), e.read("tail")), ("1".into(), "-1".into()));
        assert!(e.write("tail", "65536").unwrap_err().contains("TAIL: 65536 is out of range"));
        assert!(crate::class_named("Resize").unwrap().configure(&["70000".into()]).is_err());
    }
}
