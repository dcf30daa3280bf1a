//! Living with a node: traces, captures, `top`, and what shells and browsers are offered.

use crate::lab::{Lab, PYTHON, WEIR, until, weir};
use crate::node::{example_node, page};
use crate::traffic::web_server;

#[test]
fn packets_can_be_captured_and_followed() {
    let lab = Lab::new(&["client", "node", "server"]);
    let node = example_node(&lab);
    let client = lab.ns("client");
    let _web = web_server(&lab, "server", 80, &lab.path(""));

    // As people type it: a pipe to tcpdump.
    let pipe =
        format!("{WEIR} capture firewall-nat sap:client --match 'tcp dst port 80' -c 3 | tcpdump -n -r -");
    let mut capture = lab.ns("node").spawn(&["sh", "-c", &pipe]);
    until("the capture", || {
        _ = page(&client, "http://10.0.2.2/");
        !capture.runs()
    });
    let seen = capture.wait().ok();
    assert_eq!(seen.matches("10.0.1.2.").count(), 3, "{seen}");
    assert!(seen.contains("> 10.0.2.2.80: Flags ["), "{seen}");

    // What leaves to the server has the other address.
    let file = lab.path("out.pcap");
    let one = ["-m", "tcp dst port 80", "--direction", "to", "-c", "1", "-w", &file];
    let mut capture =
        lab.ns("node").spawn_weir(&[&["capture", "firewall-nat", "sap:server"], &one[..]].concat());
    until("the capture", || {
        _ = page(&client, "http://10.0.2.2/");
        !capture.runs()
    });
    capture.wait().ok();
    let seen = lab.ns("node").run(&["tcpdump", "-n", "-r", &file]).ok();
    assert!(seen.contains("IP 10.0.2.1.") && seen.contains("> 10.0.2.2.80"), "{seen}");

    let one = ["trace", "firewall-nat", "--match", "tcp dst port 22", "-c", "1"];
    let mut trace = lab.ns("node").spawn_weir(&one);
    until("the trace", || {
        _ = client.run(&["curl", "-sS", "--max-time", "0.2", "http://10.0.2.2:22/"]);
        !trace.runs()
    });
    let path = trace.wait();
    assert!(path.stderr.contains("1 packet was followed: "), "{}", path.stderr);
    let path = path.ok();
    assert!(path.contains("10.0.1.2") && path.contains("firewall") && path.contains("Denied"), "{path}");
    let show = node.weir(&["show", "firewall-nat"]).ok();
    assert!(show.lines().any(|l| l.starts_with("firewall ") && l.contains("Denied")), "{show}");

    // What cannot be watched is reported.
    let refused = |arguments: &[&str]| node.weir(arguments).fails(1);
    assert!(refused(&["trace", "firewall-nat", "-m", "tcp dst prt 22"]).contains("column 1"));
    assert!(refused(&["trace", "firewal-nat"]).contains("did you mean 'firewall-nat'?"));
    assert!(refused(&["capture", "firewall-nat", "sap:nowhere"]).contains("sf:nat:outside"));
}

#[test]
fn a_way_is_followed_from_graph_to_graph_until_control_c() {
    let lab = Lab::new(&["client", "node", "server"]);
    let _node = example_node(&lab);
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let trace =
        lab.ns("node").spawn_weir(&["trace", "firewall-nat", "--match", "tcp dst port 80", "-c", "1000"]);
    until("a packet", || {
        _ = page(&lab.ns("client"), "http://10.0.2.2/");
        trace.stdout().contains("sent to wan")
    });
    let out = trace.interrupt();
    assert!(out.stderr.contains("followed: ") && out.stderr.contains("sent to wan"), "{}", out.stderr);
    let path = out.ok();
    assert!(path.contains("  graph firewall-nat\n") && path.contains("  graph node:lsi0:wan\n"), "{path}");

    // A time ends it too, whether or not there are packets.
    let none = ["trace", "firewall-nat", "--match", "udp port 9", "--for", "300ms"];
    assert_eq!(lab.ns("node").weir(&none).stderr, "no packet was followed\n");
}

