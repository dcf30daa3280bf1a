//! Horizontal bars in rows, each row with a label.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::INK;
use crate::stats::Spread;

const WIDTH: u32 = 900;
const BAR: f64 = 14.0;
const GAP: f64 = 12.0;
const LABELS: u32 = 150;
const HEAD: u32 = 74;
const FOOT: u32 = 46;

/// A picture of bars.
pub struct Bars {
    /// What the lengths are.
    pub axis: &'static str,
    /// From the top.
    pub rows: Vec<Row>,
    /// What the colours are.
    pub legend: Vec<(&'static str, RGBColor)>,
    /// What the marks of rows are; empty if there are none.
    pub mark: &'static str,
}

/// Bars with one label.
pub struct Row {
    /// The label.
    pub label: String,
    /// From the top.
    pub bars: Vec<Bar>,
    /// A line across the bars.
    pub mark: Option<f64>,
}

/// A bar.
pub struct Bar {
    value: Spread,
    colour: RGBColor,
    note: String,
}

impl Bar {
    /// A bar with its spread.
    pub fn new(value: Spread, colour: RGBColor) -> Bar {
        Bar { value, colour, note: String::new() }
    }

    /// The same with words behind its end.
    pub fn note(self, note: &str) -> Bar {
        Bar { note: format!(" {note}"), ..self }
    }
}

impl Bars {
    /// Writes the picture.
    pub fn draw(&self, title: &str, path: &Path) -> Result<()> {
        let bars: usize = self.rows.iter().map(|r| r.bars.len()).sum();
        let inner = bars as f64 * BAR + (self.rows.len() + 1) as f64 * GAP;
        let height = HEAD + inner as u32 + FOOT;
        let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
        let failed = |e: &dyn std::fmt::Display| anyhow!("drawing {}: {e}", path.display());
        root.fill(&WHITE).map_err(|e| failed(&e))?;
        // One bad sample is not to make all bars short: its whisker ends at the edge.
        let ends = self.rows.iter().flat_map(|r| r.bars.iter().map(|b| b.value.median).chain(r.mark));
        let end = ends.fold(1.0, f64::max) * 1.3;
        let mut chart = ChartBuilder::on(&root)
            .margin_top(HEAD)
            .margin_right(20)
            .set_label_area_size(LabelAreaPosition::Left, LABELS)
            .set_label_area_size(LabelAreaPosition::Bottom, FOOT)
            .build_cartesian_2d(0.0..end, inner..0.0)
            .map_err(|e| failed(&e))?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .axis_style(INK)
            .x_labels(10)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .x_desc(self.axis)
            .label_style(("sans-serif", 13, &INK))
            .draw()
            .map_err(|e| failed(&e))?;
        let text = ("sans-serif", 13).into_font().color(&INK);
        let right = text.pos(Pos::new(HPos::Right, VPos::Center));
        let left = text.pos(Pos::new(HPos::Left, VPos::Center));
        let mut y = GAP;
        for row in &self.rows {
            let last = y + row.bars.len() as f64 * BAR;
            let at = chart.plotting_area().map_coordinate(&(0.0, (y + last) / 2.0));
            root.draw(&Text::new(row.label.as_str(), (at.0 - 8, at.1), &right)).map_err(|e| failed(&e))?;
            for bar in &row.bars {
                let Spread { median, min, max } = bar.value;
                let max = max.min(end * 0.9);
                let rectangle =
                    Rectangle::new([(0.0, y + 1.0), (median, y + BAR - 1.0)], bar.colour.filled());
                chart.draw_series([rectangle]).map_err(|e| failed(&e))?;
                let middle = y + BAR / 2.0;
                if max > min {
                    let whisker = [
                        [(min, middle), (max, middle)],
                        [(min, y + 4.0), (min, y + BAR - 4.0)],
                        [(max, y + 4.0), (max, y + BAR - 4.0)],
                    ];
                    let whisker = whisker.map(|line| PathElement::new(line, BLACK));
                    chart.draw_series(whisker).map_err(|e| failed(&e))?;
                }
                let at = chart.plotting_area().map_coordinate(&(max.max(row.mark.unwrap_or(0.0)), middle));
                let note = format!("{median:.1}{}", bar.note);
                root.draw(&Text::new(note, (at.0 + 6, at.1), &left)).map_err(|e| failed(&e))?;
                y += BAR;
            }
            if let Some(mark) = row.mark {
                let line = PathElement::new(
                    [(mark, last - BAR * row.bars.len() as f64 - 3.0), (mark, last + 3.0)],
                    RED.stroke_width(2),
                );
                chart.draw_series([line]).map_err(|e| failed(&e))?;
            }
            y += GAP;
        }
        let big = ("sans-serif", 18).into_font().color(&INK);
        root.draw(&Text::new(title, (16, 12), &big)).map_err(|e| failed(&e))?;
        let mut x = 16;
        let mark = (!self.mark.is_empty()).then_some((self.mark, RED));
        for (name, colour) in self.legend.iter().copied().chain(mark) {
            let width = if colour == RED { 3 } else { 14 };
            let square = Rectangle::new([(x, 46), (x + width, 60)], colour.filled());
            root.draw(&square).map_err(|e| failed(&e))?;
            root.draw(&Text::new(name, (x + width + 6, 53), &left)).map_err(|e| failed(&e))?;
            x += width + 30 + 7 * name.chars().count() as i32;
        }
        root.present().map_err(|e| failed(&e))
    }
}
