//! Statements of random programs, written with the builder and therefore mostly of the kind that elements are.

use std::cell::{Cell, RefCell};

use super::Tape;
use super::tables::Tables;
use crate::program::Width::{W1, W8, W16, W32, W64, W128};
use crate::{Builder, Layer, MetaField, Program, Reason, V, Width};

pub(super) struct Gen<'a> {
    pub tape: &'a Tape<'a>,
    /// Values that are defined here.
    pub values: RefCell<Vec<V>>,
    statements: Cell<u32>,
    pub tables: Tables,
    pub event: u32,
    other_event: u32,
    outputs: u32,
}

/// The program of one element with one input, a timer, and outputs of which the last leads out of the graph.
pub fn element(tape: &Tape<'_>, name: &str, outputs: u32) -> Program {
    let mut b = Builder::new(name, 1, outputs);
    let tables = Tables::declare(&mut b);
    let (event, other_event) = (b.event("event"), b.event("other"));
    let g = Gen {
        tape,
        values: RefCell::default(),
        statements: Cell::new(30),
        tables,
        event,
        other_event,
        outputs,
    };
    b.input(0, |b| {
        g.body(b, 3, false);
        g.end(b, false);
    });
    match tape.pick(6) {
        1 | 4 => g.timer(&mut b),
        2 => g.message(&mut b),
        3 => g.expire(&mut b),
        _ => {}
    }
    b.finish()
}

const OFFSETS: [u32; 7] = [8, 10, 8, 9, 0, 12, 10];

