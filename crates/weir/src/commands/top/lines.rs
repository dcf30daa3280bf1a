//! From tables to lines of text, for the screen and for plain output.

use super::sections::Section;

/// The narrowest that a column of names becomes.
const NARROWEST: usize = 8;
/// Between columns.
const GAP: usize = 2;

/// A line, and whether it stands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) alarm: bool,
}

/// The titles of a section's columns, and its rows from `skip` on, at most `rows` of them. Names are cut so that a
/// line has at most `width` characters, as far as that can be.
pub(crate) fn lines(section: &Section, width: usize, skip: usize, rows: usize) -> (String, Vec<Line>) {
    let widths = widths(section, width);
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut out = String::new();
        for (column, (cell, &width)) in cells.zip(&widths).enumerate() {
            if column > 0 {
                out.push_str(&" ".repeat(GAP));
            }
            let cell = cut(cell, width);
            out.push_str(&if column < section.names {
                format!("{cell:width$}")
            } else {
                format!("{cell:>width$}")
            });
        }
        out.trim_end().to_owned()
    };
    let titles = line(&mut section.columns.iter().copied());
    let rows = section
        .rows
        .iter()
        .skip(skip)
        .take(rows)
        .map(|r| Line { text: line(&mut r.cells.iter().map(String::as_str)), alarm: r.alarm });
    (titles, rows.collect())
}

/// The widths of the columns: what they need, while the longest names are cut.
fn widths(section: &Section, width: usize) -> Vec<usize> {
    let needed = |(column, title): (usize, &&str)| {
        let cells = section.rows.iter().filter_map(|r| r.cells.get(column));
        cells.map(|c| c.chars().count()).chain([title.chars().count()]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = section.columns.iter().enumerate().map(needed).collect();
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let longest = widths.iter_mut().take(section.names).max();
        match longest {
            Some(w) if *w > NARROWEST => *w -= 1,
            _ => break,
        }
    }
    widths
}

/// The end of a name says more than its beginning.
fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = text.chars().skip(count - width.saturating_sub(1));
    std::iter::once('…').chain(kept).collect()
}

/// Divides `height` lines among sections that would like `wanted` lines each: those that want little get it, the others
/// the same. A section that would get fewer than `least` gets none, the last first.
pub(crate) fn divide(wanted: &[usize], height: usize, least: usize) -> Vec<usize> {
    let shown = (height / least.max(1)).min(wanted.len());
    let mut given = vec![0; wanted.len()];
    let mut left = height;
    while left > 0 {
        let hungry: Vec<usize> = (0..shown).filter(|&i| given[i] < wanted[i]).collect();
        if hungry.is_empty() {
            break;
        }
        let share = (left / hungry.len()).max(1);
        for i in hungry {
            let more = share.min(wanted[i] - given[i]).min(left);
            given[i] += more;
            left -= more;
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::super::rates::rates;
    use super::super::rates::tests::reading;
    use super::super::sections::{Order, sections};
    use super::*;

    #[test]
    fn columns_are_aligned_and_names_give_way() {
        let r = rates(Some(&reading(1, 1_000)), &reading(2, 3_000));
        let section = &sections(&r, Order::Name, "")[0];
        let (titles, rows) = lines(section, 80, 0, 10);
        assert_eq!(titles, "FROM        TO         PACKETS/s  BITS/s  PACKETS");
        assert_eq!(rows[0].text, "sap:lan     sf:nat:in      2.00k   1.60M    3.00k");
        let (titles, rows) = lines(section, 48, 1, 10);
        assert_eq!((titles.chars().count(), rows.len()), (48, 1));
        assert!(rows[0].text.starts_with("…:nat:out  sap:wan "), "{}", rows[0].text);
    }

    #[test]
    fn the_screen_is_divided_by_need() {
        assert_eq!(divide(&[3, 30, 5], 20, 3), [3, 12, 5]);
        assert_eq!(divide(&[30, 30], 11, 3), [6, 5]);
        assert_eq!(divide(&[4, 4, 4], 7, 3), [4, 3, 0]);
        assert_eq!(divide(&[4], 2, 3), [0]);
        assert_eq!(divide(&[], 10, 3), Vec::<usize>::new());
    }
}
