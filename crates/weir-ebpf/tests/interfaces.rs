//! Compiled graphs on interfaces of the kernel: packets go from one to the other, and no process moves them.

#[expect(dead_code, reason = "more of a graph is for other tests")]
#[path = "support/graph.rs"]
mod graph;
#[path = "support/loaded.rs"]
mod loaded;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use loaded::{Loaded, netns};
use weir_ebpf::{Ended, Hook};
use weir_io::Netns;
use weir_testkit::{Hosts, Namespace};

fn python(of: &Namespace, program: &str) -> Child {
    let mut python = of.command("/usr/bin/python3");
    python.args(["-c", program]).stdout(Stdio::piped()).spawn().expect("Python runs")
}

/// Hosts that leave neither checksums nor segmentation to the device: XDP cannot say that something is unfinished.
fn finished(net: &Hosts) {
    for host in [&net.left, &net.right] {
        host.exec("ethtool -K eth0 tx off tso off gso off");
    }
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("it is read")).read_line(&mut line).expect("a line");
    line
}

/// A page of the right host, fetched by the left one.
fn fetch(net: &Hosts, port: u16) -> std::process::Output {
    let mut server = python(
        &net.right,
        &format!(
            "import http.server, socketserver\n\
             class H(http.server.BaseHTTPRequestHandler):\n\
             \x20def do_GET(s): s.send_response(200); s.end_headers(); s.wfile.write(b'x' * 3000000)\n\
             \x20def log_message(s, *a): pass\n\
             s = socketserver.TCPServer(('10.9.0.2', {port}), H); print('ready', flush=True); s.handle_request()"
        ),
    );
    assert_eq!(first_line(&mut server), "ready\n");
    let url = format!("http://10.9.0.2:{port}/");
    let out = net.left.command("curl").args(["-sS", "--max-time", "3", &url]).output().expect("curl runs");
    server.kill().expect("the server ends");
    server.wait().expect("the server ended");
    out
}

fn forwards(hook: Hook) {
    let net = Hosts::new();
    if hook == Hook::Xdp {
        finished(&net);
    }
    let middle = netns(&net.middle);
    let mut loaded = Loaded::new(&middle, hook);
    loaded.attach(&middle).expect("the interfaces are free");
    let text = net.left.exec("ping -c 20 -i 0.01 -W 2 10.9.0.2");
    assert!(text.contains(" 0% packet loss"), "{text}");
    let page = fetch(&net, 80);
    assert!(
        page.status.success() && page.stdout.len() == 3_000_000,
        "{}",
        String::from_utf8_lossy(&page.stderr)
    );
    assert_eq!(loaded.dropped("fa", "Denied"), 0);
    let page = fetch(&net, 81);
    assert!(!page.status.success() && page.stdout.is_empty(), "a port that is denied");
    assert!(loaded.dropped("fa", "Denied") > 0, "each packet that is denied is counted with its element");
    assert_eq!(loaded.ended(|e| *e == Ended::Fault), 0);
    let left = loaded.ended(|e| matches!(e, Ended::Left(_)));
    assert!(left > 60, "{left} packets went through");
    // Without the programs nothing goes from left to right.
    drop(loaded);
    let ping = net.left.command("ping").args(["-c", "1", "-W", "1", "10.9.0.2"]).output().expect("ping runs");
    assert!(!ping.status.success(), "nothing is left of the programs");
}

#[test]
fn packets_go_from_interface_to_interface_by_tc() {
    forwards(Hook::Tc);
}

#[test]
fn packets_go_from_interface_to_interface_by_xdp() {
    forwards(Hook::Xdp);
}

