//! Conditions as SMT-LIB 2 text over bit-vectors (theory `FixedSizeBitVectors`): each expression is a definition, each
//! symbol a constant.
//!
//! What bit-vectors cannot say (hashes, buckets, claims, sums over ranges of any length) is a constant about which less
//! is known than holds. So what has no solution here has none; a solution found here may not be one.

use rustc_hash::{FxHashMap, FxHashSet};
use weir_ir::program::{BinOp, Width};
use weir_packet::{HUGE_CAPACITY, SMALL_CAPACITY};

use crate::model::expr::{At, EntryAt, Expr, Exprs, MemId, Node, Source, Symbol};
use crate::model::facts::Facts;

/// Longest range whose bytes are looked at one by one.
const LONGEST: u32 = 256;
/// Most ends that a range may have, each with a sum of its own.
const ENDS: u128 = 64;
/// Most pairs of uses of a function of which it is said that equal arguments give equal values.
const PAIRS: usize = 2000;

/// A number of so many bits.
pub(crate) fn number(v: u128, bits: u32) -> String {
    format!("(_ bv{v} {bits})")
}

/// The commands that declare what conditions speak of, and assert them.
pub(crate) struct Terms<'a> {
    x: &'a Exprs,
    facts: &'a Facts,
    /// Commands that were not taken yet.
    lines: Vec<String>,
    names: FxHashMap<Expr, String>,
    symbols: FxHashMap<Symbol, String>,
    /// The symbols with a constant, in the order in which they were met.
    order: Vec<Symbol>,
    /// Expressions of which less is known than holds, in the same order.
    free: Vec<Expr>,
}

