//! The controller from start to end.

use std::fs::{File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use weir_rest::listen::{Entrance, serve};
use weir_store::StoreError;
use weir_tls::{TlsError, files, server};

use crate::attend::attend;
use crate::controller::Controller;
use crate::rest::router;
use crate::store::Store;

/// How the controller runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where clients and nodes come.
    pub listen: SocketAddr,
    /// The store's file. The certificate authority is beside it, in a folder with the extension `authority`.
    pub store: PathBuf,
    /// How long certificates of nodes hold.
    pub certificates: Duration,
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
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Keys and certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Runs the controller until `shutdown` is done.
///
/// # Errors
/// It cannot start.
pub async fn run(options: Options, shutdown: impl Future<Output = ()> + Send) -> Result<(), ControllerError> {
    let address = options.listen;
    let _lock = lock(&options)?;
    let listener =
        TcpListener::bind(address).await.map_err(|source| ControllerError::Listen { address, source })?;
    let authority =
        Arc::new(files::authority(&options.store.with_extension("authority"), "weir controller")?);
    let names = [address.ip().to_string(), "localhost".to_owned()];
    let tls = Arc::new(server::config(authority.clone(), names.to_vec())?);
    let store = Arc::new(Store::open(&options.store)?);
    let controller = Arc::new(Controller::new(store, authority.clone(), options.certificates)?);
    tracing::info!(%address, pin = %authority.pin(), nodes = controller.view().members.len(), "the controller listens");
    let (nodes, dialled) = mpsc::channel(64);
    let attending = tokio::spawn(attend(controller.clone(), dialled));
    let entrance = Entrance { tls: Some(tls), nodes: Some(nodes) };
    serve(listener, entrance, router(controller), shutdown).await;
    attending.abort();
    Ok(())
}

/// Makes sure that no other controller has the store. The lock ends with the process, however it ends.
fn lock(options: &Options) -> Result<File, ControllerError> {
    let path = options.store.with_extension("lock");
    let failed = |source| ControllerError::Lock { path: path.clone(), source };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ControllerError::Running(options.store.clone())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}
