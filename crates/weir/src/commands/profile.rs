//! Where the time goes: for `weir run --profile` and `weir show`.

use weir_engine::protocol::GraphStatus;
use weir_model::status::ElementTime;

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