impl<'a> Terms<'a> {
    /// Of no condition.
    pub(crate) fn new(x: &'a Exprs, facts: &'a Facts) -> Terms<'a> {
        Terms {
            x,
            facts,
            lines: Vec::new(),
            names: FxHashMap::default(),
            symbols: FxHashMap::default(),
            order: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The commands since it was last asked.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// The symbols that have a constant.
    pub(crate) fn symbols(&self) -> &[Symbol] {
        &self.order
    }

    /// The expressions of which less is said than holds.
    pub(crate) fn free(&self) -> &[Expr] {
        &self.free
    }

    /// The name of an expression that was defined.
    pub(crate) fn name(&self, e: Expr) -> String {
        match self.x.constant_value(e) {
            Some(v) => number(v, self.x.width(e).bits()),
            // Operands are defined first.
            None => self.names.get(&e).cloned().unwrap_or_else(|| number(0, self.x.width(e).bits())),
        }
    }

    /// Asserts that each condition holds.
    pub(crate) fn assert_all(&mut self, conditions: &[Expr]) {
        self.define_all(conditions);
        for &c in conditions {
            let name = self.name(c);
            self.assert(&format!("(= {name} #b1)"));
        }
        self.congruence();
    }

    /// Asserts a term of sort `Bool`.
    pub(crate) fn assert(&mut self, term: &str) {
        self.lines.push(format!("(assert {term})"));
    }

    /// Adds a command.
    pub(crate) fn command(&mut self, line: String) {
        self.lines.push(line);
    }

    fn define_all(&mut self, roots: &[Expr]) {
        let mut seen: FxHashSet<Expr> = roots.iter().copied().collect();
        let mut work: Vec<Expr> = roots.to_vec();
        while let Some(e) = work.pop() {
            work.extend(self.x.operands(e).into_iter().filter(|&o| seen.insert(o)));
        }
        // Operands are older than what is made of them.
        let mut all: Vec<Expr> = seen.into_iter().collect();
        all.sort_unstable();
        for e in all {
            self.define(e);
        }
    }

    fn define(&mut self, e: Expr) {
        let (bits, x) = (self.x.width(e).bits(), self.x);
        if self.names.contains_key(&e) {
            return;
        }
        let name = match x.node(e) {
            Node::Const(_) => return,
            Node::Symbol(s) => self.symbol(s, bits),
            _ => match self.term(e) {
                Some(term) => {
                    let name = format!("e{}", e.0);
                    self.lines.push(format!("(define-fun {name} () (_ BitVec {bits}) {term})"));
                    name
                }
                None => {
                    let name = format!("e{}", e.0);
                    self.lines.push(format!("(declare-const {name} (_ BitVec {bits}))"));
                    self.free.push(e);
                    name
                }
            },
        };
        let (lo, hi) = x.bounds(e);
        if lo > 0 {
            self.assert(&format!("(bvuge {name} {})", number(lo, bits)));
        }
        if hi < x.width(e).max() {
            self.assert(&format!("(bvule {name} {})", number(hi, bits)));
        }
        self.names.insert(e, name);
        self.bound_free(e);
    }

    /// The constant of a symbol.
    pub(crate) fn symbol(&mut self, s: &Symbol, bits: u32) -> String {
        if let Some(name) = self.symbols.get(s) {
            return name.clone();
        }
        let name = format!("s{}", self.order.len());
        self.lines.push(format!("(declare-const {name} (_ BitVec {bits}))"));
        self.order.push(s.clone());
        self.symbols.insert(s.clone(), name.clone());
        name
    }

    /// An expression's name, zero-extended or cut.
    pub(crate) fn fit(&self, e: Expr, bits: u32) -> String {
        resized(&self.name(e), self.x.width(e).bits(), bits)
    }

    /// What an expression is, from its operands; `None`: that cannot be said.
    fn term(&mut self, e: Expr) -> Option<String> {
        let (x, bits) = (self.x, self.x.width(e).bits());
        let zero = |e: Expr| number(0, x.width(e).bits());
        Some(match x.node(e) {
            Node::Const(v) => number(*v, bits),
            Node::Symbol(s) => self.symbol(s, bits),
            Node::Binary(BinOp::Mul, a, b) => {
                // A multiplier costs the square of its width.
                let need = (self.needs(*a) + self.needs(*b)).min(bits);
                let product = format!("(bvmul {} {})", self.fit(*a, need), self.fit(*b, need));
                resized(&product, need, bits)
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.fit(*a, bits), self.fit(*b, bits));
                match op {
                    BinOp::Add => format!("(bvadd {a} {b})"),
                    BinOp::Sub => format!("(bvsub {a} {b})"),
                    BinOp::Mul => format!("(bvmul {a} {b})"),
                    BinOp::And => format!("(bvand {a} {b})"),
                    BinOp::Or => format!("(bvor {a} {b})"),
                    BinOp::Xor => format!("(bvxor {a} {b})"),
                    // A shift by the width or more gives 0, in SMT-LIB as in the IR.
                    BinOp::Shl => format!("(bvshl {a} {b})"),
                    BinOp::Shr => format!("(bvlshr {a} {b})"),
                    BinOp::Rem => {
                        let zero = number(0, bits);
                        format!("(ite (= {b} {zero}) {zero} (bvurem {a} {b}))")
                    }
                }
            }
            Node::Equal(a, b) | Node::Less(a, b) => {
                let wide = x.width(*a).bits().max(x.width(*b).bits());
                let (p, q) = (self.fit(*a, wide), self.fit(*b, wide));
                let relation = if matches!(x.node(e), Node::Equal(..)) { "=" } else { "bvult" };
                format!("(ite ({relation} {p} {q}) #b1 #b0)")
            }
            Node::In(a, set) => {
                let (name, wide) = (self.name(*a), x.width(*a).bits());
                let within = |&(lo, hi): &(u128, u128)| {
                    format!("(and (bvule {} {name}) (bvule {name} {}))", number(lo, wide), number(hi, wide))
                };
                let parts: Vec<String> = set.intervals().iter().map(within).collect();
                format!("(ite (or false {}) #b1 #b0)", parts.join(" "))
            }
            Node::Not(a) => format!("(bvnot {})", self.fit(*a, bits)),
            Node::Resize(a) => self.fit(*a, bits),
            Node::Select(c, a, b) => {
                let (p, q) = (self.fit(*a, bits), self.fit(*b, bits));
                format!("(ite (= {} {}) {q} {p})", self.name(*c), zero(*c))
            }
            Node::Concat(bytes) => {
                let parts: Vec<String> = bytes.iter().map(|&b| self.fit(b, 8)).collect();
                resized(&concat(&parts), 8 * bytes.len() as u32, bits)
            }
            Node::Byte(a, i) => {
                let low = 8 * (x.width(*a).bytes() - 1 - i);
                let whole = self.fit(*a, 8 * x.width(*a).bytes());
                format!("((_ extract {} {low}) {whole})", low + 7)
            }
            Node::Sum16(a, b) => {
                let (a, b) = (self.fit(*a, 17), self.fit(*b, 17));
                folded(&format!("(bvadd {a} {b})"), 17)
            }
            Node::Checksum { mem, from, start, end } => {
                let ends = self.ends(*end, *start)?;
                let sums = ends.into_iter().map(|(v, len)| (v, self.sum_of(*mem, *from, len)));
                let sums: Vec<_> = sums.collect();
                self.by_value(*end, &sums)?
            }
            Node::Find { mem, from, start, end, byte } => {
                let ends = self.ends(*end, *start)?;
                let found =
                    ends.into_iter().map(|(v, n)| (v, self.first_of(*mem, *from, *start, n, v, *byte)));
                let found: Vec<_> = found.collect();
                self.by_value(*end, &found)?
            }
            Node::Hash(_) | Node::MeterOk(_) | Node::MeterState(_) | Node::ClaimOk(_) | Node::Claimed(_) => {
                return None;
            }
        })
    }

