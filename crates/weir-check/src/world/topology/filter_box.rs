//! Firewalls: lists of filters between two ports, with the connections that they allowed.

use std::time::Duration;

use weir_elements::filter::{RuleList, View};
use weir_filter::Expr;
use weir_ir::program::TableId;
use weir_ir::{Builder, Layer, Program, Reason, TableDecl, V, Width};
use weir_table::Kind;
use weir_topology::FilterRule;

/// Most connections that are known.
const CONNECTIONS: u32 = 1 << 16;
/// How long a connection without packets is known.
const PATIENCE: Duration = Duration::from_secs(300);

/// Names of the ports, then the rules as written.
pub(super) fn texts(ports: &[String; 2], rules: &[FilterRule]) -> Vec<String> {
    ports.iter().cloned().chain(rules.iter().map(|r| r.text.clone())).collect()
}

/// What comes in by the one port leaves by the other.
pub(super) fn wire(name: &str) -> Program {
    let mut b = Builder::new(name, 2, 2);
    b.input(0, |b| b.emit(1));
    b.input(1, |b| b.emit(0));
    b.finish()
}

/// The program of filters.
pub(super) fn program(name: &str, ports: &[String; 2], rules: &[FilterRule], stateful: bool) -> Program {
    let mut b = Builder::new(name, 2, 2);
    let tables =
        stateful.then(|| [connections(&mut b, Width::W32, "4"), connections(&mut b, Width::W128, "6")]);
    let mut plans = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let here = |r: &&FilterRule| r.from.as_ref().is_none_or(|from| from == port);
        let rules: Vec<(&Expr, u32)> =
            rules.iter().filter(here).map(|r| (&r.filter, u32::from(r.allow))).collect();
        let mut plan = |view, version: &str| {
            let mut plan = RuleList::new(view, rules.iter().copied());
            plan.declare(&mut b, &format!("rules{i}v{version}"));
            plan
        };
        plans.push([plan(View::Ip, "4"), plan(View::Ip6, "6")]);
    }
    for (i, plans) in (0..).zip(&plans) {
        b.input(i, |b| {
            b.require(Layer::Net, 1, Reason::TRUNCATED);
            let first = b.load(Width::W8, Layer::Net, 0);
            let version = b.shr(first, 4);
            b.switch(version, &[4, 6], |b, case| {
                let Some(case) = case else { return b.drop(Reason::new("BadVersion")) };
                b.require(Layer::Net, if case == 0 { 20 } else { 40 }, Reason::TRUNCATED);
                let state = tables.map(|t| (t[case], Flow::read(b, case == 0)));
                if let Some((table, flow)) = &state {
                    b.lookup(
                        *table,
                        &flow.reply(),
                        |b, entry| {
                            b.touch(entry, PATIENCE.as_nanos() as u64);
                            b.emit(1 - i);
                        },
                        |_| {},
                    );
                }
                plans[case].run(b, |b, _, allow, _| {
                    if allow == 0 {
                        return b.drop(Reason::DENIED);
                    }
                    if let Some((table, flow)) = &state {
                        let entry = b.insert(*table, &flow.key(), |b| b.drop(Reason::FULL));
                        b.touch(entry, PATIENCE.as_nanos() as u64);
                    }
                    b.emit(1 - i);
                });
                if !b.ended() {
                    b.drop(Reason::DENIED);
                }
            });
        });
    }
    b.finish()
}

/// Connections by who began them.
fn connections(b: &mut Builder, address: Width, version: &str) -> TableId {
    let key = [
        ("src", address),
        ("dst", address),
        ("sport", Width::W16),
        ("dport", Width::W16),
        ("proto", Width::W8),
    ];
    b.table(TableDecl::new(&format!("connections{version}"), Kind::Exact, &key, &[], CONNECTIONS), Vec::new())
}

/// The key of a connection. The ports of packets without are 0.
struct Flow {
    src: V,
    dst: V,
    ports: [V; 2],
    proto: V,
}

impl Flow {
    fn read(b: &mut Builder, v4: bool) -> Flow {
        let (width, src, dst, proto) = if v4 { (Width::W32, 12, 16, 9) } else { (Width::W128, 8, 24, 6) };
        let (src, dst) = (b.load(width, Layer::Net, src), b.load(width, Layer::Net, dst));
        let proto = b.load(Width::W8, Layer::Net, proto);
        let len = if v4 {
            let first = b.load(Width::W8, Layer::Net, 0);
            let words = b.and(first, 0x0f);
            let bytes = b.shl(words, 2);
            b.resize(Width::W32, bytes)
        } else {
            b.constant(Width::W32, 40_u32)
        };
        let (tcp, udp) = (b.eq(proto, 6), b.eq(proto, 17));
        let mut has = b.or(tcp, udp);
        if v4 {
            let fragment = b.load(Width::W16, Layer::Net, 6);
            let offset = b.and(fragment, 0x1fff);
            let first = b.eq(offset, 0);
            has = b.and(has, first);
        }
        let both = b.choose(
            has,
            |b| {
                b.require(Layer::Net, len, Reason::TRUNCATED);
                b.set_mark(Layer::Cursor, Layer::Net, len);
                b.require(Layer::Cursor, 4, Reason::TRUNCATED);
                b.load(Width::W32, Layer::Cursor, 0)
            },
            |b| b.constant(Width::W32, 0_u32),
        );
        let high = b.shr(both, 16);
        let ports = [b.resize(Width::W16, high), b.resize(Width::W16, both)];
        Flow { src, dst, ports, proto }
    }

    fn key(&self) -> [V; 5] {
        [self.src, self.dst, self.ports[0], self.ports[1], self.proto]
    }

    fn reply(&self) -> [V; 5] {
        [self.dst, self.src, self.ports[1], self.ports[0], self.proto]
    }
}
