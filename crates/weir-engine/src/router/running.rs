//! The graph as its nodes see it while they run.

use weir_ir::Reason;
use weir_nodes::env::Env;
use weir_nodes::node::{EngineNode, Modes, NodeHost};
use weir_packet::Packet;

use super::Router;
use super::calls::CallError;
use super::runtime::Runtime;

/// A graph with what is outside of it.
pub(super) struct Running<'a> {
    pub router: &'a mut Router,
    pub rt: &'a mut Runtime,
}

impl NodeHost for Running<'_> {
    fn env(&mut self) -> &mut Env {
        &mut self.rt.env
    }

    fn now(&self) -> u64 {
        self.rt.env.now
    }

    fn graph(&self) -> usize {
        self.router.slot
    }

    fn elements(&self) -> usize {
        self.router.elements()
    }

    fn name(&self, element: usize) -> &str {
        self.router.element_name(element)
    }

    fn class(&self, element: usize) -> &str {
        self.router.class_name(element)
    }

    fn ports(&self, element: usize) -> (u32, u32) {
        self.router.port_counts(element)
    }

    fn input_is_push(&self, element: usize, port: u32) -> bool {
        self.router.input_is_push(element, port)
    }

    fn output_is_push(&self, element: usize, port: u32) -> bool {
        self.router.output_is_push(element, port)
    }

    fn node(&self, element: usize) -> Option<&dyn EngineNode> {
        self.router.node(element)
    }

    fn emit(&mut self, element: usize, port: u32, packet: Packet) {
        self.router.emit(self.rt, element, port, packet);
    }

    fn pull(&mut self, element: usize, port: u32) -> Option<Packet> {
        self.router.pull_input(self.rt, element, port)
    }

    fn drop(&mut self, element: usize, reason: &Reason, packet: Packet) {
        self.router.drop_at(self.rt, element, reason, packet);
    }

    fn leaves(&mut self, packet: &mut Packet, path: &str) {
        self.rt.watch.lock().ended(packet, path);
    }

    fn waits(&mut self, element: usize, packet: &Packet) {
        let place = format!("waits in {}", self.router.element_name(element));
        self.rt.watch.lock().waits(packet, &place);
    }

    fn again(&mut self) {
        self.router.again();
    }

    fn try_at(&mut self, time: u64) {
        self.router.try_at(time);
    }

    fn print(&mut self, text: String) {
        self.router.print(self.rt, text);
    }

    fn swap_waits(&self) -> bool {
        self.rt.swap.is_some()
    }

    fn read_handler(&mut self, from: usize, call: (&str, &str)) -> Result<String, String> {
        self.router.call_read(self.rt, Some(from), call).map_err(CallError::in_context)
    }

    fn write_handler(&mut self, from: usize, call: (&str, &str)) -> Result<(), String> {
        self.router.call_write(self.rt, Some(from), call).map_err(CallError::in_context)
    }

    fn handler_modes(&self, from: Option<usize>, name: &str) -> Result<Option<Modes>, String> {
        Ok(self.router.modes(&self.router.find_handler(from, name)?))
    }

    fn full_name(&self, from: usize, name: &str) -> String {
        self.router.full_name(Some(from), name)
    }
}
