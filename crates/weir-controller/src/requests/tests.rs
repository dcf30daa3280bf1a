//! Requests proved on an offer: what each kind of requester may run (table 2.1 of the CHANGE paper), and where.

use std::net::IpAddr;
use std::path::Path;

use weir_check::Party;
use weir_model::request::Request;
use weir_topology::Requester;

use super::offer::{Access, Offer};
use super::prove::{Candidate, prove};

const TOPOLOGY: &str = "
version: 1
name: access
boxes:
  internet: {kind: internet}
  client: {kind: client, owns: [172.16.15.133, 172.16.15.134], owner: acme}
  platform: {kind: platform, owns: 172.100.10.0/29}
  hub: {kind: switch}
links: ['hub:a - internet', 'hub:b - platform', 'hub:c - client']
owners:
  acme: {role: client, registered: [172.16.15.133, 172.16.15.134]}
";

pub(super) fn offer(folder: &Path, topology: &str, platforms: &str) -> Offer {
    std::fs::write(folder.join("topology.yaml"), topology).unwrap();
    let offer = folder.join("offer.yaml");
    std::fs::write(&offer, format!("topology: topology.yaml\nplatforms:\n{platforms}")).unwrap();
    Offer::load(&offer).unwrap()
}

fn party(role: Requester) -> Party {
    let registered = ["172.16.15.133", "172.16.15.134"].map(|a| a.parse().unwrap());
    Party { role, registered: registered.into(), modules: Vec::new() }
}

fn candidate(name: &str) -> Candidate {
    let access = Access { if_name: "lan".into(), vlan: None, share: None };
    Candidate { name: name.into(), access, taken: Default::default(), request: None }
}

/// Table 2.1: each function for third parties, clients and the operator. Its functions that nobody addresses take the traffic of others.
const TABLE: &[(&str, &str, &str, &str)] = &[
    (
        "DPI",
        "nny",
        "0.0.0.0/0",
        "-> CheckIPHeader -> dpi :: Classifier(40/474554, -) -> Counter -> out :: ToNetfront(); dpi [1] -> out",
    ),
    (
        "NAT",
        "nny",
        "0.0.0.0/0",
        "-> CheckIPHeader -> IPFilter(allow tcp and ip hl 5) -> IPRewriter(pattern 172.100.10.1 1024-65535 - - 0 0) -> ToNetfront()",
    ),
    ("Transcoder", "nny", "0.0.0.0/0", "-> CheckIPHeader -> TruncateIPPayload(100) -> ToNetfront()"),
    (
        "Implicit Proxy",
        "nny",
        "0.0.0.0/0",
        "-> CheckIPHeader -> IPFilter(allow tcp dst port 80 and ip hl 5) -> IPRewriter(pattern - - 93.184.216.34 3128 0 0) -> ToNetfront()",
    ),
    // The client wraps what it has for anybody into UDP.
    (
        "Explicit Proxy",
        "nyy",
        "",
        "-> CheckIPHeader -> side :: IPClassifier(udp dst port 3128 and ip hl 5 and not ip frag, tcp and ip hl 5); \
        side [0] -> Strip(28) -> CheckIPHeader -> IPFilter(deny dst host 172.100.10.1, allow tcp and ip hl 5) \
        -> proxy :: IPRewriter(pattern 172.100.10.1 1024-65535 - - 0 1, drop) -> out :: ToNetfront(); \
        side [1] -> [1] proxy; proxy [1] -> out",
    ),
    (
        "Sendmail",
        "nyy",
        "",
        "-> CheckIPHeader -> IPFilter(allow tcp dst port 25 and ip hl 5) -> IPRewriter(pattern 172.100.10.1 1024-65535 93.184.216.34 25 0 0) -> ToNetfront()",
    ),
    (
        "Rate limiter",
        "yyy",
        "",
        "-> CheckIPHeader -> rate :: RatedSplitter(1000) -> StoreIPAddress(172.16.15.133, dst) -> ToNetfront(); rate [1] -> Discard",
    ),
    (
        "Firewall",
        "yyy",
        "",
        "-> CheckIPHeader -> IPFilter(deny src net 198.51.100.0/24, allow tcp dst port 80) -> StoreIPAddress(172.16.15.133, dst) -> ToNetfront()",
    ),
    (
        "IDS",
        "yyy",
        "",
        "-> CheckIPHeader -> copies :: Tee -> StoreIPAddress(172.16.15.133, dst) -> ToNetfront(); \
        copies [1] -> IPFilter(allow tcp opt syn and fin) -> Counter -> Discard",
    ),
    (
        "IPS",
        "yyy",
        "",
        "-> CheckIPHeader -> IPFilter(deny tcp opt syn and fin, allow all) -> StoreIPAddress(172.16.15.133, dst) -> ToNetfront()",
    ),
    (
        "Scrubber",
        "yyy",
        "",
        "-> CheckIPHeader -> IPFilter(deny ip frag, allow all) -> SetIPDSCP(0) -> StoreIPAddress(172.16.15.133, dst) -> ToNetfront()",
    ),
    ("Tunnel", "yyy", "", "-> CheckIPHeader -> IPEncap(4, 172.100.10.1, 172.16.15.133) -> ToNetfront()"),
    (
        "Multicast",
        "yyy",
        "",
        "-> CheckIPHeader -> copies :: Tee -> StoreIPAddress(172.16.15.133, dst) -> out :: ToNetfront(); \
        copies [1] -> StoreIPAddress(172.16.15.134, dst) -> out",
    ),
    // What the cache has not comes from the origin.
    (
        "CDN",
        "yyy",
        "",
        "-> CheckIPHeader -> IPFilter(allow tcp and ip hl 5) -> side :: IPClassifier(src host 172.16.15.133, -); \
        side [1] -> cache :: IPRewriter(pattern 172.100.10.1 1024-65535 172.16.15.133 80 0 1, drop) -> out :: ToNetfront(); \
        side [0] -> [1] cache; cache [1] -> out",
    ),
    (
        "DNS Server",
        "yyy",
        "",
        "-> CheckIPHeader -> IPFilter(allow udp dst port 53 and ip hl 5) -> IPMirror -> ToNetfront()",
    ),
];

