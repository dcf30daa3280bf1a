//! Chains of lookups, and what their caches do.

use weir_ir::program::{BlockId, Row};
use weir_ir::{Builder, Layer, Program, Reason, TableDecl, Width::*, optimize};
use weir_packet::Packet;
use weir_table::{EntryRef, KeyMatch, Kind, TableSet};

use super::*;
use crate::differential::{Recorder, Seen, tables_of};
use crate::{Compiled, Runner};

const VALUES: [(&str, Width); 1] = [("out", W8)];

fn rule(key: [KeyMatch; 2], priority: i32, out: u128) -> Row {
    Row { key: key.to_vec(), priority, ..Row::exact(&[], &[out]) }
}

/// Two lists of rules and routes behind them: what each finds becomes a byte of the packet. Between the lists, the
/// address may be rewritten.
fn chain(rewrite: bool) -> Program {
    let mut b = Builder::new("chain", 1, 1);
    let list = |b: &mut Builder, name: &str| {
        let any = rule([KeyMatch::ANY, KeyMatch::ANY], 0, 1);
        let rows = (0..40).map(|i| rule([KeyMatch::Exact(i), KeyMatch::Range(1, 9 + i)], 1, 2 + i));
        let decl = TableDecl::new(name, Kind::Rules, &[("a", W32), ("b", W16)], &VALUES, 100);
        b.table(decl, rows.chain([any]).collect())
    };
    let lists = ["first", "second"].map(|name| list(&mut b, name));
    let routes =
        (0..30).map(|i| Row { key: vec![KeyMatch::Prefix(i << 8, 24)], ..Row::exact(&[], &[3 + i]) });
    let decl = TableDecl::new("routes", Kind::Lpm, &[("addr", W32)], &VALUES, 100);
    let routes = b.table(decl, routes.collect());
    b.input(0, |b| {
        b.require(Layer::Data, 32, Reason::TRUNCATED);
        for (i, table) in lists.into_iter().enumerate() {
            let key = [b.load(W32, Layer::Data, 0), b.load(W16, Layer::Data, 4)];
            let e = b.find(table, &key, |b| b.drop(Reason::DENIED));
            let out = b.get(e, "out");
            b.store(Layer::Data, 16 + i as u32, out);
            if rewrite {
                b.store(Layer::Data, 3, out);
            }
        }
        let key = b.load(W32, Layer::Data, 0);
        let e = b.find(routes, &[key], |b| b.drop(Reason::NO_MATCH));
        let out = b.get(e, "out");
        b.store(Layer::Data, 18, out);
        b.emit(0);
    });
    optimize(b.finish())
}

/// A program with its state, run by compiled code.
struct Running {
    code: Compiled,
    entry: BlockId,
    tables: TableSet,
    runner: Runner,
}

impl Running {
    fn new(program: &Program, flows: Flows) -> Running {
        let code = Compiled::new(program).unwrap();
        code.look_ahead(program).unwrap();
        Running {
            code,
            entry: program.packet_entry(0, 0).unwrap(),
            tables: tables_of(program),
            runner: Runner::new(flows),
        }
    }

    /// Runs packets with these addresses and ports, and gives what the lists and the routes said.
    fn batch(&mut self, keys: &[(u32, u16)]) -> Vec<Option<[u8; 3]>> {
        let mut packets: Vec<Packet> = keys.iter().map(packet).collect();
        let mut host = Recorder::new(1);
        self.code.run_batch(&mut self.runner, &mut self.tables, &mut host, 1, self.entry, &mut packets);
        let said = |seen: Seen| match seen {
            Seen::Exit { packet, .. } => Some([16, 17, 18].map(|at| packet.bytes[at])),
            _ => None,
        };
        host.seen.into_iter().map(said).collect()
    }

    fn one(&mut self, key: (u32, u16)) -> Option<[u8; 3]> {
        self.batch(&[key]).pop().unwrap()
    }

    /// Hits and misses of each lookup.
    fn counts(&self) -> Vec<(u64, u64)> {
        self.runner.flows().iter().map(|f| (f.hits, f.misses)).collect()
    }
}

fn packet(&(addr, port): &(u32, u16)) -> Packet {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&addr.to_be_bytes());
    bytes[4..6].copy_from_slice(&port.to_be_bytes());
    Packet::from_bytes(&bytes).unwrap()
}

