//! The same question, asked of Debian's z3.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::stats::Spread;

/// Seconds after which z3 is stopped.
const PATIENCE: u32 = 60;
/// Milliseconds after which it is not asked again.
const ENOUGH: f64 = 2000.0;

/// The times of z3.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reference {
    /// Milliseconds from the start of the process to its end.
    pub time: Spread,
    /// It was stopped at that time, without an answer.
    pub stopped: bool,
}

/// Whether z3 is installed.
pub(super) fn is_there() -> bool {
    Command::new("z3").arg("--version").output().is_ok_and(|o| o.status.success())
}

/// Asks a script, whose last answer has to be `sat`.
pub(super) fn measure(script: &str, samples: usize) -> Result<Reference> {
    let mut times = Vec::new();
    let mut stopped = false;
    while times.len() < samples && times.iter().sum::<f64>() < ENOUGH {
        let start = Instant::now();
        let mut z3 = Command::new("z3")
            .args(["-smt2", "-in", &format!("-T:{PATIENCE}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting z3")?;
        let mut input = z3.stdin.take().context("z3 takes no input")?;
        let text = script.to_owned();
        // It answers while it reads. One that has given up reads no more, and then that is no error.
        let writer = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
        let output = z3.wait_with_output().context("waiting for z3")?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(writer.join().is_ok(), "z3 could not be asked");
        let answers = String::from_utf8_lossy(&output.stdout);
        stopped = answers.lines().any(|l| l == "timeout");
        ensure!(stopped || answers.lines().last() == Some("sat"), "z3 says otherwise: {answers}");
        if stopped {
            break;
        }
    }
    Ok(Reference { time: Spread::of(times), stopped })
}
