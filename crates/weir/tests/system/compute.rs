//! What every driver of functions does, with real packets through a function of its kind: one suite for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use weir_io::Netns;
use weir_model::template::{self, Implementation, Template};
use weir_node::compute::cgroup::Cgroup;
use weir_node::compute::container::Container;
use weir_node::compute::dpdk::Dpdk;
use weir_node::compute::hosted::{Hosted, Paths};
use weir_node::compute::native::Native;
use weir_node::compute::process::Process;
use weir_node::compute::sockets::Sockets;
use weir_node::compute::vm::Vm;
use weir_node::compute::{Compute, Health, Notice, NoticeKind};
use weir_node::instance::{Instance, InstanceId, Kind, PortNames, Spec, Work};
use weir_oci::{Registries, Store};
use weir_protocol::{Client, Command};
use weir_switch::compile::sockets_folder;

use crate::lab::{Lab, Process as Running, WEIR, host, poll, repository};

/// Makes a driver that keeps its functions in a folder.
type Make<'a> = &'a (dyn Fn(UnboundedSender<Notice>) -> Box<dyn Compute> + Sync);

/// The parts of the suite that differ between kinds.
trait Wiring {
    /// Two words that the function takes, and what it does with them.
    fn words(&self) -> Words;
    /// What it is with a word, and with one more port or not.
    fn spec(&self, word: &str, more: bool) -> Spec;
    /// Joins the interfaces `left` and `right` of the namespace `node`, behind each of which is a host, to the function; gives the
    /// program that does it, if it takes one.
    fn hosts(&self, lab: &Lab) -> Option<Running>;
    /// The same for ports that have come anew.
    fn wire(&self, lab: &Lab);
    /// The function has these ports and no others.
    fn has_ports(&self, lab: &Lab, ports: &[&str]);
    /// Takes something from under the function.
    fn harm(&self, lab: &Lab);
}

/// The behaviour of a function with words.
struct Words {
    /// Two that it takes.
    two: [&'static str; 2],
    /// If it has a handler: a third for that; one that it refuses, and what it says then.
    handler: Option<[&'static str; 3]>,
}

/// Two hosts in one network, with the function between them.
struct Bench<'a> {
    lab: &'a Lab,
    id: InstanceId,
    wiring: &'a (dyn Wiring + Sync),
}

impl Bench<'_> {
    fn pings(&self) -> bool {
        self.lab.ns("left").run(&["ping", "-c1", "-W0.3", "10.0.0.2"]).code == 0
    }

    #[track_caller]
    fn forwards(&self, yes: bool) {
        assert!(poll(300, || self.pings() == yes), "forwards: {}", !yes);
    }

    /// The function with a word, and one more port or not.
    fn with(&self, word: &str, more: bool) -> Instance {
        Instance::new(self.id.clone(), self.wiring.spec(word, more))
    }

    fn hosts(&self) -> Option<Running> {
        for (host, address) in [("left", "10.0.0.1/24"), ("right", "10.0.0.2/24")] {
            self.lab.link(("node", host), (host, "eth0"));
            self.lab.ip(host, &format!("addr add {address} dev eth0"));
        }
        self.wiring.hosts(self.lab)
    }
}

/// Functions with network interfaces, which bridges join to the hosts.
struct Interfaces {
    spec: Spec,
    handler: Option<[&'static str; 3]>,
}

impl Interfaces {
    fn scripts(spec: Spec) -> Interfaces {
        Interfaces { spec, handler: Some(["another", "fail", "no such word"]) }
    }
}

fn port(inside: &str, outside: &str) -> PortNames {
    PortNames { inside: inside.into(), outside: outside.into() }
}

impl Wiring for Interfaces {
    fn words(&self) -> Words {
        Words { two: ["one", "two"], handler: self.handler }
    }

    fn spec(&self, word: &str, more: bool) -> Spec {
        let mut spec = self.spec.clone();
        spec.params = BTreeMap::from([("WORD".to_owned(), word.to_owned())]);
        spec.ports = vec![port("left", "fl"), port("right", "fr")];
        if more {
            spec.ports.push(port("more", "fm"));
        }
        spec
    }

    fn hosts(&self, lab: &Lab) -> Option<Running> {
        for (bridge, host) in [("bridgel", "left"), ("bridger", "right")] {
            lab.ip("node", &format!("link add {bridge} type bridge"));
            lab.ip("node", &format!("link set {bridge} up"));
            lab.ip("node", &format!("link set {host} master {bridge}"));
        }
        None
    }

