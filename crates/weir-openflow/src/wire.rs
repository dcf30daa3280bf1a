//! Bytes to values and back: what every part of a message can do, and how it is read.

use std::fmt;

use crate::choices::Choices;
use crate::error::{DecodeError, ErrorCode};

/// A part of a message that can be read and written. The macros of [`crate::describe`] implement it from descriptions.
pub(crate) trait Wire: Sized {
    /// Where a part that stands in a list says its own length (`u16`), in bytes from its start.
    const LENGTH_AT: Option<usize> = None;

    /// Reads it from the front.
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Appends its bytes.
    fn write(&self, w: &mut Vec<u8>);

    /// A value that choices lead to: for tests and fuzzers.
    fn any(c: &mut Choices<'_>) -> Self;

    /// Its text.
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Takes up what follows of it in a later part of a long message, if there can be such.
    fn join(&mut self, _more: Self) -> bool {
        false
    }

    /// Parts of at most `most` bytes each, as far as it can be divided.
    fn divide(self, _most: usize) -> Vec<Self> {
        vec![self]
    }
}

/// Bytes of a message that are still to be read.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// Where `bytes` start in the message.
    at: usize,
    /// What it means if they end too early, or too late.
    length: ErrorCode,
    /// Whether a switch says this. It may report what it has, although a table need not take it.
    pub(crate) from_switch: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], length: ErrorCode) -> Reader<'a> {
        Reader { bytes, at: 0, length, from_switch: false }
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Where the next byte stands in the message.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(n) else {
            return Err(self.error(self.length, format!("{n} bytes are needed, {} are left", self.left())));
        };
        self.bytes = rest;
        self.at += n;
        Ok(taken)
    }

    /// All bytes that are left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.at += self.bytes.len();
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Leaves out padding: whatever it holds is ignored (section 7.1.1: receivers must not look at it).
    pub(crate) fn skip(&mut self, n: usize) -> Result<(), DecodeError> {
        self.take(n).map(|_| ())
    }

    /// The next `n` bytes as a part of their own.
    pub(crate) fn part(&mut self, n: usize, length: ErrorCode) -> Result<Reader<'a>, DecodeError> {
        let at = self.at;
        if n > self.left() {
            return Err(self.error(length, format!("it says {n} bytes long, {} are left", self.left())));
        }
        let bytes = self.take(n)?;
        Ok(Reader { bytes, at, length, from_switch: self.from_switch })
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        match self.left() {
            0 => Ok(()),
            n => Err(self.error(self.length, format!("{n} bytes too many"))),
        }
    }

    pub(crate) fn error(&self, code: ErrorCode, what: impl Into<String>) -> DecodeError {
        DecodeError::new(code, self.at, what.into())
    }

    /// Reads one part of a list, which may say its own length.
    fn item<T: Wire>(&mut self) -> Result<T, DecodeError> {
        let Some(offset) = T::LENGTH_AT else { return T::read(self) };
        let mut ahead = self.clone();
        ahead.skip(offset)?;
        let length = usize::from(ahead.u16()?);
        if length < offset + 2 {
            return Err(self.error(
                self.length,
                format!("it says {length} bytes long, which is shorter than its header"),
            ));
        }
        let mut part = self.part(length, self.length)?;
        let item = T::read(&mut part)?;
        part.finish()?;
        Ok(item)
    }
}

/// Appends one part of a list.
fn write_item<T: Wire>(item: &T, w: &mut Vec<u8>) {
    let start = w.len();
    item.write(w);
    if let Some(offset) = T::LENGTH_AT {
        set_length(w, start, start + offset);
    }
}

/// Puts the number of bytes from `start` to the end in place. Too long a part makes too long a message, which
/// [`crate::Frame::encode`] refuses.
pub(crate) fn set_length(w: &mut [u8], start: usize, at: usize) {
    let length = (w.len() - start) as u16;
    w[at..at + 2].copy_from_slice(&length.to_be_bytes());
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Wire for $t {
            fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                r.array().map(<$t>::from_be_bytes)
            }
            fn write(&self, w: &mut Vec<u8>) {
                w.extend(self.to_be_bytes());
            }
            fn any(c: &mut Choices<'_>) -> Self {
                c.number(<$t>::BITS) as $t
            }
            fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 }

impl Wire for weir_net::EtherAddr {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.array().map(weir_net::EtherAddr)
    }
    fn write(&self, w: &mut Vec<u8>) {
        w.extend(self.0);
    }
    fn any(c: &mut Choices<'_>) -> Self {
        weir_net::EtherAddr(std::array::from_fn(|_| c.byte()))
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<T: Wire, const N: usize> Wire for [T; N] {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let items = (0..N).map(|_| T::read(r)).collect::<Result<Vec<T>, _>>()?;
        items.try_into().map_err(|_| r.error(r.length, "another number of values"))
    }
    fn write(&self, w: &mut Vec<u8>) {
        self.iter().for_each(|item| item.write(w));
    }
    fn any(c: &mut Choices<'_>) -> Self {
        std::array::from_fn(|_| T::any(c))
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list_text(self, f)
    }
}