    /// How many bits the values of an expression take.
    fn needs(&self, e: Expr) -> u32 {
        let most = self.facts.set(self.x, e).hull().map_or(u128::MAX, |h| h.1);
        (128 - most.leading_zeros()).max(1)
    }

    /// The ends that a range may have, each with the range's length; `None`: too many, or too long.
    fn ends(&self, end: Expr, start: u32) -> Option<Vec<(u128, u32)>> {
        let set = self.facts.set(self.x, end);
        if set.count() > ENDS || set.is_empty() {
            return None;
        }
        set.values().map(|v| range_len(v, start, LONGEST).map(|n| (v, n))).collect()
    }

    /// One of the values, by which of the numbers an expression is.
    fn by_value(&self, e: Expr, values: &[(u128, String)]) -> Option<String> {
        let (name, bits) = (self.name(e), self.x.width(e).bits());
        let ((_, last), others) = values.split_last()?;
        let mut all = String::new();
        for (v, term) in others {
            all += &format!("(ite (= {name} {}) {term} ", number(*v, bits));
        }
        Some(all + last + &")".repeat(others.len()))
    }

    /// A byte of a packet.
    fn mem_byte(&mut self, mem: MemId, at: i64) -> String {
        let mem = self.x.mem(mem);
        match mem.writes.get(&at) {
            Some(&b) => self.fit(b, 8),
            None if *self.x.source(mem.source) == Source::Empty => number(0, 8),
            None => self.symbol(&Symbol::Byte(mem.source, at), 8),
        }
    }

    /// The ones' complement sum of `len` bytes.
    fn sum_of(&mut self, mem: MemId, from: i64, len: u32) -> String {
        let mut sum = vec![number(0, 32)];
        for i in (0..i64::from(len)).step_by(2) {
            let high = self.mem_byte(mem, from + i);
            let low = if i + 1 < i64::from(len) { self.mem_byte(mem, from + i + 1) } else { number(0, 8) };
            sum.push(format!("(concat #x0000 {high} {low})"));
        }
        // One of them is always there, and one sum of many is shorter to say than many sums of two.
        let sum = if let [only] = &sum[..] { only.clone() } else { format!("(bvadd {})", sum.join(" ")) };
        // A packet has less than 2^15 words, so two folds are enough.
        let once =
            "(bvadd ((_ zero_extend 1) ((_ extract 15 0) t)) ((_ zero_extend 1) ((_ extract 31 16) t)))";
        format!("(let ((t {sum})) {})", folded(once, 17))
    }

