//! A small element set with the codes of Click's elements of the same names.

use weir_click::{ClassInfo, ElementSet, PortCounts};

const CLASSES: &[(&str, &str, &str, &str)] = &[
    ("ARPQuerier", "2/1-2", "h/h", "xy/x"),
    ("Block", "1/1-2", "a/ah", "x/x"),
    ("Bypass", "1-2/1-2", "a/a", "xy/[xy]x"),
    ("CheckIPHeader", "1/1-2", "a/ah", "x/x"),
    ("Classifier", "1/-", "h/h", "x/x"),
    ("Discard", "1/0", "a/a", "x/x"),
    ("EtherSwitch", "-/=", "h/h", "#/[^#]"),
    ("Idle", "-/-", "a/a", "x/y"),
    ("InfiniteSource", "0/1", "h/h", "x/x"),
    ("Message", "0/0", "a/a", "x/x"),
    ("Null", "1/1", "a/a", "x/x"),
    ("Paint", "1/1", "a/a", "x/x"),
    ("Print", "1/1", "a/a", "x/x"),
    ("Queue", "1/1", "h/l", "x/x"),
    ("RoundRobinSched", "-/1", "l/l", "x/x"),
    ("Strip", "1/1", "a/a", "x/x"),
    ("Suppressor", "-/=", "a/a", "#/#"),
    ("Tee", "1/1-", "h/h", "x/x"),
    ("ToDevice", "1/0", "l/l", "x/x"),
    ("Unqueue", "1/1", "l/h", "x/x"),
];

/// See the module.
pub struct Classes;

impl ElementSet for Classes {
    fn class(&self, name: &str) -> Option<ClassInfo> {
        let (_, ports, processing, flow) = CLASSES.iter().find(|c| c.0 == name)?;
        Some(ClassInfo::new(ports, processing, flow).expect("the table holds good codes"))
    }

    fn names(&self) -> Vec<String> {
        CLASSES.iter().map(|c| c.0.to_string()).collect()
    }

    fn ports(&self, class: &str, args: &[String]) -> Option<PortCounts> {
        (class == "Classifier").then(|| PortCounts::exactly(1, args.len() as u32))
    }
}