#[test]
fn several_links_are_in_one_capture() {
    let lab = Lab::new(&["client", "node", "server"]);
    let _node = example_node(&lab);
    let client = lab.ns("client");
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let file = lab.path("out.pcapng");
    let links = ["sap:client", "sf:nat:inside", "sap:server", "sf_nat/in_0"];
    let options = ["--match", "tcp port 80", "-w", &file];
    let capture = lab.ns("node").spawn_weir(&[&["capture", "firewall-nat"], &links[..], &options].concat());
    until("packets on each link", || {
        page(&client, "http://10.0.2.2/").ok();
        std::fs::metadata(&file).is_ok_and(|f| f.len() > 4_000)
    });
    let out = capture.interrupt();
    assert!(out.stderr.contains(" packets captured"), "{}", out.stderr);
    out.ok();
    let fields = ["frame.interface_name", "frame.packet_flags_direction", "ip.src", "frame.time_epoch"];
    let mut argv = vec!["tshark", "-r", &file, "-T", "fields"];
    fields.iter().for_each(|f| argv.extend(["-e", f]));
    let seen = lab.ns("node").run(&argv).ok();
    let has = |start: &str| seen.lines().any(|l| l.starts_with(start));
    // Inbound is what comes from the place; the client's address is hidden behind the NAT.
    assert!(has("sap:client\t0x00000001\t10.0.1.2\t") && has("sap:client\t0x00000002\t10.0.2.2\t"), "{seen}");
    assert!(
        has("sap:server\t0x00000002\t10.0.2.1\t") && has("sf:nat:inside\t0x00000002\t10.0.1.2\t"),
        "{seen}"
    );
    assert!(has("sf_nat/in_0\t"), "an element has no direction: {seen}");
    // In the order in which a packet passed them; the capture may begin in the midst of one.
    let not_yet = |l: &&str| !l.starts_with("sap:client\t0x00000001\t");
    let path: Vec<&str> =
        seen.lines().skip_while(not_yet).take(2).filter_map(|l| l.split('\t').next()).collect();
    assert_eq!(path, ["sap:client", "sf:nat:inside"], "{seen}");
}

#[test]
fn top_shows_rates_until_the_node_goes() {
    let lab = Lab::new(&["client", "node", "server"]);
    let node = example_node(&lab);
    let ping = lab.ns("client").spawn(&["ping", "-q", "-i", "0.05", "10.0.1.1"]);
    let rates = node.weir(&["top", "--once", "--json", "-i", "500ms"]).json();
    assert_eq!((&rates["graph"], &rates["devices"][0]["state"]), (&"firewall-nat".into(), &"up".into()));
    let link = &rates["links"][0];
    assert_eq!(link["from"], "sap:client");
    assert!(link["packets"]["per_second"].as_f64().is_some_and(|r| r > 1.0), "{rates}");
    assert!(link["bits"]["per_second"].as_f64() > link["packets"]["per_second"].as_f64(), "{rates}");
    drop(ping);

    // Without a terminal it goes on as text.
    let top = lab.ns("node").spawn_weir(&["top", "firewall-nat", "-i", "100ms"]);
    until("two tables", || top.stdout().matches("\nFROM").count() >= 2);
    assert!(top.stdout().contains("\nDEVICE "), "{}", top.stdout());
    node.crash();
    assert!(top.wait().fails(3).contains("no node answers"));
    assert!(lab.ns("node").weir(&["top"]).fails(3).contains("no node answers"));
}

#[test]
fn top_ends_when_its_terminal_goes_away_and_when_told() {
    let lab = Lab::new(&["client", "node", "server"]);
    let _node = example_node(&lab);
    for end in ["os.close(terminal)", "os.kill(pid, signal.SIGTERM)"] {
        // Nobody tells it that the terminal went away, as with nohup.
        let code = format!(
            "import fcntl, os, pty, signal, struct, termios, time\n\
             pid, terminal = pty.fork()\n\
             if pid == 0:\n\
             \x20   signal.signal(signal.SIGHUP, signal.SIG_IGN)\n\
             \x20   fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 120, 0, 0))\n\
             \x20   os.execv('{WEIR}', ['weir', 'top', '-i', '100ms'])\n\
             seen = b''\n\
             while b'firewall-nat' not in seen: seen += os.read(terminal, 65536)\n\
             {end}\n\
             for i in range(300):\n\
             \x20   if os.waitpid(pid, os.WNOHANG)[0]: print('ended'); break\n\
             \x20   time.sleep(0.1)\n\
             else: os.kill(pid, signal.SIGKILL)\n"
        );
        assert_eq!(lab.ns("node").run(&[PYTHON, "-c", &code]).ok().trim(), "ended", "{end}");
    }
}

