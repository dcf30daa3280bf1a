//! The daemon from start to end.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::compute::container::Container;
use crate::compute::dpdk::Dpdk;
use crate::compute::hosted::Hosted;
use crate::compute::native::Native;
use crate::compute::process::Process;
use crate::compute::sockets::Sockets;
use crate::compute::vm::Vm;
use crate::compute::{Drivers, Notice, NoticeKind};
use crate::domain;
use crate::engine::{Engine, EngineEvent, EnginePlace};
use crate::join::{Join, JoinError, Member};
use crate::monitoring;
use crate::neighbours;
use crate::node::Node;
use crate::queries;
use crate::resources::Resources;
use crate::rest::router;
use crate::store::Store;
use crate::suspend;
use crate::tunnels;
use weir_api::events::Kind;
use weir_auth::secret::Secret;
use weir_io::wireguard;
use weir_net::WireGuardKey;
use weir_oci::Registries;
use weir_protocol::ports_folder;
use weir_rest::listen::{self, Entrance, ServerConfig};
use weir_rest::login::{Login, Names, NoToken, certificate_names};
use weir_rest::{history, to_the_end};
use weir_store::StoreError;
use weir_tls::{TlsError, files, server};

/// How often what failed is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// The same while the data plane is not in the desired state.
const SOON: Duration = Duration::from_secs(2);

/// How the daemon runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where REST listens.
    pub listen: SocketAddr,
    /// Who may use REST; without it everyone may who reaches it.
    pub login: Option<LoginOptions>,
    /// Whether REST is served with TLS, by an authority of the node's own beside the store.
    pub tls: bool,
    /// `HOST` or `HOST:PORT`: under what else than its addresses the node is reached.
    pub hostnames: Vec<String>,
    /// The control socket of the data-plane process. Its log is beside it, with the extension `log`.
    pub socket: PathBuf,
    /// The store's file.
    pub store: PathBuf,
    /// Directories of images.
    pub images: Vec<PathBuf>,
    /// Program and arguments that start the data plane listening on `socket`; empty: it is never started from here.
    pub engine_command: Vec<OsString>,
    /// Program and arguments that lead to [`Launch::exec`](crate::compute::launch::Launch::exec), without the last one.
    pub launcher: Vec<OsString>,
    /// The command line of the process that workers of functions are copies of.
    pub zygote: Vec<OsString>,
    /// Registries of container images, `HOST:PORT`, that are spoken to without TLS.
    pub insecure_registries: Vec<String>,
    /// Whether the data plane and all functions end with the daemon. Otherwise packets go on.
    pub stop_engine: bool,
    /// Whether a data plane of another program that runs already is replaced by one that `engine_command` starts, which goes on with all that it has.
    pub upgrade: bool,
    /// Workers of the data plane.
    pub workers: usize,
    /// Most bytes that the tables and waiting packets of each graph may take.
    pub graph_memory: u64,
    /// What all graphs may come to take.
    pub resources: Resources,
    /// Whether they may come to take more.
    pub overcommit: bool,
    /// Where the node is, for graphs that ask for it.
    pub region: Option<String>,
    /// Whether it sends probes by which links between the nodes of a domain are found.
    pub probes: bool,
    /// How many revisions of each graph are kept.
    pub revisions: u32,
    /// The controller that the node is joined to.
    pub join: Option<Join>,
}

/// How a login is asked for.
#[derive(Debug, Clone)]
pub struct LoginOptions {
    /// Gets the admin token, at the first start and never again.
    pub announce: fn(&Secret),
}

/// Makes a new admin token for the node of a store, which no daemon may have at the time.
///
/// # Errors
/// The store cannot be had, or there are no random numbers.
pub fn new_admin_token(store: &Path) -> Result<Secret, NodeError> {
    let store = Store::open(store)?;
    Ok(Login::off(store.database().clone())?.new_admin_token()?)
}

