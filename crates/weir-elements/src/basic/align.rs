use crate::prelude::*;

element! {
    /// Passes packets on unchanged. It stands for Click configurations: here packets need no alignment.
    Align: "1/1", "a/a";
    example "Idle -> Align(4, 0) -> Discard;";
    params {
        /// Bytes to which packets are aligned: 2, 4 or 8.
        pos modulus: u32,
        /// How many bytes beyond that they begin.
        pos offset: u32,
    }
    check |e| match (e.modulus, e.offset) {
        (2 | 4 | 8, offset) if offset < e.modulus => Ok(()),
        (2 | 4 | 8, _) => Err("OFFSET: write a number smaller than MODULUS".into()),
        _ => Err("MODULUS: write 2, 4 or 8".into()),
    };
}

fn program(_: &Align, b: &mut Builder) {
    b.input(0, |b| b.emit(0));
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn packets_pass_and_arguments_are_checked() {
        assert_eq!(Harness::new("Align", &["4", "2"], 1, 1).send(0, b"x")[0].out(), (0, &b"x"[..]));
        let class = crate::class_named("Align").unwrap();
        assert!(class.configure(&["3".into(), "0".into()]).err().unwrap()[0].contains("2, 4 or 8"));
        assert!(class.configure(&["4".into(), "4".into()]).err().unwrap()[0].contains("smaller than"));
    }
}
