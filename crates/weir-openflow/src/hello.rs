//! What is in a hello (section 7.5.1).

use std::fmt;

use crate::choices::Choices;
use crate::describe::to_eight;
use crate::error::{DecodeError, bad_request};
use crate::wire::{Bytes, Reader, Wire, set_length};

/// A part of a hello. Kinds that are not known are kept as they are: later versions may have more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelloElement {
    /// The versions that a side speaks: bit `n % 32` of word `n / 32` is version `n`.
    VersionBitmap(Vec<u32>),
    /// Another kind, which is not 1.
    Other {
        /// Its number.
        kind: u16,
        /// What it says.
        body: Bytes,
    },
}

impl HelloElement {
    /// A bitmap of these versions, which are below 256.
    pub fn versions(versions: &[u8]) -> HelloElement {
        let words = versions.iter().max().map_or(0, |v| usize::from(*v) / 32 + 1);
        let mut bitmap = vec![0; words];
        versions.iter().for_each(|v| bitmap[usize::from(*v) / 32] |= 1 << (v % 32));
        HelloElement::VersionBitmap(bitmap)
    }
}

impl Wire for HelloElement {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.clone();
        let kind = r.u16()?;
        let length = usize::from(r.u16()?);
        let Some(body) = length.checked_sub(4) else {
            let what = format!("it says {length} bytes long, 4 are its header");
            return Err(start.error(bad_request::BAD_LEN, what));
        };
        let mut body = r.part(body, bad_request::BAD_LEN)?;
        r.skip(to_eight(length))?;
        Ok(match kind {
            1 => HelloElement::VersionBitmap(Vec::read(&mut body)?),
            _ => HelloElement::Other { kind, body: Bytes::read(&mut body)? },
        })
    }
    fn write(&self, w: &mut Vec<u8>) {
        let start = w.len();
        let kind = match self {
            HelloElement::VersionBitmap(_) => 1,
            HelloElement::Other { kind, .. } => *kind,
        };
        w.extend(kind.to_be_bytes());
        w.extend([0; 2]);
        match self {
            HelloElement::VersionBitmap(words) => words.write(w),
            HelloElement::Other { body, .. } => body.write(w),
        }
        set_length(w, start, start + 2);
        let padding = to_eight(w.len() - start);
        w.extend(std::iter::repeat_n(0, padding));
    }
    fn any(c: &mut Choices<'_>) -> Self {
        match c.below(3) {
            2 => HelloElement::Other { kind: 2 + u16::from(c.byte()), body: Bytes::any(c) },
            _ => HelloElement::VersionBitmap(Vec::any(c)),
        }
    }
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HelloElement::VersionBitmap(words) => {
                let versions = (0..words.len() * 32).filter(|n| words[n / 32] & 1 << (n % 32) != 0);
                let versions: Vec<String> = versions.map(|n| format!("{n:#04x}")).collect();
                write!(f, "version bitmap: {}", versions.join(", "))
            }
            HelloElement::Other { kind, body } => write!(f, "element {kind}: {body:?}"),
        }
    }
}

/// The elements of a hello as far as they can be read. What comes behind says nothing, for other versions may say more there
/// (section 7.5.1).
pub(crate) fn readable(mut body: &[u8]) -> Vec<HelloElement> {
    let mut elements = Vec::new();
    while let Some(&[_, _, l0, l1]) = body.first_chunk() {
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let padded = length + to_eight(length);
        let mut element = body[..length.min(body.len())].to_vec();
        element.resize(padded, 0);
        match HelloElement::read(&mut Reader::new(&element, bad_request::BAD_LEN)) {
            Ok(element) if length <= body.len() => elements.push(element),
            _ => break,
        }
        body = &body[padded.min(body.len())..];
    }
    elements
}