/// A list up to the end of what it stands in.
impl<T: Wire> Wire for Vec<T> {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut items = Vec::new();
        while r.left() > 0 {
            let item = r.item().map_err(|e| e.within(format_args!("[{}]", items.len())))?;
            items.push(item);
        }
        Ok(items)
    }
    fn write(&self, w: &mut Vec<u8>) {
        self.iter().for_each(|item| write_item(item, w));
    }
    fn any(c: &mut Choices<'_>) -> Self {
        (0..c.below(4)).map(|_| T::any(c)).collect()
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list_text(self, f)
    }
    fn join(&mut self, more: Self) -> bool {
        self.extend(more);
        true
    }
    fn divide(self, most: usize) -> Vec<Self> {
        let (mut parts, mut bytes, mut scratch) = (vec![Vec::new()], 0, Vec::new());
        for item in self {
            scratch.clear();
            write_item(&item, &mut scratch);
            if bytes + scratch.len() > most && bytes > 0 {
                parts.push(Vec::new());
                bytes = 0;
            }
            bytes += scratch.len();
            parts.extend(parts.is_empty().then(Vec::new));
            if let Some(part) = parts.last_mut() {
                part.push(item);
            }
        }
        parts
    }
}

fn list_text<T: Wire>(list: &[T], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("[")?;
    for (i, item) in list.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        item.text(f)?;
    }
    f.write_str("]")
}

/// Bytes up to the end of what they stand in.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Bytes(pub Vec<u8>);

impl Wire for Bytes {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Bytes(r.rest().to_vec()))
    }
    fn write(&self, w: &mut Vec<u8>) {
        w.extend(&self.0);
    }
    fn any(c: &mut Choices<'_>) -> Self {
        Bytes((0..c.below(40)).map(|_| c.byte()).collect())
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
    fn join(&mut self, more: Self) -> bool {
        self.0.extend(more.0);
        true
    }
    fn divide(self, most: usize) -> Vec<Self> {
        if self.0.is_empty() {
            return vec![self];
        }
        self.0.chunks(most.max(1)).map(|part| Bytes(part.to_vec())).collect()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(bytes)
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes(bytes.to_vec())
    }
}

/// A text in a field of `N` bytes, filled up with zeros.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Name<const N: usize>(Vec<u8>);

impl<const N: usize> Name<N> {
    /// This text, cut so that it fits with a zero behind it, and at its first zero.
    pub fn new(text: &str) -> Name<N> {
        let end = text.bytes().position(|b| b == 0).unwrap_or(text.len());
        Name(text.as_bytes()[..text.floor_char_boundary(end.min(N.saturating_sub(1)))].to_vec())
    }
}

impl<const N: usize> Wire for Name<N> {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = r.take(N)?;
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(N);
        Ok(Name(bytes[..end].to_vec()))
    }
    fn write(&self, w: &mut Vec<u8>) {
        w.extend(&self.0);
        w.extend(std::iter::repeat_n(0, N - self.0.len()));
    }
    fn any(c: &mut Choices<'_>) -> Self {
        Name((0..c.below(N + 1)).map(|_| c.byte().max(1)).collect())
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<const N: usize> fmt::Display for Name<N> {
    /// The text without control characters: it may come from a peer, and goes into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).chars().try_for_each(|c| match c.is_control() {
            true => write!(f, "{}", c.escape_default()),
            false => write!(f, "{c}"),
        })
    }
}

impl<const N: usize> fmt::Debug for Name<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// Bytes up to the end of what they stand in, which are a multiple of eight.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct AlignedBytes(Vec<u8>);

impl AlignedBytes {
    /// These bytes, with zeros behind them up to a multiple of eight.
    pub fn new(bytes: &[u8]) -> AlignedBytes {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        AlignedBytes(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Wire for AlignedBytes {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.left() % 8 {
            0 => Ok(AlignedBytes(r.rest().to_vec())),
            _ => Err(r.error(r.length, format!("{} bytes; they have to be a multiple of 8", r.left()))),
        }
    }
    fn write(&self, w: &mut Vec<u8>) {
        w.extend(&self.0);
    }
    fn any(c: &mut Choices<'_>) -> Self {
        AlignedBytes((0..8 * c.below(4)).map(|_| c.byte()).collect())
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
