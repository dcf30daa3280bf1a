//! `include/weir/vnf.h` is what cbindgen makes of this crate, and compilers of C and C++ take it without a warning.

use std::path::{Path, PathBuf};
use std::process::Command;

/// In the order in which the header has what they hold.
const SOURCES: [&str; 8] = ["types", "errors", "setup", "connection", "packet", "request", "state", "notice"];

fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/weir/vnf.h")
}

#[test]
fn the_header_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("the settings are right");
    let builder = SOURCES.iter().fold(cbindgen::Builder::new().with_config(config), |builder, name| {
        builder.with_src(folder.join("src").join(name).with_extension("rs"))
    });
    let mut made = Vec::new();
    builder.generate().expect("cbindgen reads the sources").write(&mut made);
    let made = String::from_utf8(made).expect("it is text");
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(header().parent().expect("it has a folder")).expect("the folder can be made");
        std::fs::write(header(), &made).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(header()).unwrap_or_default();
    assert!(committed == made, "include/weir/vnf.h is old: BLESS=1 cargo test -p weir-vnf-c --test header");
}

#[test]
fn c_and_cpp_compilers_take_the_header_by_itself() {
    for (compiler, language, standard) in
        [("cc", "c", "c11"), ("c++", "c++", "c++11"), ("c++", "c++", "c++20")]
    {
        let out = Command::new(compiler)
            .args(["-x", language, &format!("-std={standard}"), "-Wall", "-Wextra", "-Werror", "-pedantic"])
            .args(["-fsyntax-only", "-include"])
            .arg(header())
            .arg("/dev/null")
            .output()
            .expect("there is a compiler");
        assert!(out.status.success(), "{standard}: {}", String::from_utf8_lossy(&out.stderr));
    }
}
