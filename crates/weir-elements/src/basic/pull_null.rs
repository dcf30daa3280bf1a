use crate::prelude::*;

element! {
    /// Passes packets on unchanged, where they are pulled. It makes its neighbours pull ones.
    PullNull: "1/1", "l/l";
    example "Idle -> PullNull -> Discard;";
}

fn program(_: &PullNull, b: &mut Builder) {
    b.input(0, |b| b.emit(0));
}

#[cfg(test)]
mod tests {
    #[test]
    fn packets_pass() {
        let mut e = crate::testing::Harness::new("PullNull", &[], 1, 1);
        assert_eq!(e.send(0, b"x")[0].out(), (0, &b"x"[..]));
    }
}
