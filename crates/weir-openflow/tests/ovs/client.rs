//! Our switch's end against `ovs-ofctl`: a small switch that keeps what it is given, and forwards nothing.

use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::small_switch::{Tables, serve};
use weir_openflow::action::Instruction;

/// Runs commands of `ovs-ofctl` against a switch; gives what the switch has then.
fn with_switch(commands: impl FnOnce(&dyn Fn(&[&str]) -> Output)) -> Tables {
    let directory = tempfile::tempdir().expect("there is place for it");
    let path = directory.path().join("switch");
    let listener = UnixListener::bind(&path).expect("a new name");
    let target = format!("unix:{}", path.display());
    listener.set_nonblocking(true).expect("a socket can be that");
    let done = AtomicBool::new(false);
    let ofctl = |args: &[&str]| {
        let (command, rest) = args.split_first().expect("a command");
        Command::new("ovs-ofctl")
            .args(["-O", "OpenFlow13", "--timeout=20", command, &target])
            .args(rest)
            .output()
            .expect("Open vSwitch is installed (scripts/setup.sh)")
    };
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &done));
        let finished = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| commands(&ofctl)));
        done.store(true, Ordering::Relaxed);
        let tables = server.join().expect("the switch serves");
        finished.unwrap_or_else(|e| std::panic::resume_unwind(e));
        tables
    })
}

fn stdout(out: &Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// It prints these texts.
fn prints(out: &Output, texts: &[&str]) {
    let printed = stdout(out);
    for text in texts {
        assert!(printed.contains(text), "no `{text}` in\n{printed}");
    }
}

#[test]
fn ovs_ofctl_sees_what_the_switch_is() {
    with_switch(|ofctl| {
        prints(
            &ofctl(&["show"]),
            &[
                "dpid:000000000000feed",
                "n_tables:2",
                "FLOW_STATS GROUP_STATS",
                "1(left): addr:02:00:00:00:00:01",
                "10GB-FD COPPER",
                "speed: 10000 Mbps now",
                "miss_send_len=128",
            ],
        );
        prints(&ofctl(&["dump-desc"]), &["Manufacturer: Weir", "DP Description: a small switch"]);
        prints(
            &ofctl(&["dump-ports", "1"]),
            &["rx pkts=10, bytes=30", "tx pkts=20, bytes=40", "duration=5s"],
        );
        prints(&ofctl(&["dump-tables"]), &["active=0, lookup=11, matched=7"]);
        prints(
            &ofctl(&["dump-table-features"]),
            &[
                "table 0 (\"first\")",
                "max_entries=100000",
                "table 1 (\"second\"): ditto",
                "next tables: 1",
                "ip_{src,dst}",
                "actions: output group set_field",
            ],
        );
        prints(&ofctl(&["dump-group-features"]), &["max_groups=0x10", "Types:  0xf"]);
        prints(&ofctl(&["meter-features"]), &["max_meter:5 max_bands:1", "band_types: drop"]);
        prints(&ofctl(&["queue-get-config", "1"]), &[]);
        prints(&ofctl(&["probe"]), &[]);
    });
}

#[test]
fn what_ovs_ofctl_installs_it_reads_back() {
    let flows = [
        "priority=10,tcp,in_port=1,nw_dst=10.1.0.0/16,tp_dst=80 actions=output:2",
        "table=1,cookie=0x5,idle_timeout=30,priority=7,dl_vlan=9 actions=pop_vlan,set_field:02:00:00:00:00:09->eth_dst,CONTROLLER:65535",
        "priority=3,ipv6,ipv6_dst=2001:db8::/32 actions=meter:1,group:2,goto_table:1",
        "priority=0 actions=drop",
    ];
    let tables = with_switch(|ofctl| {
        for flow in flows {
            stdout(&ofctl(&["add-flow", flow]));
        }
        stdout(&ofctl(&[
            "add-group",
            "group_id=2,type=select,bucket=weight:3,actions=output:1,bucket=weight:1,actions=output:2",
        ]));
        stdout(&ofctl(&["add-meter", "meter=1,kbps,burst,bands=type=drop,rate=1000,burst_size=50"]));
        let printed = stdout(&ofctl(&["dump-flows"]));
        for part in [
            "priority=10,tcp,in_port=1,nw_dst=10.1.0.0/16,tp_dst=80 actions=output:2",
            "cookie=0x5, duration=1.500s, table=1, n_packets=3, n_bytes=180, idle_timeout=30, priority=7,dl_vlan=9 actions=pop_vlan,set_field:02:00:00:00:00:09->eth_dst,CONTROLLER:65535",
            "priority=3,ipv6,ipv6_dst=2001:db8::/32 actions=meter:1,group:2,goto_table:1",
            "priority=0 actions=drop",
        ] {
            assert!(printed.contains(part), "no `{part}` in\n{printed}");
        }
        prints(&ofctl(&["dump-aggregate"]), &["packet_count=12 byte_count=720 flow_count=4"]);
        prints(
            &ofctl(&["dump-groups"]),
            &["group_id=2,type=select,bucket=weight:3,actions=output:1,bucket=actions=output:2"],
        );
        prints(&ofctl(&["dump-group-stats"]), &["packet_count=6,byte_count=600,bucket0:packet_count=3"]);
        prints(&ofctl(&["dump-meters"]), &["meter=1 kbps burst bands=", "type=drop rate=1000 burst_size=50"]);
        prints(&ofctl(&["meter-stats"]), &["meter:1 flow_count:1 packet_in_count:4"]);
        stdout(&ofctl(&["packet-out", "in_port=1,packet=020000000002020000000001080600,actions=output:2"]));
        // Refused with the error that the switch says.
        for (args, error) in [
            (["add-flow", "table=9,actions=drop"], "OFPFMFC_BAD_TABLE_ID"),
            (["add-group", "group_id=2,type=all,bucket=actions=output:1"], "OFPGMFC_GROUP_EXISTS"),
        ] {
            let out = ofctl(&args);
            assert!(!out.status.success());
            assert!(
                String::from_utf8_lossy(&out.stderr).contains(error),
                "{}",
                String::from_utf8_lossy(&out.stderr)
            );
        }
        stdout(&ofctl(&["del-flows", "--strict", "priority=10,tcp,in_port=1,nw_dst=10.1.0.0/16,tp_dst=80"]));
    });
    assert_eq!(tables.packets, 1);
    assert_eq!(tables.flows.len(), 3);
    assert!(matches!(
        tables.flows[1].instructions[..],
        [Instruction::Meter(_), Instruction::ApplyActions(_), Instruction::GotoTable(_)]
            | [Instruction::ApplyActions(_), Instruction::Meter(_), Instruction::GotoTable(_)]
    ));
}

#[test]
fn a_table_of_three_thousand_entries_is_filled_and_read() {
    let directory = tempfile::tempdir().expect("there is place for it");
    let file = directory.path().join("flows");
    let lines: String = (0..3000_u32)
        .map(|n| format!("priority=5,ip,nw_dst=10.{}.{}.1,actions=output:2\n", n / 250, n % 250))
        .collect();
    std::fs::write(&file, lines).expect("there is place for it");
    let file = file.display().to_string();
    let tables = with_switch(|ofctl| {
        stdout(&ofctl(&["add-flows", &file]));
        let printed = stdout(&ofctl(&["dump-flows"]));
        assert_eq!(printed.lines().filter(|l| l.contains("nw_dst=")).count(), 3000);
    });
    assert_eq!(tables.flows.len(), 3000);
}
