//! Packs the dashboard's files, which `make web` builds into `web/dist`, so that the program carries and sends them compressed.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

const DIST: &str = "../../web/dist";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={DIST}");
    let out = std::env::var("OUT_DIR").map_err(io::Error::other)?;
    let mut paths = Vec::new();
    for folder in ["", "assets/"] {
        for entry in fs::read_dir(Path::new(DIST).join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                paths.push(format!("{folder}{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    paths.sort();
    let mut list = String::from("&[\n");
    for (i, path) in paths.iter().enumerate() {
        let packed = Path::new(&out).join(format!("{i}.gz"));
        let mut encoder = GzEncoder::new(fs::File::create(&packed)?, Compression::best());
        encoder.write_all(&fs::read(Path::new(DIST).join(path))?)?;
        encoder.finish()?;
        writeln!(list, "(\"/{path}\", include_bytes!({packed:?})),").map_err(io::Error::other)?;
    }
    list.push_str("]\n");
    fs::write(Path::new(&out).join("dashboard.rs"), list)
}
