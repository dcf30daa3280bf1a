//! `weir completion` and `weir man`: both are made from the declaration that `--help` prints.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::Cli;
use crate::ui::{Failure, Ui};

/// The environment variable by which a shell asks this program what it may offer.
pub(crate) const VARIABLE: &str = "WEIR_COMPLETE";

/// Options of `weir completion`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionArgs {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Options of `weir man`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this directory (weir.1, weir-run.1 …); left out, the first is printed
    directory: Option<PathBuf>,
}

pub(crate) fn completion(args: &CompletionArgs) -> Result<(), Failure> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "weir", "weir", "weir", &mut script)
        .context("cannot make the completion")?;
    if let Shell::Bash = args.shell {
        // Otherwise bash completes what stands behind the last colon, and places have colons.
        script.extend(b"COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}\n");
    }
    io::stdout().write_all(&script)?;
    Ok(())
}

pub(crate) fn man(args: &ManArgs, ui: &Ui) -> Result<(), Failure> {
    let command = Cli::command().disable_help_subcommand(true);
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().write_all(&page)?;
        return Ok(());
    };
    let failed = || format!("cannot write manual pages to {}", directory.display());
    std::fs::create_dir_all(directory).with_context(failed)?;
    clap_mangen::generate_to(command.clone(), directory).with_context(failed)?;
    let pages = count(&command);
    let directory = directory.display();
    ui.print(&serde_json::json!({ "directory": directory.to_string(), "pages": pages }), || {
        format!("{pages} manual pages written to {directory}")
    })?;
    Ok(())
}

/// How many commands there are, with those below.
fn count(command: &Command) -> usize {
    1 + command.get_subcommands().filter(|c| !c.is_hide_set()).map(count).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_of_the_commands_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_command_has_a_page_with_its_options() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        man(&ManArgs { directory: Some(path.clone()) }, &Ui::new(true, crate::ui::Color::Never)).unwrap();
        let files: Vec<_> = std::fs::read_dir(&path).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!(files.len(), count(&Cli::command().disable_help_subcommand(true)));
        let page = std::fs::read_to_string(path.join("weir-capture.1")).unwrap();
        assert!(page.contains("\\-\\-snaplen") && page.contains("Most bytes of each packet"), "{page}");
    }
}
