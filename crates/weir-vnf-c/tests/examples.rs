//! The programs of `examples/vnf` that are written in C, with the library (and AddressSanitizer) and without.

#[path = "../../weir-vnf/tests/examples/mod.rs"]
mod examples;
#[path = "../../weir-vnf/tests/examples/ims.rs"]
mod ims;
#[path = "../../weir-vnf/tests/port/mod.rs"]
mod port;

use std::path::{Path, PathBuf};
use std::process::Command;

use examples::{Host, Lan};

fn compile(name: &str, to: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let this = std::env::current_exe().expect("this program has a path");
    let libraries = this.parent().expect("it is in a folder");
    let program = to.join(name.replace(['/', '.'], "-"));
    let out = Command::new("cc")
        .args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join("examples/vnf").join(name))
        .arg("-o")
        .arg(&program)
        .arg(libraries.join("libweirvnf.a"))
        .args(["-losipparser2", "-lpthread", "-ldl", "-lm"])
        .output()
        .expect("there is a compiler");
    assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
    program
}

#[test]
fn the_chain_of_figure_2() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let [a, b, c, b_without, c_without] =
        ["a.c", "b.c", "c.c", "without/b.c", "without/c.c"].map(|name| compile(name, folder.path()));
    let here = Host::this();
    examples::chain([&a, &b, &c], [&here; 3]);
    examples::chain([&a, &b_without, &c_without], [&here; 3]);
    let lan = Lan::new(3);
    let [on_a, on_b, on_c] = [0, 1, 2].map(|n| lan.host(n, "auto"));
    lan.talk_from_here(|| examples::chain([&a, &b, &c], [&on_a, &on_b, &on_c]));
}

#[test]
fn the_reverse_proxy() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let here = Host::this();
    let proxy = compile("proxy.c", folder.path());
    examples::proxy(&proxy, &here, here.address);
    examples::proxy(&compile("without/proxy.c", folder.path()), &here, here.address);
    let lan = Lan::new(1);
    lan.talk_from_here(|| examples::proxy(&proxy, &lan.host(0, "auto"), Lan::address()));
}

#[test]
fn the_load_balancer() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    examples::balancer(&compile("balancer.c", folder.path()));
    examples::balancer(&compile("without/balancer.c", folder.path()));
}

#[test]
fn users_register_with_the_ims() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    ims::ims(&compile("ims/ims.c", folder.path()));
}
