//! The node's connection to its controller. The node dials, and serves its REST interface on that connection (HTTP/2 with the
//! roles turned), so that it works from behind NAT and there is no second interface. While there is no connection everything
//! goes on as it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use tokio::time::{Instant, timeout};
use weir_api::events::Kind;
use weir_api::members::{Certificate, ControllerLink, Hello, JoinRequest, RenewRequest, Welcome};
use weir_rest::dial::{DialError, connect, host_and_port, post};
use weir_rest::listen::{Peer, serve_dialled};
use weir_tls::authority::{Identity, check_name, node_of_chain, pin_of, request};
use weir_tls::{NODE_PROTOCOL, Pin, TlsError, client, files};

use crate::engine::Engine;
use crate::node::Node;

/// Where controllers listen.
pub const CONTROLLER_PORT: u16 = 7443;
/// The shortest and the longest pause before the controller is dialled again.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// How soon a renewal that failed is tried again, at the latest.
const RENEW_AGAIN: Duration = Duration::from_secs(3600);

/// How a node joins a domain.
#[derive(Debug, Clone)]
pub struct Join {
    /// The controller, such as `https://controller:7443`; of several that are one domain's, all, with commas between.
    pub url: String,
    /// What `weir token` gave, for the first time.
    pub token: Option<String>,
    /// The node's name there. Without one it is the one that it has, or that of the machine.
    pub name: Option<String>,
    /// The name of the machine.
    pub machine: String,
    /// Where its key and certificate are kept.
    pub folder: PathBuf,
}

/// The node cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The address, the connection, or the controller's answer.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Keys and certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The name cannot be one.
    #[error("{0}; choose another one with --name")]
    Name(String),
    /// There is no token.
    #[error("this node has not joined {0} yet; give it the token that 'weir token' printed, with --token")]
    NoToken(String),
    /// The token is none.
    #[error("the token is not one; it has the form SECRET@sha256:PIN, as 'weir token' printed it")]
    Token,
    /// It was joined under another name.
    #[error("this node is '{was}' of the domain; leave --name out, or remove {} to join as '{name}'", .folder.display())]
    Renamed {
        /// The name that it has.
        was: String,
        /// The name that it was to have.
        name: String,
        /// Where its identity is.
        folder: PathBuf,
    },
    /// It is a member of another domain.
    #[error("this node is a member of another controller's domain than the token is from; remove {} to join this one", .0.display())]
    Another(PathBuf),
    /// The certificate is over.
    #[error(
        "the certificate of this node is over; remove it at the controller (weir forget NAME), remove the node's folder of certificates, and join again with a token"
    )]
    Expired,
}

/// The longest pause where there are several controllers: another one leads within seconds.
const PAUSE_OF_SEVERAL: Duration = Duration::from_secs(1);

/// How long one of several controllers may take at first, and at most when none was so fast: it may be that all nodes come at once.
const PATIENCE: [Duration; 2] = [Duration::from_millis(1500), Duration::from_secs(6)];

/// Where a controller is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    url: String,
    host: String,
    port: u16,
}

/// The controllers of a text such as `https://c1:7443,https://c2:7443`.
fn places(text: &str) -> Result<Vec<Place>, DialError> {
    let place = |url: &str| {
        let (host, port) = host_and_port(url, CONTROLLER_PORT)?;
        Ok(Place { url: url.to_owned(), host, port })
    };
    text.split(',').map(str::trim).map(place).collect()
}

/// A node that has joined.
#[derive(Debug)]
pub struct Member {
    places: Vec<Place>,
    /// The one that it is connected to, or tries next.
    at: usize,
    join: Join,
    name: String,
    pin: Pin,
    identity: Identity,
}

