//! Names of modules in the operator's zone: which there are to be, and what has to be done for it. Pure.
//!
//! A module is called `MODULE.REQUEST.ZONE`, so no two have one name, and none gets one that another had.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::{Kept, id};

/// Longest label (RFC 1035, section 2.3.4).
const LABEL: usize = 63;
/// First and longest wait before a server is tried again, in seconds.
const WAITS: (u64, u64) = (1, 60);

/// What a label may be made of (RFC 1123, section 2.1), of a module's name; those that are no label are called by their number.
fn label(number: usize, module: &str, taken: &BTreeSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let label: String = module.chars().map(plain).collect();
    let bad = label.starts_with('-') || label.ends_with('-') || label.is_empty() || label.len() > LABEL;
    match bad || taken.contains(&label) {
        true => (number..).map(|n| format!("module-{n}")).find(|l| !taken.contains(l)).unwrap_or_default(),
        false => label,
    }
}

/// The names of the modules of a request in a zone, in their order.
pub fn names<'m>(request: &str, modules: impl Iterator<Item = &'m str>, zone: &str) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut name = |(number, module): (usize, &str)| {
        let label = label(number, module, &taken);
        let name = format!("{label}.{request}.{zone}");
        taken.insert(label);
        name
    };
    modules.enumerate().map(&mut name).collect()
}

/// The names that there are to be, with their addresses.
pub fn wanted(requests: &BTreeMap<u64, Kept>, zone: &str) -> BTreeMap<String, Ipv4Addr> {
    let of_request = |(number, kept): (&u64, &Kept)| {
        let modules = &kept.answer.modules;
        let names = names(&id(*number), modules.iter().map(|m| m.name.as_str()), zone);
        names
            .into_iter()
            .zip(modules)
            .filter_map(|(n, m)| Some((n, m.address.parse().ok()?)))
            .collect::<Vec<_>>()
    };
    requests.iter().flat_map(of_request).collect()
}

/// What is to be done at the server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A name goes.
    Withdraw(String),
    /// A name has this address and no other.
    Publish(String, Ipv4Addr),
}

/// Names that may be at the server, with the address that they have there, if that is known.
pub type Known = BTreeMap<String, Option<Ipv4Addr>>;

/// The steps from what is known to be there to what is to be, those that take away first.
pub fn steps(wanted: &BTreeMap<String, Ipv4Addr>, known: &Known) -> Vec<Step> {
    let gone = known.keys().filter(|name| !wanted.contains_key(*name)).cloned().map(Step::Withdraw);
    let missing = wanted.iter().filter(|(name, address)| known.get(*name) != Some(&Some(**address)));
    gone.chain(missing.map(|(name, address)| Step::Publish(name.clone(), *address))).collect()
}

/// When a server is tried again that failed so many times.
pub fn wait(failures: u32) -> u64 {
    let (first, longest) = WAITS;
    first.checked_shl(failures.saturating_sub(1)).unwrap_or(longest).clamp(first, longest)
}

/// A key as `tsig-keygen` of BIND and `keymgr -t` of Knot write it: its name, algorithm and secret in base64.
pub fn key(text: &str) -> Option<[String; 3]> {
    let lines = text.lines().map(|l| l.split_once('#').map_or(l, |(before, _)| before));
    let separators = |c: char| c.is_whitespace() || "{};:\"".contains(c);
    let words: Vec<&str> = lines.flat_map(|l| l.split(separators)).filter(|w| !w.is_empty()).collect();
    let after = |word: &str| words.iter().position(|w| *w == word).and_then(|i| words.get(i + 1));
    let name = match words.first()? {
        // Knot: `key:`, `- id: NAME`.
        &"key" => after("id").or(words.get(1))?,
        _ => after("id")?,
    };
    Some([*name, *after("algorithm")?, *after("secret")?].map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_module_has_a_name_of_its_own() {
        let names = |modules: &[&str]| names("request-7", modules.iter().copied(), "a.org");
        assert_eq!(names(&["Web", "a_b"]), ["web.request-7.a.org", "a-b.request-7.a.org"]);
        assert_eq!(names(&["a-b", "a_b"]), ["a-b.request-7.a.org", "module-1.request-7.a.org"]);
        assert_eq!(names(&["module-1", "_"]), ["module-1.request-7.a.org", "module-2.request-7.a.org"]);
        assert_eq!(names(&[&"x".repeat(64)]), ["module-0.request-7.a.org"]);
    }

    #[test]
    fn keys_are_read_as_both_servers_have_them() {
        let wanted = Some(["weir", "hmac-sha256", "c2VjcmV0"].map(str::to_owned));
        assert_eq!(key("key \"weir\" {\n\talgorithm hmac-sha256;\n\tsecret \"c2VjcmV0\";\n};\n"), wanted);
        assert_eq!(
            key(
                "# hmac-sha256:weir:c2VjcmV0\nkey:\n- id: weir\n  algorithm: hmac-sha256\n  secret: c2VjcmV0\n"
            ),
            wanted
        );
        for text in ["", "key", "key \"weir\" { secret \"c2VjcmV0\"; };", "algorithm x secret y"] {
            assert_eq!(key(text), None, "{text}");
        }
    }

    #[test]
    fn a_server_is_left_alone_longer_and_longer() {
        assert_eq!([1, 2, 3, 7, 99].map(wait), [1, 2, 4, 60, 60]);
    }

    proptest! {
        #[test]
        fn after_the_steps_there_is_what_is_wanted(
            wanted in proptest::collection::btree_map("[a-e]", any::<u32>(), 0..5),
            known in proptest::collection::btree_map("[a-e]", proptest::option::of(any::<u32>()), 0..5),
        ) {
            let wanted: BTreeMap<String, Ipv4Addr> = wanted.into_iter().map(|(n, a)| (n, a.into())).collect();
            let mut known: Known = known.into_iter().map(|(n, a)| (n, a.map(Into::into))).collect();
            for step in steps(&wanted, &known) {
                match step {
                    Step::Withdraw(name) => drop(known.remove(&name)),
                    Step::Publish(name, address) => drop(known.insert(name, Some(address))),
                }
            }
            let there: BTreeMap<String, Ipv4Addr> = known.iter().filter_map(|(n, a)| Some((n.clone(), (*a)?))).collect();
            prop_assert_eq!((known.len(), there), (wanted.len(), wanted.clone()));
            prop_assert!(steps(&wanted, &known).is_empty());
        }

        #[test]
        fn any_text_is_read(text in ".{0,60}") {
            key(&text);
        }
    }
}
