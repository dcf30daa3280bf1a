//! `weir-fuzz`: runs targets without libFuzzer, and writes seeds for it.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use weir_fuzz::{TARGETS, Target};

const USAGE: &str =
    "usage: weir-fuzz run TARGET COUNT [FIRST]   runs so many inputs, from number FIRST (0) on
       weir-fuzz seeds DIRECTORY           writes the seeds of each target for cargo fuzz";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["run", name, count] => run(name, count, "0"),
        ["run", name, count, first] => run(name, count, first),
        ["seeds", directory] => write_seeds(Path::new(directory)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn target(name: &str) -> anyhow::Result<&'static Target> {
    let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
    match TARGETS.iter().find(|t| t.name == name) {
        Some(target) => Ok(target),
        None => bail!("there is no target '{name}'; there are: {}", names.join(", ")),
    }
}

fn run(name: &str, count: &str, first: &str) -> anyhow::Result<()> {
    let number = |text: &str| text.parse::<u64>().with_context(|| format!("'{text}' is not a number"));
    let target = target(name)?;
    target.run_inputs(number(first)?, number(count)?);
    Ok(())
}

fn write_seeds(directory: &Path) -> anyhow::Result<()> {
    for target in TARGETS {
        let to = directory.join(target.name);
        std::fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
        for (n, seed) in (target.seeds)().iter().enumerate() {
            let file = to.join(format!("seed-{n}"));
            std::fs::write(&file, seed).with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    Ok(())
}
