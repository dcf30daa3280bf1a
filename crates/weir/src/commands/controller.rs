//! `weir controller`.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use weir_controller::{Options, Restored};
use weir_io::allow_huge_pages;

use super::node::{announce, shutdown};
use super::settings::ConfigArgs;
use crate::ui::{Failure, Ui};

/// Options of `weir controller`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Where clients and nodes come, with TLS
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:7443")]
    listen: SocketAddr,
    /// Where nodes, graphs and where they are are remembered; the certificate authority is beside it. Of several controllers of one domain, etcd:
    /// etcd://HOST:PORT[,HOST:PORT…], with TLS etcds://HOST:PORT…?ca=FILE[&cert=FILE&key=FILE][&user=NAME&password=FILE]; who reads it can be the controller
    #[arg(long, value_name = "FILE|etcd[s]://…", default_value = STORE)]
    store: PathBuf,
    /// Another name of the controller, HOST or HOST:PORT, under which clients reach it (may be repeated)
    #[arg(long, value_name = "HOST")]
    hostname: Vec<String>,
    /// Make a new admin token, print it, and end; the one before is good no more. No controller may run with the store
    #[arg(long)]
    new_admin_token: bool,
    /// How long certificates of nodes hold, in seconds; nodes renew them in time
    #[arg(long, value_name = "SECONDS", default_value_t = 30 * 86_400, value_parser = clap::value_parser!(u64).range(10..=315_360_000))]
    certificates: u64,
    /// Encrypt the tunnels of graphs that span nodes (VXLAN inside of WireGuard); nodes have the keys. Holds for graphs that are applied from
    /// now on
    #[arg(long)]
    encrypt: bool,
    /// What becomes of graphs whose documents do not say it (placement: {when-lost: …}) when a node of theirs is lost: keep waits until the node is
    /// back, move places what was there anew on other nodes
    #[arg(long, value_name = "WHAT", default_value = "keep")]
    when_lost: WhenLost,
    /// How many revisions of each graph are kept, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    revisions: u32,
    /// What those may have who ask for processing (weir request): topology, platforms and their access points. Without it nobody may ask
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
}

/// The policy for graphs of a node that is lost.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum WhenLost {
    /// They wait until it is back
    Keep,
    /// What was there is placed anew
    Move,
}

/// Further operations on a controller's store.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write the store and the certificate authority to one file, also while the controller runs; keep it as you keep keys
    Backup(Copy),
    /// Put a backup in the store's place; no controller may run with it. The store that was there is kept beside it, or one in etcd as a backup beside FILE
    Restore(Copy),
}

/// A backup and a store.
#[derive(Debug, clap::Args)]
struct Copy {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The controller's store
    #[arg(long, value_name = "FILE|etcd[s]://…", default_value = STORE)]
    store: PathBuf,
}

const STORE: &str = "/var/lib/weir/controller.db";

fn make_folder_of(store: &Path) -> Result<(), Failure> {
    if weir_controller::etcd(store).is_some() {
        return Ok(());
    }
    let Some(directory) = store.parent().filter(|d| !d.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))
        .map_err(Failure::Unreachable)
}

fn back_up(Copy { file, store }: &Copy, ui: &Ui) -> Result<(), Failure> {
    let pin = weir_controller::back_up(store, file).map_err(|e| Failure::Other(e.into()))?;
    let text = || {
        format!("{} is a backup of the controller {pin}; who has it can be that controller\n", file.display())
    };
    Ok(ui.print(&serde_json::json!({ "file": file, "pin": pin.to_string() }), text)?)
}

fn restore(Copy { file, store }: &Copy, ui: &Ui) -> Result<(), Failure> {
    make_folder_of(store)?;
    let Restored { pin, kept } =
        weir_controller::restore(file, store).map_err(|e| Failure::Other(e.into()))?;
    let was = kept.as_ref().map_or(String::new(), |k| format!("; the one of before is {}", k.display()));
    let text = || format!("{} is the store of the controller {pin} again{was}\n", store.display());
    Ok(ui.print(&serde_json::json!({ "store": store, "pin": pin.to_string(), "kept": kept }), text)?)
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    match &args.action {
        Some(Action::Backup(copy)) => return back_up(copy, ui),
        Some(Action::Restore(copy)) => return restore(copy, ui),
        None if args.config.checked(*ui)? => return Ok(()),
        None => make_folder_of(&args.store)?,
    }
    // It has many threads that keep little.
    allow_huge_pages(false);
    let filter = tracing_subscriber::EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_| "info".into());
    let colour = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(std::io::stderr).init();
    if args.new_admin_token {
        let token = weir_controller::new_admin_token(&args.store).map_err(|e| Failure::Other(e.into()))?;
        return Ok(
            ui.print(&serde_json::json!({ "token": token.reveal() }), || format!("{}\n", token.reveal()))?
        );
    }
    let Args { listen, store, certificates, hostname: hostnames, encrypt, revisions, requests, .. } = args;
    let when_lost = match args.when_lost {
        WhenLost::Keep => weir_model::graph::WhenLost::Keep,
        WhenLost::Move => weir_model::graph::WhenLost::Move,
    };
    ui.progress(&format!("REST on https://{listen}; Ctrl-C ends the controller, not the nodes"));
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let options = Options {
        announce,
        hostnames,
        listen,
        store,
        certificates: Duration::from_secs(certificates),
        encrypt,
        when_lost,
        revisions,
        requests,
    };
    runtime.block_on(weir_controller::run(options, shutdown())).map_err(|e| Failure::Other(e.into()))
}
