//! Several controllers of one domain. Their store is in etcd; each has a [copy](weir_store::shared) of it, and one leads, by a lease. Nodes and
//! changes go to the leader; the others pass requests on, and one of them leads when the leader is gone. For all else that is
//! as if one controller ended and started again.

mod files;
mod front;
pub(crate) mod log;
mod term;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use weir_rest::listen::{Entrance, serve};
use weir_rest::login::{Login, Names, certificate_names, own_addresses};
use weir_store::Database;
use weir_store::etcd::{Do, Etcd, If, NoAnswer, end_of};
use weir_tls::authority::Authority;
use weir_tls::server;

use self::front::{Front, Standing};
use self::log::{CONTROLLERS, LEADER, Leader, Leading, LogError, catch_up, fresh};
use self::term::{KEEP, LEASE, Term};
use crate::attend::attend;
use crate::controller::Controller;
use crate::requests::offer::Offer;
use crate::rest::router;
use crate::run::{ControllerError, Options, end_requests, go_back, publish_names, replace_lost, settings};
use crate::store::Store;

pub use self::files::{back_up, new_admin_token, restore};

/// Where controllers listen.
const PORT: u16 = 7443;
/// How often a controller looks for what the leader wrote, and whether there is one.
const LOOK: Duration = Duration::from_millis(250);
/// How often the leader looks for other names and for whether the log is long.
const CARE: Duration = Duration::from_secs(2);
/// How long until etcd is asked again that did not answer.
const AGAIN: Duration = Duration::from_millis(500);
/// How often a controller that may not begin says so.
const SAY: Duration = Duration::from_secs(10);

/// A controller, as others know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Presence {
    /// Where others reach it.
    url: String,
    /// Under which names clients do.
    names: Vec<String>,
}

/// How a controller that listens there is reached: by its first name, or else its address, or else one of the machine's.
fn presence(address: SocketAddr, hostnames: &[String]) -> Presence {
    let own = match address.ip() {
        ip if ip.is_unspecified() => own_addresses(),
        ip => vec![ip],
    };
    let with_port = |name: &String| match name.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => name.clone(),
        _ => format!("{name}:{}", address.port()),
    };
    let at = |ip: &IpAddr| SocketAddr::new(*ip, address.port()).to_string();
    let names: Vec<String> = hostnames.iter().map(with_port).chain(own.iter().map(at)).collect();
    let far = own.iter().find(|ip| !ip.is_loopback()).or(own.first()).map(at);
    let url = hostnames.first().map(with_port).or(far).unwrap_or_else(|| address.to_string());
    Presence { url: format!("https://{url}"), names }
}

/// A controller of several.
struct Several {
    etcd: Arc<Etcd>,
    options: Options,
    offer: Option<Arc<Offer>>,
    authority: Arc<Authority>,
    listen: SocketAddr,
    presence: Presence,
    front: Front,
    /// When it started: times of terms count from then.
    started: Instant,
}

/// Waits for what etcd says, where it may take its time.
async fn ask<T: Send + 'static>(
    etcd: &Arc<Etcd>,
    f: impl FnOnce(&Etcd) -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    let etcd = etcd.clone();
    spawn_blocking(move || f(&etcd)).await.unwrap_or_else(|e| Err(NoAnswer::Silent(e.to_string()).into()))
}

