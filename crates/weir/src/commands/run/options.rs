//! The options of `weir run`, and the configuration they name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_elements::FromArg;
use weir_plan::{Classes, Plan, PlanError};

use crate::commands::config::{Define, split};
use crate::commands::read;
use crate::ui::Failure;

/// Where simulated time begins unless the option says otherwise, in seconds; as in Click.
const SIMULATED_START: f64 = 1e9;

/// Options of `weir run`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Args {
    /// Click configuration (standard input without one, or for -), and values for its parameters
    #[arg(value_name = "FILE | PARAM=VALUE")]
    words: Vec<String>,
    /// Take the configuration from this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "expression")]
    file: Option<String>,
    /// Take this text as the configuration
    #[arg(short, long, value_name = "CONFIG")]
    expression: Option<String>,
    /// Read this handler at the end and print it (may be repeated; the element may be a pattern or a class)
    #[arg(short = 'h', long = "handler", value_name = "ELEMENT.HANDLER")]
    pub(super) handlers: Vec<String>,
    /// The value of this handler is the exit status
    #[arg(short = 'x', long, value_name = "ELEMENT.HANDLER")]
    pub(super) exit_handler: Option<String>,
    /// Write the flat configuration to a file (- is standard output)
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<String>,
    /// Load the configuration, write and read handlers, and stop
    #[arg(short, long)]
    pub(super) quit: bool,
    /// Print how long it ran: user time, system time and time on the clock
    #[arg(short, long)]
    pub(super) time: bool,
    /// Print no warnings
    #[arg(short = 'w', long)]
    no_warnings: bool,
    /// Print warnings, after --no-warnings
    #[arg(long, overrides_with = "no_warnings", hide = true)]
    warnings: bool,
    /// Run so many workers, which share the traffic by flow (with --simtime, one)
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1, value_parser = crate::commands::node::workers)]
    pub(super) threads: usize,
    /// Bind the workers to processor cores, from this one on (0 without a number)
    #[arg(short = 'a', long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub(super) affinity: Option<usize>,
    /// Bind them to none, after --affinity
    #[arg(long, overrides_with = "affinity", hide = true)]
    no_affinity: bool,
    /// Let time jump from event to event, from this many seconds since 1970 on
    #[arg(long, visible_alias = "simulation-time", value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    simtime: Option<Option<f64>>,
    /// Listen for control connections on this TCP port (PORT+: that one or the next that is free; may be repeated)
    #[arg(short, long = "port", value_name = "PORT", value_parser = port)]
    ports: Vec<String>,
    /// Listen for control connections on this Unix socket (may be repeated)
    #[arg(short, long = "unix-socket", value_name = "FILE")]
    unix_sockets: Vec<String>,
    /// Provide the handler `hotconfig`: a configuration written to it takes the place of this one
    #[arg(short = 'R', long)]
    pub(super) allow_reconfigure: bool,
    /// Accepted for Click's sake, after --allow-reconfigure
    #[arg(long, overrides_with = "allow_reconfigure", hide = true)]
    no_allow_reconfigure: bool,
    /// Where `require(library NAME)` looks: directories with : between them
    #[arg(short = 'C', long, value_name = "PATH", env = "CLICKPATH")]
    clickpath: Option<String>,
    /// Write this handler at the start (may be repeated)
    #[arg(long = "write", value_name = "ELEMENT.HANDLER=VALUE")]
    pub(super) writes: Vec<String>,
    /// Stop after this time (as 10, 500ms, 2min)
    #[arg(long = "for", value_name = "TIME", value_parser = Duration::from_arg)]
    pub(super) duration: Option<Duration>,
    /// Follow packets that match this filter (all, if it is empty) and print their path
    #[arg(long, value_name = "FILTER", num_args = 0..=1, default_missing_value = "")]
    pub(super) trace: Option<String>,
    /// How many packets --trace follows
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) count: u32,
    /// At the end, print why packets were dropped
    #[arg(short, long)]
    pub(super) drops: bool,
    /// Print where the time goes, element by element, at the end and every TIME
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = Duration::from_arg)]
    pub(super) profile: Option<Option<Duration>>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Print the version
    #[arg(short = 'v', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// A configuration from the command line.
