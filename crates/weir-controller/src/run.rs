//! The controller from start to end.

use std::fs::{File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use weir_api::problem::Problem;
use weir_auth::secret::Secret;
use weir_model::graph::WhenLost;
use weir_rest::listen::{Entrance, serve};
use weir_rest::login::{Login, Names, NoToken, certificate_names};
use weir_rest::{history, to_the_end};
use weir_store::StoreError;
use weir_store::etcd::{NoAddress, NoAnswer, is_etcd};
use weir_tls::{Pin, TlsError, files, server};

use crate::attend::attend;
use crate::controller::{Controller, Settings};
use crate::requests::offer::{Offer, OfferError};
use crate::rest::router;
use crate::several::log::LogError;
use crate::store::Store;

/// How the controller runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where clients and nodes come.
    pub listen: SocketAddr,
    /// The store's file. The certificate authority is beside it, in a folder with the extension `authority`. Or `etcd://HOST:PORT`, with more members behind
    /// commas, for several controllers.
    pub store: PathBuf,
    /// Gets the admin token, at the first start and never again.
    pub announce: fn(&Secret),
    /// `HOST` or `HOST:PORT`: under what else than its addresses it is reached.
    pub hostnames: Vec<String>,
    /// How long certificates of nodes hold.
    pub certificates: Duration,
    /// Whether tunnels between nodes are encrypted.
    pub encrypt: bool,
    /// What becomes of graphs that do not say it when a node of theirs is lost.
    pub when_lost: WhenLost,
    /// How many revisions of each graph are kept.
    pub revisions: u32,
    /// What those who ask for processing may have; without it nobody may ask.
    pub requests: Option<PathBuf>,
}

/// The controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}; is another controller running? choose another address with --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Another controller has the store.
    #[error("another controller runs with the store {}; choose another one with --store", .0.display())]
    Running(PathBuf),
    /// The lock beside the store cannot be had.
    #[error("cannot lock {}", .path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no authority.
    #[error("there is no certificate authority in {}; a store and its authority belong together", .0.display())]
    NoAuthority(PathBuf),
    /// It is no backup.
    #[error("{} is no backup of a controller", .0.display())]
    NoBackup(PathBuf),
    /// The backup is another domain's.
    #[error("the backup is of another controller ({pin}) than the one whose authority is in {} ({own}); move that away, or choose another --store", .folder.display())]
    Another {
        /// The folder.
        folder: PathBuf,
        /// The pin of the authority there.
        own: Pin,
        /// That of the backup's.
        pin: Pin,
    },
    /// The address of etcd is none.
    #[error(transparent)]
    Address(#[from] NoAddress),
    /// etcd is silent, or refuses.
    #[error(transparent)]
    Etcd(#[from] NoAnswer),
    /// Its log cannot be read.
    #[error("{0}")]
    Log(String),
    /// No controller may lead for this.
    #[error(
        "a controller leads with the store {0}; stop all controllers first (if they were killed, wait some seconds)"
    )]
    Leads(String),
    /// There is nothing.
    #[error("there is no domain in {0}")]
    NoDomain(String),
    /// There is no place for what is needed for a moment.
    #[error("no folder for temporary files can be made (TMPDIR says where): {0}")]
    Folder(std::io::Error),
    /// Something ended before its end.
    #[error("{0}")]
    Ended(String),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Keys and certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What is offered to those who ask for processing.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// There is no admin token.
    #[error(transparent)]
    Token(#[from] NoToken),
}

impl From<LogError> for ControllerError {
    fn from(e: LogError) -> ControllerError {
        ControllerError::Log(e.to_string())
    }
}

/// The address of etcd, if the store is there.
pub fn etcd(store: &Path) -> Option<&str> {
    store.to_str().filter(|s| is_etcd(s))
}

/// How a controller works by its options.
pub(crate) fn settings(options: &Options, offer: Option<Arc<Offer>>) -> Settings {
    let Options { certificates, encrypt: encrypts, when_lost, .. } = *options;
    Settings { certificates, encrypts, when_lost, offer }
}

