//! Containers between real hosts, from images that umoci and skopeo make, and from a real registry.

use crate::functions::{graph, left, one_network, state};
use crate::lab::{Lab, Process, host, repository, until, until_pings};
use crate::node::Node;

/// Makes an OCI layout with a container image of busybox; gives its folder.
pub fn layout(lab: &Lab, tag: &str) -> String {
    let layout = lab.path("layout");
    let script = repository().join("scripts/busybox-image").display().to_string();
    host(&[&script, &layout, tag]).ok();
    layout
}

/// An image of the test's own; gives the folder of images.
fn image(lab: &Lab, name: &str, manifest: &str) -> String {
    let folder = lab.path(&format!("images/{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("name: {name}\nkind: container\nports: [left, right]\n{manifest}");
    std::fs::write(format!("{folder}/function.yaml"), text).unwrap();
    lab.path("images")
}

/// Forwards between its ports.
const BRIDGE: &str = "  command: [sh, -c, \"ip link add br0 type bridge && brctl addif br0 left && brctl addif br0 right && ip link set br0 up && echo forwarding && exec sleep 100000\"]
  capabilities: [NET_ADMIN]
";

/// A web server on the port `left`.
fn web(image: &str, more: &str) -> String {
    format!(
        "params:
  - {{name: ADDRESS, type: text, default: 10.0.0.9/24}}
  - {{name: WORD, type: text, default: one}}
  - {{name: NAMES, type: text, default: ''}}
handlers:
  page: {{handler: /bin/page, access: rw}}
  hang: {{handler: /bin/hang, access: r}}
container:
  image: {image}
  command: [sh, -c, 'echo serving $WORD; test -n \"$$PARAM_WORD\" && exec httpd -f -h /var/lib/web']
  addresses: {{left: [$ADDRESS, \"fd00::9/64\"]}}
  routes: {{0.0.0.0/0: 10.0.0.1}}
  environment: {{SAID: \"$WORD\"}}
  name-servers: [$NAMES]
  memory: 16 MB
  processes: 20
{more}"
    )
}

pub fn registry(lab: &Lab) -> Process {
    let config = format!(
        "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}, delete: {{enabled: true}}}}\nhttp: {{addr: '127.0.0.1:5000'}}\n",
        lab.path("registry")
    );
    let file = lab.write("registry.yml", config);
    let registry = lab.ns("node").spawn(&["docker-registry", "serve", &file]);
    until("the registry", || lab.ns("node").run(&["curl", "-sf", "http://127.0.0.1:5000/v2/"]).code == 0);
    registry
}

#[test]
fn a_container_forwards_between_hosts_within_its_limits_and_leaves_nothing() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let layout = layout(&lab, "one");
    let key = "params: [{name: KEY, type: text, secret: true}]";
    let images = image(&lab, "box", &format!("{key}\ncontainer:\n  image: {layout}\n{BRIDGE}"));
    let node = Node::start_with(&lab, &["--images", &images]);
    node.weir(&["apply", &graph(&lab, "box", "KEY: open sesame")]).ok();
    until_pings(&client, "10.0.0.2");
    let id = lab.name("g");
    assert_eq!(state(&node, &lab), "running");
    assert!(node.weir(&["logs", &id, "f"]).ok().contains("forwarding"));

    // Its root is read-only, its own processes are all that it sees, and it gains no rights.
    let inside = |script: &str| node.weir(&["shell", &id, "f", "--", "sh", "-c", script]);
    assert!(inside("touch /bin/x 2>&1; true").ok().contains("Read-only"));
    assert!(inside("ps").ok().lines().count() < 8);
    assert!(inside("grep NoNewPrivs /proc/self/status").ok().contains('1'));
    assert!(inside("grep Seccomp: /proc/self/status").ok().contains('2'));
    assert!(inside("unshare -n true 2>&1; true").ok().contains("not permitted"), "no namespaces");
    assert!(inside("mount -t tmpfs x /srv 2>&1; true").ok().contains("denied"), "no mounts");
    assert!(inside("ls /sys/class/net").ok().split_whitespace().any(|n| n == "left"));
    assert_eq!(
        inside("cat $PARAM_KEY_FILE; grep -c sesame /proc/1/environ").stdout,
        "open sesame0\n",
        "a secret is a file"
    );

    // It dies: that is told, with its last output, and it works again.
    let folders = left(&lab);
    let folder = folders.iter().find(|f| f.contains("/weir.functions/weir-")).unwrap();
    let pid = std::fs::read_to_string(format!("{folder}/pid")).unwrap();
    host(&["kill", "-KILL", pid.trim()]).ok();
    until("the death", || node.weir(&["events", "--graph", &id]).ok().contains("function-down"));
    until("the restart", || state(&node, &lab) == "running");
    until_pings(&client, "10.0.0.2");

    // The daemon dies: the container goes on, and is taken up.
    let before = left(&lab);
    let started = || inside("cat /proc/1/stat").ok().split_whitespace().nth(21).map(str::to_owned);
    let first = started();
    node.crash();
    let node = Node::start_with(&lab, &["--images", &images]);
    assert_eq!(left(&lab), before);
    until("it is taken up", || state(&node, &lab) == "running");
    let inside = |script: &str| node.weir(&["shell", &id, "f", "--", "sh", "-c", script]);
    assert_eq!(inside("cat /proc/1/stat").ok().split_whitespace().nth(21).map(str::to_owned), first);
    // The node has no huge pages itself.
    assert!(inside("cat /proc/1/status").ok().contains("THP_enabled:\t1"));
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_container_has_addresses_handlers_and_files_of_its_own_and_parameters_change() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    for which in ["all", "eth0"] {
        client.run(&["sysctl", "-qw", &format!("net.ipv6.conf.{which}.disable_ipv6=0")]).ok();
    }
    lab.ip("client", "addr add fd00::1/64 dev eth0 nodad");
    let layout = layout(&lab, "one");
    let images = image(&lab, "web", &web(&layout, "  writable: [/var/lib/web]\n"));
    let node = Node::start_with(&lab, &["--images", &images]);
    let apply = |params: &str| node.weir(&["apply", &graph(&lab, "web", params)]);
    apply("").ok();
    let page = |url: &str| client.run(&["curl", "-sS", "--max-time", "5", url]).ok();
    until_pings(&client, "10.0.0.9");
    assert_eq!(page("http://10.0.0.9/"), "made from one\n");
    assert_eq!(page("http://[fd00::9]/"), "made from one\n");
    let id = lab.name("g");
    node.weir(&["handler", "write", &id, "f", "page", "other words"]).ok();
    assert!(page("http://10.0.0.9/").contains("other words"));
    assert!(node.weir(&["handler", "read", &id, "f", "page"]).ok().contains("other words"));

    // Another address and another word: what it has written stays.
    apply("ADDRESS: 10.0.0.8/24, WORD: two").ok();
    until_pings(&client, "10.0.0.8");
    assert!(page("http://10.0.0.8/").contains("other words"));
    assert_ne!(client.run(&["ping", "-c1", "-W0.3", "10.0.0.9"]).code, 0);
    assert!(node.weir(&["logs", &id, "f"]).ok().ends_with("serving two\n"));

    // What cannot be is said, and what ran goes on.
    for (params, message) in [
        ("NAMES: none", "the name server \"none\" is no address"),
        ("ADDRESS: 10.0.0.7", "an address of port left is \"10.0.0.7\""),
        ("WORD: ''", "ended at once; it says: serving"),
    ] {
        let e = apply(params).fails(1);
        assert!(e.contains(message), "{params}: {e}");
        until_pings(&client, "10.0.0.8");
        assert!(page("http://10.0.0.8/").contains("other words"));
    }

    // A handler that does not end is ended.
    let e = node.weir(&["handler", "read", &id, "f", "hang"]).fails(1);
    assert!(e.contains("did not end within"), "{e}");
    until("it is gone", || !node.weir(&["shell", &id, "f", "--", "ps"]).stdout.contains("hang"));

    // It takes more memory than it has.
    let eats =
        node.weir(&["shell", &id, "f", "--", "sh", "-c", "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done"]);
    assert_eq!(eats.code, 137, "killed for want of memory: {}", eats.stderr);
    until("it works", || state(&node, &lab) == "running");
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn images_come_from_a_registry_by_their_digests_or_not_at_all() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let registry_process = registry(&lab);
    let layout = layout(&lab, "one");
    let copy = |tag: &str| {
        let (from, to) = (format!("oci:{layout}:{tag}"), "docker://127.0.0.1:5000/apps/web:1");
        lab.ns("node").run(&["skopeo", "copy", "--dest-tls-verify=false", &from, to]).ok();
    };
    copy("one");
    let images = image(&lab, "web", &web("localhost:5000/apps/web:1", ""));
    let node = Node::start_with(&lab, &["--images", &images]);
    let apply = || node.weir(&["apply", &graph(&lab, "web", "")]);
    let page = || client.run(&["curl", "-sS", "--max-time", "5", "http://10.0.0.9/"]).ok();
    apply().ok();
    until_pings(&client, "10.0.0.9");
    assert_eq!(page(), "made from one\n");
    assert!(apply().ok().contains("unchanged"));

    // The tag goes to another image: the graph keeps what it was given until it is applied again.
    self::layout(&lab, "two");
    copy("two");
    node.crash();
    let node = Node::start_with(&lab, &["--images", &images]);
    let apply = || node.weir(&["apply", &graph(&lab, "web", "")]);
    until("adopted", || state(&node, &lab) == "running");
    assert_eq!(page(), "made from one\n");
    apply().ok();
    until_pings(&client, "10.0.0.9");
    assert_eq!(page(), "made from two\n");

    // A registry whose content is not what its digest says; one that does not have it; one that is gone.
    let id = lab.name("g");
    node.weir(&["delete", &id]).ok();
    let blobs = host(&["find", &lab.path("registry"), "-name", "data", "-size", "+100k"]).ok();
    assert!(blobs.lines().count() >= 1, "{blobs}");
    for blob in blobs.lines() {
        let mut bytes = std::fs::read(blob).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(blob, bytes).unwrap();
    }
    let e = apply().fails(1);
    assert!(e.contains("damaged") || e.contains("Invalid digest") || e.contains("does not match"), "{e}");
    image(&lab, "web", &web("localhost:5000/apps/web:9", ""));
    let e = apply().fails(1);
    assert!(e.contains("localhost:5000/apps/web:9") && e.contains("the registry does not have it"), "{e}");
    registry_process.signal("KILL");
    registry_process.wait();
    let e = apply().fails(1);
    assert!(e.contains("cannot be reached"), "{e}");
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn function_images_are_pushed_to_a_registry_and_pulled_by_their_digests() {
    let lab = Lab::new(&["node"]);
    let _registry = registry(&lab);
    let weir = |arguments: &[&str]| lab.ns("node").weir(arguments);
    let folder = repository().join("images/nft-firewall").display().to_string();
    let pushed = weir(&["--json", "image", "push", &folder, "127.0.0.1:5000/weir/nft-firewall:1.0"]).json();
    let digest = pushed["digest"].as_str().unwrap().to_owned();
    assert_eq!(weir(&["image", "ls", "127.0.0.1:5000/weir/nft-firewall"]).ok(), "1.0\n");

    // Another client sees the same.
    let seen = lab.ns("node").run(&[
        "skopeo",
        "inspect",
        "--tls-verify=false",
        "--raw",
        "docker://127.0.0.1:5000/weir/nft-firewall:1.0",
    ]);
    assert!(seen.ok().contains("application/vnd.weir.function.v1"));

    let images = lab.path("pulled");
    let pinned = format!("127.0.0.1:5000/weir/nft-firewall@{digest}");
    assert!(weir(&["image", "pull", &pinned, "--images", &images]).ok().contains(&digest));
    assert!(weir(&["image", "pull", &pinned, "--images", &images]).ok().contains(&digest), "it is there");
    let listed = weir(&["--json", "image", "ls", &images]).json();
    assert_eq!((&listed[0]["digest"], &listed[0]["kind"]), (&digest.as_str().into(), &"native".into()));
    host(&["diff", "-r", "--exclude=.origin", &folder, &format!("{images}/nft-firewall")]).ok();

    // Another image of the name is not replaced unasked.
    std::fs::write(format!("{images}/nft-firewall/scripts/start"), "#!/bin/sh\n").unwrap();
    let e = weir(&["image", "pull", &pinned, "--images", &images]).fails(1);
    assert!(e.contains("--replace"), "{e}");
    weir(&["image", "pull", &pinned, "--images", &images, "--replace"]).ok();
    host(&["diff", "-r", "--exclude=.origin", &folder, &format!("{images}/nft-firewall")]).ok();

    // Its name is a folder's: it must not be one of others.
    let tricky = lab.path("tricky");
    std::fs::create_dir_all(&tricky).unwrap();
    std::fs::write(format!("{tricky}/function.yaml"), "name: '..'\nports: [a]\nclick: 'in_0 -> out_0;'\n")
        .unwrap();
    weir(&["image", "push", &tricky, "127.0.0.1:5000/weir/tricky:1"]).ok();
    let pull = ["image", "pull", "127.0.0.1:5000/weir/tricky:1", "--images", &images, "--replace"];
    assert!(weir(&pull).fails(1).contains("none of a folder"));
    assert!(std::path::Path::new(&format!("{images}/nft-firewall/function.yaml")).exists());

    for (arguments, message) in [
        (["push", &images, "127.0.0.1:5000/weir/x:1"], "function.yaml"),
        (["push", &folder, "weir/x:1"], "HOST/REPOSITORY"),
        (["pull", "127.0.0.1:5000/weir/nothing:1", "--replace"], "the registry does not have it"),
        (["pull", "127.0.0.1:1/weir/nothing:1", "--replace"], "cannot be reached"),
    ] {
        let e = weir(&[&["image"], &arguments[..]].concat()).fails(1);
        assert!(e.contains(message), "{arguments:?}: {e}");
    }
}

#[test]
fn what_is_no_image_is_refused_and_reaches_nothing() {
    let lab = Lab::new(&["client", "node", "server"]);
    let (_client, _server) = one_network(&lab);
    // An archive of docker save whose layer writes through links that lead out of it.
    let tree = lab.path("tree");
    let victim = lab.path("victim");
    std::fs::create_dir_all(&tree).unwrap();
    let script = format!(
        "
import io, json, sys, tarfile
def add(tar, name, **more):
    info = tarfile.TarInfo(name)
    data = more.pop('data', b'')
    for k, v in more.items(): setattr(info, k, v)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
out = io.BytesIO()
with tarfile.open(fileobj=out, mode='w') as t:
    add(t, 'bin', type=tarfile.DIRTYPE, mode=0o755)
    add(t, 'bin/busybox', data=open('/bin/busybox', 'rb').read(), mode=0o755)
    add(t, 'srv', type=tarfile.DIRTYPE, mode=0o755)
    add(t, 'out', type=tarfile.SYMTYPE, linkname='/../../../../../srv')
    add(t, 'out/through', data=b'x')
    add(t, '../../../../../../{victim}-up', data=b'x')
    add(t, '{victim}-absolute', data=b'x')
    add(t, 'etc', type=tarfile.SYMTYPE, linkname='{victim}')
    add(t, 'disk', type=tarfile.BLKTYPE, devmajor=8, devminor=0, mode=0o666)
layer = out.getvalue()
lead = io.BytesIO()
with tarfile.open(fileobj=lead, mode='w') as t:
    add(t, 'tmp', type=tarfile.SYMTYPE, linkname='{victim}')
    add(t, 'tmp/through', data=b'x')
user = io.BytesIO()
with tarfile.open(fileobj=user, mode='w') as t:
    add(t, 'bin', type=tarfile.DIRTYPE, mode=0o755)
    add(t, 'bin/busybox', data=open('/bin/busybox', 'rb').read(), mode=0o755)
    add(t, 'tmp', type=tarfile.DIRTYPE, mode=0o755)
for name, layer, who in [('image', layer, ''), ('lead', lead.getvalue(), ''), ('user', user.getvalue(), '1000:1000')]:
  config = json.dumps({{'architecture': 'amd64', 'os': 'linux', 'config': {{'User': who}}, 'rootfs': {{'type': 'layers', 'diff_ids': []}}}}).encode()
  with tarfile.open('{tree}/' + name + '.tar', 'w') as t:
    add(t, 'config.json', data=config)
    add(t, 'layer.tar', data=layer)
    add(t, 'manifest.json', data=json.dumps([{{'Config': 'config.json', 'RepoTags': ['x:1'], 'Layers': ['layer.tar']}}]).encode())
"
    );
    host(&["/usr/bin/python3", "-c", &script]).ok();
    let command =
        "  command: [/bin/busybox, sh, -c, \"/bin/busybox ls -l /disk; exec /bin/busybox sleep 1000\"]\n";
    let images = image(&lab, "hostile", &format!("container:\n  image: {tree}/image.tar\n{command}"));
    let writes = "/bin/busybox touch /tmp/a /run/a && echo written; exec /bin/busybox sleep 1000";
    let writes = format!("  command: [/bin/busybox, sh, -c, \"{writes}\"]\n");
    image(&lab, "user", &format!("container:\n  image: {tree}/user.tar\n{writes}"));
    let whole = std::fs::read(format!("{tree}/image.tar")).unwrap();
    std::fs::write(format!("{tree}/short.tar"), &whole[..whole.len() / 2]).unwrap();
    image(&lab, "short", &format!("container: {{image: {tree}/short.tar, command: [/bin/busybox]}}"));
    image(&lab, "gone", &format!("container: {{image: {tree}/none.tar}}"));
    std::fs::write(format!("{tree}/noise.tar"), [7; 4096]).unwrap();
    image(&lab, "noise", &format!("container: {{image: {tree}/noise.tar}}"));
    image(&lab, "lead", &format!("container: {{image: {tree}/lead.tar, command: [/bin/busybox]}}"));
    image(&lab, "silent", &format!("container: {{image: {tree}/image.tar}}"));
    image(&lab, "missing", &format!("container: {{image: {tree}/image.tar, command: [/bin/nothing]}}"));
    let node = Node::start_with(&lab, &["--images", &images]);
    node.weir(&["apply", &graph(&lab, "hostile", "")]).ok();
    for place in [victim.clone(), format!("{victim}-up"), format!("{victim}-absolute")] {
        assert!(!std::path::Path::new(&place).exists(), "{place}");
    }
    let images = std::fs::metadata(lab.path("store/weir.functions/containers/images")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&images.permissions()) & 0o77, 0, "set-user-ID files");
    let log = node.weir(&["logs", &lab.name("g"), "f"]).ok();
    assert!(log.contains("/disk: No such file"), "no devices: {log}");
    node.weir(&["delete", &lab.name("g")]).ok();
    // Whoever a program runs as writes to /tmp, whatever the image has there.
    node.weir(&["apply", &graph(&lab, "user", "")]).ok();
    until("it writes", || node.weir(&["logs", &lab.name("g"), "f"]).ok().contains("written"));
    node.weir(&["delete", &lab.name("g")]).ok();
    for (name, message) in [
        ("gone", "none.tar"),
        ("noise", "it is no tar archive"),
        ("short", "it is cut short"),
        ("lead", "cannot unpack"),
        ("silent", "says what to run"),
        ("missing", "/bin/nothing"),
    ] {
        let e = node.weir(&["apply", &graph(&lab, name, "")]).fails(1);
        assert!(e.contains(message), "{name}: {e}");
    }
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}