    /// Where a byte is first, among `len`.
    fn first_of(&mut self, mem: MemId, from: i64, start: u32, len: u32, end: u128, byte: Expr) -> String {
        let wanted = self.fit(byte, 8);
        (0..len).rev().fold(number(end, 32), |rest, i| {
            let b = self.mem_byte(mem, from + i64::from(i));
            let here = number(u128::from(start) + u128::from(i), 32);
            format!("(ite (= {b} {wanted}) {here} {rest})")
        })
    }

    /// What holds of an expression that is free.
    fn bound_free(&mut self, e: Expr) {
        match self.x.node(e) {
            Node::Claimed(c) => {
                let Some(ok) = self.x.find(Width::W1, &Node::ClaimOk(c.clone())) else { return };
                self.define(ok);
                let (ok, v, bits) = (self.name(ok), self.name(e), self.x.width(e).bits());
                let (lo, hi) = (self.fit(c.lo, bits), self.fit(c.hi, bits));
                self.assert(&format!("(=> (= {ok} #b1) (and (bvule {lo} {v}) (bvule {v} {hi})))"));
            }
            Node::ClaimOk(c) => {
                let wide = self.x.width(c.lo).bits().max(self.x.width(c.hi).bits());
                let (ok, lo, hi) = (self.name(e), self.fit(c.lo, wide), self.fit(c.hi, wide));
                self.assert(&format!("(=> (= {ok} #b1) (bvule {lo} {hi}))"));
            }
            Node::Find { start, end, .. } if self.free.last() == Some(&e) => {
                let (v, end, bits) = (self.name(e), self.name(*end), self.x.width(e).bits());
                let start = number(u128::from(*start), bits);
                self.assert(&format!("(or (= {v} {end}) (and (bvule {start} {v}) (bvult {v} {end})))"));
            }
            _ => {}
        }
    }

    /// Says of hashes and table entries that equal arguments give equal values.
    fn congruence(&mut self) {
        let mut groups: Vec<(Use, Vec<Named>)> = Vec::new();
        let hashes = self.free.iter().filter_map(|&e| match self.x.node(e) {
            Node::Hash(args) => Some((Use::Hash(args.len()), args.to_vec(), self.name(e))),
            _ => None,
        });
        let symbols = self.order.iter().filter_map(|s| {
            let (shape, args) = without_key(s)?;
            Some((Use::Symbol(shape), args, self.symbols.get(s)?.clone()))
        });
        for (what, args, name) in hashes.chain(symbols) {
            match groups.iter_mut().find(|g| g.0 == what) {
                Some(g) => g.1.push((args, name)),
                None => groups.push((what, vec![(args, name)])),
            }
        }
        let mut pairs = 0;
        for (_, uses) in groups {
            for (i, (a, p)) in uses.iter().enumerate() {
                for (b, q) in &uses[..i] {
                    let alike = a.iter().zip(b).all(|(&a, &b)| self.x.width(a) == self.x.width(b));
                    pairs += 1;
                    if !alike || a.len() != b.len() || pairs > PAIRS {
                        continue;
                    }
                    let same: Vec<String> = a
                        .iter()
                        .zip(b)
                        .map(|(&a, &b)| format!("(= {} {})", self.name(a), self.name(b)))
                        .collect();
                    self.assert(&format!("(=> (and true {}) (= {p} {q}))", same.join(" ")));
                }
            }
        }
    }

