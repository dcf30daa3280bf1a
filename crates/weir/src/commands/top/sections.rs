//! From rates to the tables on the screen.

use super::rates::{Rate, Rates, Traffic};

/// By what rows are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// What happens most stands first.
    #[default]
    Rate,
    /// What happened most so far stands first.
    Total,
    /// By name.
    Name,
}

impl Order {
    /// The next, as the key goes through them.
    pub(crate) fn next(self) -> Order {
        match self {
            Order::Rate => Order::Total,
            Order::Total => Order::Name,
            Order::Name => Order::Rate,
        }
    }

    /// Its name on the screen.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Order::Rate => "rate",
            Order::Total => "total",
            Order::Name => "name",
        }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    /// What it is about.
    pub(crate) title: &'static str,
    /// The columns' titles; the first `names` are texts, the others numbers.
    pub(crate) columns: &'static [&'static str],
    /// How many columns are names.
    pub(crate) names: usize,
    /// The cells.
    pub(crate) rows: Vec<Row>,
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// As many as there are columns.
    pub(crate) cells: Vec<String>,
    /// Whether it tells of something wrong that goes on.
    pub(crate) alarm: bool,
    rate: f64,
    total: f64,
}

/// The tables that have rows, those that matter most first. `filter` keeps the rows that have it in a name.
pub(crate) fn sections(rates: &Rates, order: Order, filter: &str) -> Vec<Section> {
    let mut all =
        vec![links(rates), drops(rates), elements(rates), functions(rates), devices(rates), flows(rates)];
    let filter = filter.to_lowercase();
    for section in &mut all {
        let names = section.names;
        section.rows.retain(|r| r.cells.iter().take(names).any(|c| c.to_lowercase().contains(&filter)));
        section.rows.sort_by(|a, b| {
            let figures = match order {
                Order::Rate => b.rate.total_cmp(&a.rate).then(b.total.total_cmp(&a.total)),
                Order::Total => b.total.total_cmp(&a.total),
                Order::Name => std::cmp::Ordering::Equal,
            };
            figures.then_with(|| a.cells[..names].cmp(&b.cells[..names]))
        });
    }
    all.retain(|s| !s.rows.is_empty());
    all
}

fn links(rates: &Rates) -> Section {
    let rows = rates.links.iter().map(|l| {
        let [packets, bits] = traffic(l.traffic);
        let cells = vec![l.from.clone(), l.to.clone(), packets, bits, amount(l.traffic.packets.total as f64)];
        row(cells, l.traffic.packets, false)
    });
    Section {
        title: "LINKS",
        columns: &["FROM", "TO", "PACKETS/s", "BITS/s", "PACKETS"],
        names: 2,
        rows: rows.collect(),
    }
}

fn drops(rates: &Rates) -> Section {
    let rows = rates.drops.iter().map(|d| {
        let cells =
            vec![d.element.clone(), d.reason.clone(), per_second(d.packets), amount(d.packets.total as f64)];
        row(cells, d.packets, d.packets.per_second.is_some_and(|r| r > 0.0))
    });
    Section {
        title: "DROPS",
        columns: &["ELEMENT", "REASON", "PACKETS/s", "PACKETS"],
        names: 2,
        rows: rows.collect(),
    }
}

fn elements(rates: &Rates) -> Section {
    let rows = rates.elements.iter().map(|e| Row {
        cells: vec![
            e.element.clone(),
            format!("{:.1}", e.cycles_per_packet),
            format!("{:.1}%", 100.0 * e.share),
        ],
        alarm: false,
        rate: e.share,
        total: e.cycles_per_packet,
    });
    Section {
        title: "ELEMENTS",
        columns: &["ELEMENT", "CYCLES/PACKET", "TIME"],
        names: 1,
        rows: rows.collect(),
    }
}

fn functions(rates: &Rates) -> Section {
    let rows = rates.functions.iter().map(|f| {
        let figures = [f.packets_in, f.packets_out, f.dropped].map(per_second);
        let cells = std::iter::once(f.id.clone()).chain(figures).collect();
        row(cells, f.packets_in, false)
    });
    Section {
        title: "FUNCTIONS",
        columns: &["FUNCTION", "IN/s", "OUT/s", "DROPPED/s"],
        names: 1,
        rows: rows.collect(),
    }
}

