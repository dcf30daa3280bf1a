//! Random programs: what the builder can write must mean the same to both.

use proptest::prelude::*;
use weir_ir::program::TableId;
use weir_ir::{Builder, Layer, MetaField, Program, Reason, TableDecl, V, Width};
use weir_jit::differential::{Step, assert_same};
use weir_packet::Packet;
use weir_table::Kind;

use crate::programs::{frame, one};

/// One call of the builder. Numbers choose among the values that there are, places and constants.
#[derive(Debug, Clone)]
enum Call {
    Constant(u8, u128),
    Binary(u8, u8, u8),
    Compare(u8, u8, u8),
    Not(u8),
    Resize(u8, u8),
    Select(u8, u8, u8),
    Sum16(u8, u8),
    Hash(u8, u8),
    Random,
    Now,
    Load(u8, u8, u8),
    Store(u8, u8, u8),
    Anno(u8, u8, u8),
    Meta(u8, u8),
    Mark(u8, u8, u8),
    Checksum(u8, u8, u8),
    Copy(u8, u8, u8),
    Equal(u8, u8, u8),
    Find(u8, u8, u8),
    Places,
    If(u8, Vec<Call>, Vec<Call>),
    Switch(u8, Vec<Call>, Vec<Call>),
    Repeat(u8, u8, Vec<Call>),
    Fork(u8, Vec<Call>),
    Shape(u8, u8),
    Notify(u8),
    Table(u8, u8, u8),
}

fn call() -> impl Strategy<Value = Call> {
    let n = any::<u8>;
    let constant =
        prop_oneof![any::<u128>(), (0u128..70), (0u32..128).prop_map(|s| 1u128 << s), Just(u128::MAX)];
    let leaf = prop_oneof![
        3 => (n(), constant).prop_map(|(a, b)| Call::Constant(a, b)),
        8 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Binary(a, b, c)),
        3 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Compare(a, b, c)),
        1 => n().prop_map(Call::Not),
        3 => (n(), n()).prop_map(|(a, b)| Call::Resize(a, b)),
        3 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Select(a, b, c)),
        1 => (n(), n()).prop_map(|(a, b)| Call::Sum16(a, b)),
        1 => (n(), n()).prop_map(|(a, b)| Call::Hash(a, b)),
        1 => Just(Call::Random),
        1 => Just(Call::Now),
        4 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Load(a, b, c)),
        4 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Store(a, b, c)),
        1 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Anno(a, b, c)),
        1 => (n(), n()).prop_map(|(a, b)| Call::Meta(a, b)),
        2 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Mark(a, b, c)),
        1 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Checksum(a, b, c)),
        1 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Copy(a, b, c)),
        1 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Equal(a, b, c)),
        1 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Find(a, b, c)),
        1 => Just(Call::Places),
        2 => (n(), n()).prop_map(|(a, b)| Call::Shape(a, b)),
        1 => n().prop_map(Call::Notify),
        3 => (n(), n(), n()).prop_map(|(a, b, c)| Call::Table(a, b, c)),
    ];
    leaf.prop_recursive(3, 40, 8, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..8);
        let n = any::<u8>;
        prop_oneof![
            (n(), list(), list()).prop_map(|(a, b, c)| Call::If(a, b, c)),
            (n(), list(), list()).prop_map(|(a, b, c)| Call::Switch(a, b, c)),
            (n(), n(), list()).prop_map(|(a, b, c)| Call::Repeat(a, b, c)),
            (n(), list()).prop_map(|(a, b)| Call::Fork(a, b)),
        ]
    })
}

fn width(n: u8) -> Width {
    Width::ALL[usize::from(n) % 6]
}

fn layer(n: u8) -> Layer {
    Layer::ALL[usize::from(n) % 5]
}

/// The values so far. Values of a way are gone after it.
struct Writer {
    values: Vec<V>,
    event: u32,
    table: TableId,
}