pub(super) struct Config {
    pub(super) text: String,
    /// Its name in messages about a place in it.
    pub(super) name: String,
    /// Its name in messages about all of it.
    pub(super) landmark: String,
    pub(super) defines: Vec<Define>,
}

impl Args {
    /// The configuration, with the values of its parameters.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        let (files, defines) = split(&self.words)?;
        let mut file = self.file.clone();
        for word in files {
            if file.is_some() || self.expression.is_some() {
                return Err(Failure::refused("router configuration specified twice"));
            }
            file = Some(word.to_owned());
        }
        let (text, name, landmark) = match (&self.expression, file) {
            (Some(text), _) => (text.clone(), "config".to_owned(), "<expr>".to_owned()),
            (None, None) => (read(Path::new("-"))?, "<stdin>".to_owned(), "<stdin>".to_owned()),
            (None, Some(file)) if file == "-" => {
                (read(Path::new("-"))?, "<stdin>".to_owned(), "<stdin>".to_owned())
            }
            (None, Some(file)) => (read(Path::new(&file))?, file.clone(), file),
        };
        Ok(Config { text, name, landmark, defines })
    }

    pub(super) fn warnings(&self) -> bool {
        self.warnings || !self.no_warnings
    }

    /// When simulated time begins, in nanoseconds.
    pub(super) fn simtime(&self) -> Option<u64> {
        let seconds = self.simtime?.unwrap_or(SIMULATED_START);
        Some((seconds.max(0.0) * 1e9) as u64)
    }

    /// The elements that the options add to a configuration, as text.
    fn sockets(&self) -> String {
        let tcp = self.ports.iter().map(|p| format!("TCP, {p}"));
        let unix = self.unix_sockets.iter().map(|f| format!("UNIX, {}", weir_click::quote(f.as_bytes())));
        let line = |(i, args): (usize, String)| {
            let number = if i == 0 { String::new() } else { format!("@{i}") };
            format!("\nclick_driver@@ControlSocket{number} :: ControlSocket({args});")
        };
        tcp.chain(unix).enumerate().map(line).collect()
    }

    /// What makes plans of configurations, as these options say.
    pub(super) fn reader(
        &self,
        config: &Config,
    ) -> impl Fn(&Classes, &str) -> Result<Plan, PlanError> + use<> {
        let (defines, name, sockets) = (config.defines.clone(), config.name.clone(), self.sockets());
        let path = self.clickpath.clone().unwrap_or_default();
        move |classes, text| {
            let library = |library: &str| find_library(&path, library);
            let options = weir_click::Options {
                defines: defines.clone(),
                library: Some(&library),
                ..weir_click::Options::default()
            };
            let mut plan = Plan::with_options(classes, &format!("{text}{sockets}"), &name, &options)?;
            plan.config = text.into();
            Ok(plan)
        }
    }
}

/// The text of a library.
fn find_library(path: &str, name: &str) -> Option<String> {
    let directories = path.split(':').filter(|d| !d.is_empty()).map(PathBuf::from);
    let places = directories.flat_map(|d| [d.join("share/click").join(name), d.join(name)]);
    let here = std::iter::once(PathBuf::from(name));
    here.chain(places).find_map(|file| std::fs::read_to_string(file).ok())
}

/// A TCP port, or `PORT+`.
fn port(text: &str) -> Result<String, String> {
    let number = text.strip_suffix('+').unwrap_or(text);
    number.parse::<u16>().map_err(|_| format!("expects a TCP port number, not '{text}'"))?;
    Ok(text.to_owned())
}
