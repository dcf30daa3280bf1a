use crate::prelude::*;

engine_node! {
    /// Pulls from its inputs in proportion to tickets (stride scheduling, Waldspurger and Weihl 1995).
    ///
    /// There is an argument for each input: its number of tickets, 0 to 32768 (more count as 32768). An input without tickets is not asked.
    StrideSched: "1-/1", "l/l", Choose, Graph;
    example "s :: StrideSched(3, 1); Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Discard;";
    params {
        /// Tickets of each input.
        rest tickets: Vec<u32>,
    }
    check |s| if s.tickets.is_empty() { Err("write the tickets of each input".into()) } else { Ok(()) };
    handlers {
        /// Tickets of that input.
        each tickets = |s, i| s.tickets.get(i as usize).map(u32::to_string).ok_or_else(|| no_input(i)),
        /// Changes the tickets of that input.
        set_each tickets = |s, i, value| s.set(i, <u32 as weir_elements::FromArg>::from_arg(value)?),
    }
    state Turns;
}

const MAX_TICKETS: u32 = 1 << 15;
/// How far a packet moves an input that has one ticket.
const STRIDE: u32 = 1 << 16;

#[derive(Default)]
struct Turns {
    /// Where each input is; passes wrap.
    passes: Vec<u32>,
    /// Inputs with tickets, the next first.
    order: Vec<usize>,
    /// Those that had their turn, while they are put back.
    moved: Vec<usize>,
}

fn no_input(i: u32) -> String {
    format!("there is no input {i}")
}

fn stride(tickets: u32) -> u32 {
    STRIDE.checked_div(tickets).unwrap_or(0)
}

impl Turns {
    /// Puts an input before those that are not behind it.
    fn insert(&mut self, input: usize) {
        let pass = self.passes[input];
        let ahead = |&&other: &&usize| pass.wrapping_sub(self.passes[other]).cast_signed() > 0;
        let at = self.order.iter().take_while(ahead).count();
        self.order.insert(at, input);
    }
}

impl StrideSched {
    fn set(&mut self, input: u32, tickets: u32) -> Result<(), String> {
        let at = input as usize;
        let before = *self.tickets.get(at).ok_or_else(|| no_input(input))?;
        let tickets = tickets.min(MAX_TICKETS);
        self.tickets[at] = tickets;
        if tickets == 0 {
            self.state.order.retain(|&i| i != at);
        } else if before == 0 && at < self.state.passes.len() {
            let next = self.state.order.first().map_or(0, |&i| self.state.passes[i]);
            self.state.passes[at] = next.wrapping_add(stride(tickets));
            self.state.insert(at);
        }
        Ok(())
    }

    fn start(&mut self) {
        self.tickets.iter_mut().for_each(|t| *t = (*t).min(MAX_TICKETS));
        self.state.passes = self.tickets.iter().map(|&t| stride(t)).collect();
        self.state.order.clear();
        for input in (0..self.tickets.len()).rev() {
            if self.tickets[input] > 0 {
                self.state.insert(input);
            }
        }
    }
}

impl Behavior for StrideSched {
    fn place(&mut self, here: &Neighbours<'_>) -> Result<(), String> {
        let inputs = here.ports().0;
        if inputs as usize != self.tickets.len() {
            return Err(format!("{inputs} inputs need as many arguments, not {}", self.tickets.len()));
        }
        self.start();
        Ok(())
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let (mut packet, mut turns) = (None, 0);
        while packet.is_none() && turns < self.state.order.len() {
            let input = self.state.order[turns];
            packet = cx.pull(input as u32);
            let pass = &mut self.state.passes[input];
            *pass = pass.wrapping_add(stride(self.tickets[input]));
            turns += 1;
        }
        let mut moved = std::mem::take(&mut self.state.moved);
        moved.extend(self.state.order.drain(..turns));
        for input in moved.drain(..) {
            self.state.insert(input);
        }
        self.state.moved = moved;
        packet
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<StrideSched>()
            && old.tickets == self.tickets
        {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
