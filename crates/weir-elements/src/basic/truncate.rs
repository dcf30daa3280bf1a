use crate::prelude::*;

element! {
    /// Cuts packets to at most so many bytes.
    ///
    /// Shorter packets pass unchanged. The extra length annotation grows by the number of bytes cut off, so that `Pad`
    /// can bring a packet back to its length.
    Truncate: "1/1", "a/a";
    example "Idle -> Truncate(64) -> Discard;";
    params {
        /// Most bytes that stay.
        pos length: u32,
        /// Whether the extra length annotation is changed.
        key extra_length: bool = true,
    }
    handlers {
        /// Most bytes that stay.
        cell nbytes: u32,
    }
}

fn program(e: &Truncate, b: &mut Builder) {
    let nbytes = b.live("nbytes", W32, e.length.into());
    b.input(0, |b| {
        let keep = b.read_cell(nbytes);
        let len = b.len();
        cut(b, len, keep, keep, e.extra_length);
        b.emit(0);
    });
}

/// Cuts a packet that is longer than `keep`, both counted from the same place, to `total` bytes.
pub(crate) fn cut(b: &mut Builder, len: V, keep: V, total: V, extra_length: bool) {
    let long = b.gt(len, keep);
    b.when(long, |b| {
        if extra_length {
            let gone = b.sub(len, keep);
            let extra = b.load_anno(W32, anno::EXTRA_LENGTH);
            let extra = b.add(extra, gone);
            b.store_anno(anno::EXTRA_LENGTH, extra);
        }
        b.trim(total);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    fn extra(out: &Outcome) -> u32 {
        let Outcome::Out(0, p) = out else { panic!("{out:?}") };
        u32::from_be_bytes(p.anno[28..32].try_into().unwrap())
    }

    #[test]
    fn long_packets_are_cut_and_the_annotation_says_by_how_much() {
        let mut e = Harness::new("Truncate", &["3"], 1, 1);
        for (bytes, kept, gone) in [(&b"abcde"[..], &b"abc"[..], 2), (b"abc", b"abc", 0), (b"", b"", 0)] {
            let out = e.send(0, bytes);
            assert_eq!((out[0].out().1, extra(&out[0])), (kept, gone));
        }
        e.write("nbytes", "1").unwrap();
        assert_eq!(e.send(0, b"abc")[0].out().1, b"a");
        let out = Harness::new("Truncate", &["1", "EXTRA_LENGTH false"], 1, 1).send(0, b"abc");
        assert_eq!(extra(&out[0]), 0);
    }

    #[test]
    fn the_length_is_needed() {
        let errors = crate::class_named("Truncate").unwrap().configure(&["x".into()]).err().unwrap();
        assert!(errors[0].contains("LENGTH: 'x' is not a number"), "{errors:?}");
    }
}