impl Writer {
    fn any(&self, n: u8) -> V {
        self.values[usize::from(n) % self.values.len()]
    }

    fn of(&self, b: &mut Builder, n: u8, w: Width) -> V {
        let v = self.any(n);
        b.resize(w, v)
    }

    fn bytes(&self, b: &mut Builder, l: Layer, n: u32) {
        b.require(l, n, Reason::TRUNCATED);
    }

    fn inside(&mut self, b: &mut Builder, calls: &[Call]) {
        let known = self.values.len();
        for c in calls {
            self.call(b, c);
        }
        self.values.truncate(known);
    }

    fn call(&mut self, b: &mut Builder, call: &Call) {
        let v = match *call {
            Call::Constant(w, v) => b.constant(width(w), v),
            Call::Binary(op, x, y) => {
                let x = self.any(x);
                let y = self.of(b, y, x.width);
                match op % 9 {
                    0 => b.add(x, y),
                    1 => b.sub(x, y),
                    2 => b.mul(x, y),
                    3 => b.rem(x, y),
                    4 => b.and(x, y),
                    5 => b.or(x, y),
                    6 => b.xor(x, y),
                    7 => b.shl(x, y),
                    _ => b.shr(x, y),
                }
            }
            Call::Compare(op, x, y) => {
                let x = self.any(x);
                let y = self.of(b, y, x.width);
                match op % 4 {
                    0 => b.eq(x, y),
                    1 => b.ne(x, y),
                    2 => b.lt(x, y),
                    _ => b.le(x, y),
                }
            }
            Call::Not(x) => b.not(self.any(x)),
            Call::Resize(w, x) => self.of(b, x, width(w)),
            Call::Select(c, x, y) => {
                let c = self.of(b, c, Width::W1);
                let x = self.any(x);
                let y = self.of(b, y, x.width);
                b.select(c, x, y)
            }
            Call::Sum16(x, y) => {
                let (x, y) = (self.of(b, x, Width::W16), self.of(b, y, Width::W16));
                b.sum16(x, y)
            }
            Call::Hash(x, y) => b.hash(&[self.any(x), self.any(y)]),
            Call::Random => b.random(),
            Call::Now => b.now(),
            Call::Load(w, l, off) => {
                let w = if width(w) == Width::W1 { Width::W8 } else { width(w) };
                self.bytes(b, layer(l), u32::from(off % 32) + w.bytes());
                b.load(w, layer(l), u32::from(off % 32))
            }
            Call::Store(x, l, off) => {
                let x = self.any(x);
                let x = if x.width == Width::W1 { b.resize(Width::W8, x) } else { x };
                self.bytes(b, layer(l), u32::from(off % 32) + x.width.bytes());
                b.store(layer(l), u32::from(off % 32), x);
                return;
            }
            Call::Anno(x, w, off) => {
                let (x, w) = (self.any(x), width(w));
                b.store_anno(u32::from(off) % (49 - x.width.bytes()), x);
                b.load_anno(w, u32::from(off / 2) % (49 - w.bytes()))
            }
            Call::Meta(f, x) => {
                let f = MetaField::ALL[usize::from(f) % MetaField::ALL.len()];
                let old = b.load_meta(f);
                let new = self.of(b, x, f.width());
                b.store_meta(f, new);
                old
            }
            Call::Mark(l, base, off) => {
                let l = Layer::ALL[1 + usize::from(l) % 4];
                if off < 10 {
                    b.clear_mark(l);
                } else {
                    self.bytes(b, layer(base), u32::from(off % 24));
                    b.set_mark(l, layer(base), u32::from(off % 24));
                }
                return;
            }
            Call::Checksum(l, start, end) => {
                let (start, end) = (u32::from(start % 40), u32::from(end % 120));
                self.bytes(b, layer(l), end);
                b.checksum(layer(l), start, end)
            }
            Call::Copy(l, to, from) => {
                let (to, from, len) = (u32::from(to % 30), u32::from(from % 30), u32::from(to ^ from) % 70);
                self.bytes(b, layer(l), to.max(from) + len);
                b.copy_bytes((layer(l), to), (layer(l), from), len);
                return;
            }
            Call::Equal(l, x, y) => {
                let (x, y, len) = (u32::from(x % 30), u32::from(y % 30), u32::from(x ^ y) % 70);
                self.bytes(b, layer(l), x.max(y) + len);
                b.compare_bytes((layer(l), x), (layer(l), y), len)
            }
            Call::Find(l, end, byte) => {
                let (end, byte) = (self.of(b, end, Width::W32), self.of(b, byte, Width::W8));
                let end = b.rem(end, 80);
                b.require(layer(l), end, Reason::TRUNCATED);
                b.find_byte(layer(l), 3, end, byte)
            }
            Call::Places => {
                for x in Layer::ALL {
                    let rest = b.rest(x);
                    let distance = b.distance(x, Layer::Cursor);
                    self.values.extend([rest, distance]);
                }
                return;
            }
            Call::If(c, ref yes, ref no) => {
                let c = self.of(b, c, Width::W1);
                // Both ways write, so each gets a writer of its own.
                let mut other = Writer { values: self.values.clone(), ..*self };
                b.if_else(c, |b| self.inside(b, yes), |b| other.inside(b, no));
                return;
            }
            Call::Switch(x, ref one, ref rest) => {
                let x = self.any(x);
                let cases = [0, 1, 5, 200, 1 << 20].map(|c| c & x.width.max());
                let known = if x.width == Width::W1 { &cases[..2] } else { &cases[..4] };
                b.switch(x, known, |b, i| self.inside(b, if i == Some(1) { one } else { rest }));
                return;
            }
            Call::Repeat(limit, x, ref body) => {
                let (x, y) = (self.any(x), b.constant(Width::W8, 0u8));
                let vars = b.repeat(u32::from(limit % 6) + 1, &[x, y], |b, l, v| {
                    let known = self.values.len();
                    self.values.extend(v);
                    body.iter().for_each(|c| self.call(b, c));
                    let stop = self.of(b, limit, Width::W8);
                    let stop = b.eq(stop, 3);
                    b.when(stop, |b| l.leave(b, v));
                    let (x, y) = (self.of(b, limit, v[0].width), b.add(v[1], 1));
                    self.values.truncate(known);
                    l.next(b, &[x, y]);
                });
                self.values.extend(vars);
                return;
            }
            Call::Fork(x, ref body) => {
                let args: Vec<V> = (0..x % 4).map(|i| self.any(x / 4 + i)).collect();
                let args: Vec<V> = args.into_iter().filter(|v| v.width != Width::W128).collect();
                let (event, table) = (self.event, self.table);
                let run = |b: &mut Builder, values: &[V]| {
                    let mut values = values.to_vec();
                    values.push(b.constant(Width::W32, x));
                    Writer { values, event, table }.inside(b, body);
                    if !b.ended() {
                        b.emit(1);
                    }
                };
                if x % 3 == 0 {
                    b.fork(|b| run(b, &[]));
                } else {
                    b.fork_new(&args, run);
                }
                return;
            }
            Call::Shape(how, n) => {
                let n = u32::from(n);
                match how % 6 {
                    0 => b.push(n),
                    1 => b.put(n * 8),
                    2 => b.unpull(n % 40),
                    3 => {
                        self.bytes(b, Layer::Data, n % 40);
                        b.pull(n % 40);
                    }
                    4 => {
                        let len = b.constant(Width::W32, n * 4);
                        b.trim(len);
                    }
                    _ => {
                        let len = self.of(b, n as u8, Width::W32);
                        let len = b.rem(len, 64);
                        b.push(len);
                        b.require(Layer::Data, len, Reason::TRUNCATED);
                        b.pull(len);
                    }
                }
                return;
            }
            Call::Table(how, x, y) => return self.table_call(b, how, x, y),
            Call::Notify(n) => {
                let from = self.values.len().saturating_sub(usize::from(n % 9));
                b.notify_packet(self.event, &self.values[from..]);
                return;
            }
        };
        self.values.push(v);
    }
}

