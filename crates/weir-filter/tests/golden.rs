//! A golden test of errors: each line of `bad/filters.filter`, and what is said of it.
//! `BLESS=1 cargo test -p weir-filter --test golden` writes what comes out now; read the difference before committing it.

use std::fmt::Write;
use std::path::Path;

use weir_filter::Expr;

#[test]
fn errors_say_what_was_wrong_where_and_what_would_be_right() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut found = String::new();
    for line in std::fs::read_to_string(dir.join("filters.filter")).unwrap().lines() {
        let error = Expr::parse(line).expect_err(line);
        writeln!(found, "{line}\n    {error}").unwrap();
    }
    let golden = dir.join("filters.filter.errors");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&golden).unwrap());
}
