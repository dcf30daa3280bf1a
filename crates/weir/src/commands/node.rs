//! `weir node` and `weir engine`.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use weir_auth::audience::of_authority;
use weir_auth::secret::Secret;
use weir_engine::{ServeError, WorkerOptions, serve};
use weir_io::allow_huge_pages;
use weir_io::interface::Method;
use weir_model::value::Id;
use weir_node::join::Join;
use weir_node::resources::Resources;
use weir_node::{LoginOptions, Options};
use weir_protocol::{Client, ClientError, Command};

use super::remote::NodeArgs;
use super::settings::ConfigArgs;
use super::{classes, describe};
use crate::ui::{Failure, Ui};

/// Options of `weir node`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Where REST listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// Ask for a login: keys, and an admin token that is printed at the first start [default: beyond loopback]
    #[arg(long, overrides_with = "no_login")]
    login: bool,
    /// Ask for no login, also beyond loopback: all who reach the address control the node
    #[arg(long)]
    no_login: bool,
    /// Serve REST with TLS [default: beyond loopback]
    #[arg(long, overrides_with = "no_tls")]
    tls: bool,
    /// Serve REST without TLS, also beyond loopback: all on the path can read and change what is said
    #[arg(long)]
    no_tls: bool,
    /// Another name of the node, HOST or HOST:PORT, under which clients reach it (may be repeated)
    #[arg(long, value_name = "HOST")]
    hostname: Vec<String>,
    /// Make a new admin token, print it, and end; the one before is good no more. No daemon may run with the store
    #[arg(long)]
    new_admin_token: bool,
    /// Control socket of the data-plane process
    #[arg(long, value_name = "PATH", default_value = "/run/weir/engine.sock")]
    socket: PathBuf,
    /// Where the desired state is kept
    #[arg(long, value_name = "PATH", default_value = "/var/lib/weir/store.db")]
    store: PathBuf,
    /// Directory of function images (may be repeated)
    #[arg(long, value_name = "DIR", default_value = "images")]
    images: Vec<PathBuf>,
    /// How packets pass between interfaces and the data plane: auto, packet or xdp
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    io: Method,
    /// Wait awake for the next packet for so many microseconds, where packets come more often than that: it takes a processor while there
    /// is traffic, and a packet less time. 0: never [default: a moment that costs no processor]
    #[arg(long, value_name = "MICROS", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    busy_poll: Option<u32>,
    /// Workers of the data plane: threads that share the traffic by flow
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = workers)]
    workers: usize,
    /// End the data plane and all functions with the daemon; otherwise packets go on
    #[arg(long)]
    stop_engine: bool,
    /// Replace a data plane of another program that runs already: one of this program goes on with its graphs, their state and its ports
    #[arg(long)]
    upgrade: bool,
    /// Most memory that tables and waiting packets of one graph may take, in MB
    #[arg(long, value_name = "MB", default_value_t = 1024)]
    graph_memory: u32,
    /// Memory that all graphs together may come to take, in MB [default: that of the machine]
    #[arg(long, value_name = "MB")]
    memory: Option<u32>,
    /// Processors that all graphs together may come to take, such as 1.5 [default: those of the machine]
    #[arg(long, value_name = "N", value_parser = processors)]
    cpus: Option<u64>,
    /// Take graphs that may come to take more memory or processor time than there is
    #[arg(long)]
    overcommit: bool,
    /// Where the node is, such as a site: graphs of a domain may ask for it (placement: {region: …})
    #[arg(long, value_name = "NAME", value_parser = super::link::value::<Id>)]
    region: Option<Id>,
    /// Send no probes (LLDP) by which links between the nodes of a domain are found
    #[arg(long)]
    no_probes: bool,
    /// How many revisions of each graph are kept, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    revisions: u32,
    /// Join the domain of this controller, and take graphs from it; of several controllers of one domain all are named: URL,URL
    #[arg(long, value_name = "URL")]
    join: Option<String>,
    /// What 'weir token' printed at the controller: for the first time that this node joins
    #[arg(long, value_name = "TOKEN", requires = "join", env = "WEIR_JOIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The node's name in the domain [default: the one that it has, or this machine's]
    #[arg(long, value_name = "NAME", requires = "join")]
    name: Option<String>,
    /// Print what the node that runs is to others: its end points, what functions it can run, and its resources
    #[arg(long)]
    describe: bool,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    #[command(flatten)]
    node: NodeArgs,
    /// Registry of container images, HOST:PORT, that is spoken to without TLS (may be repeated); those on this machine always are
    #[arg(long, value_name = "HOST:PORT")]
    insecure_registry: Vec<String>,
}

/// Options of `weir engine`.
#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// Control socket
    #[arg(long, value_name = "PATH", default_value = "/run/weir/engine.sock")]
    socket: PathBuf,
    /// Bind the worker to this core, and further ones to those behind it
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// Workers: threads that share the traffic by flow
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = workers)]
    workers: usize,
    /// How packets pass between interfaces and this process: auto, packet or xdp
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    io: Method,
    /// Wait awake for the next packet for so many microseconds, where packets come more often than that; 0: never
    #[arg(long, value_name = "MICROS", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    busy_poll: Option<u32>,
    /// Stop the data plane that serves on the socket
    #[arg(long)]
    stop: bool,
    /// Take the place of the data plane that serves on this socket, as soon as it gives it
    #[arg(long, value_name = "PATH", hide = true)]
    takes_over: Option<PathBuf>,
}

/// A number of workers that a machine may have.
pub(super) fn workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=256) => Ok(n),
        _ => Err("give a number from 1 to 256".to_owned()),
    }
}

