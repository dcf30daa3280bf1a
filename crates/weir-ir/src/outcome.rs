//! What becomes of one packet: a program run by the interpreter, with nothing around it.

use weir_packet::Packet;
use weir_table::TableSet;

use crate::interp::{Host, Interpreter};
use crate::program::{BlockId, Program, Reason};

/// The end of a packet.
#[derive(Debug)]
pub enum Outcome {
    /// It left on this output.
    Exit(u32, Packet),
    /// It was dropped.
    Dropped(Reason),
    /// The entry that held it was removed.
    Orphaned,
}

impl Outcome {
    /// The output on which it left.
    pub fn output(&self) -> Option<u32> {
        match self {
            Outcome::Exit(port, _) => Some(*port),
            Outcome::Dropped(_) | Outcome::Orphaned => None,
        }
    }
}

#[derive(Default)]
struct Outcomes(Vec<Outcome>);

impl Host for Outcomes {
    fn exit(&mut self, port: u32, packet: Packet) {
        self.0.push(Outcome::Exit(port, packet));
    }
    fn dropped(&mut self, _: BlockId, reason: &Reason, _: Packet) {
        self.0.push(Outcome::Dropped(reason.clone()));
    }
    fn orphaned(&mut self, _: Packet) {
        self.0.push(Outcome::Orphaned);
    }
    fn random(&mut self) -> u32 {
        0
    }
}

/// Runs a packet that comes in on an input of a program of one element, at the time 0; random numbers are 0. What became of it
/// and its copies, in their order; nothing if an entry holds it.
///
/// # Panics
/// If the program has no such input.
pub fn outcomes(program: &Program, tables: &mut TableSet, input: u32, packet: Packet) -> Vec<Outcome> {
    let entry = program.packet_entry(0, input).expect("the program has this input");
    let mut host = Outcomes::default();
    Interpreter::default().run(program, tables, &mut host, 0, entry, &[], Some(packet));
    host.0
}