#[test]
fn each_function_of_table_2_1_is_for_whom_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let offer =
        offer(folder.path(), TOPOLOGY, "  platform: {access: [{if-name: lan}], gateway: 172.100.10.7}\n");
    for (name, wanted, intercepts, script) in TABLE {
        let intercepts = if intercepts.is_empty() { "" } else { "    intercepts: 0.0.0.0/0\n" };
        let text = format!("version: 1\nmodules:\n  m:\n    click: 'FromNetfront() {script}'\n{intercepts}");
        let request = Request::parse(&text).unwrap();
        let may = [Requester::ThirdParty, Requester::Client, Requester::Operator].map(|role| {
            match prove(&offer, &request, &party(role), &[candidate("platform")], Vec::new()) {
                Ok(proved) => {
                    assert_eq!(proved.addresses[0].1, "172.100.10.1".parse::<IpAddr>().unwrap());
                    ('y', String::new())
                }
                Err(problem) => {
                    let text = serde_json::to_string(&problem).unwrap();
                    assert!(!text.contains("cannot be run"), "{name}: {text}");
                    (if text.contains("violated: ") { 'n' } else { '?' }, text)
                }
            }
        });
        let verdicts: String = may.iter().map(|(c, _)| c).collect();
        assert_eq!(verdicts, *wanted, "{name}: {may:#?}");
    }
}

#[test]
fn what_a_module_takes_of_others_is_led_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let offer =
        offer(folder.path(), TOPOLOGY, "  platform: {access: [{if-name: lan}], gateway: 172.100.10.7}\n");
    let text =
        "version: 1\nmodules:\n  m: {click: 'FromNetfront() -> ToNetfront()', intercepts: 198.51.100.0/24}\n";
    let proved = prove(
        &offer,
        &Request::parse(text).unwrap(),
        &party(Requester::Operator),
        &[candidate("platform")],
        Vec::new(),
    );
    let script = proved.unwrap().runs.unwrap().script;
    assert!(script.contains("IPClassifier(dst host 172.100.10.1, dst net 198.51.100.0/24, -)"), "{script}");
}

/// A policy that sandboxes what cannot be proved, for third parties.
const SANDBOX: &str = "policy:\n  third-party: {inconclusive: sandbox}\n";

/// An offer of one platform with images.
fn with_images(folder: &Path, topology: &str) -> Offer {
    let images = folder.join("images");
    for (name, more) in [
        ("box", "kind: container\nports: [net]\ncontainer: {image: ./layout}\n"),
        ("root", "kind: native\nports: [net]\nnative: {}\n"),
    ] {
        std::fs::create_dir_all(images.join(name)).unwrap();
        std::fs::write(images.join(name).join("function.yaml"), format!("name: {name}\n{more}")).unwrap();
    }
    let platform = "  platform: {access: [{if-name: lan}], gateway: 172.100.10.7}";
    offer(folder, topology, &format!("{platform}\nimages: {}\n", images.display()))
}

