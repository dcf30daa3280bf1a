//! Names of addresses and ports: what `AddressInfo` and `PortInfo` define, and the devices of the machine.
//!
//! An argument that should be an address or port and is none may be a name. Whoever configures elements says what names mean,
//! by [`with_names`].

use std::cell::RefCell;
use std::rc::Rc;

/// What a name should stand for.
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::FromArg;

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
