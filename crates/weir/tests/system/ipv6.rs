//! An IPv6 router between real hosts.

use crate::lab::{Lab, Ns, PYTHON, Process, poll, until};
use crate::traffic::{big_file, sha256};

/// A router between the networks `fd00:1::/64` of `lan` and `fd00:2::/64` of `wan`, whose last link takes no ping of more
/// than 1400 bytes.
const ROUTER: &str = r"
define($LAN_IP fd00:1::1, $LAN_MAC 02:00:00:00:01:01, $WAN_IP fd00:2::1, $WAN_MAC 02:00:00:00:02:01);

elementclass Interface {
    DEVICE $device, IP $ip, MAC $mac |
    FromDevice($device, PROMISC true)
        -> kind :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd, -);
    out :: Queue(1000) -> ToDevice($device);
    nd :: IP6NDSolicitor($ip, $mac);
    kind [0] -> IP6NDAdvertiser($ip $mac) -> out;
    kind [1] -> [1] nd;
    kind [2] -> Strip(14) -> CheckIP6Header -> output;
    kind [3] -> Discard;
    input -> nd -> out;
}

lan :: Interface(DEVICE lan, IP $LAN_IP, MAC $LAN_MAC);
wan :: Interface(DEVICE wan, IP $WAN_IP, MAC $WAN_MAC);

routes :: LookupIP6Route($LAN_IP 2, $WAN_IP 2, fd00:1::/64 0, fd00:2::/64 1);
routes [2] -> ICMP6PingResponder -> routes;
routes [0] -> lan;

lan -> mine :: IP6Classifier(dst host $LAN_IP or dst host $WAN_IP, icmp6, -);
mine [0] -> routes;
mine [1] -> size :: CheckLength(1400) -> hops :: DecIP6HLIM;
mine [2] -> hops -> routes;
size [1] -> ICMP6Error($LAN_IP, toobig, PMTU 1400) -> routes;
hops [1] -> ICMP6Error($LAN_IP, timeexceeded, transit) -> routes;
routes [1] -> wan -> DecIP6HLIM -> routes;
";

/// A host of a network with this number, `fd00:N::2`, at the other end of a link of the router.
pub fn host(lab: &Lab, name: &str, link: &str, n: u8) {
    lab.link(("node", link), (name, "eth0"));
    for which in ["all", "eth0"] {
        let on = format!("net.ipv6.conf.{which}.disable_ipv6=0");
        lab.ns(name).run(&["sysctl", "-qw", &on]).ok();
    }
    lab.ip(name, &format!("addr add fd00:{n}::2/64 dev eth0 nodad"));
    lab.ip(name, &format!("-6 route add default via fd00:{n}::1"));
}

/// The router between a client and a server.
fn router<'a>(lab: &'a Lab, options: &[&str]) -> (Ns<'a>, Ns<'a>, Process) {
    host(lab, "client", "lan", 1);
    host(lab, "server", "wan", 2);
    let config = lab.write("router.click", ROUTER);
    let weir = lab.ns("node").spawn_weir(&[&["run", &config], options].concat());
    let client = lab.ns("client");
    let answers = poll(60, || client.run(&["ping", "-6", "-c1", "-W0.3", "fd00:1::1"]).code == 0);
    assert!(answers, "the router does not answer: {}", weir.stderr());
    (client, lab.ns("server"), weir)
}

#[test]
fn hosts_find_the_router_and_each_other() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, server, weir) = router(&lab, &["--handler", "wan/nd.table", "--handler", "routes.table"]);
    // Both ends are asked for by neighbour discovery.
    for (host, other) in [(&client, "fd00:2::2"), (&server, "fd00:1::2"), (&server, "fd00:2::1")] {
        let out = host.run(&["ping", "-6", "-c3", "-i0.2", "-W5", other]).ok();
        assert!(out.contains(" 0% packet loss"), "{out}");
    }
    let neighbours = lab.ip("client", "-6 neigh show fd00:1::1");
    assert!(neighbours.contains("02:00:00:00:01:01") && neighbours.contains("router"), "{neighbours}");
    let out = weir.interrupt().ok();
    assert!(out.contains("fd00:2::2 known") && out.contains("fd00:2::/64 - 1"), "{out}");
}

#[test]
fn errors_come_back_to_the_sender() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _, weir) = router(&lab, &[]);
    let ping = |options: &[&str]| {
        let out = client.run(&[&["ping", "-6", "-c1", "-W5"], options, &["fd00:2::2"]].concat());
        assert_eq!(out.code, 1, "no answer, but an error: {out:?}");
        out.stdout + &out.stderr
    };
    let out = ping(&["-t1"]);
    assert!(out.contains("From fd00:1::1") && out.contains("Hop limit"), "{out}");
    let out = ping(&["-Mdo", "-s1400"]);
    assert!(out.contains("too big: mtu=1400") || out.contains("too long, mtu=1400"), "{out}");
    weir.interrupt().ok();
}

#[test]
fn a_page_comes_through() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, server, weir) = router(&lab, &["--drops"]);
    let (_, sum) = big_file(&lab, "file", 20_000_000);
    let _web =
        server.spawn(&[PYTHON, "-m", "http.server", "80", "--bind", "::", "--directory", &lab.path("")]);
    until("the web server", || !server.run(&["ss", "-Htln", "sport = :80"]).stdout.is_empty());
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "30", "-o", &got, "http://[fd00:2::2]/file"]).ok();
    assert_eq!(sha256(&got), sum);
    let drops = weir.interrupt().ok();
    assert!(!drops.contains("Truncated") && !drops.contains("Bad"), "{drops}");
}