fn devices(rates: &Rates) -> Section {
    let rows = rates.devices.iter().map(|d| {
        let ([received, bits_in], [sent, bits_out]) = (traffic(d.received), traffic(d.sent));
        let cells =
            vec![d.name.clone(), d.state.clone(), received, bits_in, sent, bits_out, per_second(d.lost)];
        let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        let figures = Rate {
            total: d.received.packets.total.saturating_add(d.sent.packets.total),
            per_second: both(d.received.packets.per_second, d.sent.packets.per_second),
        };
        row(cells, figures, d.state != "up" || d.lost.per_second.is_some_and(|r| r > 0.0))
    });
    Section {
        title: "DEVICES",
        columns: &["DEVICE", "STATE", "IN/s", "IN BITS/s", "OUT/s", "OUT BITS/s", "LOST/s"],
        names: 2,
        rows: rows.collect(),
    }
}

fn flows(rates: &Rates) -> Section {
    let rows = rates.flows.iter().map(|c| {
        let space = if c.entries == 0 { "off".to_owned() } else { amount(c.entries as f64) };
        row(vec![c.table.clone(), space, per_second(c.spared), per_second(c.done)], c.spared, false)
    });
    Section {
        title: "FLOW CACHES",
        columns: &["LOOKUPS IN", "ENTRIES", "SPARED/s", "DONE/s"],
        names: 1,
        rows: rows.collect(),
    }
}

fn row(cells: Vec<String>, figures: Rate, alarm: bool) -> Row {
    Row { cells, alarm, rate: figures.per_second.unwrap_or(0.0), total: figures.total as f64 }
}

fn traffic(t: Traffic) -> [String; 2] {
    [per_second(t.packets), per_second(t.bits)]
}

fn per_second(rate: Rate) -> String {
    rate.per_second.map_or_else(|| "-".to_owned(), amount)
}

/// A number in at most six characters: `0`, `12.5`, `999`, `1.25k`, `38.0M`.
pub(crate) fn amount(n: f64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let (mut n, mut unit) = (n, 0);
    // What would be rounded to 1000 has the next unit.
    while n >= 999.5 && unit + 1 < UNITS.len() {
        n /= 1000.0;
        unit += 1;
    }
    let text = match (n, unit) {
        (n, 0) if n >= 99.95 || n.fract() == 0.0 => format!("{n:.0}"),
        (n, 0) => format!("{n:.1}"),
        (n, _) if n >= 99.95 => format!("{n:.0}"),
        (n, _) if n >= 9.995 => format!("{n:.1}"),
        (n, _) => format!("{n:.2}"),
    };
    text + UNITS[unit]
}

#[cfg(test)]
mod tests {
    use super::super::rates::rates;
    use super::super::rates::tests::reading;
    use super::*;

    fn firsts(sections: &[Section], title: &str) -> Vec<String> {
        let section = sections.iter().find(|s| s.title == title).unwrap();
        section.rows.iter().map(|r| r.cells[0].clone()).collect()
    }

    #[test]
    fn numbers_are_short_and_keep_three_digits() {
        let cases = [
            (0.0, "0"),
            (7.0, "7"),
            (12.34, "12.3"),
            (99.96, "100"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (1_250.0, "1.25k"),
            (38_040_000.0, "38.0M"),
            (999_700_000.0, "1.00G"),
            (u64::MAX as f64, "18447P"),
        ];
        for (n, text) in cases {
            assert_eq!(amount(n), text);
        }
    }

    #[test]
    fn rows_are_sorted_and_filtered() {
        let r = rates(Some(&reading(1, 1_000)), &reading(2, 3_000));
        let by = |order, filter| sections(&r, order, filter);
        assert_eq!(firsts(&by(Order::Rate, ""), "LINKS"), ["sf:nat:out", "sap:lan"]);
        assert_eq!(firsts(&by(Order::Name, ""), "LINKS"), ["sap:lan", "sf:nat:out"]);
        let titles = |s: &[Section]| s.iter().map(|s| s.title).collect::<Vec<_>>();
        assert_eq!(
            titles(&by(Order::Rate, "")),
            ["LINKS", "DROPS", "ELEMENTS", "FUNCTIONS", "DEVICES", "FLOW CACHES"]
        );
        assert_eq!(titles(&by(Order::Rate, "DENIED")), ["DROPS"], "whatever the case");
        assert_eq!(titles(&by(Order::Rate, "2.00k")), Vec::<&str>::new(), "numbers are no names");
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        for section in sections(&rates(None, &reading(1, 1_000)), Order::Total, "") {
            for row in &section.rows {
                assert_eq!(row.cells.len(), section.columns.len(), "{}", section.title);
            }
        }
    }

    #[test]
    fn what_goes_wrong_is_marked_while_it_does() {
        let alarm = |before, now| {
            let r = rates(Some(&reading(1, before)), &reading(2, now));
            sections(&r, Order::Rate, "denied")[0].rows[0].alarm
        };
        assert!(alarm(100, 200));
        assert!(!alarm(200, 200));
    }
}
