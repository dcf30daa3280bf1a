//! Names of addresses and ports: what `AddressInfo` and `PortInfo` define, and the devices of the machine.
//!
//! An argument that should be an address or port and is none may be a name. Whoever configures elements says what names mean,
//! by [`with_names`].

use std::cell::RefCell;
use std::rc::Rc;

/// The kind of value that a name should stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// An IPv4 address.
    Ip,
    /// An IPv4 prefix.
    IpPrefix,
    /// An IPv6 address.
    Ip6,
    /// An Ethernet address.
    Ether,
    /// A UDP port.
    UdpPort,
}

/// Finds the address or port of a name, as text.
pub type Names = dyn Fn(&str, NameKind) -> Option<String>;

thread_local! {
    static NAMES: RefCell<Vec<Rc<Names>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f`, in which arguments may use these names.
pub fn with_names<R>(names: Rc<Names>, f: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            NAMES.with_borrow_mut(Vec::pop);
        }
    }
    NAMES.with_borrow_mut(|list| list.push(names));
    let _restore = Restore;
    f()
}

/// Reads an argument, or what it stands for if it is a name.
pub(crate) fn named<T>(text: &str, kind: NameKind, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let text = text.trim();
    parse(text).or_else(|| parse(&meaning(text, kind)?))
}

/// What a name stands for, if it is defined.
pub(crate) fn meaning(name: &str, kind: NameKind) -> Option<String> {
    let names = NAMES.with_borrow(|list| list.last().cloned())?;
    names(name, kind)
}

/// A filter in which the names behind `host` and `net` are replaced by the addresses that they stand for.
pub(crate) fn filter(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_.:/@-".contains(c);
    let (mut out, mut rest) = (String::new(), text);
    // What names stand for here, and whether the word before was `ether`.
    let (mut kind, mut ether) = (None, false);
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let after_ether = std::mem::replace(&mut ether, word == "ether");
        let named = kind.and_then(|kind| match kind {
            // A name may be that of an address and of the network around it.
            NameKind::IpPrefix => meaning(&format!("{word}:ipnet"), kind).or_else(|| meaning(word, kind)),
            kind => meaning(word, kind),
        });
        match word {
            "" => {
                let next = after.find(is_word).unwrap_or(after.len());
                out.push_str(&after[..next]);
                rest = &after[next..];
                ether = after_ether;
                continue;
            }
            "host" => kind = Some(if after_ether { NameKind::Ether } else { NameKind::Ip }),
            "net" => kind = Some(NameKind::IpPrefix),
            // A list of addresses goes on.
            "and" | "or" | "not" | "src" | "dst" => {}
            _ if named.is_some() => {}
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => {}
            _ => kind = None,
        }
        out.push_str(named.as_deref().unwrap_or(word));
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::FromArg;

    #[test]
    fn filters_may_name_addresses() {
        let names: Rc<Names> = Rc::new(|name, kind| match (name, kind) {
            ("me", NameKind::Ip) => Some("10.0.0.1".to_owned()),
            ("home", NameKind::IpPrefix) => Some("10.0.0.0/8".to_owned()),
            ("both", NameKind::IpPrefix) => Some("10.0.0.1/32".to_owned()),
            ("both:ipnet", NameKind::IpPrefix) => Some("10.0.0.0/24".to_owned()),
            ("me", NameKind::Ether) => Some("02:00:00:00:00:01".to_owned()),
            _ => None,
        });
        with_names(names, || {
            for (text, meant) in [
                ("dst host me and tcp port 80", "dst host 10.0.0.1 and tcp port 80"),
                (
                    "(src host me or 10.0.0.9)&&dst net home",
                    "(src host 10.0.0.1 or 10.0.0.9)&&dst net 10.0.0.0/8",
                ),
                ("ether host me or host me", "ether host 02:00:00:00:00:01 or host 10.0.0.1"),
                ("tcp or udp", "tcp or udp"),
                ("src net both", "src net 10.0.0.0/24"),
                ("net me", "net me"),
                ("host é", "host é"),
                ("", ""),
            ] {
                assert_eq!(filter(text), meant);
            }
        });
        assert_eq!(filter("host me"), "host me");
    }

    #[test]
    fn names_are_known_while_they_are_defined() {
        let names: Rc<Names> =
            Rc::new(|name, kind| (name == "me" && kind == NameKind::Ip).then(|| "10.0.0.1".to_owned()));
        assert!(Ipv4Addr::from_arg("me").is_err());
        with_names(names, || {
            assert_eq!(Ipv4Addr::from_arg(" me "), Ok(Ipv4Addr::new(10, 0, 0, 1)));
            assert_eq!(Ipv4Addr::from_arg("10.0.0.2"), Ok(Ipv4Addr::new(10, 0, 0, 2)));
            assert!(Ipv4Addr::from_arg("you").is_err());
        });
        assert!(Ipv4Addr::from_arg("me").is_err());
    }
}
