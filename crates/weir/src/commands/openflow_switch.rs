//! `weir openflow-switch`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_openflow_switch::{Fail, Options, Target, TlsFiles};

use crate::ui::Failure;

/// Options of `weir openflow-switch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An interface that is a port; the first one is port 1
    #[arg(long = "port", value_name = "INTERFACE")]
    ports: Vec<String>,
    /// Where controllers are: tcp:ADDRESS[:PORT], tls:ADDRESS[:PORT], or where one is waited for: ptcp:[PORT][:ADDRESS],
    /// ptls:[PORT][:ADDRESS], punix:FILE; several with blanks between, or several times
    #[arg(long = "controller", value_name = "TARGET", value_delimiter = ' ')]
    controllers: Vec<String>,
    /// What it does while no controller is there: go on by its rules (secure), or forward as a learning switch (standalone)
    #[arg(long, value_enum, default_value = "secure")]
    fail: FailMode,
    /// Seconds without a controller before that
    #[arg(long, value_name = "SECONDS", default_value = "15")]
    patience: u32,
    /// Its number (datapath identifier), in hexadecimal digits; without it, the address of its first port
    #[arg(long, value_name = "NUMBER")]
    datapath: Option<String>,
    /// What people call it
    #[arg(long, default_value = "weir")]
    name: String,
    /// How many tables it has
    #[arg(long, default_value = "64", value_parser = clap::value_parser!(u8).range(1..=254))]
    tables: u8,
    /// The network namespace in which controllers are, a file; without it, that of the ports
    #[arg(long, value_name = "FILE")]
    control_netns: Option<PathBuf>,
    /// A file in which it says how its controllers are
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Its certificate in PEM form, for controllers that are reached by TLS
    #[arg(long, value_name = "FILE", requires = "key", requires = "authority")]
    certificate: Option<PathBuf>,
    /// The private key of the certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Certificates of the authorities that controllers have theirs from
    #[arg(long, value_name = "FILE", requires = "certificate")]
    authority: Option<PathBuf>,
    /// Check the options, and do nothing
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FailMode {
    Secure,
    Standalone,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let check = args.check;
    let options = options(args)?;
    if check {
        return Ok(());
    }
    let end = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, end.clone()).context("cannot catch signals")?;
    }
    weir_openflow_switch::run(&options, &end).context("the switch does not run")?;
    Ok(())
}

fn options(args: Args) -> Result<Options, Failure> {
    let targets = args.controllers.iter().filter(|t| !t.is_empty()).map(|t| t.parse::<Target>());
    let targets = targets.collect::<Result<Vec<_>, _>>().map_err(anyhow::Error::from)?;
    let datapath = match args.datapath.as_deref().filter(|d| !d.is_empty()) {
        Some(text) => {
            let digits = text.trim_start_matches("0x");
            let number = u64::from_str_radix(digits, 16);
            Some(number.with_context(|| {
                format!("'{text}' is no datapath identifier: up to 16 hexadecimal digits")
            })?)
        }
        None => None,
    };
    let tls = match (args.certificate, args.key, args.authority) {
        (Some(certificate), Some(key), Some(authority)) => Some(TlsFiles { certificate, key, authority }),
        _ => None,
    };
    if let Some(target) = targets.iter().find(|t| t.is_tls() && tls.is_none()) {
        return Err(
            anyhow::anyhow!("{target} needs certificates: --certificate, --key and --authority").into()
        );
    }
    Ok(Options {
        ports: args.ports,
        targets,
        fail: match args.fail {
            FailMode::Secure => Fail::Secure,
            FailMode::Standalone => Fail::Standalone,
        },
        patience: Duration::from_secs(args.patience.into()),
        datapath,
        name: args.name,
        tables: args.tables,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        control_netns: args.control_netns,
        status: args.status,
        tls,
    })
}