    fn wire(&self, lab: &Lab) {
        for (port, bridge) in [("fl", "bridgel"), ("fr", "bridger")] {
            lab.ip("node", &format!("link set {port} master {bridge}"));
        }
    }

    fn has_ports(&self, lab: &Lab, ports: &[&str]) {
        let links = lab.ip("node", "-o link show");
        for port in ["left", "right", "more"] {
            let name = format!(" f{}", &port[..1]);
            let there = [":", "@"].iter().any(|end| links.contains(&format!("{name}{end}")));
            assert_eq!(there, ports.contains(&port), "{port}: {links}");
        }
    }

    fn harm(&self, lab: &Lab) {
        lab.ip("node", "link del fl");
    }
}

/// Functions with shared memory, which a data plane joins to the hosts.
struct Shared {
    id: InstanceId,
    functions: PathBuf,
    kind: Kind,
    /// The folder of its image, if it has one.
    image: String,
}

impl Shared {
    fn device(&self, port: &str) -> String {
        let name = format!("{}/{port}", sockets_folder(&self.id.graph, &self.id.function));
        match self.kind {
            Kind::Process => format!("memif:{name}?role=master"),
            Kind::Dpdk => format!("memif:{name}"),
            _ => format!("vhost-user:{name}"),
        }
    }

    fn process(word: &str, more: bool) -> Work {
        let third = if more { "FromDevice(memif:more, WAIT true) -> Discard;" } else { "" };
        let config = format!(
            "FromDevice(memif:left, WAIT true) -> word :: Paint({word}) -> Queue -> ToDevice(memif:right, WAIT true);\n\
             FromDevice(memif:right, WAIT true) -> Queue -> ToDevice(memif:left, WAIT true);\n\
             Message(\"working with {word}\");\n{third}"
        );
        let handlers = BTreeMap::from([("word".to_owned(), "word.color".to_owned())]);
        Work::Process { config, process: template::Process::default(), handlers }
    }
}

impl Wiring for Shared {
    fn words(&self) -> Words {
        match self.kind {
            Kind::Process => Words { two: ["1", "2"], handler: Some(["7", "300", "300"]) },
            Kind::Dpdk => Words { two: ["io", "io"], handler: None },
            _ => Words { two: ["one", "two"], handler: None },
        }
    }

    fn spec(&self, word: &str, more: bool) -> Spec {
        let ports = ["left", "right", "more"].into_iter().take(if more { 3 } else { 2 });
        let ports = ports.map(|p| port(p, &self.device(p))).collect();
        if self.kind == Kind::Process {
            let (image, digest, params) = ("word".to_owned(), "0".to_owned(), BTreeMap::new());
            return Spec {
                image,
                digest,
                ports,
                params,
                secrets: BTreeSet::new(),
                writes: Vec::new(),
                work: Self::process(word, more),
            };
        }
        let digest = weir_node::compute::digest::of_folder(self.image.as_ref()).unwrap();
        let params = BTreeMap::from([("MODE".to_owned(), word.to_owned())]);
        Spec { ports, params, ..spec_of(&self.image, &digest) }
    }

    fn hosts(&self, lab: &Lab) -> Option<Running> {
        let socket = lab.path("engine.sock");
        let engine = lab.ns("node").spawn_weir(&["engine", "--socket", &socket]);
        assert!(poll(100, || Client::connect(&socket).is_ok()));
        let joined = |host: &str| {
            let device = self.device(host);
            format!(
                "FromDevice({host}, PROMISC true) -> Queue -> ToDevice({device}, WAIT true);\n\
                 FromDevice({device}, WAIT true) -> Queue -> ToDevice({host});\n"
            )
        };
        let more = format!("FromDevice({}, WAIT true) -> Discard;\n", self.device("more"));
        let load = Command::Load {
            graph: "g".into(),
            config: joined("left") + &joined("right") + &more,
            file: "g.click".into(),
            tag: String::new(),
            scope: None,
            memory: None,
        };
        Client::connect(&socket).unwrap().call(load).unwrap();
        Some(engine)
    }

    fn wire(&self, _: &Lab) {}

    fn has_ports(&self, lab: &Lab, ports: &[&str]) {
        let folder = lab.path(&format!("engine.ports/{}", sockets_folder(&self.id.graph, &self.id.function)));
        assert_eq!(std::fs::exists(&folder).unwrap(), !ports.is_empty(), "{folder}");
    }

