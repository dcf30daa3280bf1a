use crate::prelude::*;

element! {
    /// Adds bytes in front and at the end of packets, or removes bytes.
    ///
    /// Of the bytes that are added in front, those that were removed there before come back, at most 64; the others are
    /// zero, as are those at the end.
    ///
    /// From a packet that has fewer bytes than are to be removed, all are. A packet without space for those that are to be
    /// added is dropped (`NoSpace`).
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

/// Most bytes that come back.
const MOST_RETURNED: u32 = 64;

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
        let returned = take_back(b, added);
        let missing = b.sub(added, returned);
        b.push(missing);
        lengthen(b, tail);
    });
}

/// Takes back so many bytes in front, or as many as were removed; gives their number.
fn take_back(b: &mut Builder, added: V) -> V {
    let none = b.constant(W32, 0_u32);
    let number = b.repeat(MOST_RETURNED, &[none], |b, round, vars| {
        let done = b.ge(vars[0], added);
        b.when(done, |b| round.leave(b, &[vars[0]]));
        b.unpull_or(1_u32, |b| round.leave(b, &[vars[0]]));
        let number = b.add(vars[0], 1);
        round.next(b, &[number]);
    });
    number[0]
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
        assert_eq!(Harness::new("Resize", &["65535"], 1, 1).send(0, b"x")[0].reason(), "NoSpace");
    }

    #[test]
    fn bytes_that_were_removed_come_back() {
        let removed = |n: u32| {
            let mut p = weir_packet::Packet::from_bytes(&[7; 200]).unwrap();
            p.pull(n);
            p
        };
        let mut e = Harness::new("Resize", &["4"], 1, 1);
        for (before, want) in [(9, [7, 7, 7, 7, 7]), (2, [0, 0, 7, 7, 7]), (0, [0, 0, 0, 0, 7])] {
            assert_eq!(e.send_packet(0, removed(before))[0].out().1[..5], want);
        }
        let out = Harness::new("Resize", &["100"], 1, 1).send_packet(0, removed(100));
        assert_eq!((&out[0].out().1[..36], &out[0].out().1[36..]), (&[0; 36][..], &[7; 164][..]));
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