#[test]
fn what_cannot_be_proved_runs_behind_an_enforcer() {
    let folder = tempfile::tempdir().unwrap();
    let offer = with_images(folder.path(), &format!("{TOPOLOGY}{SANDBOX}"));
    let asked = |text: &str, role| {
        let request = Request::parse(text).unwrap();
        let request = super::stock::with_scripts(request, &offer.images).unwrap();
        prove(&offer, &request, &party(role), &[candidate("platform")], Vec::new())
    };
    let third = |text: &str| asked(text, Requester::ThirdParty);
    for (script, why) in [
        ("FromNetfront() -> CheckIPHeader -> StoreIPAddress(8.8.8.8, src) -> ToNetfront()", "violated: "),
        ("FromNetfront() -> CheckIPHeader -> StoreIPAddress(203.0.113.9, dst) -> ToNetfront()", "violated: "),
        (
            "FromNetfront() -> CheckIPHeader -> IPFilter(allow udp) -> Strip(28) -> CheckIPHeader -> ToNetfront()",
            "violated: ",
        ),
        (
            "RatedSource(\\<4500001400000000400103e108080808ac100f85>, 1) -> ToNetfront(); FromNetfront() -> Discard;",
            "violated: ",
        ),
        ("FromNetfront() -> CheckIPHeader -> AggregateIPFlows -> ToNetfront()", "inconclusive: "),
    ] {
        let text = format!("{script}\n");
        let proved = third(&text).unwrap_or_else(|p| panic!("{script}: {p:?}"));
        assert_eq!(proved.sandboxes["module"].kind, "process");
        let finding = &proved.findings[0];
        assert_eq!(finding.verdict, weir_api::requests::Verdict::Contained);
        assert!(
            finding.reason.starts_with(why) && finding.requirement == "security module third-party",
            "{finding:?}"
        );
        let runs = proved.runs.unwrap();
        assert!(
            runs.script.contains("s1 :: ChangeEnforcer(172.100.10.1, 172.16.15.133/32"),
            "{}",
            runs.script
        );
        let [own] = &runs.sandboxes[..] else { panic!("{runs:?}") };
        let super::sandbox::Body::Script(own) = &own.body else { panic!("{own:?}") };
        for (ports, text) in [(2, &runs.script), (1, own)] {
            let ends: String = (0..ports).map(|i| format!("in_{i} :: Idle; out_{i} :: Discard; ")).collect();
            weir_plan::Plan::new(&offer.classes, &(ends + text), "script")
                .unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        }
        // The policy of clients says no such thing.
        let refused = asked(&text, Requester::Client);
        assert!(refused.is_err() || script.contains("203.0.113.9"), "{script}");
    }
    // A program is one thing of which nothing is known.
    let program = "version: 1\nmodules: {cache: {image: box}}\n";
    let proved = third(program).unwrap();
    assert_eq!(proved.sandboxes["cache"].kind, "container");
    assert!(proved.findings[0].reason.contains("kind container"), "{:?}", proved.findings);
    let refused = serde_json::to_string(&asked(program, Requester::Client).unwrap_err()).unwrap();
    assert!(refused.contains("inconclusive") && refused.contains("box"), "{refused}");
    // What is proved runs without.
    let good =
        third("FromNetfront() -> CheckIPHeader -> StoreIPAddress(172.16.15.133, dst) -> ToNetfront()\n");
    assert!(good.unwrap().sandboxes.is_empty());
}

#[test]
fn what_no_enforcer_keeps_to_the_rules_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let offer = with_images(folder.path(), &format!("{TOPOLOGY}{SANDBOX}"));
    let refused = |text: &str| {
        let request = super::stock::with_scripts(Request::parse(text).unwrap(), &offer.images).unwrap();
        let third = party(Requester::ThirdParty);
        let problem = prove(&offer, &request, &third, &[candidate("platform")], Vec::new()).unwrap_err();
        serde_json::to_string(&problem).unwrap()
    };
    let taking = refused(
        "version: 1\nmodules:\n  m: {click: 'FromNetfront() -> ToNetfront()', intercepts: 198.51.100.0/24}\n",
    );
    assert!(taking.contains("lets in only what is addressed to it"), "{taking}");
    let linked = refused(
        "version: 1\nmodules:\n  a: {click: 'FromNetfront(x) -> CheckIPHeader -> StoreIPAddress(8.8.8.8, src) -> ToNetfront(y)'}\n  \
         b: {click: 'FromNetfront(z) -> ToNetfront(z)'}\nlinks: ['a:y -> b:z']\n",
    );
    assert!(linked.contains("linked with others"), "{linked}");
    let root = refused("version: 1\nmodules: {m: {image: root}}\n");
    assert!(root.contains("run as root on the node"), "{root}");
    // What has to hold for all is not proved of a program that may send what it likes, although that is contained.
    let through =
        refused("version: 1\nmodules: {m: {image: box}}\nrequirements: [can internet client via m udp]\n");
    assert!(
        through.contains("can internet client via m") && !through.contains("cannot run in a sandbox"),
        "{through}"
    );
    // An enforcer stands in the network that is proved.
    let spoofs = refused(
        "FromNetfront() -> CheckIPHeader -> StoreIPAddress(203.0.113.9, dst) -> ToNetfront()\ncan internet internet via module udp and not src host 172.100.10.1\n",
    );
    assert!(spoofs.contains("can internet internet via module"), "{spoofs}");
}