    fn harm(&self, _: &Lab) {
        let paths = Paths::new(&self.functions, &self.id);
        let worker = Cgroup::named(&paths.name).processes()[0];
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(worker), nix::sys::signal::Signal::SIGKILL)
            .unwrap();
    }
}

async fn notice(notices: &mut UnboundedReceiver<Notice>, what: NoticeKind) -> Notice {
    let next = async {
        loop {
            let notice = notices.recv().await.expect("the driver is there");
            if notice.what == what {
                return notice;
            }
        }
    };
    timeout(Duration::from_secs(60), next).await.expect("a notice")
}

/// The life of a function, from nothing until its daemon ends; gives what it was then.
async fn begins(bench: &Bench<'_>, make: Make<'_>) -> Instance {
    let (sender, _keep) = unbounded_channel();
    let driver = make(sender);
    let Words { two: [one, two], handler } = bench.wiring.words();
    let says = |driver: &dyn Compute, word: &str| {
        let log = std::fs::read_to_string(driver.log(&bench.id).unwrap()).unwrap();
        log.contains(&format!("working with {word}"))
    };
    let (id, first) = (&bench.id, bench.with(one, false));
    assert_eq!(driver.observe().await.unwrap(), []);
    assert_eq!(driver.health(id), None);
    driver.destroy(id).await.unwrap();

    driver.create(&first).await.unwrap();
    bench.wiring.wire(bench.lab);
    assert_eq!(driver.health(id), Some(Health::Stopped));
    assert!(!bench.pings(), "it is not at work");
    driver.start(id).await.unwrap();
    assert_eq!(driver.health(id), Some(Health::Running));
    bench.forwards(true);
    if let Some([another, ..]) = handler {
        assert_eq!(driver.read(id, "word").await.unwrap().trim(), one);
        driver.write(id, "word", another, false).await.unwrap();
        assert_eq!(driver.read(id, "word").await.unwrap().trim(), another);
        assert!(says(&*driver, one));
    }
    assert!(driver.read(id, "nothing").await.is_err());
    assert_eq!(driver.observe().await.unwrap()[0].tag, first.tag);

    driver.pause(id).await.unwrap();
    assert_eq!(driver.health(id), Some(Health::Paused));
    bench.forwards(false);
    driver.resume(id).await.unwrap();
    assert_eq!(driver.health(id), Some(Health::Running));
    bench.forwards(true);

    driver.stop(id).await.unwrap();
    assert_eq!(driver.health(id), Some(Health::Stopped));
    bench.forwards(false);
    // Its ports stay.
    bench.wiring.has_ports(bench.lab, &["left", "right"]);
    bench.wiring.wire(bench.lab);
    driver.start(id).await.unwrap();
    bench.forwards(true);

    // Ports come and go while it works; values change; what it refuses leaves it as it was.
    let second = bench.with(one, true);
    driver.update(&second).await.unwrap();
    bench.wiring.has_ports(bench.lab, &["left", "right", "more"]);
    bench.forwards(true);
    let third = bench.with(two, false);
    driver.update(&third).await.unwrap();
    bench.wiring.has_ports(bench.lab, &["left", "right"]);
    bench.forwards(true);
    if let Some([_, fail, why]) = handler {
        assert!(says(&*driver, two));
        let e = driver.update(&bench.with(fail, false)).await.unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
        driver.update(&third).await.unwrap();
        bench.forwards(true);
    }
    third
}

/// The same from the next daemon on, until nothing is left: it takes the function up, and looks after it.
async fn goes_on(bench: &Bench<'_>, make: Make<'_>, third: &Instance) {
    let id = &bench.id;
    let (sender, mut notices) = unbounded_channel();
    let driver = make(sender);
    assert_eq!(driver.observe().await.unwrap()[0].tag, third.tag);
    assert_eq!(driver.health(id), Some(Health::Running));
    bench.forwards(true);
    bench.wiring.harm(bench.lab);
    let died = notice(&mut notices, NoticeKind::Died).await;
    assert_eq!(&died.id, id);
    notice(&mut notices, NoticeKind::Restarted).await;
    bench.wiring.wire(bench.lab);
    bench.forwards(true);

    driver.destroy(id).await.unwrap();
    assert_eq!(driver.health(id), None);
    bench.wiring.has_ports(bench.lab, &[]);
    assert_eq!(driver.observe().await.unwrap(), []);
    driver.destroy(id).await.unwrap();
}

