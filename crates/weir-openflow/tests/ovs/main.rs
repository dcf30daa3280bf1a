//! Against Open vSwitch, in both roles. It runs with simulated ports: neither root nor a network is needed.

mod client;
mod lab;
mod more;
mod small_switch;
mod switch;
mod text;
