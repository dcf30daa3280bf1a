//! The DNS server of the operator's zone, which gets the names of modules by dynamic updates (RFC 2136) that are signed (RFC 8945).
//!
//! A name is written down before the server hears of it, and forgotten when the server has confirmed that it is gone. So what a controller leaves
//! behind that ends in between, the next one takes away.

use std::fmt;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hickory_proto::op::update_message::{self, UpdateMessage};
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use hickory_proto::rr::{DNSClass, Name, RData, Record, TSigner};
use serde::Deserialize;
use weir_api::events::Kind;

use super::names::{self, Known, Step};
use crate::controller::Controller;

/// How long a server has for a step.
const PATIENCE: Duration = Duration::from_secs(3);
/// How far the clocks of both may be apart, in seconds.
const FUDGE: u16 = 300;
/// How long others may remember an address, in seconds.
const TTL: u32 = 60;

/// Where names are published, as the operator writes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Written {
    /// An address, or one with a port.
    server: String,
    zone: String,
    /// A file beside the offer.
    key: PathBuf,
    #[serde(default = "ttl")]
    ttl: u32,
}

fn ttl() -> u32 {
    TTL
}

/// Where names are published.
pub struct Dns {
    server: SocketAddr,
    /// The zone, without a dot at its end.
    pub zone: String,
    origin: Name,
    signer: TSigner,
    ttl: u32,
}

impl fmt::Debug for Dns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dns").field("server", &self.server).field("zone", &self.zone).finish_non_exhaustive()
    }
}

impl Written {
    /// The file with the key.
    pub(super) fn key_file(&self, folder: &Path) -> PathBuf {
        folder.join(&self.key)
    }

    /// What it says, with the key from its file.
    pub(super) fn read(&self, folder: &Path) -> Result<Dns, String> {
        let server =
            self.server.parse().or_else(|_| self.server.parse().map(|ip: IpAddr| SocketAddr::new(ip, 53)));
        let server =
            server.map_err(|_| format!("dns.server: '{}' is no address such as 10.0.0.53", self.server))?;
        let zone = self.zone.trim_end_matches('.').to_ascii_lowercase();
        let origin = Name::from_ascii(format!("{zone}.")).ok().filter(|n| n.num_labels() > 0);
        let origin = origin.ok_or_else(|| format!("dns.zone: '{}' is no name of a zone", self.zone))?;
        let path = self.key_file(folder);
        let shown = path.display();
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("dns.key: cannot read {shown}: {e}"))?;
        let [name, algorithm, secret] = names::key(&text).ok_or_else(|| {
            format!("dns.key: {shown} holds no key: it has to be as tsig-keygen or keymgr -t write it")
        })?;
        let algorithm = match algorithm.trim_end_matches('.').to_ascii_lowercase().as_str() {
            "hmac-sha256" => TsigAlgorithm::HmacSha256,
            "hmac-sha384" => TsigAlgorithm::HmacSha384,
            "hmac-sha512" => TsigAlgorithm::HmacSha512,
            other => {
                return Err(format!(
                    "dns.key: the algorithm of {shown} is {other}: take hmac-sha256, hmac-sha384 or hmac-sha512"
                ));
            }
        };
        let secret =
            STANDARD.decode(&secret).map_err(|_| format!("dns.key: the secret of {shown} is no base64"))?;
        let name = Name::from_ascii(&name)
            .map_err(|_| format!("dns.key: the name of the key in {shown} is none"))?;
        let signer = TSigner::new(secret, algorithm, name, FUDGE).map_err(|e| format!("dns.key: {e}"))?;
        Ok(Dns { server, zone, origin, signer, ttl: self.ttl })
    }
}

/// Why a step was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Failure {
    /// The server cannot be reached, or is not understood: the other steps need not be tried.
    Server(String),
    /// The server refuses this one.
    Refused(String),
}

impl Dns {
    /// Does a step.
    fn perform(&self, step: &Step) -> Result<(), Failure> {
        let (Step::Withdraw(name) | Step::Publish(name, _)) = step;
        let refused = |why: String| Failure::Refused(format!("{name}: {why}"));
        let owner = Name::from_ascii(format!("{name}.")).map_err(|e| refused(e.to_string()))?;
        if !self.origin.zone_of(&owner) {
            // The zone was another one when it was published.
            return Err(refused(format!("it is not of the zone {}", self.zone)));
        }
        let message = match step {
            Step::Withdraw(_) => update_message::delete_all(owner, self.origin.clone(), DNSClass::IN, false),
            Step::Publish(_, address) => {
                let record = Record::from_rdata(owner, self.ttl, RData::A(A(*address)));
                let mut message = update_message::delete_rrset(record.clone(), self.origin.clone(), false);
                message.add_update(record);
                message
            }
        };
        match self.exchange(message).map_err(Failure::Server)? {
            ResponseCode::NoError => Ok(()),
            code => Err(refused(format!("the server answers: {code}"))),
        }
    }

