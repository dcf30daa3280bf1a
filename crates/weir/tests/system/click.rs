//! `weir run` in the place of Click's user-level driver: options, output and exit codes.

use crate::lab::{Lab, until, weir};

const COUNTS: &str = "InfiniteSource(LIMIT 3, STOP true) -> c1 :: Counter -> c2 :: Counter -> Discard;";

#[test]
fn one_handler_is_printed_bare_and_several_with_headings() {
    let run = |handlers: &[&str]| weir(&[&["run", "-e", COUNTS], handlers].concat()).ok();
    assert_eq!(run(&["-h", "c1.count"]), "3\n");
    assert_eq!(run(&["-h", "c1.count", "-h", "c2.class"]), "c1.count:\n3\n\nc2.class:\nCounter\n\n");
    assert_eq!(run(&["-h", "Counter.count"]), "c1.count:\n3\n\nc2.count:\n3\n\n");
    assert_eq!(run(&["-h", "c[2-9].count"]), "c2.count:\n3\n\n");
}

#[test]
fn a_handler_is_the_exit_status() {
    let status = |value: &str| {
        let config = format!("s :: Script(TYPE PASSIVE, return {value}); Script(stop)");
        weir(&["run", "-e", &config, "-x", "s.run"]).code
    };
    assert_eq!([status("0"), status("7"), status("true"), status("false")], [0, 7, 0, 1]);
    assert_eq!(status("many"), 1);
}

#[test]
fn parameters_come_from_the_command_line() {
    let lab = Lab::new(&[]);
    let file = lab.write("p.click", "define($N 1); Script(print \"$N\", stop);");
    assert_eq!(weir(&["run", &file, "N=5"]).ok(), "5\n");
    assert_eq!(weir(&["run", "N=6", "-f", &file]).ok(), "6\n");
    assert!(weir(&["run", &file, "N=5", "N=6"]).fails(1).contains("'N' is given twice"));
    assert!(weir(&["run", &file, &file]).fails(1).contains("specified twice"));
}

#[test]
fn an_empty_configuration_is_warned_of() {
    let warned = weir(&["run", "-"]);
    assert_eq!((warned.code, &*warned.stderr), (0, "<stdin>: configuration has no elements, exiting\n"));
    let quiet = weir(&["run", "-w", "-e", ""]);
    assert_eq!((quiet.code, &*quiet.stderr), (0, ""));
}

#[test]
fn simulated_time_takes_no_time() {
    let out = weir(&[
        "run",
        "--simtime",
        "-e",
        "Script(set a $(now), wait 5h, print $(idiv $(sub $(now) $a)), stop)",
    ]);
    assert_eq!(out.ok(), "18000\n");
    let out = weir(&["run", "--simtime=50", "-e", "Script(print $(idiv $(now)), stop)"]);
    assert_eq!(out.ok(), "50\n");
}

#[test]
fn the_flat_configuration_is_written() {
    let out = weir(&[
        "run",
        "-q",
        "-o",
        "-",
        "-e",
        "elementclass X { input -> Strip(14) -> output } Idle -> x :: X -> Discard;",
    ]);
    let flat = out.ok();
    assert!(flat.contains("x/Strip@1 :: Strip(14);"), "{flat}");
}

#[test]
fn a_refused_configuration_ends_as_in_click() {
    let out = weir(&["run", "-e", "Idle -> Strip(abc) -> Discard;"]);
    assert_eq!(out.code, 1);
    assert!(out.stderr.starts_with("config:1: While configuring 'Strip@2 :: Strip':\n  "), "{}", out.stderr);
    assert!(out.stderr.ends_with("Router could not be initialized!\n"), "{}", out.stderr);
    let out = weir(&["run", "-e", "Idle -> IPRewriter(pattern 1.0.0.x - - - 0 0, keep 0) -> Discard;"]);
    let lines: Vec<&str> = out.stderr.lines().collect();
    assert!(lines[0].ends_with("While configuring 'IPRewriter@2 :: IPRewriter':"), "{lines:?}");
    assert_eq!(lines[1], "  input spec 0: bad source address", "errors stand below their element");
    assert!(lines[2].starts_with("  input spec 1: syntax error"), "{lines:?}");
    let message = weir(&["run", "-e", "Message(\"this will not do\", ERROR);"]);
    assert!(message.fails(1).contains("this will not do"));
}

#[test]
fn a_signal_ends_the_process_once_its_script_has_left() {
    let out = weir(&[
        "run",
        "-e",
        "Script(set y $(kill USR1 $$), wait 10ms, set y $(kill USR1 $$), wait 10s, stop); \
         Script(TYPE SIGNAL USR1, print \"got it\", exit);",
    ]);
    assert_eq!(out.stdout, "got it\n");
    assert_ne!(out.code, 0);
}

