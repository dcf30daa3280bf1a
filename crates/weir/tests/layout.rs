//! What `weir fmt` prints means what it was given, for all configurations of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use weir_click::{format, parse};
use weir_plan::Classes;

/// Ends for the ports that a function's script names.
fn ports(script: &str) -> String {
    let ends = [("in", "Idle"), ("out", "Discard")];
    let named =
        ends.into_iter().flat_map(|(side, class)| (0..8).map(move |i| (format!("{side}_{i}"), class)));
    named
        .filter(|(port, _)| script.contains(port))
        .map(|(port, class)| format!("{port} :: {class};\n"))
        .collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Comments of a text that has none inside quotes, without the blanks around them.
fn comments(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = ["//", "/*"].iter().filter_map(|mark| rest.find(mark)).min() {
        let (_, comment) = rest.split_at(start);
        let end = match comment.starts_with("//") {
            true => comment.find('\n').unwrap_or(comment.len()),
            false => comment.find("*/").map_or(comment.len(), |end| end + 2),
        };
        let (comment, after) = comment.split_at(end);
        found.push(comment.trim_end());
        rest = after;
    }
    found
}

#[track_caller]
fn means_the_same(classes: &Classes, name: &str, before: &str, text: &str) {
    let formatted = format(name, text).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(format(name, &formatted).as_deref(), Ok(&*formatted), "{name}: formatted twice");
    assert_eq!(comments(&formatted), comments(text), "{name}");
    let graph = |text: &str| {
        parse(name, &format!("{before}{text}"), classes).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"))
    };
    assert!(graph(text) == graph(&formatted), "{name}: another graph\n{formatted}");
}

/// A text of one line, where the layout has most to do.
fn squeezed(text: &str) -> String {
    text.replace(" -> ", "->").replace(" :: ", "::").replace(", ", ",").replace("; ", ";")
}

#[test]
fn the_examples_of_all_classes() {
    let classes = Classes::with(weir_switch::CLASSES.iter().copied());
    let mut count = 0;
    for class in classes.iter() {
        for example in class.info().examples {
            means_the_same(&classes, class.info().name, "", example);
            means_the_same(&classes, class.info().name, "", &squeezed(example));
            count += 1;
        }
    }
    assert!(count > 200, "there are {count} examples");
}

#[test]
fn the_configurations_of_the_repository() {
    let classes = Classes::with(weir_switch::CLASSES.iter().copied());
    let mut count = 0;
    let folders = [repository().join("images"), repository().join("examples")];
    let mut work: Vec<PathBuf> = folders.to_vec();
    while let Some(folder) = work.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                work.push(path);
            } else if path.extension().is_some_and(|e| e == "click") {
                let text = fs::read_to_string(&path).unwrap();
                let before = if path.ends_with("function.click") { ports(&text) } else { String::new() };
                means_the_same(&classes, &path.to_string_lossy(), &before, &text);
                count += 1;
            }
        }
    }
    assert!(count >= 3, "there are {count} configurations");
}