impl Writer {
    fn table_call(&mut self, b: &mut Builder, how: u8, x: u8, y: u8) {
        let (table, k, l) = (self.table, self.of(b, x, Width::W16), self.of(b, y, Width::W64));
        let k = b.rem(k, 5);
        if how.is_multiple_of(8) {
            let (lo, hi) = (b.constant(Width::W16, 3u8), b.constant(Width::W16, 7u8));
            let (e, claimed) = b.claim(table, &[k, l], 0, lo, hi, k, |b| b.drop(Reason::NO_MATCH));
            let size = b.size(table);
            b.touch(e, l);
            return self.values.extend([claimed, size]);
        }
        let e = b.insert(table, &[k, l], |b| b.drop(Reason::FULL));
        let (n, wide) = (b.get(e, "n"), b.get(e, "wide"));
        self.values.extend([n, wide, b.key(e, 1)]);
        match how % 8 {
            1 => b.remove(e),
            2 => {
                let cost = [b.constant(Width::W64, 3u8), l, b.constant(Width::W64, 20u8)];
                b.meter(e, "wide", cost, |_| {}, |b| b.set(e, "n", 9u8));
            }
            3 => b.release(e, &[k, l], |b, args| {
                b.notify_packet(0, args);
                b.emit(1);
            }),
            4 => {
                let odd = self.of(b, y, Width::W1);
                b.when(odd, |b| b.hold(e, |b| b.emit(0)));
            }
            5 => {
                let v = self.of(b, x, Width::W128);
                b.set(e, "wide", v);
            }
            6 => {
                let other = b.find(table, &[k, l], |b| b.drop(Reason::NO_MATCH));
                b.link(e, other);
                b.touch(e, 1000u16);
                self.values.push(b.group_count(table, n));
            }
            _ => {
                let v = self.of(b, x, Width::W32);
                b.set(e, "n", v);
            }
        }
    }
}

