//! Who may send to a mapping (RFC 4787 section 5).

use crate::prelude::*;

/// Which packets to an outer endpoint pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filtering {
    /// All.
    EndpointIndependent,
    /// Those from addresses that the endpoint has sent to.
    AddressDependent,
    /// Those from addresses and ports that it has sent to.
    AddressAndPortDependent,
}

impl FromArg for Filtering {
    const SYNTAX: &'static str = "filtering";

    fn from_arg(text: &str) -> Result<Filtering, String> {
        match text.trim() {
            "endpoint-independent" => Ok(Filtering::EndpointIndependent),
            "address-dependent" => Ok(Filtering::AddressDependent),
            "address-and-port-dependent" => Ok(Filtering::AddressAndPortDependent),
            other => Err(format!(
                "'{other}' is not a filtering behaviour: write endpoint-independent, address-dependent or \
                 address-and-port-dependent"
            )),
        }
    }
}

/// An inside endpoint (protocol, address, port or identifier), and the address and port on the other side. Of the outer endpoint
/// another may be the owner by now.
pub(super) type Pair = [V; 5];

/// The table of whom endpoints have sent to.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerTable {
    table: TableId,
    capacity: u32,
}

impl PeerTable {
    pub(super) fn declare(b: &mut Builder, filtering: Filtering, capacity: u32) -> Option<PeerTable> {
        if filtering == Filtering::EndpointIndependent {
            return None;
        }
        let key = [("proto", W8), ("addr", W32), ("port", W16), ("peer", W32), ("peer_port", W16)];
        let capacity = capacity.max(1);
        let decl = TableDecl::new("peers", Kind::Exact, &key, &[(super::tcp::STATE, W8)], capacity);
        Some(PeerTable { table: b.table(decl.sharing(weir_table::Sharing::Owner), vec![]), capacity })
    }

    /// Goes on with a packet from whom the endpoint has sent to; drops others.
    pub(super) fn require(self, b: &mut Builder, pair: &Pair) {
        b.find(self.table, pair, |b| b.drop(Reason::new("Filtered")));
    }

    /// Takes note of whom an endpoint sends to. `touch` says how long that counts, and gets whether it is new.
    pub(super) fn remember(self, b: &mut Builder, pair: &Pair, touch: impl Fn(&mut Builder, E, bool)) {
        b.lookup(
            self.table,
            pair,
            |b, e| touch(b, e, false),
            |b| {
                let size = b.size(self.table);
                let full = b.ge(size, self.capacity);
                b.when(full, |b| {
                    let (oldest, _) = b.soonest(self.table, |b| b.drop(Reason::FULL));
                    b.remove(oldest);
                });
                let e = b.insert(self.table, pair, |b| b.drop(Reason::FULL));
                touch(b, e, true);
            },
        );
    }
}

/// One line an entry: protocol, endpoint, who may send to it, seconds left.
pub(super) fn list(s: &State<'_>) -> String {
    let table = s.table("peers");
    let line = |slot: u32| {
        let key = |i| table.key(slot, i) as u32;
        let end = |at| format!("{}:{}", Ipv4Addr::from(key(at)), key(at + 1));
        let left = table.expiry(slot).saturating_sub(s.now) / 1_000_000_000;
        format!("{} {} <- {} {left}\n", super::protocol(key(0) as u8), end(1), end(3))
    };
    let mut lines: Vec<String> = table.rows().iter().map(|(slot, _)| line(*slot)).collect();
    lines.sort();
    lines.concat()
}
