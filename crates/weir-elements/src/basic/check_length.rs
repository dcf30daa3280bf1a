use crate::prelude::*;

element! {
    /// Passes packets of at most so many bytes. Longer ones leave on output 1, or are dropped (`TooLong`).
    CheckLength: "1/1-2", "a/ah";
    example "Idle -> c :: CheckLength(1500) -> Discard; c [1] -> Discard;";
    params {
        /// Most bytes.
        pos length: u32,
    }
    handlers {
        /// Most bytes.
        cell length: u32,
    }
}

fn program(e: &CheckLength, b: &mut Builder) {
    let length = b.live("length", W32, e.length.into());
    b.input(0, |b| {
        let most = b.read_cell(length);
        let len = b.len();
        let long = b.gt(len, most);
        b.when(long, |b| b.emit_or_drop(1, Reason::new("TooLong")));
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn long_packets_leave_on_output_1_or_are_dropped() {
        let mut e = Harness::new("CheckLength", &["3"], 1, 2);
        assert_eq!(e.send(0, b"abc")[0].out(), (0, &b"abc"[..]));
        assert_eq!(e.send(0, b"abcd")[0].out(), (1, &b"abcd"[..]));
        e.write("length", "4").unwrap();
        assert_eq!((e.read("length"), e.send(0, b"abcd")[0].out().0), ("4".into(), 0));
        assert_eq!(Harness::new("CheckLength", &["3"], 1, 1).send(0, b"abcd")[0].reason(), "TooLong");
    }

    #[test]
    fn a_bad_length_is_refused() {
        let errors = crate::class_named("CheckLength").unwrap().configure(&["-1".into()]).err().unwrap();
        assert!(errors[0].contains("LENGTH: '-1' is not a number"), "{errors:?}");
    }
}