/// The daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; is another daemon running? choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Another daemon has the data plane.
    #[error(
        "another node daemon{} drives the data plane at {}; stop it first, or choose another socket with --socket and another store with --store", .process.map_or(String::new(), |p| format!(" (process {p})")), .socket.display()
    )]
    Running {
        /// The socket of the data plane.
        socket: PathBuf,
        /// The process of the daemon.
        process: Option<u32>,
    },
    /// The lock beside the socket cannot be had.
    #[error("cannot lock {}", .path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot join its controller.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Its key of encrypted tunnels cannot be had.
    #[error("cannot have the key of encrypted tunnels, {}", .path.display())]
    Key {
        /// The file of the key, or the folder where the data plane finds it.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A folder cannot be made.
    #[error("cannot make the folder {}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its certificates cannot be read or written.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is no admin token.
    #[error(transparent)]
    Token(#[from] NoToken),
}

/// Runs the daemon until `shutdown` is done.
///
/// # Errors
/// It cannot start; once it runs, it goes on whatever happens to the data plane.
pub async fn run(options: Options, shutdown: impl Future<Output = ()> + Send) -> Result<(), NodeError> {
    let address = options.listen;
    let listener =
        TcpListener::bind(address).await.map_err(|source| NodeError::Listen { address, source })?;
    serve(options, listener, shutdown).await
}

/// As [`run`], on a listener that stands already (of which `options.listen` need not tell the truth).
///
/// # Errors
/// As [`run`].
pub async fn serve(
    options: Options,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), NodeError> {
    let _lock = lock(&options.socket)?;
    let address = listener.local_addr().unwrap_or(options.listen);
    let tls = match options.tls {
        true => Some(Arc::new(tls(&options, address)?)),
        false => None,
    };
    let store = Arc::new(Store::open(&options.store)?);
    store.database().set_revisions(options.revisions);
    let (events, from_engine) = mpsc::channel(1024);
    let sockets = Sockets(ports_folder(&options.socket));
    let tunnel_key = tunnel_key(&options.store, &sockets.0)?;
    let place = EnginePlace { socket: options.socket, command: options.engine_command };
    let (notices, mut noticed) = mpsc::unbounded_channel();
    let functions = options.store.with_extension("functions");
    let functions = std::path::absolute(&functions).unwrap_or(functions);
    let containers = Arc::new(Container::store(&functions, Registries::new(options.insecure_registries)));
    let native = Native::new(functions.clone(), options.launcher.clone());
    let container = Container::new(&functions, containers.clone());
    let process = Process::new(sockets.clone(), options.zygote);
    let dpdk = Dpdk::new(sockets.clone(), options.launcher.clone());
    let archives = options.store.with_extension("images");
    let added = options.store.with_extension("added-images");
    std::fs::create_dir_all(&added).map_err(|source| NodeError::Folder { path: added.clone(), source })?;
    let vm = Vm::new(functions.clone(), sockets, options.launcher);
    let drivers = Drivers::default()
        .with(Hosted::new(functions.clone(), process, notices.clone()))
        .with(Hosted::new(functions.clone(), dpdk, notices.clone()))
        .with(Hosted::new(functions.clone(), vm, notices.clone()))
        .with(Hosted::new(functions.clone(), native, notices.clone()))
        .with(Hosted::new(functions, container, notices));
    let login = match options.login {
        None => Login::off(store.database().clone())?,
        Some(LoginOptions { announce }) => {
            let names = Names { listen: vec![address], others: options.hostnames.clone() };
            let login = Login::on(store.database().clone(), names)?;
            if login.is_new() {
                announce(&login.new_admin_token()?);
            }
            login
        }
    };
    // Before the data plane is started: a node that cannot join leaves none behind.
    let member = match options.join.clone() {
        Some(join) => Some(Member::new(join).await?),
        None => None,
    };
    for folder in options.images.iter().filter(|folder| !folder.is_dir()) {
        tracing::warn!("there is no folder {} to take images from", folder.display());
    }
    let node = Node::new(Engine::supervise(place, events), store, options.images)?.with_login(login);
    let node = node
        .with_resources(options.resources, options.overcommit)
        .with_region(options.region)
        .with_archives(archives)
        .with_added_images(added)
        .with_wireguard(tunnel_key)
        .with_workers(options.workers);
    let node = node.with_memory(options.graph_memory).with_drivers(drivers).with_containers(containers);
    let node = node.shared();
    tracing::info!(%address, graphs = node.view().graphs.len(), "the node listens");
    if !address.ip().is_loopback() && !node.login.is_required() {
        tracing::warn!("REST has no login: all who reach {address} control this node");
    }
    if !address.ip().is_loopback() && !options.tls {
        tracing::warn!("REST has no TLS: all on the path to {address} read what is said, and can change it");
    }
    let wake = Arc::new(Notify::new());
    let (first_packets, said) = mpsc::unbounded_channel();
    let listening = tokio::spawn(listen(node.clone(), from_engine, wake.clone(), first_packets));
    let starting = tokio::spawn(suspend::start_on_packets(node.clone(), said));
    let suspending = tokio::spawn(suspend::suspend_idle(node.clone()));
    let functions = node.clone();
    let listening_to_functions = tokio::spawn(async move {
        while let Some(notice) = noticed.recv().await {
            tell(&functions, notice).await;
        }
    });
    let maintaining = tokio::spawn(maintain(node.clone(), wake));
    let bringing_up = tokio::spawn(bring_up(node.clone()));
    let describing = tokio::spawn(domain::watch(node.clone()));
    let watching_tunnels = tokio::spawn(tunnels::watch(node.clone()));
    let going_back = tokio::spawn(go_back(node.clone()));
    let querying = tokio::spawn(queries::watch(node.clone()));
    let monitoring = tokio::spawn(monitoring::watch(node.clone()));
    let sampling = tokio::spawn(monitoring::sample(node.clone()));

    if options.upgrade {
        let node = node.clone();
        tokio::spawn(async move { node.upgrade_when_settled().await });
    }
    // Who has no controller has nobody who asks for links.
    let probing = (options.probes && member.is_some()).then(|| tokio::spawn(neighbours::watch(node.clone())));

    let router = router(node.clone());
    let joined = member.map(|m| tokio::spawn(m.run(node.clone(), router.clone())));
    listen::serve(listener, Entrance { tls, nodes: None }, router, shutdown).await;
    if let Some(joined) = joined {
        joined.abort();
    }
    if let Some(probing) = probing {
        probing.abort();
    }
    maintaining.abort();
    bringing_up.abort();
    describing.abort();
    watching_tunnels.abort();
    going_back.abort();
    querying.abort();
    monitoring.abort();
    sampling.abort();
    starting.abort();
    suspending.abort();
    node.quiesce().await;
    listening.abort();
    listening_to_functions.abort();
    if options.stop_engine {
        if let Err(e) = node.plane.stop().await {
            tracing::warn!("the data plane was not stopped: {e}");
        }
        // Without packets there is nothing for them to do.
        node.end_functions().await;
    }
    Ok(())
}

/// The node's key of encrypted tunnels, which is made at the first start; the data plane finds it in the folder of its ports.
fn tunnel_key(store: &Path, ports: &Path) -> Result<WireGuardKey, NodeError> {
    let file = store.with_extension("wireguard.key");
    let key = wireguard::identity(&file).map_err(|source| NodeError::Key { path: file.clone(), source })?;
    let failed = |source| NodeError::Key { path: ports.to_owned(), source };
    let link = ports.join(wireguard::KEY_FILE);
    let file = std::path::absolute(&file).map_err(failed)?;
    std::fs::create_dir_all(ports).map_err(failed)?;
    if std::fs::read_link(&link).ok().as_ref() != Some(&file) {
        _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&file, &link).map_err(failed)?;
    }
    Ok(key)
}

