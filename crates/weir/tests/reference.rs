//! docs/elements.md is what the elements say about themselves, and their examples work. `BLESS=1` renews the page.

use std::path::Path;
use std::{env, fs};

use weir_plan::{Classes, Plan};

fn classes() -> Classes {
    Classes::with(weir_switch::CLASSES.iter().copied())
}

#[test]
fn the_element_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/elements.md");
    let classes = classes();
    let wanted = weir_elements::reference::reference(classes.iter().map(|c| (c.info(), c.family())));
    if env::var_os("BLESS").is_some_and(|v| v == "1") {
        fs::write(&path, wanted).expect("docs/elements.md can be written");
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let line = found.lines().zip(wanted.lines()).take_while(|(a, b)| a == b).count() + 1;
    assert!(
        found == wanted,
        "docs/elements.md differs from the elements from line {line} on; run: BLESS=1 cargo test -p weir --test reference"
    );
}

#[test]
fn every_example_is_a_configuration_that_loads() {
    let classes = classes();
    for class in classes.iter() {
        let info = class.info();
        assert!(!info.examples.is_empty(), "{} has no example", info.name);
        for example in info.examples {
            Plan::new(&classes, example, info.name).unwrap_or_else(|e| panic!("{example}\n{e}"));
            assert!(example.contains(info.name), "the example of {} does not use it: {example}", info.name);
        }
    }
}
