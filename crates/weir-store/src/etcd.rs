//! A client of etcd (version 3.4 and later): keys, transactions and leases, by its JSON gateway over HTTP.
//!
//! With TLS, and as a user with a password, if its address says so: then requests carry a token, which etcd takes for some minutes.
//!
//! Every request is tried at one member after the other, so all of them can be repeated: those that write do so under a condition that holds once.

mod address;
mod refusal;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector as _, TcpConnector};
use weir_api::client::tls::Tls;

use self::address::{Address, User};
use self::refusal::Refusal;

pub use self::address::{NoAddress, is_etcd};

/// How long a member may take for a connection, and for all.
const CONNECT: Duration = Duration::from_millis(700);
const ANSWER: Duration = Duration::from_millis(1500);
/// Most bytes of an answer.
const MAX_ANSWER: u64 = 256 << 20;

/// No member did what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// There is none that answers; later there may be one.
    #[error("etcd does not answer: {0}")]
    Silent(String),
    /// All that answer say no, and would again.
    #[error("etcd refuses this controller: {0}")]
    Refused(String),
}

/// An answer, or the reason why there is none.
pub type Answer<T> = Result<T, NoAnswer>;

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The revision of etcd that made it.
    pub created: u64,
}

/// A condition of a transaction.
#[derive(Debug, Clone, Copy)]
pub enum If<'a> {
    /// The key was made by that revision; 0 if there is none.
    Created(&'a str, u64),
    /// It has that value.
    Is(&'a str, &'a str),
}

/// An operation of a transaction.
#[derive(Debug, Clone, Copy)]
pub enum Do<'a> {
    /// Writes a key.
    Put(&'a str, &'a str),
    /// Writes a key that goes with a lease.
    PutWith(&'a str, &'a str, i64),
    /// Removes the keys from one to before another.
    Remove(&'a str, &'a str),
}

/// A cluster of etcd.
#[derive(Debug)]
pub struct Etcd {
    address: Address,
    agent: Agent,
    /// What etcd knows this client by, if it knows users.
    token: Mutex<Option<String>>,
    /// The member that answered last.
    last: AtomicUsize,
}

/// A number, which is a text in JSON.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn text(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str().unwrap_or_default()).ok()?).ok()
}

fn entry(value: &Value) -> Option<Entry> {
    let created = number(value.get("create_revision")?)?;
    let value_of = value.get("value").and_then(text).unwrap_or_default();
    Some(Entry { key: text(value.get("key")?)?, value: value_of, created })
}

/// The first key behind all that begin with a prefix that ends with a slash.
pub fn end_of(prefix: &str) -> String {
    format!("{}0", prefix.trim_end_matches('/'))
}