/// Runs the suite in the namespace `node` of a lab.
fn suite(lab: &Lab, wiring: &(dyn Wiring + Sync), make: Make<'_>) {
    let bench = Bench { lab, id: id(lab), wiring };
    let _engine = bench.hosts();
    let netns = Netns::Named(lab.name("node"));
    netns
        .run(|| {
            // All threads of a runtime are in the namespace, and all of its tasks end with it.
            let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let instance = runtime().block_on(begins(&bench, make));
            runtime().block_on(goes_on(&bench, make, &instance));
        })
        .unwrap();
    let left: Vec<String> = crate::functions::left(lab);
    assert_eq!(left, Vec::<String>::new());
}

fn id(lab: &Lab) -> InstanceId {
    InstanceId::new(&lab.name("g"), "f")
}

/// What the function of an image is, but for its ports.
fn spec_of(image: &str, digest: &str) -> Spec {
    let template = Template::load(&PathBuf::from(image)).unwrap();
    let folder = PathBuf::from(image);
    let work = match template.implementation {
        Implementation::Native { native } => Work::Native { folder, native },
        Implementation::Dpdk { dpdk } => Work::Dpdk { dpdk },
        Implementation::Vm { vm } => Work::Vm { folder, vm },
        Implementation::Container { container } => Work::Container {
            folder,
            container: Box::new(container),
            handlers: template.handlers.iter().map(|(name, h)| (name.clone(), h.handler.clone())).collect(),
        },
        Implementation::Click(_) | Implementation::Process { .. } | Implementation::Graph { .. } => {
            panic!("it has no image of its own")
        }
    };
    Spec {
        image: template.name.to_string(),
        digest: digest.to_owned(),
        ports: Vec::new(),
        params: BTreeMap::new(),
        secrets: BTreeSet::new(),
        writes: Vec::new(),
        work,
    }
}

/// The scripts of a function that bridges, and says a word.
const BRIDGE: &str = "ip link add br0 type bridge && ip link set left master br0 && ip link set right master br0 && ip link set left up && ip link set right up && ip link set br0 up";

fn launcher() -> Vec<std::ffi::OsString> {
    vec![WEIR.into(), "function-exec".into()]
}

#[test]
fn native_functions_conform() {
    let lab = Lab::new(&["left", "node", "right"]);
    let image = lab.path("images/word");
    std::fs::create_dir_all(format!("{image}/scripts/handlers")).unwrap();
    let manifest = "name: word\nkind: native\nports: [left, right, more]\nparams: [{name: WORD, type: text}]\nhandlers: {word: {access: rw}}\n";
    std::fs::write(format!("{image}/function.yaml"), manifest).unwrap();
    let word = "test \"$PARAM_WORD\" != fail || { echo no such word >&2; exit 1; }\necho working with $PARAM_WORD\necho $PARAM_WORD > $WEIR_STATE/word";
    for (script, text) in [
        ("start", format!("{BRIDGE}\n{word}")),
        ("run", "exec sleep 100000".to_owned()),
        ("update", word.to_owned()),
        ("stop", "ip link del br0".to_owned()),
        (
            "handlers/word",
            "case $1 in read) cat $WEIR_STATE/word ;; write) cat > $WEIR_STATE/word ;; esac".to_owned(),
        ),
    ] {
        let file = format!("{image}/scripts/{script}");
        std::fs::write(&file, format!("#!/bin/sh\nset -eu\n{text}\n")).unwrap();
        host(&["chmod", "+x", &file]).ok();
    }
    let digest = weir_node::compute::digest::of_folder(&PathBuf::from(&image)).unwrap();
    let functions = PathBuf::from(lab.path("store/weir.functions"));
    suite(&lab, &Interfaces::scripts(spec_of(&image, &digest)), &|notices| {
        let native = Native::new(functions.clone(), launcher());
        Box::new(Hosted::new(functions.clone(), native, notices))
    });
}

