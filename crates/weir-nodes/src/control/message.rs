use crate::control::info::Level;
use crate::prelude::*;

engine_node! {
    /// Prints a message when the graph is loaded; as an `ERROR` it keeps the graph from being loaded.
    Message: "0/0", "h/h", Sink, Graph;
    example "Message(\"this configuration is only an example\"); Idle -> Discard;";
    params {
        /// The message.
        pos message: String,
        /// How serious it is.
        pos r#type: Level = Level::Message => "MESSAGE",
    }
}

impl Behavior for Message {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let graph = env.running.clone();
        match self.r#type {
            Level::Message => env.notice(Some(&graph), "print", self.message.clone()),
            Level::Warning => env.notice(Some(&graph), "print", format!("warning: {}", self.message)),
            Level::Error => return Err(self.message.clone()),
        }
        Ok(())
    }
}
