//! State that replicas share, as a function uses it.

use std::sync::Arc;
use std::time::Instant;

use super::wire::{Reply, command, compare_and_set};
use crate::core::Then;
use crate::{Core, Error, Function};

/// Whether a value that this core has seen before will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheUse {
    /// No: Redis is asked.
    Skip,
    /// Yes, however old it is: other replicas and cores may have changed it since. What is not in the cache is asked for.
    Check,
}

/// The outcome of [`Core::remote_compare_and_set`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swapped {
    /// The key had the expected value, and has the new one.
    Done,
    /// The key has this value (`None`: it is not there), and keeps it.
    Differs(Option<Arc<[u8]>>),
}

/// State in Redis, shared by all replicas ([`Vnf::remote`](crate::Vnf::remote)). A table is a hash of Redis.
///
/// Calls return at once; `then` is called with the outcome by this core's loop, not before the callback that runs has returned. Outcomes
/// of a core come in the order of its calls, but for those that the cache answers. Errors of the outcome: [`Error::RemoteTimeout`],
/// [`Error::RemoteLost`], after which the change may or may not have been made, and may still be made; [`Error::RemoteRefused`]. Errors of
/// the call, after which nothing comes: [`Error::NoRemote`], [`Error::SendQueueFull`].
impl<F: Function> Core<F> {
    /// Sets the value of a key.
    pub fn remote_set(
        &mut self,
        table: &str,
        key: &[u8],
        value: &[u8],
        then: impl FnOnce(&mut F, &mut Self, Result<(), Error>) + 'static,
    ) -> Result<(), Error> {
        let (at, value) = (Key::new(table, key), Arc::<[u8]>::from(value));
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"HSET", table.as_bytes(), key, &value]);
        self.ask(&bytes, move |function, core, reply| {
            let outcome = reply.and_then(|reply| match reply {
                Reply::Number(_) => Ok(()),
                other => Err(unexpected(&other)),
            });
            core.remember(&at, outcome.as_ref().map(|()| Some(value)));
            then(function, core, outcome);
        })
    }

    /// The value of a key, or `None`.
    pub fn remote_get(
        &mut self,
        table: &str,
        key: &[u8],
        cache: CacheUse,
        then: impl FnOnce(&mut F, &mut Self, Result<Option<Arc<[u8]>>, Error>) + 'static,
    ) -> Result<(), Error> {
        if self.remote.is_none() {
            return Err(Error::NoRemote);
        }
        if cache == CacheUse::Check
            && let Some(value) = self.cache.get(table, key)
        {
            self.later.push_back(Then::new(move |function, core, _| then(function, core, Ok(Some(value)))));
            return Ok(());
        }
        let at = Key::new(table, key);
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"HGET", table.as_bytes(), key]);
        self.ask(&bytes, move |function, core, reply| {
            let outcome = reply.and_then(value);
            core.remember(&at, outcome.as_ref().map(Clone::clone));
            then(function, core, outcome);
        })
    }

    /// Deletes a key; whether it was there.
    pub fn remote_delete(
        &mut self,
        table: &str,
        key: &[u8],
        then: impl FnOnce(&mut F, &mut Self, Result<bool, Error>) + 'static,
    ) -> Result<(), Error> {
        let at = Key::new(table, key);
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"HDEL", table.as_bytes(), key]);
        self.ask(&bytes, move |function, core, reply| {
            let outcome = reply.and_then(|reply| match reply {
                Reply::Number(count) => Ok(count > 0),
                other => Err(unexpected(&other)),
            });
            core.remember(&at, outcome.as_ref().map(|_| None));
            then(function, core, outcome);
        })
    }

    /// Sets the value of a key to `new` (`None`: deletes it), if it is `expected` (`None`: if it is not there), atomically for all
    /// replicas.
    pub fn remote_compare_and_set(
        &mut self,
        table: &str,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        then: impl FnOnce(&mut F, &mut Self, Result<Swapped, Error>) + 'static,
    ) -> Result<(), Error> {
        let (at, set) = (Key::new(table, key), new.map(Arc::<[u8]>::from));
        let mut bytes = Vec::new();
        compare_and_set(&mut bytes, table.as_bytes(), key, expected, new);
        self.ask(&bytes, move |function, core, reply| {
            let outcome = reply.and_then(|reply| match reply {
                Reply::List(mut parts) => match (parts.first(), parts.len()) {
                    (Some(Reply::Number(1)), 1) => Ok(Swapped::Done),
                    (Some(Reply::Number(0)), 2) => Ok(Swapped::Differs(value(parts.remove(1))?)),
                    _ => Err(unexpected(&Reply::List(parts))),
                },
                other => Err(unexpected(&other)),
            });
            let now = outcome.as_ref().map(|swapped| match swapped {
                Swapped::Done => set,
                Swapped::Differs(value) => value.clone(),
            });
            core.remember(&at, now);
            then(function, core, outcome);
        })
    }

    fn ask(
        &mut self,
        command: &[u8],
        then: impl FnOnce(&mut F, &mut Self, Result<Reply, Error>) + 'static,
    ) -> Result<(), Error> {
        self.remote.as_mut().ok_or(Error::NoRemote)?.push(Instant::now(), command, Then::new(then))
    }

    /// What this core knows of a key: its value, that it is not there, or that nobody knows.
    fn remember(&mut self, at: &Key, value: Result<Option<Arc<[u8]>>, &Error>) {
        match value {
            Ok(Some(value)) => self.cache.set(&at.table, &at.key, value),
            Ok(None) | Err(_) => self.cache.forget(&at.table, &at.key),
        }
    }
}

struct Key {
    table: String,
    key: Vec<u8>,
}

impl Key {
    fn new(table: &str, key: &[u8]) -> Self {
        Self { table: table.to_owned(), key: key.to_owned() }
    }
}

fn value(reply: Reply) -> Result<Option<Arc<[u8]>>, Error> {
    match reply {
        Reply::Nil => Ok(None),
        Reply::Bytes(bytes) => Ok(Some(bytes.into())),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> Error {
    Error::RemoteRefused(format!("an answer that does not fit: {reply:?}"))
}