/// Runs the controller until `shutdown` is done.
///
/// # Errors
/// It cannot start.
pub async fn run(options: Options, shutdown: impl Future<Output = ()> + Send) -> Result<(), ControllerError> {
    if let Some(address) = etcd(&options.store).map(str::to_owned) {
        return crate::several::run(options, &address, shutdown).await;
    }
    let address = options.listen;
    let offer = options.requests.as_deref().map(Offer::load).transpose()?.map(Arc::new);
    let _lock = lock(&options.store)?;
    let listener =
        TcpListener::bind(address).await.map_err(|source| ControllerError::Listen { address, source })?;
    let authority =
        Arc::new(files::authority(&options.store.with_extension("authority"), "weir controller")?);
    let address = listener.local_addr().unwrap_or(address);
    let names = certificate_names(address, &options.hostnames);
    let tls = Arc::new(server::config(authority.clone(), names)?);
    let store = Arc::new(Store::open(&options.store)?);
    store.database().set_revisions(options.revisions);
    let names = Names { listen: vec![address], others: options.hostnames.clone() };
    let login = Login::on(store.database().clone(), names)?;
    if login.is_new() {
        (options.announce)(&login.new_admin_token()?);
    }
    let controller = Controller::new(store, login, authority.clone(), settings(&options, offer))?;
    tracing::info!(%address, pin = %authority.pin(), nodes = controller.view().members.len(), "the controller listens");
    let (nodes, dialled) = mpsc::channel(64);
    let attending = tokio::spawn(attend(controller.clone(), dialled));
    let going_back = tokio::spawn(go_back(controller.clone()));
    let ending = tokio::spawn(end_requests(controller.clone()));
    let publishing = tokio::spawn(publish_names(controller.clone()));
    let replacing = tokio::spawn(replace_lost(controller.clone()));
    let entrance = Entrance { tls: Some(tls), nodes: Some(nodes) };
    serve(listener, entrance, router(controller), shutdown).await;
    attending.abort();
    going_back.abort();
    ending.abort();
    publishing.abort();
    replacing.abort();
    Ok(())
}

/// How often modules are asked what they took, in seconds.
const ACCOUNTING: u64 = 5;

/// Ends requests whose time is over, keeps accounts, and reads what is offered again when it changes.
pub(crate) async fn end_requests(controller: Arc<Controller>) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    for passed in 0_u64.. {
        second.tick().await;
        let controller = controller.clone();
        let ended = to_the_end(async move {
            controller.renew_offer().await;
            controller.end_requests().await;
            if passed % ACCOUNTING == 0 {
                controller.account(None).await;
            }
            Ok::<_, Problem>(())
        });
        if let Err(e) = ended.await {
            tracing::error!("requests that are over: {e}");
        }
    }
}

/// Has the names of modules at the DNS server as they should be.
pub(crate) async fn publish_names(controller: Arc<Controller>) {
    let mut often = tokio::time::interval(Duration::from_millis(200));
    often.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        often.tick().await;
        controller.publish_names().await;
    }
}

/// Places graphs anew whose nodes are lost.
pub(crate) async fn replace_lost(controller: Arc<Controller>) {
    let mut often = tokio::time::interval(Duration::from_millis(200));
    often.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        often.tick().await;
        let controller = controller.clone();
        let replaced = to_the_end(async move {
            controller.replace_lost(Instant::now()).await;
            Ok::<_, Problem>(())
        });
        if let Err(e) = replaced.await {
            tracing::error!("graphs of lost nodes: {e}");
        }
    }
}

/// Makes graphs go back that nobody confirms.
pub(crate) async fn go_back(controller: Arc<Controller>) {
    let (store, changing) = (controller.store.database().clone(), controller.clone());
    let go_back = |graph: String, revision| {
        let controller = changing.clone();
        to_the_end(async move { controller.go_back(&graph, revision).await })
    };
    history::watch(store, &controller.unconfirmed, go_back).await;
}

/// Makes a new admin token for the controller of a store, which no controller may have at the time.
///
/// # Errors
/// The store cannot be had, or there are no random numbers.
pub fn new_admin_token(store: &Path) -> Result<Secret, ControllerError> {
    if let Some(address) = etcd(store) {
        return crate::several::new_admin_token(address);
    }
    let _lock = lock(store)?;
    let store = Store::open(store)?;
    Ok(Login::off(store.database().clone())?.new_admin_token()?)
}

/// Makes sure that no other controller has the store. The lock ends with the process, however it ends.
pub(crate) fn lock(store: &Path) -> Result<File, ControllerError> {
    let path = store.with_extension("lock");
    let failed = |source| ControllerError::Lock { path: path.clone(), source };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ControllerError::Running(store.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}
