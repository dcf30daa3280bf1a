use weir_ir::Peers;

use crate::args::Args;
use crate::class::Configure;
use crate::prelude::*;

element! {
    /// Keeps the Ethernet addresses of IP addresses, for several `ARPQuerier` elements to share.
    ///
    /// It has no ports. An `ARPQuerier` whose `TABLE` names it looks addresses up here, learns what others learn, and
    /// leaves packets here until the answer comes. An `ARPQuerier` without `TABLE` has such a table of its own.
    ARPTable: "0/0", "a/a";
    example "arp :: ARPTable;
        q :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01, TABLE arp); Idle -> CheckIPHeader -> q -> Discard;
        Idle -> Classifier(12/0806 20/0002) -> [1] q;";
    params {
        /// Most packets that wait for one address, if it is less than `ENTRY_PACKET_CAPACITY`. In Click it bounds what
        /// waits in all.
        key capacity: u32 = 2048,
        /// Most addresses that are remembered or asked for; then the one that would go next is evicted. 0: 65536.
        key entry_capacity: u32 = 4096,
        /// Most packets that wait for one address; 0: as `CAPACITY` says.
        key entry_packet_capacity: u32 = 16,
        /// Kept for Click configurations: of packets that wait, the last is dropped.
        key capacity_slim_factor: u32 = 2,
        /// How long an answer is believed.
        key timeout: Duration = Duration::from_secs(300) => "5 min",
    }
    handlers {
        /// One line an address: IP address, whether it is known (1 or 0), Ethernet address, and seconds since that was
        /// learnt; the last that was learnt is last.
        read table = |e, s| Ok(table(s, e.settings("").timeout())),
        /// Number of addresses.
        read count = |_, s| Ok(s.table("arp").len().to_string()),
        /// Number of packets that wait.
        read length = |_, s| Ok(waiting(s).to_string()),
        /// Number of packets that were dropped because too many waited.
        count drops,
        /// Adds an entry: `IP ETH`.
        write insert = |e, s, v| insert(s, v, e.settings("").lifetime()),
        /// Removes the entry of an IP address.
        write delete = |_, s, v| delete(s, v),
        /// Removes all entries.
        write clear = |_, s, _| { clear(s); Ok(()) },
    }
}

fn program(e: &ARPTable, b: &mut Builder) {
    let settings = e.settings(b.name());
    settings.declare(b);
}

impl ARPTable {
    fn settings(&self, name: &str) -> Settings {
        Settings {
            name: Some(name.to_owned()),
            entries: self.entry_capacity,
            waiting: waiting_limit(self.entry_packet_capacity, self.capacity),
            timeout: self.timeout,
        }
    }
}

const SECOND: u64 = 1_000_000_000;
/// Packets that wait if neither capacity bounds them.
const MOST_WAITING: u32 = 2048;
/// Addresses if the capacity does not bound them.
const MOST_ENTRIES: u32 = 65536;

/// Packets that may wait for one address.
pub(super) fn waiting_limit(entry_packet_capacity: u32, capacity: u32) -> u32 {
    [entry_packet_capacity, capacity].into_iter().filter(|n| *n > 0).min().unwrap_or(MOST_WAITING)
}

/// The settings of a table of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// Full name of the `ARPTable`, if it is one.
    pub(super) name: Option<String>,
    pub(super) entries: u32,
    pub(super) waiting: u32,
    pub(super) timeout: Duration,
}

impl Settings {
    /// Declares the table of addresses, and the cell that counts packets for which there was no space.
    pub(super) fn declare(&self, b: &mut Builder) -> (TableId, TableId) {
        let value =
            [("eth", W64), ("known", W8), ("tries", W8), ("since", W64), ("queries", W8), ("asked", W64)];
        let arp =
            TableDecl::new("arp", Kind::Exact, &[("ip", W32)], &value, self.entries()).holding(self.waiting);
        let drops = TableDecl::new("drops", Kind::Array, &[("index", W32)], &[("value", W64)], 1);
        let shared = |what: &str| self.name.as_ref().map(|name| format!("{name}.{what}"));
        let arp = b.table(TableDecl { shared_name: shared("arp"), ..arp }, vec![]);
        let drops =
            b.table(TableDecl { shared_name: shared("drops"), ..drops }, vec![Row::exact(&[0], &[0])]);
        (arp, drops)
    }

    /// Most addresses.
    pub(super) fn entries(&self) -> u32 {
        if self.entries == 0 { MOST_ENTRIES } else { self.entries }
    }

    /// Nanoseconds for which an answer is believed.
    pub(super) fn timeout(&self) -> u64 {
        u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
    }

    /// When an entry that was learnt is removed: it is believed no longer before, but can still be seen.
    pub(super) fn lifetime(&self) -> u64 {
        self.timeout() + SECOND
    }
}

/// The `ARPTable` that a parameter names.
#[derive(Debug)]
pub struct TableName {
    name: String,
    found: Option<Settings>,
}

impl FromArg for TableName {
    const SYNTAX: &'static str = "element";
    fn from_arg(text: &str) -> Result<TableName, String> {
        match text.trim() {
            "" => Err("write the name of an ARPTable element".into()),
            name => Ok(TableName { name: name.to_owned(), found: None }),
        }
    }
}

