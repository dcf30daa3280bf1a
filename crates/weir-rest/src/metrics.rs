//! Metrics in the text format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{HeaderName, header};

use crate::usage::{cpu_of, resident};

/// The media type of the format.
pub const CONTENT_TYPE: (HeaderName, &str) =
    (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, and begins again at 0 with what it counts.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// Metrics, family by family.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    name: &'static str,
}

impl Exposition {
    /// Begins a family; its samples follow.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.begin(name, kind, help);
    }

    fn begin(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        _ = writeln!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}", escaped(help, false));
    }

    /// A sample of the family.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, value);
    }

    /// A family of one sample.
    pub fn single(&mut self, name: &'static str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// A family of one histogram.
    pub fn histogram(&mut self, name: &'static str, help: &str, histogram: &Histogram) {
        self.begin(name, "histogram", help);
        let mut sum = 0;
        for (bound, bucket) in BOUNDS.iter().zip(&histogram.buckets) {
            sum += bucket.load(Ordering::Relaxed);
            self.line("_bucket", &[("le", &bound.to_string())], sum);
        }
        sum += histogram.buckets[BOUNDS.len()].load(Ordering::Relaxed);
        self.line("_bucket", &[("le", "+Inf")], sum);
        self.line("_sum", &[], histogram.micros.load(Ordering::Relaxed) as f64 / 1e6);
        self.line("_count", &[], sum);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (i, (label, value)) in labels.iter().enumerate() {
            self.text.push(if i == 0 { '{' } else { ',' });
            _ = write!(self.text, "{label}=\"{}\"", escaped(value, true));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        _ = writeln!(self.text, " {value}");
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// A text in which what the format has a meaning for is escaped.
fn escaped(text: &str, quotes: bool) -> std::borrow::Cow<'_, str> {
    if !text.contains(['\\', '\n', '"']) {
        return text.into();
    }
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"").into() } else { text.into() }
}

/// Upper bounds of the buckets of times, in seconds.
const BOUNDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// Times, counted by how long they are.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    /// Counts a time.
    pub fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// What the process is that is asked, as Prometheus' own libraries name it.
pub fn process(out: &mut Exposition, version: &str) {
    out.family("weir_build_info", Kind::Gauge, "The version of Weir that runs; always 1.");
    out.sample(&[("version", version)], 1);
    let own = std::process::id();
    if let Some(cpu) = cpu_of(own) {
        let help = "Processor time that the daemon took, in seconds.";
        out.single("process_cpu_seconds_total", Kind::Counter, help, cpu.as_secs_f64());
    }
    if let Some(memory) = resident(own) {
        let help = "Memory of the daemon, in bytes.";
        out.single("process_resident_memory_bytes", Kind::Gauge, help, memory);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        out.single("process_open_fds", Kind::Gauge, "Open files of the daemon.", files.count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_samples_and_labels_are_written_as_the_format_says() {
        let mut out = Exposition::default();
        out.family("a_total", Kind::Counter, "Lines\nand \\ signs.");
        out.sample(&[("x", "1"), ("y", "a\"b\\c\nd")], 3);
        out.single("b", Kind::Gauge, "One.", 0.5);
        assert_eq!(
            out.finish(),
            "# HELP a_total Lines\\nand \\\\ signs.\n# TYPE a_total counter\na_total{x=\"1\",y=\"a\\\"b\\\\c\\nd\"} 3\n\
             # HELP b One.\n# TYPE b gauge\nb 0.5\n"
        );
    }

    #[test]
    fn buckets_of_a_histogram_count_all_that_are_no_longer() {
        let histogram = Histogram::default();
        for ms in [1, 2, 60_000] {
            histogram.observe(Duration::from_millis(ms));
        }
        let mut out = Exposition::default();
        out.histogram("t_seconds", "Times.", &histogram);
        let text = out.finish();
        for line in ["{le=\"0.001\"} 1", "{le=\"0.0025\"} 2", "{le=\"30\"} 2", "{le=\"+Inf\"} 3"] {
            assert!(text.contains(&format!("t_seconds_bucket{line}\n")), "{line}: {text}");
        }
        assert!(text.contains("t_seconds_sum 60.003\n") && text.ends_with("t_seconds_count 3\n"), "{text}");
    }
}