#[test]
fn a_shell_completes_commands_options_and_graphs() {
    let lab = Lab::new(&["client", "node", "server"]);
    let _node = example_node(&lab);
    let directory = std::path::Path::new(WEIR).parent().unwrap().display();
    let complete = |line: &str| {
        let script = format!(
            "PATH={directory}:$PATH; source <(weir completion bash)
            COMP_WORDS=({line}); [[ '{line}' == *' ' ]] && COMP_WORDS+=('')
            COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9
            _clap_complete_weir weir \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"
            printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        lab.ns("node").run(&["bash", "-c", &script]).ok()
    };
    let has = |line: &str, word: &str| {
        let offered = complete(line);
        assert!(offered.lines().any(|l| l.trim() == word), "{line:?} offers {offered}");
    };
    has("weir tr", "trace");
    has("weir capture --sn", "--snaplen");
    has("weir trace fire", "firewall-nat");
    has("weir elements DecIPT", "DecIPTTL");
    has("weir handler read firewall-nat nat map", "mappings");
}

#[test]
fn zsh_and_fish_complete_as_well() {
    let lab = Lab::new(&["client", "node", "server"]);
    let _node = example_node(&lab);
    let directory = std::path::Path::new(WEIR).parent().unwrap().display().to_string();
    let run = |shell: &[&str]| {
        let path = format!("PATH={directory}:/usr/bin:/bin");
        lab.ns("node").run(&[&["env", &path, "LC_ALL=C.UTF-8", "HOME=/nonexistent"], shell].concat()).ok()
    };
    // What the function that is registered for the command would show.
    let zsh = |line: &str| {
        let script = format!(
            "autoload -U compinit; compinit -u -D; source <(weir completion zsh)
            _describe() {{ local list=${{@[(r)other]}}; print -rl -- ${{(P)list}} }}
            words=({line}); [[ '{line}' == *' ' ]] && words+=('')
            CURRENT=$#words; $_comps[weir]"
        );
        run(&["zsh", "-f", "-c", &script])
    };
    let fish = |line: &str| {
        run(&["fish", "--no-config", "-c", &format!("weir completion fish | source; complete -C '{line}'")])
    };
    let has = |offered: String, word: &str| {
        assert!(offered.lines().any(|l| l.split('\t').next() == Some(word)), "{word} is not in {offered}");
    };
    let bare = |text: String| {
        let value = |l: &str| l.replace("\\:", "\t").split(':').next().unwrap_or_default().replace('\t', ":");
        text.lines().map(value).collect::<Vec<_>>().join("\n")
    };
    for (line, word) in [
        ("weir tr", "trace"),
        ("weir capture --sn", "--snaplen"),
        ("weir trace fire", "firewall-nat"),
        ("weir elements DecIPT", "DecIPTTL"),
        ("weir capture firewall-nat sf:nat:in", "sf:nat:inside"),
    ] {
        has(bare(zsh(line)), word);
        has(fish(line), word);
    }
}

#[test]
fn the_interface_can_be_tried_in_a_browser() {
    let lab = Lab::new(&["client", "node", "server"]);
    let _node = example_node(&lab);
    let get =
        |path: &str| lab.ns("node").run(&["curl", "-sSfL", &format!("http://127.0.0.1:7400{path}")]).ok();
    let page = get("/docs");
    assert!(page.contains("swagger-ui"), "{page}");
    // All of it is on the node: nothing is fetched from elsewhere.
    assert!(!page.contains("https://") && !page.contains("http://"), "{page}");
    assert!(get("/docs/swagger-ui-bundle.js").len() > 100_000);
    assert!(get("/docs/swagger-initializer.js").contains("/openapi.json"));
}

#[test]
fn a_run_tells_where_the_time_goes() {
    let config = "InfiniteSource(LIMIT 3000000) -> c :: Counter -> Discard";
    let out = weir(&["run", "--profile", "-e", config]);
    let output = format!("{}{}", out.stdout, out.stderr);
    assert!(output.contains("CYCLES/PACKET") && output.lines().any(|l| l.starts_with("c ")), "{output}");
}

/// Rules of many shapes take long to look up, and all packets here are of one flow.
#[test]
fn a_run_tells_which_lookups_were_spared() {
    let rule = |i: u32| {
        let (from, to, port) = (9 + i % 19, 8 + i % 17, 1000 + i);
        format!(
            "deny src net 9.{}.{}.0/{from} and dst net {}.0.0.0/{to} and udp and dst port >= {port}, ",
            i % 256,
            i % 7,
            20 + i % 100
        )
    };
    let rules: String = (0..600).map(rule).collect();
    let config = format!(
        "InfiniteSource(LENGTH 64, LIMIT 3000000) -> UDPIPEncap(18.26.4.44, 1234, 18.26.7.1, 80)
           -> CheckIPHeader -> f :: IPFilter({rules} allow all) -> Discard"
    );
    let out = weir(&["run", "--profile", "-e", &config]);
    let output = format!("{}{}", out.stdout, out.stderr);
    let mut lines = output.lines().map(|l| l.split_whitespace().collect::<Vec<_>>());
    let cells = lines.find(|l| l.first() == Some(&"f.rules")).unwrap_or_else(|| panic!("{output}"));
    let [_, "up", "to", _, spared, done] = cells[..] else { panic!("{output}") };
    let [spared, done] = [spared, done].map(|n| n.parse::<u64>().unwrap());
    assert!(spared > 1000 && spared + done <= 3_000_000, "{output}");
}

#[test]
fn the_machine_code_of_an_element_stands_beside_its_program() {
    let asm = |source: &str| {
        let config = format!("{source} -> c :: Counter -> Discard");
        weir(&["ir", "--asm", "--element", "c", "-e", &config]).ok()
    };
    let code = asm("InfiniteSource");
    assert!(!cfg!(target_arch = "x86_64") || code.contains("add ") && code.contains(" c: set "), "{code}");
    let nothing = asm("Idle");
    assert!(nothing.contains("no instruction is of c"), "{nothing}");
}

#[test]
fn the_program_of_the_kernel_is_shown_or_why_there_is_none() {
    let of = |hook: &str, config: &str| weir(&["ir", "--ebpf", hook, "-e", config]);
    for hook in ["xdp", "tc"] {
        let counts = of(hook, "FromDevice(a) -> c :: Counter -> Classifier(12/0806) -> Discard").ok();
        assert!(counts.contains("; input 0 of c: ") && counts.contains("call MapLookup"), "{counts}");
        let refused = of(hook, "FromDevice(a) -> s :: SetCRC32 -> Discard").ok();
        assert!(refused.contains("the kernel cannot run it") && refused.contains(";   s: "), "{refused}");
    }
    assert!(of("vhost", "Idle -> Discard").fails(2).contains("possible values: xdp, tc"));
    let none = of("xdp", "RatedSource -> Queue -> Unqueue -> ToDump(/dev/null)").fails(1);
    assert!(none.contains("no packets come in at a program"), "{none}");
}

#[test]
fn events_are_listed_and_followed_and_images_and_documents_shown() {
    let lab = Lab::new(&["client", "node", "server"]);
    let node = example_node(&lab);
    let listed = node.weir(&["events", "--graph", "firewall-nat"]).ok();
    assert!(
        listed.lines().count() == 1 && listed.contains("applied       firewall-nat: revision 1"),
        "{listed}"
    );
    let all = node.weir(&["--json", "events"]).ok();
    let kinds: Vec<serde_json::Value> = all.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(kinds.iter().any(|e| e["kind"] == "engine-up"), "{all}");

    let follow = lab.ns("node").spawn_weir(&["events", "--follow", "--last", "0"]);
    // Only what comes is reported: something has to happen until it listens.
    until("an event", || {
        node.weir(&["apply", "--again", "examples/firewall-nat.yaml"]).ok();
        follow.stdout().contains("changed       firewall-nat: revision")
    });
    let out = follow.interrupt().ok();
    assert!(!out.contains("engine-up"), "{out}");

    let images = node.weir(&["images"]).ok();
    assert!(images.contains("nat") && images.contains("RULES"), "{images}");
    let image = node.weir(&["images", "firewall"]).ok();
    for words in ["PARAMETER", "any text", "allow all", "outside", "HANDLER", "sets the hits to 0"] {
        assert!(image.contains(words), "{words}: {image}");
    }
    assert!(node.weir(&["images", "firewal"]).fails(1).contains("did you mean 'firewall'?"));

    let written = node.weir(&["show", "firewall-nat", "--document"]).ok();
    let file = std::fs::read_to_string(crate::lab::repository().join("examples/firewall-nat.yaml")).unwrap();
    assert_eq!(written, file, "to the last byte");
    let out = node.end();
    assert!(out.stderr.contains("weir engine --stop --socket"), "{}", out.stderr);
}
