//! A client of etcd (version 3.4 and later): keys, transactions and leases, by its JSON gateway over HTTP.
//!
//! Every request is tried at one member after the other, so all of them can be repeated: those that write do so under a condition that holds once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;

/// How long a member may take for a connection, and for all.
const CONNECT: Duration = Duration::from_millis(700);
const ANSWER: Duration = Duration::from_millis(1500);
/// Most bytes of an answer.
const MAX_ANSWER: u64 = 256 << 20;

/// The address is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no address of etcd; write etcd://HOST:PORT, with more members as etcd://HOST:PORT,HOST:PORT"
)]
pub struct NoAddress(String);

/// No member gave an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("etcd does not answer: {0}")]
pub struct NoAnswer(pub String);

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
    members: Vec<String>,
    agent: Agent,
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
    /// The cluster at an address such as `etcd://10.0.0.1:2379,10.0.0.2:2379`.
    ///
    /// # Errors
    /// It is none.
    pub fn new(address: &str) -> Result<Etcd, NoAddress> {
        let wrong = || NoAddress(address.to_owned());
        let rest = address.strip_prefix("etcd://").ok_or_else(wrong)?.trim_end_matches('/');
        let member = |text: &str| {
            let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
            let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']);
            let is_port = port.parse::<u16>().is_ok_and(|p| p > 0);
            if is_host && is_port { Ok(format!("http://{text}")) } else { Err(wrong()) }
        };
        let members = rest.split(',').map(member).collect::<Result<Vec<_>, _>>()?;
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(ANSWER))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        Ok(Etcd { members, agent: config.into(), last: AtomicUsize::new(0) })
    }

    fn ask(&self, member: &str, path: &str, body: &str) -> Result<Value, String> {
        let sent = self.agent.post(format!("{member}/v3/{path}")).content_type("application/json").send(body);
        let mut response = sent.map_err(|e| e.to_string())?;
        let status = response.status();
        let body =
            response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(|e| e.to_string())?;
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body).trim()));
        }
        serde_json::from_slice(&body).map_err(|e| e.to_string())
    }

    /// Asks one member after the other.
    fn post(&self, path: &str, body: &Value) -> Answer<Value> {
        let (body, first) = (body.to_string(), self.last.load(Ordering::Relaxed));
        let mut why = Vec::new();
        for i in 0..self.members.len() {
            let at = (first + i) % self.members.len();
            let Some(member) = self.members.get(at) else { continue };
            match self.ask(member, path, &body) {
                Ok(answer) => {
                    self.last.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(e) => why.push(format!("{member}: {e}")),
            }
        }
        Err(NoAnswer(why.join("; ")))
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
        found.map(|kv| entry(kv).ok_or_else(|| NoAnswer("a key that is no text".into()))).collect()
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
        id.ok_or_else(|| NoAnswer(format!("it grants no lease: {answer}")))
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
    fn an_address_names_the_members() {
        let members = |text| Etcd::new(text).map(|e| e.members);
        assert_eq!(members("etcd://a:2379").unwrap(), ["http://a:2379"]);
        assert_eq!(
            members("etcd://10.0.0.1:1,[fe80::1]:2/").unwrap(),
            ["http://10.0.0.1:1", "http://[fe80::1]:2"]
        );
        for bad in
            ["etcd://", "etcd://a", "etcd://a:0", "etcd://a:1,", "http://a:1", "etcd://a:1/x", "etcd://u@h:1"]
        {
            assert!(members(bad).unwrap_err().to_string().contains("write etcd://HOST:PORT"), "{bad}");
        }
        assert_eq!(end_of("/weir/log/"), "/weir/log0");
    }

    #[test]
    fn who_does_not_answer_is_named() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let etcd = Etcd::new(&format!("etcd://{closed}")).unwrap();
        assert!(etcd.get("/weir/leader").unwrap_err().to_string().contains(&closed.to_string()));
    }
}
