//! IP summary dumps, and what counts and sorts packets by their content.

mod common;

use std::path::Path;

use common::{engine, run, settle};
use tempfile::TempDir;
use weir_engine::{Engine, Stopped};

/// A folder with dumps.
struct Dumps {
    dir: TempDir,
}

impl Dumps {
    fn new(files: &[(&str, &str)]) -> Dumps {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Dumps { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Runs a configuration in which `@name` stands for a file of the folder.
    fn run(&self, config: &str) -> Engine {
        let config = config.replace('@', &format!("{}/", self.dir.path().display()));
        let (mut engine, _) = engine(&[]);
        assert_eq!(run(&mut engine, &config), Stopped::Requested);
        settle(&mut engine);
        engine
    }

    /// The lines of a dump that describe packets, and those about bad ones.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(Path::new(&self.path(name))).unwrap();
        text.lines().filter(|l| !l.starts_with('!') || l.starts_with("!bad")).map(str::to_owned).collect()
    }
}

/// Reads `dump` and writes fields of its packets.
fn converted(dump: &str, reading: &str, writing: &str) -> Vec<String> {
    let dumps = Dumps::new(&[("in", dump)]);
    let config = format!("FromIPSummaryDump(@in, STOP true {reading}) -> ToIPSummaryDump(@out {writing});");
    drop(dumps.run(&config));
    dumps.lines("out")
}

#[test]
fn fields_are_read_and_written_back() {
    let fields = "timestamp ip_src sport ip_dst dport ip_proto ip_tos ip_ttl ip_id ip_fragoff ip_opt \
                  tcp_flags tcp_seq tcp_ack tcp_window tcp_urp tcp_opt payload count link aggregate";
    let lines = [
        "1.500000 10.0.0.1 1 10.0.0.2 2 T 3 99 7 0! . SA 5 6 7 8 mss1400;wscale10 \"a \\\"b\\\" c\" 1 0 0",
        "2.000000001 10.0.0.1 1 10.0.0.2 2 T 0 100 0 0 rr{}+1 PA 1 2 3 4 . \"\" 3 9 4294967295",
        "3.000000 10.0.0.1 53 10.0.0.2 2 U 0 100 0 0 . - - - - - - \"\\000\\377\" 1 0 0",
        "4.000000 10.0.0.1 - 10.0.0.2 - 47 0 100 0 0 . - - - - - - \"\" 1 0 0",
    ];
    let dump = format!("!IPSummaryDump 1.3\n!data {fields}\n{}\n", lines.join("\n"));
    assert_eq!(converted(&dump, "", &format!(", FIELDS {fields}")), lines);
    // The same, by way of a binary dump; it has no payloads.
    let fields = fields.replace("payload ", "");
    let dumps = Dumps::new(&[("in", &dump)]);
    dumps.run(&format!(
        "FromIPSummaryDump(@in, STOP true) -> ToIPSummaryDump(@b, BINARY true, FIELDS {fields});"
    ));
    dumps.run(&format!("FromIPSummaryDump(@b, STOP true) -> ToIPSummaryDump(@out, FIELDS {fields});"));
    let text = dumps.lines("out").join("\n");
    // Nanoseconds do not get through, nor does what is absent: in binary, that is zero.
    assert!(
        text.starts_with("1.500000 10.0.0.1 1 10.0.0.2 2 T 3 99 7 0! . SA 5 6 7 8 mss1400;wscale10 1 0 0\n")
    );
    assert!(
        text.contains("\n2.000000 10.0.0.1 1 10.0.0.2 2 T 0 100 0 0 rr{}+1 PA 1 2 3 4 . 3 9 4294967295\n")
    );
}

#[test]
fn icmp_has_names() {
    let dump = "!data src dst icmp_type icmp_code icmp_flowid icmp_seq icmp_nextmtu\n!proto I\n\
                1.0.0.1 1.0.0.2 echo 0 5 6 -\n1.0.0.1 1.0.0.2 unreachable needfrag - - 1400\n";
    let fields =
        ", FIELDS ip_proto icmp_type icmp_code_name icmp_type_name icmp_flowid icmp_seq icmp_nextmtu";
    assert_eq!(
        converted(dump, ", CHECKSUM true", fields),
        ["I 8 0 echo 5 6 -", "I 3 needfrag unreachable - - 1400"]
    );
}

#[test]
fn lines_may_leave_out_what_directives_tell() {
    let dump =
        "# a comment\n!flowid 1.0.0.1 10 2.0.0.2 20 U\n!aggregate 7\n!data timestamp \"ip len\"\n1 100\n2\n";
    let fields = ", FIELDS timestamp src sport dst dport proto aggregate ip_len udp_len payload_len wire_len";
    assert_eq!(
        converted(dump, "", fields),
        ["1.000000 1.0.0.1 10 2.0.0.2 20 U 7 100 80 72 28", "2.000000 1.0.0.1 10 2.0.0.2 20 U 7 28 8 0 28",]
    );
    let with = ", FIELDS \"ip_len eth_src\", FLOWID 1.0.0.1 10 2.0.0.2 20";
    assert_eq!(
        converted(
            "44 02-00-00-00-00-01\n",
            with,
            ", FIELDS eth_src eth_type src dport proto ip_len wire_len"
        ),
        ["02-00-00-00-00-01 0800 1.0.0.1 20 T 44 54"]
    );
}

#[test]
fn a_line_may_stand_for_several_packets() {
    let dump = "!data timestamp first_timestamp count ip_len proto\n5 1 3 120 U\n";
    let fields = ", FIELDS timestamp count ip_len udp_len";
    assert_eq!(
        converted(dump, ", MULTIPACKET true", fields),
        ["1.000000 1 40 20", "3.000000 1 40 20", "5.000000 1 40 20"]
    );
    assert_eq!(converted(dump, "", fields), ["5.000000 3 120 100"]);
    let lines = converted(dump, "", ", MULTIPACKET true, FIELDS timestamp ip_len");
    assert_eq!(lines, ["1.000000 120", "3.000000 120", "5.000000 120"]);
}

#[test]
fn bad_packets_are_told() {
    let dumps =
        Dumps::new(&[("in", "!data sport tcp_opt ip_len\n1 mss9 60\n1 mss9 60\n1 mss9 60\n1 mss9 60\n")]);
    dumps.run(
        "FromIPSummaryDump(@in, STOP true) -> s :: RoundRobinSwitch;
         t :: ToIPSummaryDump(@out, BAD_PACKETS true, FIELDS sport tcp_opt);
         s -> t; s [1] -> Truncate(42) -> t; s [2] -> Truncate(21, EXTRA_LENGTH false) -> t; s [3] -> Truncate(3) -> t;",
    );
    assert_eq!(
        dumps.lines("out"),
        [
            "1 mss9",
            "!bad truncated TCP header",
            "1 -",
            "!bad truncated IP missing 23",
            "- -",
            "!bad truncated IP header",
            "- -",
        ]
    );
}

#[test]
fn what_is_wrong_with_a_dump_is_told() {
    for (config, what) in [
        ("FromIPSummaryDump(@none) -> Discard;", "none"),
        ("FromIPSummaryDump(@empty) -> Discard;", "the dump is empty"),
        ("FromIPSummaryDump() -> Discard;", "FILENAME"),
        ("FromIPSummaryDump(@empty, DATA x) -> Discard;", "exclude each other"),
        ("FromIPSummaryDump(@empty, SAMPLE 2) -> Discard;", "SAMPLE: 2 is not between 0 and 1"),
        ("Idle -> ToIPSummaryDump(@out, FIELDS sport sporty);", "unknown field 'sporty'"),
        ("Idle -> ToIPSummaryDump(@out, BINARY true, FIELDS payload);", "payload cannot be written"),
    ] {
        let dumps = Dumps::new(&[("empty", "")]);
        let (mut engine, _) = engine(&[]);
        let config = config.replace('@', &format!("{}/", dumps.dir.path().display()));
        let error = engine.load("g", &config, "test.click").unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    // Lines that make no sense are passed over.
    let dump = "1 2\n!data sport nonsense\n!proto none\n!flowid 1\nx y\n7 8\n\u{fffd}\n";
    assert_eq!(converted(dump, "", ", FIELDS sport proto"), ["7 T"]);
}

#[test]
fn sources_are_merged_by_time() {
    let data = |times: &str| format!("!data timestamp\n{times}\n");
    let (a, b) = (data("0.1\n1\n0.2\n1.2"), data("0.3\n0.9\n1.4"));
    let dumps = Dumps::new(&[("a", &a), ("b", &b)]);
    for (buffer, merged, ordered) in [
        (1, ["0.1", "0.3", "0.9", "1", "0.2", "1.2", "1.4"], "false"),
        (3, ["0.1", "0.2", "0.3", "0.9", "1", "1.2", "1.4"], "true"),
    ] {
        let mut engine = dumps.run(&format!(
            "FromIPSummaryDump(@a) -> s :: TimeSortedSched(STOP true, BUFFER {buffer});
             FromIPSummaryDump(@b) -> [1] s; s -> ToIPSummaryDump(@out, FIELDS timestamp);",
        ));
        assert_eq!(engine.read("g", "s.well_ordered").unwrap(), ordered);
        drop(engine);
        let times: Vec<f64> = dumps.lines("out").iter().map(|t| t.parse().unwrap()).collect();
        assert_eq!(times, merged.map(|t| t.parse::<f64>().unwrap()));
    }
}

#[test]
fn aggregates_are_counted() {
    let dumps = Dumps::new(&[("in", "!data aggregate count ip_len\n1 1 100\n1 2 50\n0 1 40\n7 1 40\n")]);
    let mut engine = dumps.run(
        "FromIPSummaryDump(@in, STOP true) -> a :: AggregateCounter -> b :: AggregateCounter(BYTES true)
         -> c :: AggregateCounter(AGGREGATE_FREEZE 2) -> Discard; c [1] -> d :: Counter -> Discard;",
    );
    let lines = |engine: &mut Engine, handler: &str| {
        engine.write("g", handler, &dumps.path("counts")).unwrap();
        dumps.lines("counts").join(", ")
    };
    assert_eq!(lines(&mut engine, "a.write_text_file"), "0 1, 1 3, 7 1");
    assert_eq!(lines(&mut engine, "b.write_text_file"), "0 40, 1 150, 7 40");
    assert_eq!(lines(&mut engine, "c.write_ip_file"), "0.0.0.0 1, 0.0.0.1 3");
    assert_eq!(engine.read("g", "d.count").unwrap(), "1");
    engine.write("g", "a.counts_pdf", "").unwrap();
    assert_eq!(lines(&mut engine, "a.write_text_file"), "1 2, 3 1");
    engine.write("g", "a.write_file", &dumps.path("binary")).unwrap();
    let binary = std::fs::read(dumps.path("binary")).unwrap();
    assert!(binary.ends_with(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0]));
}

#[test]
fn fragments_wait_for_their_ports_and_stay_in_order() {
    let dump = "!data timestamp src sport dst dport proto ip_id ip_fragoff ip_len\n\
                1 1.0.0.1 5 1.0.0.2 6 U 1 0 100\n1 1.0.0.2 6 1.0.0.1 5 U 2 0 100\n1 1.0.0.1 7 1.0.0.2 6 U 3 0 100\n\
                2 1.0.0.1 5 1.0.0.2 6 U 4 24 80\n2 1.0.0.1 7 1.0.0.2 6 U 5 0 80\n2 1.0.0.1 5 1.0.0.2 6 U 4 0+ 44\n\
                3 1.0.0.1 5 1.0.0.3 6 U 9 24 80\n40 1.0.0.1 7 1.0.0.2 6 U 6 0 80\n41 1.0.0.1 7 1.0.0.2 6 I 7 0 80\n";
    let dumps = Dumps::new(&[("in", dump)]);
    dumps.run(
        "FromIPSummaryDump(@in, STOP true) -> a :: AggregateIPFlows -> ToIPSummaryDump(@out, FIELDS aggregate link ip_id);
         a [1] -> ToIPSummaryDump(@other, FIELDS ip_id);",
    );
    assert_eq!(dumps.lines("out"), ["1 0 1", "1 1 2", "2 0 3", "1 0 4", "2 0 5", "1 0 4", "2 0 6"]);
    assert_eq!(dumps.lines("other"), ["9", "7"]);
}

#[test]
fn programs_talk_by_sockets() {
    let far = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    far.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let port = far.local_addr().unwrap().port();
    let (mut engine, _) = engine(&[]);
    let config = format!(
        "s :: Socket(UDP, 127.0.0.1, {port}, 127.0.0.1); InfiniteSource(hello, LIMIT 1) -> s -> c :: Counter -> Discard;"
    );
    engine.load("g", &config, "test.click").unwrap();
    settle(&mut engine);
    let mut buffer = [0; 64];
    let (n, from) = far.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"hello");
    far.send_to(b"there", from).unwrap();
    settle(&mut engine);
    assert_eq!(engine.read("g", "c.count").unwrap(), "1");
    let error = engine.load("h", "Socket(SCTP, 1.1.1.1, 1) -> Discard;", "test.click").unwrap_err();
    assert!(error.to_string().contains("write TCP, UDP, UNIX or UNIX_DGRAM"), "{error}");
    let error = engine.load("h", "McastSocket(10.0.0.1, 1) -> Discard;", "test.click").unwrap_err();
    assert!(error.to_string().contains("not a multicast address"), "{error}");
}