#[test]
fn a_chain_is_one_group() {
    let plan = CachePlan::of(&chain(false));
    assert_eq!(plan.groups.len(), 1);
    let sites: Vec<_> = plan.sites.iter().map(|s| (s.table.0, s.leads, s.section, s.words)).collect();
    assert_eq!(sites, [(0, true, 0, 1), (1, false, 16, 1), (2, false, 32, 1)]);
    assert_eq!(plan.groups[0].stride, 64);
}

#[test]
fn tables_that_programs_change_and_single_ipv4_prefixes_have_no_cache() {
    let single = |kind, width, remove: bool| {
        let mut b = Builder::new("single", 1, 1);
        let table = b.table(TableDecl::new("t", kind, &[("k", width)], &VALUES, 10), vec![]);
        b.input(0, |b| {
            b.require(Layer::Data, 16, Reason::TRUNCATED);
            let key = b.load(width, Layer::Data, 0);
            let e = b.find(table, &[key], |b| b.drop(Reason::NO_MATCH));
            if remove {
                b.remove(e);
            }
            b.emit(0);
        });
        CachePlan::of(&b.finish()).groups.len()
    };
    assert_eq!(single(Kind::Rules, W32, false), 1);
    assert_eq!(single(Kind::Rules, W32, true), 0);
    assert_eq!(single(Kind::Lpm, W32, false), 0);
    assert_eq!(single(Kind::Lpm, W128, false), 1);
    assert_eq!(single(Kind::Exact, W32, false), 0);
}

#[test]
fn only_lookups_behind_a_leader_with_a_key_as_long_join_it() {
    let mut b = Builder::new("sides", 2, 1);
    let decl = |name: &str, key: &[(&str, Width)]| TableDecl::new(name, Kind::Rules, key, &VALUES, 10);
    let short = b.table(decl("short", &[("k", W32)]), vec![]);
    let long = b.table(decl("long", &[("k", W64), ("l", W8)]), vec![]);
    let last = b.table(decl("last", &[("k", W32)]), vec![]);
    let lookup = |b: &mut Builder, table, long: bool| {
        let mut key = vec![b.load(if long { W64 } else { W32 }, Layer::Data, 0)];
        if long {
            key.push(b.load(W8, Layer::Data, 8));
        }
        b.lookup(table, &key, |_, _| {}, |_| {});
    };
    for port in 0..2 {
        b.input(port, |b| {
            b.require(Layer::Data, 16, Reason::TRUNCATED);
            if port == 0 {
                lookup(b, short, false);
                lookup(b, long, true);
            }
            lookup(b, last, false);
            b.emit(0);
        });
    }
    let plan = CachePlan::of(&b.finish());
    let sites: Vec<_> = plan.sites.iter().map(|s| (s.table, s.leads)).collect();
    assert_eq!(sites.iter().filter(|s| **s == (last, true)).count(), 1, "{sites:?}");
    assert_eq!(sites.iter().filter(|s| **s == (last, false)).count(), 1, "{sites:?}");
    assert!(sites.contains(&(short, true)) && sites.contains(&(long, true)), "{sites:?}");
}

#[test]
fn the_packets_of_a_flow_are_looked_up_once() {
    for rewrite in [false, true] {
        let mut r = Running::new(&chain(rewrite), Flows::Always(1 << 10));
        let flow = (7, 5);
        let first = r.one(flow);
        assert_eq!(first, Some(if rewrite { [9, 11, 3] } else { [9, 9, 3] }));
        assert_eq!(r.counts(), [(0, 1); 3]);
        for _ in 0..10 {
            assert!(r.batch(&[flow; 9]).iter().all(|said| *said == first));
        }
        assert_eq!(r.counts(), [(90, 1); 3]);
        // Another flow finds other rows, also none.
        assert_eq!(r.one((0x00ff_ff07, 5)), None);
        assert_eq!(r.one((0x00ff_ff07, 5)), None);
        assert_eq!(r.counts()[0], (91, 2));
    }
}

