//! `docs/vnf.md` is right: its first function is compiled as it stands there, and does what the page says.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

const MANUAL: &str = include_str!("../../../docs/vnf.md");

/// The first block of code in a language.
fn block(language: &str) -> &'static str {
    let begin = format!("```{language}\n");
    let (_, rest) = MANUAL.split_once(&begin).expect("the page has one");
    rest.split_once("```").expect("it ends").0
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the function at port 7000 answers.
fn answer() -> String {
    let mut stream = (0..500)
        .find_map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            TcpStream::connect("127.0.0.1:7000").ok()
        })
        .expect("it listens");
    stream.write_all(b"hello\n").expect("it reads");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers and closes");
    answer
}

#[test]
fn the_first_function_is_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let this = std::env::current_exe().expect("this program has a path");
    let libraries = this.parent().expect("it is in a folder");
    let folder = tempfile::tempdir().expect("a folder can be made");
    std::fs::write(folder.path().join("capitals.c"), block("c")).expect("it can be written");
    // As on the page, but for where things are.
    let commands = block("sh");
    let compile = commands.lines().find(|line| line.starts_with("cc ")).expect("the page compiles");
    let compile = compile
        .replace("-I include", &format!("-I {}", root.join("include").display()))
        .replace("-L target/release", &format!("-L {}", libraries.display()));
    let out =
        Command::new("sh").args(["-c", &compile]).current_dir(&folder).output().expect("there is a shell");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let program = Command::new(folder.path().join("capitals")).env("LD_LIBRARY_PATH", libraries).spawn();
    let _running = Running(program.expect("it was compiled"));
    assert_eq!(answer(), "HELLO\n");
}

#[test]
fn each_function_of_the_page_is_in_the_header() {
    let header = include_str!("../../../include/weir/vnf.h");
    let names: Vec<&str> = MANUAL
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|code| code.split('(').next().unwrap_or(code))
        .filter(|name| name.starts_with("VNF_") || name.starts_with("WEIR_VNF_") || name.starts_with("vnf"))
        .collect();
    assert!(names.len() > 15);
    for name in names {
        assert!(header.contains(name), "{name}");
    }
}

#[test]
fn the_page_counts_lines_rightly() {
    let [b, b_without, shared, proxy, proxy_without, balancer, balancer_without] = [
        include_str!("../../../examples/vnf/b.c"),
        include_str!("../../../examples/vnf/without/b.c"),
        include_str!("../../../examples/vnf/without/epoll.h"),
        include_str!("../../../examples/vnf/proxy.c"),
        include_str!("../../../examples/vnf/without/proxy.c"),
        include_str!("../../../examples/vnf/balancer.c"),
        include_str!("../../../examples/vnf/without/balancer.c"),
    ]
    .map(|text| text.lines().count());
    let page = MANUAL.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = format!(
        "B has {b} lines with it, and {b_without} (and half of the {shared} that all share) without; \
         the proxy has {proxy} and {proxy_without}; the balancer {balancer} and {balancer_without}."
    );
    assert!(page.contains(&says), "{says}");
    assert!(2 * b <= b_without && 2 * balancer <= balancer_without, "half of the code");
}
