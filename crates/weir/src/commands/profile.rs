//! Where the time goes: for `weir run --profile` and `weir show`.

use weir_api::status::ElementTime;
use weir_protocol::GraphStatus;

use crate::ui::table;

/// The times of the elements, the most first.
pub(crate) fn times(status: &GraphStatus) -> Vec<ElementTime> {
    ElementTime::of(status.profile.iter().map(|e| (e.element.clone(), e.packets, e.cycles)))
}

/// A table of them.
pub(crate) fn text(times: &[ElementTime]) -> String {
    if times.is_empty() {
        return "no time was measured: no packet has run through compiled code\n".to_owned();
    }
    let mut rows = vec![["ELEMENT", "MEASURED", "CYCLES/PACKET", "TIME"].map(str::to_owned).to_vec()];
    rows.extend(times.iter().map(|t| {
        vec![
            t.element.clone(),
            t.packets.to_string(),
            format!("{:.1}", t.cycles_per_packet),
            format!("{:.1}%", 100.0 * t.share),
        ]
    }));
    table(&rows, &[1, 2, 3])
}

/// How well lookups are spared, by table: entries of the cache, hits and misses. `None` if there is no such lookup.
pub(crate) fn flows<'a>(caches: impl Iterator<Item = (&'a str, usize, u64, u64)>) -> Option<String> {
    let mut rows = vec![["LOOKUPS IN", "FLOWS KEPT", "SPARED", "DONE"].map(str::to_owned).to_vec()];
    rows.extend(caches.map(|(table, entries, hits, misses)| {
        let space = if entries == 0 { "off".to_owned() } else { format!("up to {entries}") };
        vec![table.to_owned(), space, hits.to_string(), misses.to_string()]
    }));
    (rows.len() > 1).then(|| table(&rows, &[1, 2, 3]))
}