/// TLS by the node's own authority.
fn tls(options: &Options, address: SocketAddr) -> Result<ServerConfig, TlsError> {
    let authority = files::authority(&options.store.with_extension("authority"), "weir node")?;
    tracing::info!("the node's certificate has the fingerprint {}", authority.pin());
    server::config(Arc::new(authority), certificate_names(address, &options.hostnames))
}

/// Makes sure that no other daemon drives the same data plane: two would take each other's graphs away. The lock ends with
/// the process, however it ends.
fn lock(socket: &Path) -> Result<File, NodeError> {
    let mut name = socket.as_os_str().to_owned();
    name.push(".node");
    let path = PathBuf::from(name);
    let failed = |source| NodeError::Lock { path: path.clone(), source };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let process = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
            return Err(NodeError::Running { socket: socket.to_owned(), process });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
    Ok(file)
}

/// Tells what a driver tells.
async fn tell(node: &Node<Engine>, notice: Notice) {
    let Notice { id, what, text } = notice;
    let kind = match what {
        NoticeKind::Died => Kind::FunctionDown,
        NoticeKind::Hung => Kind::FunctionHung,
        NoticeKind::Restarted => Kind::FunctionUp,
    };
    node.events.publish(kind, Some(&id.graph), format!("function {}: {text}", id.function)).await;
}