impl TableName {
    /// What the table follows from, once it is found.
    pub(super) fn settings(&self) -> Option<&Settings> {
        self.found.as_ref()
    }

    /// Finds the element.
    pub(super) fn resolve(&mut self, peers: &Peers<'_>) -> Result<(), Vec<String>> {
        let name = &self.name;
        let Some(peer) = peers.named(name).filter(|p| p.class == "ARPTable") else {
            return Err(vec![format!("TABLE: '{name}' is not an ARPTable element")]);
        };
        let mut args = Args::new(peer.args, ARPTable::INFO);
        let table = ARPTable::configure(&mut args);
        // It reports what is wrong with its arguments itself.
        self.found = table.filter(|_| args.finish().is_empty()).map(|table| table.settings(peer.name));
        Ok(())
    }
}

/// The addresses in Click's format; an answer is believed so many nanoseconds.
pub(super) fn table(s: &State<'_>, timeout: u64) -> String {
    let mut rows = s.table("arp").rows();
    // Those of one millisecond in the order in which Click has them.
    let since = |row: &Row| row.value.get(3).map(|since| since / u128::from(SECOND / 1000));
    rows.sort_by_key(|(slot, row)| (since(row), std::cmp::Reverse(*slot)));
    let line = |row: &Row| {
        let (Some(KeyMatch::Exact(ip)), [eth, known, _, since, ..]) = (row.key.first(), &row.value[..])
        else {
            return String::new();
        };
        let age = s.now.saturating_sub(*since as u64);
        let known = u8::from(*known != 0 && age <= timeout);
        let ip = Ipv4Addr::from(*ip as u32);
        format!("{ip} {known} {} {}\n", hyphenated(*eth), crate::time_text(age))
    };
    rows.iter().map(|(_, row)| line(row)).collect()
}

/// Number of packets that wait.
pub(super) fn waiting(s: &State<'_>) -> u32 {
    let arp = s.table("arp");
    arp.rows().iter().map(|(slot, _)| arp.held(*slot)).sum()
}

/// Adds an entry, `IP ETH`, which lives so many nanoseconds.
pub(super) fn insert(s: &mut State<'_>, v: &str, lifetime: u64) -> Result<(), String> {
    let (ip, eth) = v.trim().split_once(char::is_whitespace).ok_or("write 'IP ETH'")?;
    let (ip, eth) = (Ipv4Addr::from_arg(ip)?, EtherAddr::from_arg(eth)?);
    let row = Row {
        ttl: Some(lifetime),
        ..Row::exact(&[u32::from(ip).into()], &[ether_bits(eth).into(), 1, 0, s.now.into(), 0, 0])
    };
    let now = s.now;
    s.table_mut("arp").insert_row(&row, now).map(|_| ()).map_err(|e| e.to_string())
}

/// Removes the entry of an address.
pub(super) fn delete(s: &mut State<'_>, v: &str) -> Result<(), String> {
    let ip = Ipv4Addr::from_arg(v.trim())?;
    let slot =
        s.table("arp").lookup(&[u32::from(ip).into()]).ok_or_else(|| format!("{ip} is not in the table"))?;
    s.remove("arp", slot);
    Ok(())
}

/// Removes all entries.
pub(super) fn clear(s: &mut State<'_>) {
    for (slot, _) in s.table("arp").rows() {
        s.remove("arp", slot);
    }
}

#[cfg(test)]
mod tests {
    use crate::class_named;
    use crate::testing::Harness;

    #[test]
    fn it_has_a_table_and_no_ports() {
        let mut e = Harness::new("ARPTable", &["TIMEOUT 10", "ENTRY_CAPACITY 1"], 0, 0);
        e.write("insert", "10.0.0.2 02:00:00:00:00:02").unwrap();
        assert_eq!(e.read("table"), "10.0.0.2 1 02-00-00-00-00-02 0.000000\n");
        assert!(e.write("insert", "10.0.0.3 02:00:00:00:00:03").is_err(), "the table is full");
        e.now += 10_500_000_000;
        assert_eq!(e.read("table"), "10.0.0.2 0 02-00-00-00-00-02 10.500000\n");
        assert_eq!(
            (e.read("count"), e.read("length"), e.read("drops")),
            ("1".into(), "0".into(), "0".into())
        );
        e.now += 1_000_000_000;
        e.expire();
        assert_eq!(e.read("count"), "0");
        e.write("insert", "10.0.0.3 02:00:00:00:00:03").unwrap();
        e.write("clear", "").unwrap();
        assert_eq!(e.read("table"), "");
        assert!(e.write("delete", "10.0.0.3").unwrap_err().contains("not in the table"));
    }

    #[test]
    fn bad_arguments_are_refused() {
        let error = |arg: &str| {
            class_named("ARPTable").unwrap().configure(&[arg.to_owned()]).err().unwrap()[0].clone()
        };
        assert!(error("TIMEOUT x").contains("TIMEOUT"));
        assert!(error("SIZE 4").contains("SIZE"));
    }
}