#[test]
fn containers_conform() {
    let lab = Lab::new(&["left", "node", "right"]);
    let image = lab.path("images/word");
    std::fs::create_dir_all(&image).unwrap();
    let script = repository().join("scripts/busybox-image").display().to_string();
    host(&[&script, &format!("{image}/layout"), "one"]).ok();
    let word = "test $WORD != fail || { echo no such word; exit 1; }; echo working with $WORD >/proc/1/fd/1; echo $WORD >/var/lib/web/index.html";
    let manifest = format!(
        "name: word\nkind: container\nports: [left, right, more]\nparams: [{{name: WORD, type: text}}]\nhandlers: {{word: {{handler: /bin/page, access: rw}}}}\n\
         container:\n  image: ./layout\n  capabilities: [NET_ADMIN]\n  writable: [/var/lib/web]\n  update: [sh, -c, '{word}']\n  \
         command: [sh, -c, '{}; {word}; exec sleep 100000']\n",
        BRIDGE
            .replace("ip link set left master br0", "brctl addif br0 left")
            .replace("ip link set right master br0", "brctl addif br0 right"),
    );
    std::fs::write(format!("{image}/function.yaml"), manifest).unwrap();
    let functions = PathBuf::from(lab.path("store/weir.functions"));
    let store = || -> Store { Container::store(&functions, Registries::default()) };
    let source = weir_oci::Source::parse("./layout", &PathBuf::from(&image)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let digest = runtime.block_on(store().resolve(&source)).unwrap().to_string();
    suite(&lab, &Interfaces::scripts(spec_of(&image, &digest)), &|notices| {
        let container = Container::new(&functions, store().into());
        Box::new(Hosted::new(functions.clone(), container, notices))
    });
}

/// A kind with shared memory.
fn shared(
    kind: Kind,
    image: impl Fn(&Lab) -> String,
    driver: fn(PathBuf, Sockets, UnboundedSender<Notice>) -> Box<dyn Compute>,
) {
    let names = ["left", "node", "right"];
    // DPDK's threads take all of a processor each, and their start its time by the clock.
    let lab = if kind == Kind::Dpdk { Lab::alone(&names) } else { Lab::new(&names) };
    let functions = PathBuf::from(lab.path("store/weir.functions"));
    let wiring = Shared { id: id(&lab), functions: functions.clone(), kind, image: image(&lab) };
    let sockets = Sockets(lab.path("engine.ports").into());
    suite(&lab, &wiring, &|notices| driver(functions.clone(), sockets.clone(), notices));
}

#[test]
fn processes_conform() {
    shared(
        Kind::Process,
        |_| String::new(),
        |functions, sockets, notices| {
            let process = Process::new(sockets, vec![WEIR.into(), "zygote".into()]);
            Box::new(Hosted::new(functions, process, notices))
        },
    );
}

#[test]
fn dpdk_programs_conform() {
    let image = |_: &Lab| repository().join("images/testpmd").display().to_string();
    shared(Kind::Dpdk, image, |functions, sockets, notices| {
        Box::new(Hosted::new(functions, Dpdk::new(sockets, launcher()), notices))
    });
}

/// The image of a guest that bridges.
fn guest(lab: &Lab, more: &str) -> String {
    let image = lab.path("images/guest");
    host(&[&repository().join("scripts/guest-image").display().to_string(), &image]).ok();
    let manifest = format!(
        "name: guest\nkind: vm\nports: [left, right, more]\nparams: [{{name: MODE, type: text}}, {{name: WORD, type: text}}]\n\
         vm: {{kernel: vmlinuz, initrd: initrd.gz, arguments: 'console=ttyS0 quiet mode=$MODE', memory: 96 MB, accelerator: tcg{more}}}\n"
    );
    std::fs::write(format!("{image}/function.yaml"), manifest).unwrap();
    image
}

fn machines(functions: PathBuf, sockets: Sockets, notices: UnboundedSender<Notice>) -> Box<dyn Compute> {
    let vm = Vm::new(functions.clone(), sockets, launcher());
    Box::new(Hosted::new(functions, vm, notices))
}

#[test]
fn virtual_machines_conform() {
    shared(Kind::Vm, |lab| guest(lab, ""), machines);
}

#[test]
fn virtual_machines_on_interfaces_conform() {
    let lab = Lab::new(&["left", "node", "right"]);
    let image = guest(&lab, ", ports: tap");
    let digest = weir_node::compute::digest::of_folder(&PathBuf::from(&image)).unwrap();
    let functions = PathBuf::from(lab.path("store/weir.functions"));
    let sockets = Sockets(lab.path("engine.ports").into());
    let wiring = Interfaces { spec: spec_of(&image, &digest), handler: None };
    suite(&lab, &wiring, &|notices| machines(functions.clone(), sockets.clone(), notices));
}