impl Member {
    /// The member that the node is already, or becomes now.
    ///
    /// # Errors
    /// It cannot join.
    pub async fn new(join: Join) -> Result<Member, JoinError> {
        let places = places(&join.url)?;
        if let Some(mut member) = Member::known(&places, &join)? {
            // One that was removed meanwhile joins anew, if it has a token for it.
            let removed = join.token.is_some() && member.is_removed().await;
            if !removed {
                return Ok(member);
            }
            files::forget(&join.folder)?;
        }
        let wanted = join.name.clone().unwrap_or_else(|| join.machine.clone());
        check_name(&wanted).map_err(JoinError::Name)?;
        let token = join.token.as_deref().ok_or_else(|| JoinError::NoToken(join.url.clone()))?;
        let (secret, pin) = token.rsplit_once('@').ok_or(JoinError::Token)?;
        let pin: Pin = pin.parse().map_err(|_| JoinError::Token)?;
        let (key, asked) = request()?;
        let asked = JoinRequest { name: wanted, secret: secret.to_owned(), request: asked };
        let config = client::config(pin, None)?;
        let mut joined = Err(DialError::Address(join.url.clone()));
        for place in &places {
            joined = post(&place.host, place.port, &config, "/v1/nodes/join", &asked).await;
            // Only where it was not heard, or nobody leads, is another one asked: a token may be used up.
            match &joined {
                Err(DialError::Unreachable { .. }) => {}
                Err(DialError::Problem(p)) if p.status == 503 => {}
                _ => break,
            }
        }
        let Certificate { chain } = joined?;
        let identity = Identity { chain, key };
        files::keep(&join.folder, &identity)?;
        Ok(Member { places, at: 0, name: node_of_chain(&identity.chain)?, pin, identity, join })
    }

    /// Whether its controller does not take it any more.
    async fn is_removed(&mut self) -> bool {
        for _ in 0..self.places.len() {
            match self.hello().await {
                Err(JoinError::Dial(DialError::Problem(p))) if p.status == 403 => return true,
                Ok(()) => return false,
                Err(_) => self.at = self.next(),
            }
        }
        false
    }

    /// The controller behind the present one.
    fn next(&self) -> usize {
        (self.at + 1) % self.places.len().max(1)
    }

    /// Where the controller is.
    fn place(&self) -> &Place {
        // There is one at least, and `at` is below their number.
        &self.places[self.at]
    }

    /// The member that the node is already.
    fn known(places: &[Place], join: &Join) -> Result<Option<Member>, JoinError> {
        let Some(identity) = files::identity(&join.folder)? else { return Ok(None) };
        let (name, pin) = (node_of_chain(&identity.chain)?, pin_of(&identity.chain)?);
        if let Some(wanted) = &join.name
            && *wanted != name
        {
            let (name, folder) = (wanted.clone(), join.folder.clone());
            return Err(JoinError::Renamed { was: node_of_chain(&identity.chain)?, name, folder });
        }
        let of_token = join.token.as_deref().and_then(|t| t.rsplit_once('@')?.1.parse::<Pin>().ok());
        if of_token.is_some_and(|p| p != pin) {
            return Err(JoinError::Another(join.folder.clone()));
        }
        if identity.validity()?.1 <= SystemTime::now() {
            return Err(JoinError::Expired);
        }
        Ok(Some(Member { places: places.to_vec(), at: 0, name, pin, identity, join: join.clone() }))
    }

    /// Tells the controller that it is about to connect, which says if it would not be taken.
    async fn hello(&self) -> Result<(), JoinError> {
        let config = client::config(self.pin, Some(&self.identity))?;
        let hello = Hello { version: env!("CARGO_PKG_VERSION").into() };
        let _: Welcome =
            post(&self.place().host, self.place().port, &config, "/v1/nodes/hello", &hello).await?;
        Ok(())
    }

    /// As whom the controller owns graphs.
    pub fn owner(&self) -> String {
        self.pin.to_string()
    }

    fn link(&self, connected: bool, trouble: Option<String>) -> ControllerLink {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        // As it was said, until it is known which one of several it is.
        let url = if connected { self.place().url.clone() } else { self.join.url.clone() };
        let node = self.name.clone();
        ControllerLink { url, node, connected, since, trouble, mark: None }
    }