#[test]
fn a_source_calls_a_handler_behind_its_last_packet() {
    for source in ["InfiniteSource(LIMIT 3", "RandomSource(9, LIMIT 3"] {
        let config = format!(
            "{source}, END_CALL s.run) -> c :: Counter -> Discard; s :: Script(TYPE PASSIVE, print c.count, write .stop);"
        );
        assert_eq!(weir(&["run", "-e", &config]).ok(), "3\n", "{source}");
    }
}

#[test]
fn what_a_script_waits_for_is_over_when_the_run_is_ended() {
    let lab = Lab::new(&["one"]);
    let (begun, done) = (lab.path("begun"), lab.path("done"));
    let config = format!(
        "RatedSource(RATE 100) -> c :: Counter -> Discard;
         DriverManager(print >{begun} \"\", wait, print >{done} $(gt $(c.count) 0), wait 10h, print >>{done} \"end\");"
    );
    for signal in ["INT", "TERM"] {
        let weir = lab.ns("one").spawn_weir(&["run", "-e", &config]);
        until("a packet", || std::fs::exists(&begun).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
        weir.signal(signal);
        assert_eq!(weir.wait().code, 0);
        assert_eq!(std::fs::read_to_string(&done).unwrap(), "true\nend\n", "{signal}");
        for file in [&begun, &done] {
            std::fs::remove_file(file).unwrap();
        }
    }
    weir(&["run", "-w", "--for", "0.1", "-e", &config]).ok();
    assert_eq!(std::fs::read_to_string(&done).unwrap(), "true\nend\n", "the time is over");
    let config =
        "InfiniteSource(LIMIT 3) -> c :: Counter -> Discard; DriverManager(wait_stop, print c.count);";
    assert_eq!(weir(&["run", "-e", config]).ok(), "3\n", "there is nothing more to do");
    let endless = "DriverManager(label x, wait, goto x);";
    assert_eq!(weir(&["run", "-w", "--for", "0.1", "-e", endless]).code, 0, "a script that never ends");
}

#[test]
fn a_configuration_is_laid_out() {
    let lab = Lab::new(&[]);
    let rough = "// all\nIdle->s::Strip(14)->Discard; // end\n";
    let neat = "// all\nIdle -> s :: Strip(14) -> Discard; // end\n";
    let file = lab.write("rough.click", rough);
    let done = lab.write("neat.click", neat);
    assert_eq!(weir(&["fmt", &file]).ok(), neat);
    let check = weir(&["fmt", "--check", &file, &done]);
    assert_eq!((check.code, check.stdout), (1, format!("{file}\n")));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), rough, "it is only looked at");
    let json: serde_json::Value = serde_json::from_str(&weir(&["--json", "fmt", &file]).ok()).unwrap();
    assert_eq!((&json[0]["differs"], &json[0]["text"]), (&true.into(), &neat.into()));
    assert_eq!(weir(&["fmt", "--write", &file, &done]).ok(), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), neat);
    assert_eq!(weir(&["fmt", "--check", &file, &done]).ok(), "");
    let wrong = lab.write("wrong.click", "a -> ;\n");
    assert!(weir(&["fmt", "--write", &wrong]).fails(1).contains("wrong.click:1:6"));
    assert_eq!(std::fs::read_to_string(&wrong).unwrap(), "a -> ;\n", "what cannot be read stays as it is");
    assert!(weir(&["fmt", "/nowhere/x.click"]).fails(3).contains("/nowhere/x.click"));
}

#[test]
fn configurations_for_the_kernel_driver_run_too() {
    let config = "PollDevice(lo, 8) -> c :: Counter -> ToHostSniffers(eth1); IPNameInfo; Script(wait 10ms, print c.config, stop);";
    let lab = Lab::new(&["one"]);
    assert_eq!(lab.ns("one").weir(&["run", "-e", config]).ok().trim(), "");
}

#[test]
fn workers_are_bound_to_cores() {
    let allowed = |options: &[&str]| {
        let config = "s :: Script(TYPE PASSIVE, return $(cat /proc/self/status)); Script(stop)";
        let out = weir(&[&["run", "-e", config, "-h", "s.run"], options].concat()).ok();
        out.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:\t")).unwrap_or_default().to_owned()
    };
    assert_eq!(allowed(&["--affinity"]), "0");
    assert_eq!(allowed(&["--affinity=0", "-j", "1"]), "0");
    assert_eq!(allowed(&["--affinity", "--no-affinity"]), allowed(&[]));
    let none = weir(&["run", "--affinity=4000", "-e", "Idle -> Discard"]);
    assert!(none.fails(1).contains("processor core 4000"));
}
