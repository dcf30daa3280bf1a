//! What `weir` says about bad input, and the exit codes that scripts rely on: 1 refused, 2 wrong command line, 3 not
//! reachable.

use serde_json::Value;

use crate::lab::{Lab, weir};

/// Runs a configuration that has to be refused, and gives the message.
#[track_caller]
fn refused(config: &str) -> String {
    weir(&["run", "--for", "1", "-e", config]).fails(1)
}

#[test]
fn a_missing_file_is_unreachable() {
    for command in ["run", "check", "ir"] {
        let e = weir(&[command, "/nowhere/config.click"]).fails(3);
        assert!(e.contains("/nowhere/config.click") && e.contains("No such file"), "{command}: {e}");
    }
}

#[test]
fn a_wrong_command_line_is_told_apart() {
    assert!(weir(&["run", "--bogus", "x.click"]).fails(2).contains("--bogus"));
    assert!(weir(&["fly"]).fails(2).contains("fly"));
    assert!(weir(&["check"]).fails(2).contains("FILE"));
    assert!(weir(&["run", "--for", "soon", "-e", "Idle -> Discard"]).fails(2).contains("soon"));
}

#[test]
fn a_syntax_error_has_file_line_and_column() {
    let lab = Lab::new(&[]);
    let file = lab.write("bad.click", "a :: Idle;\nb :: Discard;\na -> -> b;\n");
    let e = weir(&["check", &file]).fails(1);
    assert!(e.contains(&format!("{file}:3:6: syntax error near '->'")), "{e}");
    assert!(e.contains("a -> -> b;"), "the line is shown: {e}");
    let e = weir(&["run", &file]).fails(1);
    assert_eq!(e, format!("{file}:3: syntax error near '->'\n"), "as Click says it, where no person reads");
    let json: Value = serde_json::from_str(&weir(&["--json", "check", &file]).stdout).unwrap();
    assert!(json["errors"][0].as_str().unwrap().contains(":3:6:"), "{json}");
}

#[test]
fn an_unknown_element_comes_with_a_suggestion() {
    let e = refused("Idle -> Discrd");
    assert!(
        e.contains("config:1:") && e.contains("'Discrd'") && e.contains("did you mean 'Discard'?"),
        "{e}"
    );
    assert!(weir(&["elements", "nat_and_more"]).fails(1).contains("nat_and_more"));
}

#[test]
fn all_errors_of_a_configuration_are_told() {
    let e = refused("Idle -> Strip(abc) -> Discard;\nIdle -> Paint(many) -> Discard;");
    assert!(e.contains("config:1:") && e.contains("config:2:"), "{e}");
}

#[test]
fn wrong_arguments_are_named() {
    for (config, words) in [
        ("Idle -> Strip(abc) -> Discard", &["Strip", "LENGTH", "'abc' is not a number"][..]),
        ("Idle -> Strip() -> Discard", &["Strip", "missing", "LENGTH"]),
        ("Idle -> Strip(14, 15) -> Discard", &["Strip", "too many arguments", "15"]),
        (
            "Idle -> Strip(14, LENTH 3) -> Discard",
            &["Strip", "LENTH: unknown argument; did you mean LENGTH?"],
        ),
        ("InfiniteSource(LIMITS 5) -> Discard", &["LIMITS: unknown argument; did you mean LIMIT?"]),
        ("RatedSource(RATES 5) -> Discard", &["RATES: unknown argument; did you mean RATE?"]),
        ("Message(TYP x)", &["TYP: unknown argument; did you mean TYPE?"]),
        ("FromDump(x, STOPP true) -> Discard", &["STOPP: unknown argument; did you mean STOP?"]),
        ("FromDevice(lo, BPF_FILTERS tcp) -> Discard", &["BPF_FILTERS: unknown argument"]),
        (
            "FromDevice(lo, BPF_FILTER tcp dst prt 80) -> Discard",
            &["BPF_FILTER", "the primitive is not complete"],
        ),
        ("InfiniteSource(LENGTH 300000) -> Discard", &["LENGTH", "at most 262144 bytes, not 300000"]),
        ("RandomSource(300000) -> Discard", &["LENGTH", "at most 262144 bytes, not 300000"]),
        (
            "Idle -> IPFilter(allow tcp dst prt 80, deny all) -> Discard",
            &["IPFilter", "argument 1", "tcp dst prt 80"],
        ),
        ("Idle -> IPClassifier(host 10.0.0.256, -) -> Discard", &["IPClassifier", "10.0.0.256"]),
        ("Idle -> [1] Discard", &["config:1:", "no input 1"]),
        ("Idle -> Queue -> ToDump(/nowhere/out.pcap)", &["ToDump", "/nowhere/out.pcap"]),
        ("FromDump(/nowhere/in.pcap) -> Discard", &["FromDump", "/nowhere/in.pcap"]),
    ] {
        let e = refused(config);
        assert!(words.iter().all(|w| e.contains(w)), "{config}: {e}");
    }
}

#[test]
fn an_interface_that_does_not_exist_is_named_with_those_that_do() {
    let e = refused("FromDevice(nosuch0) -> Discard");
    assert!(e.contains("there is no interface `nosuch0`") && e.contains("lo"), "{e}");
    let e = refused("FromDevice(a-name-that-is-too-long) -> Discard");
    assert!(e.contains("a-name-that-is-too-long"), "{e}");
}

#[test]
fn handlers_that_do_not_exist_are_named() {
    let run = |arguments: &[&str]| {
        let config = ["run", "--quit", "-e", "c :: Counter; Idle -> c -> Discard"];
        weir(&[&config, arguments].concat()).fails(1)
    };
    assert!(run(&["-h", "x.count"]).contains("no element 'x'"));
    assert!(run(&["-h", "c.cnt"]).contains("no 'c.cnt' read handler"));
    assert!(run(&["--write", "c.count=1"]).contains("no 'c.count' write handler"));
    assert!(run(&["--trace", "tcp port 80 or"]).contains("filter: column 15"));
}

#[test]
fn a_bad_service_graph_is_refused_with_its_place() {
    let lab = Lab::new(&[]);
    let good = std::fs::read_to_string(crate::lab::repository().join("examples/firewall-nat.yaml")).unwrap();
    for (what, from, to, words) in [
        ("unknown image", "name: nat\n", "name: natt\n", &["natt"][..]),
        ("unknown port", "sf:nat:inside", "sf:nat:insde", &["insde"]),
        ("unknown function", "sf:nat:inside", "sf:nut:inside", &["nut"]),
        ("duplicate rule", "id: r2", "id: r1", &["r1"]),
        ("duplicate function", "id: nat\n", "id: firewall\n", &["firewall"]),
        ("wrong rules", "allow tcp dst port 80", "allow tcp dst port many", &["many"]),
        ("missing parameter", "INSIDE_IP: 10.0.1.1, ", "", &["INSIDE_IP"]),
        ("not YAML", "SFs:\n", "SFs: [\n", &["line"]),
        ("unknown field", "flowrules:\n", "flowrulez: 3\nflowrules:\n", &["flowrulez"]),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{what}");
        let file = lab.write("bad.yaml", text);
        let e = weir(&["check", &file]).fails(1);
        assert!(words.iter().all(|w| e.contains(w)) && e.contains("bad.yaml"), "{what}: {e}");
    }
}