#[test]
fn a_change_is_seen_by_the_very_next_packet() {
    let mut r = Running::new(&chain(false), Flows::Always(1 << 10));
    let flow = (7, 5);
    let said = |r: &mut Running| (r.one(flow), r.one(flow)).0.unwrap();
    assert_eq!(said(&mut r), [9, 9, 3]);
    // A better rule comes, in the second list.
    let better = rule([KeyMatch::Exact(7), KeyMatch::Exact(5)], 2, 99);
    let slot = r.tables.table_mut(1).insert_row(&better, 1).unwrap();
    assert_eq!(said(&mut r), [9, 99, 3]);
    // Its value changes, and then it goes.
    r.tables.table_mut(1).insert_row(&Row { value: vec![98], ..better }, 1).unwrap();
    assert_eq!(said(&mut r), [9, 98, 3]);
    r.tables.remove(EntryRef { table: 1, slot });
    assert_eq!(said(&mut r), [9, 9, 3]);
    let route = Row { key: vec![KeyMatch::Exact(7)], ..Row::exact(&[], &[77]) };
    r.tables.table_mut(2).insert_row(&route, 1).unwrap();
    assert_eq!(said(&mut r), [9, 9, 77]);
    r.tables.clear(0);
    assert_eq!(r.one(flow), None);
    r.tables.table_mut(0).insert_rows([&rule([KeyMatch::ANY, KeyMatch::ANY], 0, 50)], 1).unwrap();
    assert_eq!(said(&mut r), [50, 9, 77]);
    let before = r.tables.snapshot(1, |t| t.to_string());
    r.tables.clear(2);
    assert_eq!(r.one(flow), None);
    r.tables.restore(&before, 1, &[(2, 2), (0, 0)]).unwrap();
    assert_eq!(said(&mut r), [50, 9, 77]);
}

#[test]
fn other_tables_and_other_programs_are_told_apart() {
    let (program, other) = (chain(false), chain(true));
    let mut r = Running::new(&program, Flows::Always(1 << 10));
    let flow = (7, 5);
    let first = r.one(flow);
    // Tables with as many changes behind them, and other content.
    let mut tables = tables_of(&program);
    for t in 0..3 {
        let rows: Vec<Row> = tables.table(t).rows().into_iter().map(|(_, row)| row).collect();
        tables = {
            let mut all = tables;
            all.clear(t);
            for row in rows {
                let value = vec![row.value[0] + 100];
                all.table_mut(t).insert_row(&Row { value, ..row }, 0).unwrap();
            }
            all
        };
        r.tables.clear(t);
        let first_rows = &program.tables[t as usize].rows;
        first_rows.iter().for_each(|row| drop(r.tables.table_mut(t).insert_row(row, 0)));
        assert_eq!(r.tables.table(t).epoch(), tables.table(t).epoch());
    }
    assert_eq!(r.one(flow), first);
    std::mem::swap(&mut r.tables, &mut tables);
    assert_eq!(r.one(flow), first.map(|said| said.map(|b| b + 100)));
    std::mem::swap(&mut r.tables, &mut tables);
    assert_eq!(r.one(flow), first);
    // The same runner, with another program: it rewrites.
    let code = std::mem::replace(&mut r.code, Compiled::new(&other).unwrap());
    let rewritten = Running::new(&other, Flows::Never).one(flow);
    assert_ne!(rewritten, first);
    assert_eq!((r.one(flow), r.one(flow)), (rewritten, rewritten));
    r.code = code;
    assert_eq!(r.one(flow), first);
}

#[test]
fn probed_code_uses_the_same_caches() {
    let program = chain(false);
    let mut r = Running::new(&program, Flows::Always(1 << 10));
    let first = r.batch(&[(7, 5), (8, 5)]);
    r.code.instrument(&program).unwrap();
    for _ in 0..100 {
        assert_eq!(r.batch(&[(7, 5), (8, 5)]), first);
    }
    assert!(!r.runner.profile().is_empty());
    assert_eq!(r.counts(), [(200, 2); 3]);
}

#[test]
fn traffic_decides_whether_a_cache_is_used() {
    let mut r = Running::new(&chain(false), Flows::Auto);
    let entries = |r: &Running| r.runner.flows()[0].entries;
    let flows: Vec<(u32, u16)> = (0..32).map(|i| (i % 8, 3)).collect();
    r.batch(&flows);
    assert!(entries(&r) > 0, "rules cost something");
    let mut new = 0;
    // Each packet another flow's, as if somebody tried all ports.
    for _ in 0..(1 << 17) {
        let keys: [(u32, u16); 32] = std::array::from_fn(|i| (new + i as u32, (new >> 8) as u16));
        new += 32;
        r.batch(&keys);
        if entries(&r) == 0 {
            break;
        }
    }
    assert_eq!(entries(&r), 0, "after {new} packets");
    let hits = r.counts()[0].0;
    (0..1000).for_each(|_| drop(r.batch(&flows)));
    assert_eq!(r.counts()[0].0, hits);
    (0..16_000).for_each(|_| drop(r.batch(&flows)));
    assert!(entries(&r) > 0 && r.counts()[0].0 > hits + 8);
}
