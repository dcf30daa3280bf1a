//! A switch and its controllers without sockets.

use std::collections::VecDeque;
use std::time::Duration;

use weir_openflow::action::{Action, Instruction};
use weir_openflow::connection::{ConnectionId, Controller, ControllerEvent, Limits, Switch, SwitchEvent};
use weir_openflow::flow::FlowMod;
use weir_openflow::message::{Features, RoleMessage};
use weir_openflow::numbers::Capabilities;
use weir_openflow::{Match, Message, PortNo, Role, TableId};

pub const ZERO: Duration = Duration::ZERO;

pub fn features() -> Features {
    Features { datapath: 7, n_buffers: 0, n_tables: 2, auxiliary: 0, capabilities: Capabilities::FLOW_STATS }
}

pub fn limits() -> Limits {
    Limits::default()
}

/// A switch and its controllers, with what happened at each.
pub struct World {
    pub switch: Switch,
    pub said: VecDeque<SwitchEvent>,
    pub controllers: Vec<(ConnectionId, Controller, Vec<ControllerEvent>)>,
    pub now: Duration,
}

impl World {
    pub fn new(limits: &Limits) -> World {
        World {
            switch: Switch::new(features(), limits.clone()),
            said: VecDeque::new(),
            controllers: Vec::new(),
            now: ZERO,
        }
    }

    pub fn with(controllers: usize) -> World {
        let mut world = World::new(&limits());
        (0..controllers).for_each(|_| world.connect());
        world.run();
        assert_eq!(world.said.len(), controllers);
        world.said.clear();
        for (_, _, events) in &mut world.controllers {
            assert_eq!(std::mem::take(events), [ControllerEvent::Ready(features())]);
        }
        world
    }

    pub fn connect(&mut self) {
        let id = self.switch.connect(self.now);
        self.controllers.push((id, Controller::new(limits(), self.now), Vec::new()));
    }

    /// Moves bytes until none are left, a few at a time.
    pub fn run(&mut self) {
        loop {
            let mut moved = false;
            for (id, controller, events) in &mut self.controllers {
                let bytes: Vec<u8> = controller.output().iter().copied().take(1000).collect();
                let taken = self.switch.receive(*id, &bytes, self.now);
                controller.sent(taken);
                moved |= taken > 0;
                let bytes: Vec<u8> = self.switch.output(*id).iter().copied().take(70_001).collect();
                let taken = controller.receive(&bytes, self.now);
                self.switch.sent(*id, taken);
                moved |= taken > 0;
                events.extend(std::iter::from_fn(|| controller.poll()));
            }
            let before = self.said.len();
            self.said.extend(std::iter::from_fn(|| self.switch.poll()));
            if !moved && self.said.len() == before {
                return;
            }
        }
    }

    pub fn request(&mut self, controller: usize, message: Message) -> u32 {
        self.controllers[controller].1.request(message).expect("the connection is up")
    }

    /// What happened at a controller since this was asked last.
    pub fn heard(&mut self, controller: usize) -> Vec<ControllerEvent> {
        self.run();
        std::mem::take(&mut self.controllers[controller].2)
    }

    pub fn role(&mut self, controller: usize, role: Role, generation: u64) -> ControllerEvent {
        self.request(controller, Message::RoleRequest(RoleMessage { role, generation }));
        self.heard(controller).pop().expect("there is an answer")
    }

    pub fn roles(&self) -> Vec<Role> {
        self.controllers.iter().filter_map(|(id, ..)| self.switch.role(*id)).collect()
    }
}

/// A new entry of this priority.
pub fn flow(priority: u16) -> Message {
    let send = Instruction::apply(vec![Action::output(PortNo(2))]);
    Message::FlowMod(FlowMod::add(TableId(0), priority, Match::any_packet(), vec![send]))
}