/// Runs a controller of several until `shutdown` is done.
pub(crate) async fn run(
    options: Options,
    address: &str,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ControllerError> {
    let etcd = Arc::new(Etcd::new(address)?);
    let offer = options.requests.as_deref().map(Offer::load).transpose()?.map(Arc::new);
    let address = options.listen;
    let listener =
        TcpListener::bind(address).await.map_err(|source| ControllerError::Listen { address, source })?;
    let address = listener.local_addr().unwrap_or(address);
    let mut shutdown = std::pin::pin!(shutdown);
    let authority = tokio::select! {
        authority = authority(&etcd) => Arc::new(authority?),
        () = &mut shutdown => return Ok(()),
    };
    let tls = server::config(authority.clone(), certificate_names(address, &options.hostnames))?;
    let front = Front::new(authority.pin());
    let presence = presence(address, &options.hostnames);
    tracing::info!(%address, pin = %authority.pin(), url = presence.url, "the controller listens");
    let (nodes, dialled) = mpsc::channel(64);
    let taking = tokio::spawn(front.clone().take(dialled));
    let several = Several {
        etcd,
        options,
        offer,
        authority,
        listen: address,
        presence,
        front: front.clone(),
        started: Instant::now(),
    };
    let standing = tokio::spawn(several.stand());
    let entrance = Entrance { tls: Some(Arc::new(tls)), nodes: Some(nodes) };
    serve(listener, entrance, front.router(), shutdown).await;
    taking.abort();
    standing.abort();
    // It revokes the lease as it ends.
    _ = standing.await;
    Ok(())
}

/// The authority that all controllers have; the first one makes it.
async fn authority(etcd: &Arc<Etcd>) -> Result<Authority, ControllerError> {
    let mut said = None::<Instant>;
    loop {
        let asked = etcd.clone();
        let got = spawn_blocking(move || files::authority(&asked)).await;
        match got.unwrap_or_else(|e| Err(ControllerError::Ended(e.to_string()))) {
            // Waiting would not help.
            Err(e @ ControllerError::Etcd(NoAnswer::Refused(_))) => return Err(e),
            Err(ControllerError::Etcd(e)) if said.is_some_and(|at| at.elapsed() < SAY) => {
                tracing::debug!("{e}");
            }
            Err(ControllerError::Etcd(e)) => {
                tracing::warn!("{e}; the controller waits for it");
                said = Some(Instant::now());
            }
            done => return done,
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Ends a lease when it is dropped, as far as etcd hears of it.
struct Lease {
    etcd: Arc<Etcd>,
    id: i64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (etcd, id) = (self.etcd.clone(), self.id);
        let ending = std::thread::spawn(move || etcd.revoke(id));
        // At most as long as a request takes: the process may end behind this.
        if let Ok(Err(e)) = ending.join() {
            tracing::debug!("the lease ends by itself: {e}");
        }
    }
}

impl Several {
    /// Has a lease, follows and leads, for ever.
    async fn stand(self) {
        loop {
            let why = self.one_lease().await;
            self.front.set(Standing::Waits);
            tracing::warn!("{why}");
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// One lease, from its beginning to its end; why it ended.
    async fn one_lease(&self) -> String {
        let asked = self.started.elapsed();
        let id = match ask(&self.etcd, |etcd| Ok(etcd.grant(LEASE)?)).await {
            Ok(id) => id,
            Err(e) => return e.to_string(),
        };
        let _lease = Lease { etcd: self.etcd.clone(), id };
        let term = Arc::new(Mutex::new(Term::new(asked, LEASE)));
        let (key, text) =
            (format!("{CONTROLLERS}{id}"), serde_json::to_string(&self.presence).unwrap_or_default());
        let known =
            ask(&self.etcd, move |etcd| Ok(etcd.transact(&[], &[Do::PutWith(&key, &text, id)])?)).await;
        if let Err(e) = known {
            return e.to_string();
        }
        tokio::select! {
            why = self.keep(id, &term) => why,
            why = self.over(&term) => why,
            why = self.follow(id, &term) => why,
        }
    }

    /// Keeps the lease until it is over there.
    async fn keep(&self, id: i64, term: &Arc<Mutex<Term>>) -> String {
        loop {
            tokio::time::sleep(KEEP).await;
            let asked = self.started.elapsed();
            match ask(&self.etcd, move |etcd| Ok(etcd.keep(id)?)).await {
                Ok(true) => term.lock().unwrap_or_else(PoisonError::into_inner).kept(asked),
                Ok(false) => return "the lease of this controller is over".into(),
                Err(e) => tracing::warn!("{e}"),
            }
        }
    }

    /// Waits until the lease is over here.
    async fn over(&self, term: &Arc<Mutex<Term>>) -> String {
        loop {
            let left = term.lock().unwrap_or_else(PoisonError::into_inner).left(self.started.elapsed());
            if left.is_zero() {
                return "etcd did not answer in time: this controller neither leads nor follows until it does".into();
            }
            tokio::time::sleep(left).await;
        }
    }

    /// Follows who leads, and leads when nobody does; why that ended.
    async fn follow(&self, lease: i64, term: &Arc<Mutex<Term>>) -> String {
        let name = self.options.store.display().to_string();
        let copy = move |etcd: &Etcd| fresh(etcd, &name);
        let mut db = loop {
            match ask(&self.etcd, copy.clone()).await {
                Ok(db) => break db,
                Err(e) => tracing::warn!("{e}"),
            }
            tokio::time::sleep(AGAIN).await;
        };
        let me = serde_json::to_string(&Leader { lease, url: Some(self.presence.url.clone()) })
            .unwrap_or_default();
        loop {
            let (own, of_copy) = (me.clone(), db.clone());
            let looked = ask(&self.etcd, move |etcd| {
                catch_up(etcd, &of_copy)?;
                if let Some(entry) = etcd.get(LEADER)? {
                    return Ok(Some(entry));
                }
                etcd.transact(&[If::Created(LEADER, 0)], &[Do::PutWith(LEADER, &own, lease)])?;
                Ok(etcd.get(LEADER)?)
            });
            match looked.await {
                Ok(Some(entry)) if entry.value == me => {
                    return self.lead(db, lease, entry.created, term).await;
                }
                Ok(Some(entry)) => {
                    let leader: Option<Leader> = serde_json::from_str(&entry.value).ok();
                    let url = leader.and_then(|l| l.url);
                    self.front.set(url.map_or(Standing::Waits, Standing::Follows));
                }
                Ok(None) => self.front.set(Standing::Waits),
                Err(LogError::Etcd(e)) => tracing::warn!("{e}"),
                Err(e) => {
                    tracing::info!("{e}: the copy of the store is made anew");
                    match ask(&self.etcd, copy.clone()).await {
                        Ok(new) => db = new,
                        Err(e) => tracing::warn!("{e}"),
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Leads until that is over; why.
    async fn lead(&self, db: Arc<Database>, lease: i64, revision: u64, term: &Arc<Mutex<Term>>) -> String {
        let log = Arc::new(Leading::new(self.etcd.clone(), lease, revision, term.clone(), self.started));
        // What was written before this one led; nobody else writes any more.
        let copy = db.clone();
        if let Err(e) = ask(&self.etcd, move |etcd| catch_up(etcd, &copy)).await {
            return e.to_string();
        }
        if let Err(e) = db.lead(log.clone()) {
            return e.to_string();
        }
        let _leads = Leads { db: db.clone(), front: self.front.clone() };
        let controller = match self.controller(db.clone()).await {
            Ok(controller) => controller,
            Err(e) => return format!("this controller cannot lead: {e}"),
        };
        tracing::info!(nodes = controller.view().members.len(), "this controller leads");
        let (nodes, dialled) = mpsc::channel(64);
        self.front.set(Standing::Leads(router(controller.clone()), nodes));
        let mut tasks = JoinSet::new();
        tasks.spawn(attend(controller.clone(), dialled));
        tasks.spawn(go_back(controller.clone()));
        tasks.spawn(end_requests(controller.clone()));
        tasks.spawn(publish_names(controller.clone()));
        tasks.spawn(replace_lost(controller.clone()));
        tasks.spawn(care(controller.clone(), self.etcd.clone(), log.clone()));
        log.lost().await
    }

    /// The controller as of what the copy says.
    async fn controller(&self, db: Arc<Database>) -> Result<Arc<Controller>, ControllerError> {
        db.set_revisions(self.options.revisions);
        let names = Names { listen: vec![self.listen], others: self.options.hostnames.clone() };
        let (authority, announce) = (self.authority.clone(), self.options.announce);
        let settings = settings(&self.options, self.offer.clone());
        let make = move || {
            let login = Login::on(db.clone(), names)?;
            if login.is_new() {
                announce(&login.new_admin_token()?);
            }
            Ok(Controller::new(Arc::new(Store::of(db)), login, authority, settings)?)
        };
        spawn_blocking(make).await.unwrap_or_else(|e| Err(ControllerError::Ended(e.to_string())))
    }
}

/// As long as a controller leads. Whatever it is about when that ends: it writes nothing any more.
struct Leads {
    db: Arc<Database>,
    front: Front,
}

impl Drop for Leads {
    fn drop(&mut self) {
        self.db.retire();
        self.front.set(Standing::Waits);
    }
}

/// Knows the names of all controllers, by which clients sign what they ask, and keeps the log short.
async fn care(controller: Arc<Controller>, etcd: Arc<Etcd>, log: Arc<Leading>) {
    loop {
        let found = ask(&etcd, |etcd| Ok(etcd.range(CONTROLLERS, &end_of(CONTROLLERS), 1000)?)).await;
        match found {
            Ok(found) => {
                let present = found.iter().filter_map(|e| serde_json::from_str::<Presence>(&e.value).ok());
                controller.login.reached_as(present.flat_map(|p| p.names).collect());
            }
            Err(e) => tracing::warn!("the other controllers are not known: {e}"),
        }
        let (writes, db) = (log.clone(), controller.store.database().clone());
        match spawn_blocking(move || writes.shorten(&db)).await {
            Ok(Err(e)) => tracing::warn!("the log stays as long as it is: {e}"),
            Err(e) => tracing::error!("the log: {e}"),
            Ok(Ok(())) => {}
        }
        tokio::time::sleep(CARE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_reached_by_its_first_name_or_its_address() {
        let at = |listen: &str, names: &[&str]| {
            presence(listen.parse().unwrap(), &names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(at("10.0.0.1:7443", &[]).url, "https://10.0.0.1:7443");
        assert_eq!(at("0.0.0.0:7443", &["c1", "c1.example:443"]).url, "https://c1:7443");
        let names = at("10.0.0.1:7443", &["c1", "c1.example:443"]).names;
        assert_eq!(names, ["c1:7443", "c1.example:443", "10.0.0.1:7443"]);
        assert!(at("[::1]:7", &[]).url == "https://[::1]:7");
    }
}