    /// Says what a free expression is where its arguments are as in `value`, which gives the value of any expression.
    pub(crate) fn learn(&mut self, e: Expr, value: &mut dyn FnMut(Expr) -> u128) {
        let (x, name) = (self.x, self.name(e));
        let lemma = match x.node(e) {
            Node::Checksum { mem, from, start, end } => {
                let v = value(*end);
                let Some(len) = range_len(v, *start, SMALL_CAPACITY) else { return };
                let sum = self.sum_of(*mem, *from, len);
                let end_name = self.name(*end);
                format!("(=> (= {end_name} {}) (= {name} {sum}))", number(v, x.width(*end).bits()))
            }
            Node::Find { mem, from, start, end, byte } => {
                let v = value(*end);
                let Some(len) = range_len(v, *start, SMALL_CAPACITY) else { return };
                let found = self.first_of(*mem, *from, *start, len, v, *byte);
                let end_name = self.name(*end);
                format!("(=> (= {end_name} {}) (= {name} {found}))", number(v, x.width(*end).bits()))
            }
            _ => {
                let same: Vec<String> = x
                    .operands(e)
                    .into_iter()
                    .map(|o| format!("(= {} {})", self.name(o), number(value(o), x.width(o).bits())))
                    .collect();
                let v = number(value(e), x.width(e).bits());
                format!("(=> (and true {}) (= {name} {v}))", same.join(" "))
            }
        };
        self.assert(&lemma);
    }
}

/// Arguments of a function, and the name of its value.
type Named = (Vec<Expr>, String);

/// A function of which nothing but that is known.
#[derive(PartialEq)]
enum Use {
    Hash(usize),
    Symbol(Symbol),
}

/// Number of bytes of a range, if it is not longer than `most`.
fn range_len(end: u128, start: u32, most: u32) -> Option<u32> {
    let len = u32::try_from(end).ok()?.saturating_sub(start);
    // A longer one than any packet has is read as empty.
    if len > HUGE_CAPACITY { Some(0) } else { Some(len).filter(|&n| n <= most) }
}

fn resized(term: &str, from: u32, to: u32) -> String {
    match from.cmp(&to) {
        std::cmp::Ordering::Equal => term.to_owned(),
        std::cmp::Ordering::Less => format!("((_ zero_extend {}) {term})", to - from),
        std::cmp::Ordering::Greater => format!("((_ extract {} 0) {term})", to - 1),
    }
}

fn concat(parts: &[String]) -> String {
    match parts {
        [] => number(0, 8),
        [one] => one.clone(),
        _ => format!("(concat {})", parts.join(" ")),
    }
}

/// 17 bits or more as 16, with what is above the lowest 16 added to them.
fn folded(sum: &str, bits: u32) -> String {
    let high = bits - 16;
    format!(
        "(let ((u {sum})) (bvadd ((_ extract 15 0) u) ((_ zero_extend {}) ((_ extract {} 16) u))))",
        16 - high,
        bits - 1
    )
}

/// What a symbol says of an entry, without the entry's key, and the key.
fn without_key(s: &Symbol) -> Option<(Symbol, Vec<Expr>)> {
    let split = |at: &EntryAt| match &at.at {
        At::Key(k) => Some((EntryAt { table: at.table, at: At::Key([].into()) }, k.to_vec())),
        At::Row(_) => None,
    };
    match s {
        Symbol::Has(at) => split(at).map(|(at, k)| (Symbol::Has(at), k)),
        Symbol::Field(at, f) => split(at).map(|(at, k)| (Symbol::Field(at, *f), k)),
        Symbol::HeldCount(at) => split(at).map(|(at, k)| (Symbol::HeldCount(at), k)),
        Symbol::PartnerIn(at, t) => split(at).map(|(at, k)| (Symbol::PartnerIn(at, *t), k)),
        Symbol::PartnerKey(at, t, f) => split(at).map(|(at, k)| (Symbol::PartnerKey(at, *t, *f), k)),
        _ => None,
    }
}
