//! Lines through points with error bars.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use super::{COLOURS, INK};
use crate::stats::Spread;

const SIZE: (u32, u32) = (900, 480);

/// A picture of lines.
pub struct Lines {
    /// What is counted to the right.
    pub x: &'static str,
    /// What is counted upwards.
    pub y: &'static str,
    /// Whether distances are those of logarithms, in both directions.
    pub log: bool,
    /// At most as many as there are colours.
    pub lines: Vec<Line>,
}

/// A line.
pub struct Line {
    /// What it shows.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, Spread)>,
}

impl Lines {
    /// Writes the picture.
    pub fn draw(&self, title: &str, path: &Path) -> Result<()> {
        let points = || self.lines.iter().flat_map(|l| &l.points);
        let right = points().map(|p| p.0).fold(1.0, f64::max);
        let top = points().map(|p| p.1.max).fold(1.0, f64::max);
        let bottom = points().map(|p| p.1.min).fold(top, f64::min).max(top / 1e6);
        // The legend stands above the lines.
        let head = 1.0 + 0.09 * self.lines.len() as f64;
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        let mut builder = ChartBuilder::on(&root);
        builder
            .caption(title, ("sans-serif", 18, &INK))
            .margin(14)
            .set_label_area_size(LabelAreaPosition::Left, 60)
            .set_label_area_size(LabelAreaPosition::Bottom, 46);
        let failed = |e: &dyn std::fmt::Display| anyhow!("drawing {}: {e}", path.display());
        root.fill(&WHITE).map_err(|e| failed(&e))?;
        if self.log {
            let chart = builder.build_cartesian_2d(
                (0.8..right * 1.25).log_scale(),
                (bottom * 0.7..top * 1.5 * (top / bottom).powf(head - 1.0)).log_scale(),
            );
            self.fill(chart.map_err(|e| failed(&e))?)
        } else {
            let chart = builder.build_cartesian_2d(0.0..right * 1.02, 0.0..top * head);
            self.fill(chart.map_err(|e| failed(&e))?)
        }
        .map_err(|e| failed(&e))?;
        root.present().map_err(|e| failed(&e))
    }

    fn fill<'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    ) -> Result<(), Box<dyn std::error::Error + 'a>>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .axis_style(INK)
            .x_labels(10)
            .x_label_formatter(&|x| thousands(*x))
            .y_label_formatter(&|y| if *y == y.trunc() { thousands(*y) } else { format!("{y:.1}") })
            .x_desc(self.x)
            .y_desc(self.y)
            .label_style(("sans-serif", 13, &INK))
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS) {
            let medians = line.points.iter().map(|(x, s)| (*x, s.median));
            chart
                .draw_series(LineSeries::new(medians, colour.stroke_width(2)).point_size(3))?
                .label(line.name.as_str())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
            chart.draw_series(
                line.points
                    .iter()
                    .map(|(x, s)| ErrorBar::new_vertical(*x, s.min, s.median, s.max, colour.filled(), 7)),
            )?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .label_font(("sans-serif", 13, &INK))
            .draw()?;
        Ok(())
    }
}

/// A number with commas between thousands.
fn thousands(x: f64) -> String {
    let digits = format!("{x:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_easy_to_read() {
        assert_eq!([1.0, 1000.0, 1e6].map(thousands), ["1", "1,000", "1,000,000"]);
    }

    #[test]
    fn a_picture_has_its_lines_and_names() {
        let spread = |median| Spread { median, min: median - 1.0, max: median + 2.0 };
        let points = vec![(1.0, spread(5.0)), (1000.0, spread(9.0))];
        let line = |name: &str| Line { name: name.into(), points: points.clone() };
        let file = std::env::temp_dir().join(format!("weir-lines-{}.svg", std::process::id()));
        let lines = Lines { x: "entries", y: "ns", log: true, lines: vec![line("flows"), line("routes")] };
        lines.draw("Growth", &file).unwrap();
        let svg = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        for text in ["Growth", "entries", "flows", "routes", "1,000"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
        }
    }
}