#[test]
fn a_range_of_times_passes() {
    let dumps = Dumps::new(&[("in", "!data timestamp\n10\n11\n12.5\n14\n20\n")]);
    for (args, passed) in [
        ("12, 20", ["12.500000", "14.000000"].as_slice()),
        ("START_AFTER 1, INTERVAL 1.5", &["11.000000"]),
        ("END_AFTER 2", &["10.000000", "11.000000"]),
        ("END_DELAY 11", &["10.000000", "11.000000"]),
        ("", &["10.000000", "11.000000", "12.500000", "14.000000", "20.000000"]),
    ] {
        let config = format!(
            "FromIPSummaryDump(@in, STOP true) -> f :: TimeFilter({args})
             -> ToIPSummaryDump(@out, FIELDS timestamp); f [1] -> r :: TimeRange -> Discard;"
        );
        drop(dumps.run(&config));
        assert_eq!(dumps.lines("out"), passed, "{args}");
    }
    let mut engine = dumps.run("FromIPSummaryDump(@in) -> f :: TimeFilter(11, 12, STOP true) -> Discard;");
    assert_eq!(engine.read("g", "f.interval").unwrap(), "1.000000");
    engine.write("g", "f.extend_interval", "2.5").unwrap();
    assert_eq!(engine.read("g", "f.end").unwrap(), "14.500000");
    let error =
        engine.load("h", "Idle -> TimeFilter(1, START_AFTER 2) -> Discard;", "test.click").unwrap_err();
    assert!(error.to_string().contains("exclude each other"), "{error}");
}

#[test]
fn pings_are_sent_and_replies_are_counted() {
    let (mut engine, _) = engine(&[]);
    let config = "p :: ICMPPingSource(10.0.0.1, 10.0.0.2, IDENTIFIER 9, DATA hello, LIMIT 2, STOP true)
                  -> CheckIPHeader -> CheckICMPHeader -> t :: Tee -> ICMPPingResponder -> CheckIPHeader -> p;
                  t [1] -> c :: Counter -> Discard;";
    engine.load("g", config, "test.click").unwrap();
    for step in 0..4 {
        engine.set_time(1_000_000_000 + step * 1_000_000_000);
        settle(&mut engine);
    }
    assert_eq!(engine.read("g", "c.byte_count").unwrap(), (2 * 33).to_string());
    let summary = engine.read("g", "p.summary").unwrap();
    assert_eq!(
        summary,
        "2 packets transmitted, 2 received, 0% packet loss\nrtt min/avg/max/mdev = 0.000/0.000/0.000/0.000\n"
    );
}
