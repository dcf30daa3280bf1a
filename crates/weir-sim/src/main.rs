//! Runs seeds of the simulation: `weir-sim --seed N` prints what happens in one, `weir-sim --from N --count M` looks for one that goes wrong.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use weir_sim::{simulate, simulate_moves, simulate_several};

#[derive(Debug, Parser)]
#[command(about = "A domain in a seeded simulation with faults")]
struct Args {
    /// Print the history of this seed
    #[arg(long)]
    seed: Option<u64>,
    /// The first of many seeds
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// Let functions move
    #[arg(long)]
    moves: bool,
    /// Have several controllers
    #[arg(long, conflicts_with = "moves")]
    several: bool,
}

#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn main() -> ExitCode {
    let args = Args::parse();
    let simulate = match args {
        Args { several: true, .. } => simulate_several,
        Args { moves: true, .. } => simulate_moves,
        _ => simulate,
    };
    if let Some(seed) = args.seed {
        let report = simulate(seed);
        report.history.iter().for_each(|line| println!("{line}"));
        return if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (mut wrong, mut accepted) = (0, 0);
    for seed in args.from..args.from.saturating_add(args.count) {
        let report = simulate(seed);
        accepted += report.accepted;
        for violation in &report.violations {
            println!("seed {seed}: {violation}");
        }
        wrong += u64::from(!report.violations.is_empty());
    }
    println!("{} seeds, {accepted} changes accepted, {wrong} seeds went wrong", args.count);
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