/// Turns notices of the data plane into events.
async fn listen(
    node: Arc<Node<Engine>>,
    mut events: mpsc::Receiver<EngineEvent>,
    wake: Arc<Notify>,
    first_packets: mpsc::UnboundedSender<String>,
) {
    while let Some(event) = events.recv().await {
        match event {
            EngineEvent::Up { pid } => {
                node.events.publish(Kind::EngineUp, None, format!("the data plane is process {pid}")).await;
                wake.notify_one();
            }
            EngineEvent::Down(trouble) => {
                node.unsettle();
                node.events.publish(Kind::EngineDown, None, format!("no data plane: {trouble}")).await;
            }
            EngineEvent::Notice { graph, what, text } => {
                if what == "first-packet" {
                    _ = graph.map(|graph| first_packets.send(graph));
                    continue;
                }
                let kind = match what.as_str() {
                    // Those were asked for, and have events of their own.
                    "loaded" | "swapped" | "unloaded" => continue,
                    "device-up" => Kind::DeviceUp,
                    "device-down" => Kind::DeviceDown,
                    "print" => Kind::Print,
                    _ => Kind::Notice,
                };
                if matches!(kind, Kind::DeviceUp | Kind::DeviceDown) {
                    // The states of graphs follow.
                    wake.notify_one();
                }
                let text = match kind {
                    Kind::DeviceUp | Kind::DeviceDown => {
                        node.in_words(graph.as_deref(), kind == Kind::DeviceUp, text)
                    }
                    _ => text,
                };
                node.events.publish(kind, graph.as_deref(), text).await;
            }
        }
    }
}

/// Makes graphs go back that nobody confirms.
async fn go_back(node: Arc<Node<Engine>>) {
    let (store, changing) = (node.store.database().clone(), node.clone());
    let go_back = |graph: String, revision| {
        let node = changing.clone();
        to_the_end(async move { node.go_back(&graph, revision).await })
    };
    history::watch(store, &node.unconfirmed, go_back).await;
}

/// Brings up graphs that take their time, each by itself.
async fn bring_up(node: Arc<Node<Engine>>) {
    loop {
        node.unstarted.notified().await;
        for id in node.starting() {
            let node = node.clone();
            tokio::spawn(async move {
                if let Err(e) = node.bring_up(&id).await {
                    tracing::warn!("graph {id} is not in its desired state yet: {e}");
                }
            });
        }
    }
}

/// Keeps the data plane in the desired state.
async fn maintain(node: Arc<Node<Engine>>, wake: Arc<Notify>) {
    loop {
        let pause = if node.view().settled { RETRY } else { SOON };
        _ = timeout(pause, wake.notified()).await;
        if node.plane.trouble().is_none()
            && let Err(e) = node.converge().await
        {
            tracing::warn!("not in the desired state yet: {e}");
        }
    }
}
