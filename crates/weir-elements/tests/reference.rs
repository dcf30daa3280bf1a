//! docs/elements.md is what the elements say about themselves. `BLESS=1` renews it.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_element_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/elements.md");
    let wanted = weir_elements::reference::reference(weir_elements::classes().map(|c| (c.info, c.family)));
    if env::var_os("BLESS").is_some_and(|v| v == "1") {
        fs::write(&path, wanted).expect("docs/elements.md can be written");
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let line = found.lines().zip(wanted.lines()).take_while(|(a, b)| a == b).count() + 1;
    assert!(
        found == wanted,
        "docs/elements.md differs from the elements from line {line} on; \
         run: BLESS=1 cargo test -p weir-elements --test reference"
    );
}
