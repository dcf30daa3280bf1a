//! Runs each target over its seeds and some mutations, the same each time.

use std::collections::BTreeSet;
use std::path::Path;

use weir_fuzz::TARGETS;

fn run(name: &str, count: u64) {
    let target = TARGETS.iter().find(|t| t.name == name).expect("a target has that name");
    assert!(!(target.seeds)().is_empty());
    target.run_inputs(0, count);
}

macro_rules! tests {
    ($($name:ident $count:literal)*) => {
        $(#[test] fn $name() { run(stringify!($name), $count); })*
        /// The targets that are tested here.
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

tests! {
    click_parser 3000
    service_graph 2000
    template 2000
    filter 2000
    requirement 2000
    request 2000
    topology 2000
    ip_json_route_table 2000
    ip_route_table 2000
    show_ip_route_table 2000
    iptables_rules 2000
    transfer_function 2000
    ir_text 3000
    probes 5000
    headers 5000
    packets 3000
    compiled 500
    generated 600
    pcap_reader 2000
    memif_messages 3000
    memif_rings 3000
    vhost_messages 2000
    vhost_rings 3000
    openflow_messages 5000
    openflow_connections 1000
    login 3000
    protocol 5000
    vnf_sip 5000
    vnf_diameter 5000
    vnf_http 5000
    vnf_redis 5000
}

#[test]
fn each_target_is_tested_here_and_has_a_program_for_libfuzzer() {
    let names: BTreeSet<String> = TARGETS.iter().map(|t| t.name.to_owned()).collect();
    assert_eq!(TESTED.iter().map(|&n| n.to_owned()).collect::<BTreeSet<_>>(), names);

    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let mut files = BTreeSet::new();
    for file in std::fs::read_dir(fuzz.join("fuzz_targets")).unwrap() {
        files.insert(file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned());
    }
    assert_eq!(files, names, "fuzz/fuzz_targets has one file for each target");
    for name in names {
        let text = std::fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(text.contains(&format!("weir_fuzz::{name}(")), "{name}.rs runs another target:\n{text}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml has no [[bin]] {name}");
    }
}