impl Etcd {
    /// The cluster at an address such as `etcd://10.0.0.1:2379,10.0.0.2:2379`, or `etcds://10.0.0.1:2379?ca=FILE&cert=FILE&key=FILE&user=NAME&password=FILE`.
    ///
    /// # Errors
    /// It is none, or a file that it names is of no use.
    pub fn new(address: &str) -> Result<Etcd, NoAddress> {
        let mut address = Address::read(address)?;
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(ANSWER))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        let agent = match address.tls.take() {
            None => config.into(),
            Some(tls) => {
                let connector = TcpConnector::default().chain(Tls(Arc::new(tls)));
                Agent::with_parts(config, connector, DefaultResolver::default())
            }
        };
        Ok(Etcd { address, agent, token: Mutex::new(None), last: AtomicUsize::new(0) })
    }

    /// Asks a member, and nothing else.
    fn exchange(&self, member: &str, path: &str, body: &str, token: Option<&str>) -> Result<Value, Refusal> {
        let silent = |e: ureq::Error| refusal::of_error(&e, &self.address);
        let mut request = self.agent.post(format!("{member}/v3/{path}")).content_type("application/json");
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        let mut response = request.send(body).map_err(silent)?;
        let status = response.status();
        let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(silent)?;
        if !status.is_success() {
            return Err(refusal::of_answer(status.as_u16(), &String::from_utf8_lossy(&body), &self.address));
        }
        let value: Value = serde_json::from_slice(&body).map_err(|e| Refusal::silent(e.to_string()))?;
        // Streams say in their text what goes wrong.
        match value.get("error") {
            Some(_) => Err(refusal::of_answer(400, &value.to_string(), &self.address)),
            None => Ok(value),
        }
    }

    /// A token for a user, the one of before unless etcd does not take that any more.
    fn token(&self, member: &str, user: &User, stale: Option<&str>) -> Result<String, Refusal> {
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|k| Some(k.as_str()) != stale) {
            return Ok(known);
        }
        let body = json!({ "name": user.name, "password": user.password }).to_string();
        let answer = self.exchange(member, "auth/authenticate", &body, None)?;
        let token = answer.get("token").and_then(Value::as_str);
        let token = token.ok_or_else(|| Refusal::silent("it gives no token"))?.to_owned();
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(token)
    }

    /// Asks a member, as a user if there is one.
    fn ask(&self, member: &str, path: &str, body: &str) -> Result<Value, Refusal> {
        let Some(user) = &self.address.user else { return self.exchange(member, path, body, None) };
        let token = self.token(member, user, None)?;
        match self.exchange(member, path, body, Some(&token)) {
            // Not for long: tokens end, and with every change of a user or a role.
            Err(e) if e.token => {
                let token = self.token(member, user, Some(&token))?;
                self.exchange(member, path, body, Some(&token))
            }
            done => done,
        }
    }

    /// Asks one member after the other.
    fn post(&self, path: &str, body: &Value) -> Answer<Value> {
        let (body, first) = (body.to_string(), self.last.load(Ordering::Relaxed));
        let (mut why, mut refused) = (Vec::new(), true);
        let members = &self.address.members;
        for i in 0..members.len() {
            let at = (first + i) % members.len();
            let Some(member) = members.get(at) else { continue };
            match self.ask(member, path, &body) {
                Ok(answer) => {
                    self.last.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(Refusal { what, answered, .. }) => {
                    refused &= answered;
                    why.push(format!("{member}: {what}"));
                }
            }
        }
        let why = why.join("; ");
        Err(if refused { NoAnswer::Refused(why) } else { NoAnswer::Silent(why) })
    }

    /// A key.
    ///
    /// # Errors
    /// No answer.
    pub fn get(&self, key: &str) -> Answer<Option<Entry>> {
        Ok(self.range(key, "", 1)?.pop())
    }

    /// The first keys from one to before another, in order.
    ///
    /// # Errors
    /// No answer.
    pub fn range(&self, from: &str, to: &str, limit: u32) -> Answer<Vec<Entry>> {
        let mut asked = json!({ "key": STANDARD.encode(from), "limit": limit.to_string() });
        if !to.is_empty() {
            asked["range_end"] = json!(STANDARD.encode(to));
        }
        let answer = self.post("kv/range", &asked)?;
        let found = answer.get("kvs").and_then(Value::as_array).into_iter().flatten();
        found.map(|kv| entry(kv).ok_or_else(|| NoAnswer::Silent("a key that is no text".into()))).collect()
    }

    /// Does that if all conditions hold; the revision of etcd, if so.
    ///
    /// # Errors
    /// No answer: it may be done or not.
    pub fn transact(&self, conditions: &[If<'_>], then: &[Do<'_>]) -> Answer<Option<u64>> {
        let condition = |c: &If<'_>| match c {
            If::Created(key, revision) => {
                json!({ "key": STANDARD.encode(key), "target": "CREATE", "result": "EQUAL", "create_revision": revision.to_string() })
            }
            If::Is(key, value) => {
                json!({ "key": STANDARD.encode(key), "target": "VALUE", "result": "EQUAL", "value": STANDARD.encode(value) })
            }
        };
        let operation = |d: &Do<'_>| match d {
            Do::Put(key, value) => {
                json!({ "request_put": { "key": STANDARD.encode(key), "value": STANDARD.encode(value) } })
            }
            Do::PutWith(key, value, lease) => {
                json!({ "request_put": { "key": STANDARD.encode(key), "value": STANDARD.encode(value), "lease": lease.to_string() } })
            }
            Do::Remove(from, to) => {
                json!({ "request_delete_range": { "key": STANDARD.encode(from), "range_end": STANDARD.encode(to) } })
            }
        };
        let compare: Vec<Value> = conditions.iter().map(condition).collect();
        let success: Vec<Value> = then.iter().map(operation).collect();
        let answer = self.post("kv/txn", &json!({ "compare": compare, "success": success }))?;
        let revision = answer.pointer("/header/revision").and_then(number);
        Ok(revision.filter(|_| answer.get("succeeded") == Some(&Value::Bool(true))))
    }

    /// A new lease.
    ///
    /// # Errors
    /// No answer.
    pub fn grant(&self, life: Duration) -> Answer<i64> {
        let answer = self.post("lease/grant", &json!({ "TTL": life.as_secs().to_string() }))?;
        let id = answer.get("ID").and_then(number).and_then(|id| i64::try_from(id).ok());
        id.ok_or_else(|| NoAnswer::Silent(format!("it grants no lease: {answer}")))
    }

    /// Keeps a lease; whether it was there still.
    ///
    /// # Errors
    /// No answer.
    pub fn keep(&self, lease: i64) -> Answer<bool> {
        let answer = self.post("lease/keepalive", &json!({ "ID": lease.to_string() }))?;
        Ok(answer.pointer("/result/TTL").and_then(number).is_some_and(|left| left > 0))
    }

    /// Ends a lease.
    ///
    /// # Errors
    /// No answer.
    pub fn revoke(&self, lease: i64) -> Answer<()> {
        self.post("lease/revoke", &json!({ "ID": lease.to_string() })).map(drop)
    }

    /// What was before that revision is forgotten.
    ///
    /// # Errors
    /// No answer, or it was forgotten already.
    pub fn compact(&self, revision: u64) -> Answer<()> {
        self.post("kv/compaction", &json!({ "revision": revision.to_string() })).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_named() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let etcd = Etcd::new(&format!("etcd://{closed}")).unwrap();
        assert_eq!(end_of("/weir/log/"), "/weir/log0");
        assert!(etcd.get("/weir/leader").unwrap_err().to_string().contains(&closed.to_string()));
    }
}
