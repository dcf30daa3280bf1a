use crate::prelude::*;

engine_node! {
    /// Keeps the graph from being loaded, with a message: for compound elements that are used wrongly.
    ///
    /// For example one form of a compound element may be `elementclass X { … || Error("X needs two outputs") }`.
    Error: "-/-", "a/a", Sink, Graph;
    example "elementclass One { $n | input -> Strip($n) -> output || __REST__ $r | input -> Error(\"One takes a number\") -> output } Idle -> One(14) -> Discard;";
    params {
        /// The message.
        pos message: String = String::new(),
    }
}

impl Behavior for Error {
    fn open(&mut self, _env: &mut Env) -> Result<(), String> {
        Err(if self.message.is_empty() { "this must not be used".to_owned() } else { self.message.clone() })
    }
}