    /// What the server answers.
    fn exchange(&self, mut message: Message) -> Result<ResponseCode, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let text = |e: hickory_proto::ProtoError| e.to_string();
        let verifier = message.finalize(&self.signer, now).map_err(text)?;
        let question = message.to_vec().map_err(text)?;
        let answer = self.send(&question).map_err(|e| e.to_string())?;
        let plain = Message::from_vec(&answer).map_err(|e| e.to_string())?;
        let code = plain.metadata.response_code;
        let mut verifier = verifier.ok_or("the update was not signed")?;
        match verifier.verify(&answer) {
            Ok(_) => Ok(code),
            // It signs nothing for who has a key that it does not know.
            Err(_) if code != ResponseCode::NoError => {
                Err(format!("it answers: {code}; is the key the one that it has?"))
            }
            Err(e) => Err(format!("its answer is not signed with the key: {e}")),
        }
    }

    /// Asks over TCP: each message behind its length.
    fn send(&self, question: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&self.server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let length = u16::try_from(question.len()).map_err(std::io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes()[..], question].concat())?;
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

/// What is known of the names at the server.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// Nothing until it was read from the store.
    known: Option<Known>,
    failures: u32,
    /// When the server is tried again, in seconds since the epoch.
    due: u64,
    /// What was said of it last.
    said: String,
}

impl Controller {
    /// Publishes the names of modules that run, and withdraws those of others. To be called often.
    pub(crate) async fn publish_names(&self) {
        let mut published = self.asking.published.lock().await;
        let Some(dns) = self.offer().ok().and_then(|offer| offer.dns.clone()) else { return };
        let now = crate::controller::now();
        if now < published.due {
            return;
        }
        if let Err(e) = self.update_names(&dns, &mut published, now).await {
            tracing::error!("names of modules: {e}");
        }
    }

    async fn update_names(
        &self,
        dns: &Arc<Dns>,
        published: &mut Published,
        now: u64,
    ) -> Result<(), weir_api::problem::Problem> {
        if published.known.is_none() {
            let names = self.blocking(crate::store::Store::names).await?;
            published.known = Some(names.into_iter().map(|name| (name, None)).collect());
        }
        let known = published.known.get_or_insert_default();
        let view = self.view();
        let runs = view.requests.iter().filter(|(n, _)| view.graphs.contains_key(&super::id(**n)));
        let runs = runs.map(|(n, kept)| (*n, kept.clone())).collect();
        let steps = names::steps(&names::wanted(&runs, &dns.zone), known);
        if steps.is_empty() {
            return Ok(());
        }
        let mut wrong = None;
        for step in steps {
            if let Step::Publish(name, _) = &step {
                // It may be there from now on, whatever the server says of it.
                known.insert(name.clone(), None);
                let name = name.clone();
                self.blocking(move |s| s.keep_name(&name, true)).await?;
            }
            let (server, doing) = (dns.clone(), step.clone());
            let done = tokio::task::spawn_blocking(move || server.perform(&doing)).await;
            match done.unwrap_or_else(|e| Err(Failure::Server(e.to_string()))) {
                Ok(()) => self.keep_step(step, known).await?,
                Err(Failure::Refused(why)) => drop(wrong.get_or_insert(why)),
                Err(Failure::Server(why)) => {
                    wrong = Some(why);
                    break;
                }
            }
        }
        published.failures = if wrong.is_some() { published.failures + 1 } else { 0 };
        published.due = if wrong.is_some() { now + names::wait(published.failures) } else { 0 };
        let (server, zone) = (dns.server, &dns.zone);
        let said = match &wrong {
            Some(why) => {
                format!("names of modules cannot be changed in {zone} at {server}: {why}; it is tried again")
            }
            None => String::new(),
        };
        let before = std::mem::replace(&mut published.said, said.clone());
        if said != before {
            let text = if said.is_empty() {
                format!("names of modules are right again in {zone} at {server}")
            } else {
                said
            };
            self.tell(Kind::Notice, None, None, text).await;
        }
        Ok(())
    }

    /// Remembers what was done.
    async fn keep_step(&self, step: Step, known: &mut Known) -> Result<(), weir_api::problem::Problem> {
        match step {
            Step::Publish(name, address) => drop(known.insert(name, Some(address))),
            Step::Withdraw(name) => {
                known.remove(&name);
                self.blocking(move |s| s.keep_name(&name, false)).await?;
            }
        }
        Ok(())
    }
}
