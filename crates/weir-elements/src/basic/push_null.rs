use crate::prelude::*;

element! {
    /// Passes packets on unchanged, where they are pushed. It makes its neighbours push ones.
    PushNull: "1/1", "h/h";
    example "Idle -> PushNull -> Discard;";
}

fn program(_: &PushNull, b: &mut Builder) {
    b.input(0, |b| b.emit(0));
}

#[cfg(test)]
mod tests {
    #[test]
    fn packets_pass() {
        let mut e = crate::testing::Harness::new("PushNull", &[], 1, 1);
        assert_eq!(e.send(0, b"x")[0].out(), (0, &b"x"[..]));
    }
}