fn program(calls: &[Call]) -> Program {
    one(2, |b, event| {
        let fields = [("n", Width::W32), ("wide", Width::W128)];
        let decl = TableDecl::new("t", Kind::Exact, &[("k", Width::W16), ("l", Width::W64)], &fields, 6);
        let table = b.table(decl.holding(2).grouped_by("n"), vec![]);
        let first: Vec<V> = Width::ALL.into_iter().map(|w| b.constant(w, 77u8)).collect();
        let mut w = Writer { values: first, event, table };
        // Most random places are in the packet.
        b.if_has(
            Layer::Data,
            90,
            |b| {
                for (l, off) in
                    [(Layer::Mac, 0), (Layer::Net, 14), (Layer::Transport, 34), (Layer::Cursor, 40)]
                {
                    b.set_mark(l, Layer::Data, off);
                }
            },
            |_| {},
        );
        for c in calls {
            w.call(b, c);
        }
        let values = w.values;
        b.notify(event, &values);
        b.emit(0);
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(96)
    ) })]

    #[test]
    fn random_programs_mean_the_same(
        calls in prop::collection::vec(call(), 1..40),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        anno in any::<[u8; 48]>(),
        seed in any::<u64>(),
    ) {
        let program = program(&calls);
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        packet.anno = anno;
        let steps = [
            Step::Packet { owner: 0, port: 0, packet, now: seed },
            Step::packet(0, &frame(1500), seed / 2),
            Step::packet(0, &frame(128), u64::MAX - 5000),
            Step::packet(0, &frame(129), u64::MAX - 5000),
            Step::Expire { now: u64::MAX - 4000 },
        ];
        assert_same(&program, seed, &steps);
    }
}