impl Gen<'_> {
    /// A program that the clock starts; it may make a packet.
    fn timer(&self, b: &mut Builder) {
        self.values.borrow_mut().clear();
        b.timer(5, |b| {
            self.table_op(b, 0, true);
            if !b.ended() {
                let v = self.value(b, W32);
                self.new_packet(b, &[v]);
            }
        });
    }

    /// A program for messages of the control side, with two numbers.
    fn message(&self, b: &mut Builder) {
        b.message("message", &[W32, W8], |b, args| {
            self.values.replace(args.to_vec());
            self.table_op(b, 0, true);
            if !b.ended() {
                self.new_packet(b, &args[1..]);
            }
        });
    }

    /// A program for entries whose time has come; it may keep them.
    fn expire(&self, b: &mut Builder) {
        self.values.borrow_mut().clear();
        b.expire(self.tables.exact, |b, e| self.entry_op(b, e));
    }

    /// Another packet, which starts empty.
    fn new_packet(&self, b: &mut Builder, args: &[V]) {
        b.fork_new(args, |b, args| {
            let outside = self.values.replace(args.to_vec());
            b.put(self.tape.of(&[20_u32, 34, 30]));
            self.body(b, 1, true);
            self.end(b, true);
            self.values.replace(outside);
        });
    }

    /// Ends the path. A packet that was forked does not stay in the graph, or there would be ever more of them.
    pub fn end(&self, b: &mut Builder, forked: bool) {
        if b.ended() {
            return;
        }
        // What was found out is shown.
        let latest: Vec<V> = self.values.borrow().iter().rev().take(8).copied().collect();
        b.notify(self.event, &latest);
        match self.tape.pick(5) {
            1 => {
                let reasons = [Reason::DENIED, Reason::NO_MATCH, Reason::BAD_HEADER];
                b.drop(reasons[self.tape.pick(reasons.len())].clone());
            }
            2 => {
                let (k, l) = (self.value(b, W8), self.value(b, W8));
                let e = b.insert(self.tables.exact, &[k, l], |b| b.drop(Reason::FULL));
                b.touch(e, self.tape.of(&[10, 0, 100, 640]));
                b.hold(e, |b| b.drop(Reason::new("HoldFull")));
            }
            i if !forked => b.emit(i as u32 % self.outputs),
            _ => b.emit(self.outputs - 1),
        }
    }

    pub fn scoped(&self, body: impl FnOnce()) {
        let len = self.values.borrow().len();
        body();
        self.values.borrow_mut().truncate(len);
    }

    pub fn body(&self, b: &mut Builder, depth: u32, forked: bool) {
        for _ in 0..[4, 8, 14, 20][depth as usize] {
            if b.ended() || self.statements.get() == 0 {
                return;
            }
            self.statements.set(self.statements.get() - 1);
            self.statement(b, depth, forked);
        }
    }

    pub fn keep(&self, v: V) {
        self.values.borrow_mut().push(v);
    }

    /// A value of that width: one that is there, resized, or a constant.
    pub fn value(&self, b: &mut Builder, w: Width) -> V {
        let n = self.values.borrow().len();
        if n == 0 || self.tape.pick(4) == 0 {
            let c = self.tape.of(&[0_u128, 1, 2, 5, 0xff, 0xffff, 20]);
            return b.constant(w, c & w.max());
        }
        // The latest are the likeliest.
        let v = self.values.borrow()[n - 1 - self.tape.pick(n).min(self.tape.pick(n))];
        if w == W1 && v.width != W1 { b.lt(v, self.tape.of(&[3_u8, 1, 100, 255])) } else { b.resize(w, v) }
    }

    fn width(&self) -> Width {
        self.tape.of(&[W16, W16, W8, W16, W32, W64, W128])
    }

    fn layer(&self) -> Layer {
        let rare = [Layer::Mac, Layer::Cursor, Layer::Transport];
        if self.tape.pick(6) == 5 { self.tape.of(&rare) } else { self.tape.of(&[Layer::Net, Layer::Data]) }
    }

    fn require(&self, b: &mut Builder, layer: Layer, n: u32) {
        // A mark that is not set is set, mostly: few packets should end here.
        if layer != Layer::Data && self.tape.pick(8) != 7 {
            b.if_has(
                layer,
                n,
                |_| {},
                |b| {
                    b.require(Layer::Data, 2, Reason::TRUNCATED);
                    b.set_mark(layer, Layer::Data, 2_u32);
                },
            );
        }
        b.require(layer, n, Reason::TRUNCATED);
    }

    /// An amount that is proved to be there: up to 12 bytes from the layer on.
    fn amount(&self, b: &mut Builder, layer: Layer) -> V {
        let v = self.value(b, W32);
        let v = b.and(v, 12_u32);
        if layer != Layer::Data {
            self.require(b, layer, 0);
        }
        b.require(layer, v, Reason::TRUNCATED);
        v
    }

    fn statement(&self, b: &mut Builder, depth: u32, forked: bool) {
        let t = self.tape;
        match t.pick(37) {
            0 => self.end(b, forked),
            1..=4 => self.arithmetic(b),
            5..=8 => {
                let (w, l, off) = (self.width(), self.layer(), t.of(&OFFSETS));
                self.require(b, l, off + w.bytes() + t.of(&[0, 0, 20]));
                let v = b.load(w, l, off);
                self.keep(v);
            }
            9..=11 => {
                let (w, l, off) = (self.width(), self.layer(), t.of(&OFFSETS));
                let v = self.value(b, w);
                self.require(b, l, off + w.bytes());
                b.store(l, off, v);
            }
            34 => self.there_and_back(b),
            35 => {
                // A loop that moves the start of the packet, and reads the same offset inside as before.
                let off = t.of(&OFFSETS);
                b.require(Layer::Data, off + 8, Reason::TRUNCATED);
                let v = b.load(W16, Layer::Data, off);
                self.keep(v);
                b.set_mark(Layer::Mac, Layer::Data, off);
                let (moves, event) = (t.pick(4), self.event);
                b.repeat(3, &[v], |b, this, vars| {
                    b.require(Layer::Data, off + 8, Reason::TRUNCATED);
                    let v = b.load(W16, Layer::Data, off);
                    b.require(Layer::Mac, 2, Reason::TRUNCATED);
                    let marked = b.load(W16, Layer::Mac, 0);
                    b.notify(event, &[v, vars[0], marked]);
                    match moves {
                        0 => b.push(2),
                        1 => b.pull(2),
                        2 => {
                            b.pull(off + 2);
                            b.push(2);
                        }
                        _ => b.store_const(W8, Layer::Data, off + 1, 7_u8),
                    }
                    this.next(b, &[v]);
                });
            }
            33 => {
                let (w, l, off) = (self.width(), self.layer(), t.of(&OFFSETS));
                let v = b.choose_has(l, off + w.bytes(), |b| b.load(w, l, off), |b| b.constant(w, 3_u8));
                self.keep(v);
            }
            12 => {
                // A field of the header changes, and the checksum with it (RFC 1624).
                let l = self.layer();
                self.require(b, l, 20);
                let (old, new) = (b.load(W16, l, 8), self.value(b, W16));
                b.store(l, 8, new);
                let sum = b.load(W16, l, 10);
                let (sum, old) = (b.not(sum), b.not(old));
                let sum = b.sum16(sum, old);
                let sum = b.sum16(sum, new);
                let sum = b.not(sum);
                b.store(l, 10, sum);
            }
            13 | 14 if depth > 0 => {
                let c = self.value(b, W1);
                let ends = t.pick(3) != 0;
                b.when(c, |b| {
                    self.scoped(|| {
                        self.body(b, depth - 1, forked);
                        if ends {
                            self.end(b, forked);
                        }
                    });
                });
            }
            15 if depth > 0 => {
                let c = self.value(b, W1);
                b.if_else(
                    c,
                    |b| self.scoped(|| self.body(b, depth - 1, forked)),
                    |b| self.scoped(|| self.body(b, depth - 1, forked)),
                );
            }
            16 if depth > 0 => {
                let v = self.value(b, W8);
                b.switch(v, &[0, 1, 5], |b, _| self.scoped(|| self.body(b, depth - 1, forked)));
            }
            17 | 18 if depth > 0 => {
                let init = [self.value(b, W32), self.value(b, W8)];
                let limit = 1 + t.pick(4) as u32;
                let left = b.repeat(limit, &init, |b, this, vars| {
                    self.scoped(|| {
                        vars.iter().for_each(|&v| self.keep(v));
                        if t.pick(2) == 0 {
                            let c = self.value(b, W1);
                            let other = self.value(b, W32);
                            b.when(c, |b| this.leave(b, &[other, vars[1]]));
                        }
                        self.body(b, depth - 1, forked);
                        if !b.ended() {
                            let next = [self.value(b, W32), self.value(b, W8)];
                            this.next(b, &next);
                        }
                    });
                });
                left.into_iter().for_each(|v| self.keep(v));
            }
            19 if depth > 0 => {
                let c = self.value(b, W1);
                let v = b.choose(c, |b| self.value(b, W16), |b| self.value(b, W16));
                self.keep(v);
            }
            20 if !forked => {
                let args = [self.value(b, W16)];
                let outside = self.values.take();
                if t.pick(2) == 0 {
                    b.fork(|b| {
                        self.body(b, 1, true);
                        self.end(b, true);
                    });
                } else {
                    self.new_packet(b, &args);
                }
                self.values.replace(outside);
            }
            21 | 22 => {
                let mark = t.of(&[Layer::Net, Layer::Transport, Layer::Cursor, Layer::Mac]);
                let base = self.layer();
                match t.pick(5) {
                    0 => b.clear_mark(mark),
                    1 => {
                        let n = self.amount(b, base);
                        b.set_mark(mark, base, n);
                    }
                    _ => {
                        let n = t.of(&[0_u32, 14, 4, 20]);
                        self.require(b, base, n);
                        b.set_mark(mark, base, n);
                    }
                }
            }
            23 => {
                let n = t.of(&[4_u32, 14, 0, 2]);
                match t.pick(6) {
                    0 => b.push(n),
                    1 => b.unpull(n),
                    2 => b.put(n),
                    3 => {
                        let v = self.value(b, W32);
                        let v = b.and(v, 31_u32);
                        b.trim(v);
                    }
                    4 => {
                        let n = self.amount(b, Layer::Data);
                        b.pull(n);
                    }
                    _ => {
                        self.require(b, Layer::Data, n);
                        b.pull(n);
                    }
                }
            }
            24 => {
                let (w, off) = (t.of(&[W1, W8, W16, W32]), t.of(&[0, 1, 4, 2]));
                if t.pick(2) == 0 {
                    let v = b.load_anno(w, off);
                    self.keep(v);
                } else {
                    let v = self.value(b, w);
                    b.store_anno(off, v);
                }
            }
            25 => {
                let field = t.of(&MetaField::ALL);
                if t.pick(2) == 0 {
                    let v = b.load_meta(field);
                    self.keep(v);
                } else {
                    let v = self.value(b, field.width());
                    b.store_meta(field, v);
                }
            }
            26 | 27 => self.table_op(b, depth, forked),
            28 | 29 => self.range_op(b),
            30 => {
                let v = match t.pick(3) {
                    0 => b.rest(self.layer()),
                    1 => b.distance(self.layer(), self.layer()),
                    _ => b.len(),
                };
                self.keep(v);
            }
            31 => {
                let args = [self.value(b, W32)];
                let v = match t.pick(3) {
                    0 => b.hash(&args),
                    1 => b.random(),
                    _ => b.now(),
                };
                self.keep(v);
            }
            32 => {
                let args = [self.value(b, W32), self.value(b, W8)];
                let event = t.of(&[self.event, self.other_event]);
                if t.pick(2) == 0 { b.notify(event, &args) } else { b.notify_packet(event, &args) }
            }
            _ => {}
        }
    }

    /// Bytes are read, go away and come back as zeros.
    fn there_and_back(&self, b: &mut Builder) {
        let off = self.tape.of(&OFFSETS);
        b.require(Layer::Data, 16, Reason::TRUNCATED);
        b.set_mark(Layer::Net, Layer::Data, 0);
        let v = b.load(W16, Layer::Net, off);
        if self.tape.pick(2) == 0 {
            b.pull(14);
            b.push(self.tape.of(&[4_u32, 14]));
        } else {
            let len = b.constant(W32, off + 1);
            b.trim(len);
            b.put(20);
        }
        b.require(Layer::Net, off + 2, Reason::TRUNCATED);
        let again = b.load(W16, Layer::Net, off);
        b.notify(self.event, &[v, again]);
    }

    fn arithmetic(&self, b: &mut Builder) {
        let w = self.tape.of(&[W16, W8, W32, W1, W64, W128]);
        let (x, y) = (self.value(b, w), self.value(b, w));
        let v = match self.tape.pick(16) {
            0 => b.add(x, y),
            1 => b.sub(x, y),
            2 => b.mul(x, y),
            3 => b.rem(x, y),
            4 => b.and(x, y),
            5 => b.or(x, y),
            6 => b.xor(x, y),
            7 => b.shl(x, y),
            8 => b.shr(x, y),
            9 => b.eq(x, y),
            10 => b.ne(x, y),
            11 => b.lt(x, y),
            12 => b.le(x, y),
            13 => b.not(x),
            14 => {
                let c = self.value(b, W1);
                b.select(c, x, y)
            }
            _ => {
                let (x, y) = (self.value(b, W16), self.value(b, W16));
                b.sum16(x, y)
            }
        };
        self.keep(v);
    }

    fn range_op(&self, b: &mut Builder) {
        let t = self.tape;
        let l = self.layer();
        match t.pick(5) {
            0 => {
                let n = self.amount(b, l);
                let v = b.checksum(l, t.of(&[0, 2]), n);
                self.keep(v);
            }
            1 => {
                self.require(b, l, 20);
                let v = b.checksum(l, 0, 20_u32);
                self.keep(v);
            }
            2 => {
                self.require(b, l, 16);
                let m = self.layer();
                self.require(b, m, 12);
                b.require(l, 16_u32, Reason::TRUNCATED);
                b.copy_bytes((l, t.of(&[0, 8, 10])), (m, t.of(&[0, 4])), 6);
            }
            3 => {
                self.require(b, l, 16);
                let v = b.compare_bytes((l, 0), (l, t.of(&[4, 8])), 4);
                self.keep(v);
            }
            _ => {
                let n = self.amount(b, l);
                let byte = self.value(b, W8);
                let v = b.find_byte(l, 1, n, byte);
                self.keep(v);
            }
        }
    }
}
