//! Golden tests of errors: `bad/NAME.topology.yaml` in, `bad/NAME.topology.yaml.errors` out.
//! `BLESS=1 cargo test -p weir-topology --test golden` writes what comes out now; read the difference before committing it.

use std::path::Path;

use weir_topology::Topology;

#[test]
fn errors_say_what_was_wrong_where_and_what_would_be_right() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut seen = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "errors") {
            continue;
        }
        seen += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let found = format!("{}\n", Topology::parse(&text).expect_err(&path.display().to_string()));
        let golden = path.with_extension("yaml.errors");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&golden, &found).unwrap();
        }
        assert_eq!(found, std::fs::read_to_string(&golden).unwrap(), "{}", path.display());
    }
    assert!(seen > 1);
}
