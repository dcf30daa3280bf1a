//! A store in an etcd that speaks TLS only, asks for certificates, and knows users.

use crate::domain::{Domain, WIRE, lab as domain_lab};
use crate::lab::{Lab, Output, Process, poll, until};

const MEMBER: &str = "10.99.0.20:2379";

fn openssl(lab: &Lab, arguments: &str) {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    crate::lab::host(&[&["env", "-C", &lab.path(""), "openssl"], &arguments[..]].concat()).ok();
}

/// An authority of this name.
fn authority(lab: &Lab, name: &str) {
    openssl(
        lab,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ),
    );
}

/// A certificate of an authority, for an address, as server and as client: etcd's gateway is a client of its own server.
fn certificate(lab: &Lab, authority: &str, name: &str) {
    openssl(
        lab,
        &format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /O={name} -keyout {name}.key -out {name}.csr"
        ),
    );
    lab.write("ext", "subjectAltName=IP:10.99.0.20\nextendedKeyUsage=serverAuth,clientAuth\n");
    openssl(
        lab,
        &format!(
            "x509 -req -days 2 -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -extfile ext -out {name}.pem"
        ),
    );
}

fn etcd(lab: &Lab) -> Process {
    let (data, url) = (lab.path("etcd"), format!("https://{MEMBER}"));
    let (ca, cert, key) = (lab.path("ca.pem"), lab.path("member.pem"), lab.path("member.key"));
    let client = ["--listen-client-urls", &url, "--advertise-client-urls", &url, "--client-cert-auth"];
    let files = ["--trusted-ca-file", &ca, "--cert-file", &cert, "--key-file", &key];
    let rest = ["--data-dir", &data, "--listen-peer-urls", "http://127.0.0.1:2380", "--logger", "zap"];
    lab.ns("e").spawn_in_network(&[&["etcd"], &client[..], &files, &rest].concat())
}

/// `etcdctl`, after authentication as root.
fn etcdctl(lab: &Lab, arguments: &str) -> Output {
    let endpoint = format!("--endpoints=https://{MEMBER}");
    let (ca, cert, key) = (lab.path("ca.pem"), lab.path("own.pem"), lab.path("own.key"));
    let own = ["env", "ETCDCTL_API=3", "etcdctl", &endpoint, "--cacert", &ca, "--cert", &cert, "--key", &key];
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    lab.ns("control").run(&[&own[..], &arguments].concat())
}

/// Namespaces as of a domain, and an etcd with users: `weir` may have what is Weir's, `other` something else.
fn lab() -> (Lab, Process) {
    let mut lab = domain_lab(false);
    lab.namespace("e");
    lab.link(("e", "m0"), ("control", "p20"));
    lab.ip("control", "link set p20 master br0");
    lab.ip("e", "addr add 10.99.0.20/24 dev m0");
    lab.ip("e", "link set lo up");
    authority(&lab, "ca");
    authority(&lab, "wrong");
    certificate(&lab, "ca", "member");
    certificate(&lab, "ca", "own");
    certificate(&lab, "wrong", "forged");
    let process = etcd(&lab);
    until("etcd", || etcdctl(&lab, "endpoint health").code == 0);
    for command in [
        "user add root:secret",
        "user grant-role root root",
        "role add weir",
        "role grant-permission weir readwrite --prefix /weir/",
        "user add weir:pass-word",
        "user grant-role weir weir",
        "role add other",
        "role grant-permission other readwrite --prefix /other/",
        "user add other:pass-word",
        "user grant-role other other",
        "auth enable",
    ] {
        etcdctl(&lab, command).ok();
    }
    for (file, text) in [("password", "pass-word\n"), ("mistake", "pass-wort\n")] {
        lab.write(file, text);
    }
    (lab, process)
}

/// An address with these options, whose files are the lab's.
fn address(lab: &Lab, options: &[(&str, &str)]) -> String {
    let text = |(name, value): &(&str, &str)| match *name {
        "user" => format!("user={value}"),
        _ => format!("{name}={}", lab.path(value)),
    };
    format!("etcds://{MEMBER}?{}", options.iter().map(text).collect::<Vec<_>>().join("&"))
}