/// Numbered packets, while the programs are replaced over and over.
fn replaced(hook: Hook) {
    let net = Hosts::new();
    if hook == Hook::Xdp {
        finished(&net);
    }
    let middle = netns(&net.middle);
    let mut loaded = Loaded::new(&middle, hook);
    loaded.attach(&middle).expect("the interfaces are free");
    net.left.exec("ping -c 1 -W 2 10.9.0.2");
    let mut receiver = python(
        &net.right,
        "import socket\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)\n\
         s.bind(('10.9.0.2', 7000)); s.settimeout(20); print('ready', flush=True); n = 0; wrong = 0\n\
         while True:\n\
         \x20d = int(s.recv(100))\n\
         \x20if d < 0: break\n\
         \x20wrong += d != n; n += 1\n\
         print(n, wrong)",
    );
    assert_eq!(first_line(&mut receiver), "ready\n");
    let mut sender = python(
        &net.left,
        "import socket, time\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('10.9.0.2', 7000))\n\
         for i in range(30000):\n\
         \x20s.send(b'%d' % i)\n\
         \x20if i % 20 == 0: time.sleep(0.0005)\n\
         time.sleep(0.2); s.send(b'-1')",
    );
    let mut swaps = 0;
    let mut kept = Vec::new();
    while sender.try_wait().expect("the sender is ours").is_none() {
        let next = Loaded::new(&middle, hook);
        for (link, program) in loaded.links.iter().zip(&next.programs) {
            link.replace(program).expect("the program is replaced");
        }
        swaps += 1;
        kept.push(next);
    }
    let mut text = String::new();
    receiver.stdout.as_mut().expect("it is read").read_to_string(&mut text).expect("a line");
    receiver.wait().expect("the receiver ended");
    assert_eq!(text, "30000 0\n", "all packets in order, while the programs were replaced {swaps} times");
    assert!(swaps > 3, "{swaps} swaps");
    let through = kept.iter().filter(|k| k.ended(|e| matches!(e, Ended::Left(_))) > 0).count();
    assert!(through > 2, "packets went through {through} of the programs");
}

#[test]
fn a_program_takes_the_place_of_another_and_no_packet_is_lost_by_tc() {
    replaced(Hook::Tc);
}

#[test]
fn a_program_takes_the_place_of_another_and_no_packet_is_lost_by_xdp() {
    replaced(Hook::Xdp);
}

#[test]
fn a_program_that_is_there_already_stays() {
    for hook in [Hook::Xdp, Hook::Tc] {
        let net = Hosts::new();
        let middle = netns(&net.middle);
        let mut first = Loaded::new(&middle, hook);
        first.attach(&middle).expect("the interfaces are free");
        let mut second = Loaded::new(&middle, hook);
        let e = second.attach(&middle).expect_err("the first is there");
        assert_eq!(e.kind(), std::io::ErrorKind::ResourceBusy, "{e}");
        drop(second);
        let text = net.left.exec("ping -c 3 -i 0.01 -W 2 10.9.0.2");
        assert!(text.contains(" 0% packet loss"), "{text}");
    }
}

/// The name of the namespace in which the process that is killed is to hang its programs.
const VICTIM: &str = "WEIR_EBPF_VICTIM";

#[test]
fn nothing_is_left_of_a_process_that_is_killed() {
    if let Ok(name) = std::env::var(VICTIM) {
        let middle = Netns::Named(name);
        let mut loaded = Loaded::new(&middle, Hook::Tc);
        loaded.attach(&middle).expect("the interfaces are free");
        println!("ready");
        loop {
            sleep(Duration::from_secs(60));
        }
    }
    let net = Hosts::new();
    let mut victim = Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--exact", "nothing_is_left_of_a_process_that_is_killed", "--nocapture"])
        .env(VICTIM, net.middle.name())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let lines = BufReader::new(victim.stdout.take().expect("it is read")).lines();
    let ready = lines.map_while(Result::ok).any(|l| l.ends_with("ready"));
    assert!(ready, "the programs hang on the interfaces");
    net.left.exec("ping -c 1 -W 2 10.9.0.2");
    victim.kill().expect("the process is killed");
    victim.wait().expect("the process has ended");
    let ping = net.left.command("ping").args(["-c", "1", "-W", "1", "10.9.0.2"]).output().expect("ping runs");
    assert!(!ping.status.success(), "nobody forwards any more");
    // The interfaces are free for the next.
    let middle = netns(&net.middle);
    Loaded::new(&middle, Hook::Tc).attach(&middle).expect("the interfaces are free again");
}
