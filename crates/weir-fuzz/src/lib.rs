//! What is fuzzed: one function a target, each of which takes any bytes and panics only if something is wrong.
//!
//! Two things feed them: libFuzzer (`fuzz/`, needs a nightly compiler), and [`Target::run_inputs`], which mutates the
//! seeds of a target without any tool, the same way each time: `cargo test -p weir-fuzz`, and for longer
//! `cargo run -p weir-fuzz -- run TARGET COUNT`.

#![forbid(unsafe_code)]

mod generated;
mod login;
mod memif;
mod mutate;
mod openflow;
mod seeds;
mod targets;
mod vhost;
mod vnf;

pub use generated::generated;
pub use login::login;
pub use memif::{memif_messages, memif_rings};
pub use openflow::{openflow_connections, openflow_messages};
pub use targets::{
    click_parser, compiled, filter, headers, ip_json_route_table, ip_route_table, iptables_rules, ir_text,
    packets, pcap_reader, probes, protocol, request, requirement, service_graph, show_ip_route_table,
    template, topology, transfer_function,
};
pub use vhost::{vhost_messages, vhost_rings};
pub use vnf::{vnf_diameter, vnf_http, vnf_redis, vnf_sip};

/// Something that is fuzzed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: of the function in this crate and of the file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Takes any input. Panics if the input shows a mistake.
    pub run: fn(&[u8]),
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// Runs `count` inputs from number `first` on: the seeds, then their mutations, each always the same.
    ///
    /// # Panics
    /// If an input shows a mistake, after its number was printed.
    pub fn run_inputs(&self, first: u64, count: u64) {
        let inputs = mutate::Inputs::new((self.seeds)());
        for n in first..first.saturating_add(count) {
            let input = inputs.get(n);
            let running = Running { target: self.name, n, input: &input };
            (self.run)(&input);
            std::mem::forget(running);
        }
    }
}

/// Prints the input in progress if it is dropped: by a panic only.
struct Running<'a> {
    target: &'a str,
    n: u64,
    input: &'a [u8],
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let (target, n) = (self.target, self.n);
        eprintln!("input {n} of {target} (weir-fuzz run {target} 1 {n}):\n{}", self.input.escape_ascii());
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "click_parser", run: click_parser, seeds: seeds::click },
    Target { name: "service_graph", run: service_graph, seeds: seeds::service_graphs },
    Target { name: "template", run: template, seeds: seeds::templates },
    Target { name: "filter", run: filter, seeds: seeds::filters },
    Target { name: "requirement", run: requirement, seeds: seeds::requirements },
    Target { name: "request", run: request, seeds: seeds::requests },
    Target { name: "topology", run: topology, seeds: seeds::topologies },
    Target { name: "ip_json_route_table", run: ip_json_route_table, seeds: seeds::ip_json_routes },
    Target { name: "ip_route_table", run: ip_route_table, seeds: seeds::ip_routes },
    Target { name: "show_ip_route_table", run: show_ip_route_table, seeds: seeds::show_ip_routes },
    Target { name: "iptables_rules", run: iptables_rules, seeds: seeds::iptables_rules },
    Target { name: "transfer_function", run: transfer_function, seeds: seeds::transfer_functions },
    Target { name: "ir_text", run: ir_text, seeds: seeds::programs },
    Target { name: "probes", run: probes, seeds: seeds::probes },
    Target { name: "headers", run: headers, seeds: seeds::frames },
    Target { name: "packets", run: packets, seeds: seeds::packet_series },
    Target { name: "compiled", run: compiled, seeds: seeds::packet_series },
    Target { name: "generated", run: generated, seeds: seeds::choices },
    Target { name: "pcap_reader", run: pcap_reader, seeds: seeds::captures },
    Target { name: "memif_messages", run: memif_messages, seeds: memif::message_seeds },
    Target { name: "memif_rings", run: memif_rings, seeds: memif::ring_seeds },
    Target { name: "vhost_messages", run: vhost_messages, seeds: vhost::message_seeds },
    Target { name: "vhost_rings", run: vhost_rings, seeds: vhost::ring_seeds },
    Target { name: "openflow_messages", run: openflow_messages, seeds: openflow::message_seeds },
    Target { name: "openflow_connections", run: openflow_connections, seeds: openflow::connection_seeds },
    Target { name: "login", run: login, seeds: login::login_seeds },
    Target { name: "protocol", run: protocol, seeds: seeds::control_lines },
    Target { name: "vnf_sip", run: vnf_sip, seeds: vnf::sip_seeds },
    Target { name: "vnf_diameter", run: vnf_diameter, seeds: vnf::diameter_seeds },
    Target { name: "vnf_http", run: vnf_http, seeds: vnf::http_seeds },
    Target { name: "vnf_redis", run: vnf_redis, seeds: vnf::redis_seeds },
];