const TLS: [(&str, &str); 3] = [("ca", "ca.pem"), ("cert", "own.pem"), ("key", "own.key")];
const USER: [(&str, &str); 2] = [("user", "weir"), ("password", "password")];

#[test]
fn a_store_in_an_etcd_with_tls_and_users() {
    let (lab, _etcd) = lab();
    let store = address(&lab, &[&TLS[..], &USER].concat());
    let mut domain = Domain::start_with(&lab, &["--store", &store]);
    let token = domain.weir(&["token"]).ok();
    let _node = domain.node("n1", Some(token.trim()));
    until("n1", || domain.is_online("n1") && domain.knows("n1"));
    domain.apply(WIRE, &[]).ok();
    // Tokens that were given before a change of users or roles are good no more.
    etcdctl(&lab, "--user root:secret role grant-permission other readwrite --prefix /more/").ok();
    domain.apply(&WIRE.replace("name: wire", "name: changed"), &[]).ok();
    // What was accepted is there.
    domain.restart(&["--store", &store]);
    let names = || domain.weir(&["--json", "ps"]).stdout;
    assert!(poll(1000, || names().contains("\"changed\"")), "{}", names());
    until("n1", || domain.is_online("n1") && domain.knows("n1"));
    // A role that is taken away while it leads: changes are refused, and the log says why.
    etcdctl(&lab, "--user root:secret user revoke-role weir weir").ok();
    until("what is wrong is said", || domain.said().contains("grant-permission"));
    domain.apply(WIRE, &[]).fails(1);
    etcdctl(&lab, "--user root:secret user grant-role weir weir").ok();
    let mut last = String::new();
    let accepted = || {
        let out = domain.apply(WIRE, &[]);
        last.clone_from(&out.stderr);
        out.code == 0
    };
    assert!(poll(600, accepted), "{last}");
    let file = lab.path("file.weir");
    domain.weir(&["controller", "backup", &file, "--store", &store]).ok();
    domain.weir(&["delete", "wire"]).ok();
    domain.stop_engines();
}

#[test]
fn what_is_wrong_between_a_controller_and_its_etcd_is_named() {
    let (lab, _etcd) = lab();
    let options = |changes: &[(&str, &str)]| {
        let mut all = [&TLS[..], &USER].concat();
        for (name, value) in changes {
            all.retain(|(n, _)| n != name);
            if !value.is_empty() {
                all.push((name, value));
            }
        }
        address(&lab, &all)
    };
    let starts = |store: &str| {
        let listen = ["controller", "--listen", "10.99.0.254:7443", "--store", store];
        lab.ns("control").weir(&listen).fails(1)
    };
    for (store, why) in [
        (options(&[("ca", "wrong.pem")]), "not of the authority in ca="),
        (options(&[("cert", ""), ("key", "")]), "it asks for a certificate of its clients"),
        (options(&[("cert", "forged.pem"), ("key", "forged.key")]), "it does not take the certificate cert="),
        (options(&[("key", "forged.key")]), "cert="),
        (options(&[("password", "mistake")]), "the password in password="),
        (options(&[("user", "nobody")]), "the user 'nobody' is none"),
        (options(&[("user", "other")]), "the user 'other' may not read and write"),
        (options(&[("user", ""), ("password", "")]), "it asks for a user"),
        (options(&[("user", "")]), "belong together"),
        (options(&[("ca", "")]), "needs ca=FILE"),
        (format!("etcd://{MEMBER}"), "if it speaks TLS, write etcds://"),
        (options(&[]).replace("10.99.0.20", "127.0.0.1"), "etcd does not answer"),
    ] {
        let said = if why.contains("etcd does not answer") || why.contains("if it speaks") {
            // That may be over soon, so a controller waits; other commands do not.
            let file = lab.path("file.weir");
            lab.ns("control").weir(&["controller", "backup", &file, "--store", &store]).fails(1)
        } else {
            starts(&store)
        };
        assert!(said.contains(why), "{store}: {said}");
        assert!(!said.contains("pass-wor"), "{said}");
    }
}
