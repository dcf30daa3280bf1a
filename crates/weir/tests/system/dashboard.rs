//! The dashboard, as Debian's Chromium shows it: `web/test/dashboard.mjs` drives it.

use crate::domain::{Domain, SPAN, lab as domain_lab};
use crate::lab::{Lab, host, poll, until_pings};
use crate::node::Node;

/// A graph at one node, with the longest name, which would do harm if it were taken for markup, or turned the text around it.
fn hostile() -> String {
    let name = r"\u202e<script>hacked=1</script><img src=x onerror=hacked=1>";
    let name = format!("{name}{}", "x".repeat(128 + 5 - name.len()));
    format!(
        "id: hostile\nname: \"{name}\"\nsaps:\n  - {{id: l, type: interface, node: n1, interface: {{if-name: wan}}}}\n\
         flowrules: [{{id: r, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: 'sap:l'}}}}]\n"
    )
}

#[test]
fn the_dashboard_shows_and_changes_a_domain() {
    let lab = domain_lab(false);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    domain.apply(SPAN, &[]).ok();
    domain.apply(&hostile(), &[]).ok();
    domain.weir(&["policy", "set", "no-loops", "--require", "noloops"]).ok();
    domain.weir(&["tenant", "add", "acme", "--graphs", "10"]).ok();
    let key = lab.path("operator");
    domain.weir(&["key", "new", &key]).ok();
    domain.weir(&["key", "add", "root", &format!("{key}.pub"), "--role", "operator"]).ok();
    until_pings(&lab.ns("h1"), "10.1.0.3");
    let _traffic = lab.ns("h1").spawn(&["ping", "-i", "0.05", "-s", "600", "10.1.0.3"]);
    let capture = lab.path("capture.pcapng");
    let variables = [
        "WEIR_URL=https://10.99.0.254:7443".to_owned(),
        format!("WEIR_TOKEN={}", domain.token()),
        format!("WEIR_KEY={key}"),
        format!("WEIR_CAPTURE={capture}"),
    ];
    let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
    let mut browser = lab.ns("control").spawn(
        &[&["env"], &variables[..], &["timeout", "-k", "5", "300", "node", "web/test/dashboard.mjs"]]
            .concat(),
    );
    assert!(poll(15_000, || !browser.runs()), "{}{}", browser.stdout(), browser.stderr());
    let seen = browser.wait();
    println!("{}", seen.stdout);
    seen.ok();
    let read =
        host(&["tshark", "-r", &capture, "-T", "fields", "-e", "frame.interface_name", "-e", "ip.dst"]).ok();
    assert!(read.contains("sap:a\t10.1.0.3"), "{read}");
    domain.stop_engines();
}

#[test]
fn a_node_serves_the_page_with_a_strict_policy() {
    let lab = Lab::new(&["node"]);
    let node = Node::start_with(&lab, &["--stop-engine"]);
    let ask = |arguments: &[&str]| lab.ns("node").run(&[&["curl", "-sS"], arguments].concat()).ok();
    let page = ask(&["-i", "http://127.0.0.1:7400/"]);
    assert!(page.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{page}");
    let script = page.split("src=\"").nth(1).unwrap().split('"').next().unwrap();
    let address = format!("http://127.0.0.1:7400{script}");
    let (plain, unpacked) = (ask(&[&address]), ask(&["--compressed", &address]));
    assert!(plain == unpacked && plain.len() > 10_000);
    let refused = ask(&["-H", "Origin: http://evil.example", "http://127.0.0.1:7400/"]);
    assert!(refused.contains("are not taken"), "{refused}");
    node.end().ok();
}
