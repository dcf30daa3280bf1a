//! What every driver of functions does, with real packets through a function of its kind: one suite for all of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use weir_io::Netns;
use weir_model::template::{Implementation, Template};
use weir_node::compute::container::Container;
use weir_node::compute::hosted::Hosted;
use weir_node::compute::native::Native;
use weir_node::compute::{Compute, Health, Notice, NoticeKind};
use weir_node::instance::{Instance, InstanceId, PortNames, Spec, Work};
use weir_oci::{Registries, Store};

use crate::lab::{Lab, WEIR, host, poll, repository};

/// Makes a driver that keeps its functions in a folder.
type Make<'a> = &'a (dyn Fn(UnboundedSender<Notice>) -> Box<dyn Compute> + Sync);

/// Two hosts in one network, on both sides of the interfaces `fl` and `fr` of the namespace `node`, which bridges join to them as
/// soon as they are there.
struct Bench<'a> {
    lab: &'a Lab,
    instance: Instance,
}

impl Bench<'_> {
    /// Joins the function's ports to the hosts.
    fn wire(&self) {
        for (port, bridge) in [("fl", "bridgel"), ("fr", "bridger")] {
            self.lab.ip("node", &format!("link set {port} master {bridge}"));
        }
    }

    fn pings(&self) -> bool {
        self.lab.ns("left").run(&["ping", "-c1", "-W0.3", "10.0.0.2"]).code == 0
    }

    #[track_caller]
    fn forwards(&self, yes: bool) {
        assert!(poll(100, || self.pings() == yes), "forwards: {}", !yes);
    }

    /// The same function with another word, and one more port or not.
    fn changed(&self, word: &str, more: bool) -> Instance {
        let mut spec = self.instance.spec.clone();
        spec.params = BTreeMap::from([("WORD".to_owned(), word.to_owned())]);
        if more {
            spec.ports.push(PortNames { inside: "more".into(), outside: "fm".into() });
        }
        Instance::new(self.instance.id.clone(), spec)
    }

    fn has(&self, interface: &str) -> bool {
        self.lab.ip("node", "-o link show").contains(&format!(" {interface}@"))
    }

    fn hosts(&self) {
        for (bridge, host, address) in
            [("bridgel", "left", "10.0.0.1/24"), ("bridger", "right", "10.0.0.2/24")]
        {
            self.lab.ip("node", &format!("link add {bridge} type bridge"));
            self.lab.ip("node", &format!("link set {bridge} up"));
            self.lab.link(("node", host), (host, "eth0"));
            self.lab.ip("node", &format!("link set {host} master {bridge}"));
            self.lab.ip(host, &format!("addr add {address} dev eth0"));
        }
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
    timeout(Duration::from_secs(20), next).await.expect("a notice")
}

/// The life of a function, from nothing until its daemon ends; gives what it was then.
async fn begins(bench: &Bench<'_>, make: Make<'_>) -> Instance {
    let (sender, _keep) = unbounded_channel();
    let driver = make(sender);
    let (id, first) = (&bench.instance.id, bench.changed("one", false));
    assert_eq!(driver.observe().await.unwrap(), []);
    assert_eq!(driver.health(id), None);
    driver.destroy(id).await.unwrap();

    driver.create(&first).await.unwrap();
    bench.wire();
    assert_eq!(driver.health(id), Some(Health::Stopped));
    assert!(!bench.pings(), "it is not at work");
    driver.start(id).await.unwrap();
    assert_eq!(driver.health(id), Some(Health::Running));
    bench.forwards(true);
    assert_eq!(driver.read(id, "word").await.unwrap().trim(), "one");
    driver.write(id, "word", "another").await.unwrap();
    assert_eq!(driver.read(id, "word").await.unwrap().trim(), "another");
    assert!(driver.read(id, "nothing").await.is_err());
    assert!(std::fs::read_to_string(driver.log(id).unwrap()).unwrap().contains("working with one"));
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
    assert!(bench.has("fl"), "its ports stay");
    bench.wire();
    driver.start(id).await.unwrap();
    bench.forwards(true);

    // Ports come and go while it works; values change; what it refuses leaves it as it was.
    let second = bench.changed("one", true);
    driver.update(&second).await.unwrap();
    assert!(bench.has("fm"));
    bench.forwards(true);
    let third = bench.changed("two", false);
    driver.update(&third).await.unwrap();
    assert!(!bench.has("fm"));
    bench.forwards(true);
    assert!(std::fs::read_to_string(driver.log(id).unwrap()).unwrap().contains("working with two"));
    let e = driver.update(&bench.changed("fail", false)).await.unwrap_err().to_string();
    assert!(e.contains("no such word"), "{e}");
    driver.update(&third).await.unwrap();
    bench.forwards(true);

    third
}

/// The same from the next daemon on, until nothing is left: it takes the function up, and looks after it.
async fn goes_on(bench: &Bench<'_>, make: Make<'_>, third: &Instance) {
    let id = &bench.instance.id;
    let (sender, mut notices) = unbounded_channel();
    let driver = make(sender);
    assert_eq!(driver.observe().await.unwrap()[0].tag, third.tag);
    assert_eq!(driver.health(id), Some(Health::Running));
    bench.forwards(true);
    bench.lab.ip("node", "link del fl");
    let died = notice(&mut notices, NoticeKind::Died).await;
    assert_eq!(&died.id, id);
    notice(&mut notices, NoticeKind::Restarted).await;
    bench.wire();
    bench.forwards(true);

    driver.destroy(id).await.unwrap();
    assert_eq!(driver.health(id), None);
    assert!(!bench.has("fl") && !bench.has("fr"));
    assert_eq!(driver.observe().await.unwrap(), []);
    driver.destroy(id).await.unwrap();
}

/// Runs the suite in the namespace `node` of a lab, for the function of an image.
fn suite(lab: &Lab, image: &str, digest: &str, make: Make<'_>) {
    let template = Template::load(&PathBuf::from(image)).unwrap();
    let folder = PathBuf::from(image);
    let work = match template.implementation {
        Implementation::Native { native } => Work::Native { folder, native },
        Implementation::Container { container } => Work::Container {
            folder,
            container: Box::new(container),
            handlers: template.handlers.iter().map(|(name, h)| (name.clone(), h.handler.clone())).collect(),
        },
        Implementation::Click(_) => panic!("inline functions have no driver"),
    };
    let port = |inside: &str, outside: &str| PortNames { inside: inside.into(), outside: outside.into() };
    let spec = Spec {
        image: template.name.to_string(),
        digest: digest.to_owned(),
        ports: vec![port("left", "fl"), port("right", "fr")],
        params: BTreeMap::new(),
        writes: Vec::new(),
        work,
    };
    let bench = Bench { lab, instance: Instance::new(InstanceId::new(&lab.name("g"), "f"), spec) };
    bench.hosts();
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
    suite(&lab, &image, &digest, &|notices| {
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
    suite(&lab, &image, &digest, &|notices| {
        let container = Container::new(&functions, store().into());
        Box::new(Hosted::new(functions.clone(), container, notices))
    });
}