/// A number of processors, in thousandths.
pub(super) fn processors(text: &str) -> Result<u64, String> {
    let number = text.parse::<f64>().ok().filter(|n| (0.01..=10_000.0).contains(n));
    number.map(|n| (n * 1000.0).round() as u64).ok_or_else(|| "give a number from 0.01 to 10000".to_owned())
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    if args.describe {
        return describe::run(&args.node.client()?, ui);
    }
    if args.new_admin_token {
        let secret = weir_node::new_admin_token(&args.store).map_err(|e| Failure::Other(e.into()))?;
        let token = secret.reveal();
        ui.print(&serde_json::json!({ "token": token }), || format!("{token}\n"))?;
        return Ok(());
    }
    let wrong = args.hostname.iter().find(|name| of_authority(name, args.listen.port()).is_none());
    if let Some(name) = wrong {
        return Err(Failure::refused(format!("--hostname {name:?}: give HOST or HOST:PORT")));
    }
    if args.config.checked(*ui)? {
        return Ok(());
    }
    // It has many threads that keep little. What it starts takes them again.
    allow_huge_pages(false);
    let beyond = !args.listen.ip().is_loopback();
    let login = !args.no_login && (args.login || beyond);
    let tls = !args.no_tls && (args.tls || beyond);
    let machine = Resources::of_machine();
    let resources = Resources {
        memory: args.memory.map_or(machine.memory, |mb| u64::from(mb) << 20),
        cpu: args.cpus.unwrap_or(machine.cpu),
    };
    for file in [&args.socket, &args.store] {
        if let Some(directory) = file.parent().filter(|d| !d.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot create {}", directory.display()))
                .map_err(Failure::Unreachable)?;
        }
    }
    let program = std::env::current_exe().context("cannot find this program")?;
    let filter = tracing_subscriber::EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_| "info".into());
    let colour = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(std::io::stderr).init();
    let join = args.join.map(|url| Join {
        url,
        token: args.token,
        name: args.name,
        machine: host_name(),
        folder: args.store.with_extension("member"),
    });
    let mut engine_command: Vec<std::ffi::OsString> = vec![
        program.clone().into(),
        "engine".into(),
        "--socket".into(),
        args.socket.clone().into(),
        "--io".into(),
        args.io.to_string().into(),
        "--workers".into(),
        args.workers.to_string().into(),
    ];
    if let Some(bound) = args.busy_poll {
        engine_command.extend(["--busy-poll".into(), bound.to_string().into()]);
    }
    let options = Options {
        join,
        listen: args.listen,
        login: login.then_some(LoginOptions { announce }),
        tls,
        hostnames: args.hostname,
        engine_command,
        launcher: vec![program.clone().into(), super::functions::EXEC.into()],
        zygote: vec![program.into(), super::functions::ZYGOTE.into()],
        socket: args.socket,
        store: args.store,
        images: args.images,
        stop_engine: args.stop_engine,
        upgrade: args.upgrade,
        workers: args.workers,
        insecure_registries: args.insecure_registry,
        resources,
        overcommit: args.overcommit,
        region: args.region.map(|r| r.to_string()),
        probes: !args.no_probes,
        graph_memory: u64::from(args.graph_memory) << 20,
        revisions: args.revisions,
    };
    let scheme = if options.tls { "https" } else { "http" };
    ui.progress(&format!(
        "REST on {scheme}://{}; Ctrl-C ends the daemon, not the data plane",
        options.listen
    ));
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let (socket, goes_on) = (options.socket.clone(), !options.stop_engine);
    runtime.block_on(weir_node::run(options, shutdown())).map_err(|e| Failure::Other(e.into()))?;
    if goes_on && Client::connect(&socket).is_ok() {
        let socket = socket.display();
        ui.note(&format!("the data plane goes on; 'weir engine --stop --socket {socket}' ends it"));
    }
    Ok(())
}

/// The name of this machine, as that of a node.
fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().to_lowercase();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// Tells the first operator how to log in.
pub(super) fn announce(secret: &Secret) {
    // Not as a line of the log: logs are kept, and read by others.
    eprintln!(
        "admin token: {}\nIt is shown this once. 'weir context add NAME URL --token TOKEN' keeps it; then add keys ('weir key add'), \
         and remove it ('weir key remove admin').",
        secret.reveal()
    );
}

/// Done at SIGINT or SIGTERM.
pub(super) async fn shutdown() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

pub(crate) fn engine(args: &EngineArgs, ui: &Ui) -> Result<(), Failure> {
    if args.stop {
        let mut client = Client::connect(&args.socket).map_err(|e| match e {
            ClientError::Connect { .. } => Failure::Unreachable(e.into()),
            e => Failure::Other(e.into()),
        })?;
        match client.call(Command::Shutdown) {
            // It may end before its answer has left.
            Ok(_) | Err(ClientError::Closed) => {}
            Err(e) => return Err(Failure::Other(e.into())),
        }
        ui.progress("the data plane stopped");
        return Ok(());
    }
    let options = WorkerOptions {
        workers: args.workers,
        core: args.core,
        method: args.io,
        busy_poll: args.busy_poll.map(|micros| Duration::from_micros(micros.into())),
        huge_pages: true,
        ..WorkerOptions::default()
    };
    serve(&args.socket, args.takes_over.as_deref(), classes(), options).map_err(|e| match e {
        ServeError::Running { .. } => Failure::refused(e.to_string()),
        e => Failure::Other(e.into()),
    })
}
