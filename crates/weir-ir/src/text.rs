//! The text form of programs: one declaration or operation a line.
//!
//! [`Program`] prints itself ([`Display`](std::fmt::Display)), and [`parse`] reads what it prints: the result equals
//! the program, value numbers included.
//!
//! ```text
//! element DecIPTTL                        ; a comment goes to the end of the line
//! ports 1 -> 2                            ; numbers of inputs and outputs
//! table seen exact (src:32) -> (count:32) capacity 1024 held 4 group count sharing owner configured shared all
//!   row (0x0a000001) -> (5) ttl 1000000000
//! event low
//! entry packet 0 -> b0
//!
//! b0:
//!   require net 20 ok b1 fail b2
//! b1:
//!   v0:8 = load net+8
//!   v1:8 = 1
//!   v2:1 = le v0, v1
//!   branch v2 ? b2 : b3
//! ...
//! ```
//!
//! Indentation has no meaning. A name is written as it is if it consists of ASCII letters, digits, `_`, `@` and inner
//! `-` and does not start with a digit; any other name stands in double quotes, with `\"`, `\\` and `\u{HEX}` for
//! what cannot stand there. Numbers are decimal, or hexadecimal after `0x`.
//!
//! **References.** `NAME` is the element, table or event of that name. If elements that are linked use a name twice,
//! `ELEMENT/NAME` says which; `#N` is the one of that number, always. In the same way a field is `NAME` or `#N`.
//! Whatever belongs to an element ends with `of ELEMENT`, which is left out if there is only one.
//!
//! **Declarations.**
//! - `element NAME`, `ports IN -> OUT`, `event NAME`
//! - `table NAME KIND (KEY:BITS, …) -> (FIELD:BITS, …) capacity N`, then any of `held N`, `group FIELD`,
//!   `sharing local|read-mostly|shared|owner`, `configured`, `counting` (and configured), `shared NAME`; the kinds are `exact`, `lpm`, `rules` and
//!   `array`
//! - `row (MATCH, …) -> (VALUE, …)`, then any of `priority N`, `ttl NANOSECONDS`: first content of the table above.
//!   A match is a value `V`, masked `V&MASK`, a range `LO..HI` (both included), a prefix `V/LENGTH`, or `any`
//! - `entry KIND -> BLOCK`, where the kind is `packet PORT`, `timer NANOSECONDS`, `expire TABLE` or `message NAME`
//! - `values v7:32, …`: values that no operation defines but that have a type. A value that is neither defined nor
//!   used nor listed, though its number is below one that is, has one bit.
//!
//! **Blocks.** `bN:` or `bN(v4:32, v5:entry TABLE) loop LIMIT:` starts a block; they stand in the order of their
//! numbers, from 0. A value is defined as `vN:TYPE`, where the type is a number of bits or `entry TABLE`, and used as
//! `vN`. An AMOUNT is a number or a value, a PLACE is `LAYER+OFFSET`, a TARGET is `bN` or `bN(v1, v2)`.
//!
//! **Operations with a result**, after `vN:TYPE =`:
//! - a number; `add a, b` (`sub`, `mul`, `rem`, `and`, `or`, `xor`, `shl`, `shr`, `sum16`); `eq a, b` (`ne`, `lt`,
//!   `le`); `not a`; `resize a`; `select c ? a : b`
//! - `load PLACE`, `load anno+OFFSET`, `load meta.NAME`; `rest LAYER`; `distance LAYER to LAYER`
//! - `checksum LAYER START..AMOUNT`; `compare PLACE with PLACE bytes N`; `find BYTE in LAYER START..AMOUNT`
//! - `hash (a, …)`; `random`; `now`
//! - `index TABLE[N]`; `get e.FIELD`; `key e.FIELD`; `count TABLE group a`; `size TABLE`
//!
//! **Operations without:**
//! - `store PLACE, a`, `store anno+OFFSET, a`, `store meta.NAME, a`; `copy PLACE from PLACE bytes N`
//! - `mark LAYER = LAYER+AMOUNT`; `unmark LAYER`; `pull AMOUNT`; `trim a`
//! - `set e.FIELD, a`; `touch e, a`; `link e, e`; `remove e`
//! - `fork copy to TARGET`, `fork empty to TARGET`; `release e to TARGET`
//! - `notify EVENT (a, …)`, and `with packet`
//!
//! **Ends:**
//! - `jump TARGET`; `branch c ? TARGET : TARGET`; `switch a { NUMBER: TARGET, …, else: TARGET }`;
//!   `again TARGET exit TARGET`
//! - `require LAYER AMOUNT ok TARGET fail TARGET`; `push AMOUNT ok TARGET fail TARGET`, also `unpull` and `put`
//! - `lookup TABLE (a, …) hit TARGET miss TARGET`; `insert TABLE (a, …) ok TARGET full TARGET`;
//!   `claim TABLE (a, …) hole FIELD in a..b from c ok TARGET full TARGET`; `soonest TABLE hit TARGET miss TARGET`
//! - `meter e.FIELD cost a rate b burst c ok TARGET over TARGET`; `hold e full TARGET`
//! - `emit PORT`; `drop REASON`; `finish`; `enter BLOCK`; `recirculate BLOCK` (an enter that goes back); `exit N`

mod code;
mod line;
mod names;
mod print;
mod read;
mod table;

pub use read::parse;

use weir_table::{Kind, Sharing};

use crate::program::{BinOp, CmpOp};

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

const BINARY: [(&str, BinOp); 9] = [
    ("add", BinOp::Add),
    ("sub", BinOp::Sub),
    ("mul", BinOp::Mul),
    ("rem", BinOp::Rem),
    ("and", BinOp::And),
    ("or", BinOp::Or),
    ("xor", BinOp::Xor),
    ("shl", BinOp::Shl),
    ("shr", BinOp::Shr),
];

const COMPARE: [(&str, CmpOp); 4] =
    [("eq", CmpOp::Eq), ("ne", CmpOp::Ne), ("lt", CmpOp::Lt), ("le", CmpOp::Le)];

const KINDS: [(&str, Kind); 4] =
    [("exact", Kind::Exact), ("lpm", Kind::Lpm), ("rules", Kind::Rules), ("array", Kind::Array)];

const SHARING: [(&str, Sharing); 4] = [
    ("local", Sharing::Local),
    ("read-mostly", Sharing::ReadMostly),
    ("shared", Sharing::Shared),
    ("owner", Sharing::Owner),
];

fn word_for<T: PartialEq>(list: &[(&'static str, T)], item: &T) -> &'static str {
    list.iter().find(|(_, i)| i == item).map_or("?", |(word, _)| word)
}

fn by_word<T: Copy>(list: &[(&str, T)], word: &str) -> Option<T> {
    list.iter().find(|(w, _)| *w == word).map(|(_, item)| *item)
}