    /// Keeps the connection, for ever.
    pub async fn run(mut self, node: Arc<Node<Engine>>, router: Router) {
        node.membership.set(self.owner(), self.link(false, None));
        match node.store.mark(&self.owner()) {
            Ok(mark) => node.membership.set_mark(mark),
            Err(e) => tracing::error!("how far the controller had got is not known: {e}"),
        }
        let mut pause = PAUSES[0];
        let mut patience = PATIENCE[0];
        let mut tried = None;
        // Controllers that were asked since the last pause.
        let mut round = 0;
        let longest = if self.places.len() > 1 { PAUSE_OF_SEVERAL } else { PAUSES[1] };
        loop {
            let mut renewed = None;
            let served = {
                let mut serving = std::pin::pin!(self.serve(&node, router.clone(), patience));
                loop {
                    tokio::select! {
                        served = &mut serving => break served,
                        () = self.due(renewed.as_ref(), tried) => {
                            tried = Some(Instant::now());
                            renewed = self.renew().await.or(renewed);
                        }
                    }
                }
            };
            self.identity = renewed.unwrap_or(self.identity);
            let last = self.place().url.clone();
            // Another one may lead.
            self.at = self.next();
            let trouble = match served {
                Ok(()) => {
                    (pause, patience, round) = (PAUSES[0], PATIENCE[0], 0);
                    "the connection ended".to_owned()
                }
                Err(e) => {
                    round += 1;
                    if round < self.places.len() {
                        continue;
                    }
                    (patience, round) = ((patience * 2).min(PATIENCE[1]), 0);
                    e.to_string()
                }
            };
            let before = node.membership.link();
            let known = before.as_ref().is_some_and(|l| !l.connected && l.trouble.as_ref() == Some(&trouble));
            if !known {
                node.membership.set(self.owner(), self.link(false, Some(trouble.clone())));
                let text = format!("no connection to {last}: {trouble}; what runs goes on");
                node.events.publish(Kind::ControllerDown, None, text).await;
            }
            // Many nodes that lost one controller do not come back all at once.
            tokio::time::sleep(pause.mul_f64(0.5 + jitter())).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Waits for a controller, and not for long where there are others.
    async fn in_time<T>(
        &self,
        patience: Duration,
        asked: impl Future<Output = Result<T, JoinError>>,
    ) -> Result<T, JoinError> {
        if self.places.len() < 2 {
            return asked.await;
        }
        match timeout(patience, asked).await {
            Ok(done) => done,
            Err(_) => {
                let why = format!("it does not answer within {} ms", patience.as_millis());
                Err(DialError::Unreachable { address: self.place().url.clone(), why }.into())
            }
        }
    }

    /// One connection, from its beginning to its end.
    async fn serve(&self, node: &Node<Engine>, router: Router, patience: Duration) -> Result<(), JoinError> {
        self.in_time(patience, self.hello()).await?;
        let config = client::config(self.pin, Some(&self.identity))?;
        let dialled =
            async { Ok(connect(&self.place().host, self.place().port, &config, NODE_PROTOCOL).await?) };
        let stream = self.in_time(patience, dialled).await?;
        node.membership.set(self.owner(), self.link(true, None));
        let text = format!("node '{}' is connected to {}", self.name, self.place().url);
        node.events.publish(Kind::ControllerUp, None, text).await;
        let peer = Peer { address: None, node: None, controller: true };
        if let Err(e) = serve_dialled(stream, router, peer).await {
            tracing::debug!("the controller's connection ended: {e}");
        }
        Ok(())
    }

    /// Waits until two thirds of the certificate's time are over.
    async fn due(&self, renewed: Option<&Identity>, tried: Option<Instant>) {
        let Ok((from, to)) = renewed.unwrap_or(&self.identity).validity() else {
            return std::future::pending().await;
        };
        let whole = to.duration_since(from).unwrap_or_default();
        let left = (from + whole * 2 / 3).duration_since(SystemTime::now()).unwrap_or_default();
        // Not too often, if it fails.
        let pause = (whole / 20).min(RENEW_AGAIN);
        let again = tried.map_or(Duration::ZERO, |t| (t + pause).saturating_duration_since(Instant::now()));
        tokio::time::sleep(left.max(again)).await;
    }

    /// Another certificate.
    async fn renew(&self) -> Option<Identity> {
        let renewed = async {
            let (key, asked) = request()?;
            let config = client::config(self.pin, Some(&self.identity))?;
            let asked = RenewRequest { request: asked };
            let Certificate { chain } =
                post(&self.place().host, self.place().port, &config, "/v1/nodes/renew", &asked).await?;
            let identity = Identity { chain, key };
            files::keep(&self.join.folder, &identity)?;
            Ok::<_, JoinError>(identity)
        };
        match renewed.await {
            Ok(identity) => Some(identity),
            Err(e) => {
                tracing::warn!("the node's certificate was not renewed: {e}");
                None
            }
        }
    }
}

/// A number from 0 to 1 that differs from node to node.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(()) % 1000) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_controllers_stand_between_commas() {
        let urls = |text| {
            places(text).map(|p| p.into_iter().map(|p| format!("{}:{}", p.host, p.port)).collect::<Vec<_>>())
        };
        assert_eq!(
            urls("https://c1:1, c2,https://[fd00::1]:7443").unwrap(),
            ["c1:1", "c2:7443", "fd00::1:7443"]
        );
        for bad in ["", "https://c1,", "https://c1,http://c2"] {
            assert!(urls(bad).is_err(), "{bad}");
        }
    }
}
