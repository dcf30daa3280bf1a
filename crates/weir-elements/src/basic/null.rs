use crate::prelude::*;

element! {
    /// Passes packets on unchanged.
    Null: "1/1", "a/a";
    example "Idle -> Null -> Discard;";
}

fn program(_: &Null, b: &mut Builder) {
    b.input(0, |b| b.emit(0));
}
