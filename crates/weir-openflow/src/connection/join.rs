//! Multipart messages of several parts, put together.

use std::collections::BTreeMap;

use crate::multipart::{Multipart, Part};

/// Transactions of which parts may be kept at the same time.
const MOST: usize = 256;

/// Parts that wait for the rest.
#[derive(Debug)]
pub(crate) struct Joiner<T> {
    /// By transaction; `None`: it was refused, and its other parts are as well.
    parts: BTreeMap<u32, Option<(T, usize)>>,
    bytes: usize,
    most: usize,
}

/// The outcome of adding a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joined<T> {
    /// All of it is there.
    Whole(T),
    /// More has to come, or it belongs to what was refused before.
    Waiting,
    /// Together they are too long.
    TooLong,
    /// It is of another kind than the part before, or of a kind that has one part only.
    Mismatch,
    /// Too many are begun.
    TooMany,
}

impl<T: Multipart> Joiner<T> {
    /// Keeps at most so many bytes.
    pub(crate) fn new(most: usize) -> Joiner<T> {
        Joiner { parts: BTreeMap::new(), bytes: 0, most }
    }

    /// What came of a transaction is of no use any more.
    pub(crate) fn forget(&mut self, xid: u32) {
        if let Some(Some((_, bytes))) = self.parts.remove(&xid) {
            self.bytes -= bytes;
        }
    }

    /// A part of `bytes` bytes.
    pub(crate) fn push(&mut self, xid: u32, part: Part<T>, bytes: usize) -> Joined<T> {
        let Part { more, body } = part;
        let (mut whole, before) = match self.parts.remove(&xid) {
            None => (None, 0),
            Some(Some((whole, bytes))) => (Some(whole), bytes),
            Some(None) => {
                if more {
                    self.parts.insert(xid, None);
                }
                return Joined::Waiting;
            }
        };
        self.bytes -= before;
        let joins = match &mut whole {
            Some(whole) => whole.append(body),
            None => {
                whole = Some(body);
                true
            }
        };
        let refused = match whole {
            Some(whole) if joins && !more => return Joined::Whole(whole),
            Some(whole) if joins && self.bytes + before + bytes <= self.most && self.parts.len() < MOST => {
                self.bytes += before + bytes;
                self.parts.insert(xid, Some((whole, before + bytes)));
                return Joined::Waiting;
            }
            _ if self.parts.len() >= MOST => return Joined::TooMany,
            _ if joins => Joined::TooLong,
            _ => Joined::Mismatch,
        };
        if more {
            self.parts.insert(xid, None);
        }
        refused
    }
}
