//! Programs that use each part of the IR, as elements would.

use weir_ir::program::{MetaField, Program, Row};
use weir_ir::{Builder, Layer, Reason, TableDecl, Wire, check, link};
use weir_table::KeyMatch;
use weir_table::Kind;
use weir_table::Width::{W1, W8, W16, W32, W64, W128};

fn done(b: Builder) -> Program {
    let p = b.finish();
    check(&p).unwrap();
    p
}

/// Marks the network header at the start, requires IPv4 with all its options and marks the transport header.
fn ip_header(b: &mut Builder) {
    b.set_mark(Layer::Net, Layer::Data, 0);
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    let first = b.load(W8, Layer::Net, 0);
    let version = b.shr(first, 4);
    let four = b.eq(version, 4);
    b.unless(four, |b| b.drop(Reason::BAD_HEADER));
    let words = b.and(first, 15);
    let words = b.resize(W32, words);
    let bytes = b.shl(words, 2);
    let short = b.lt(bytes, 20);
    b.when(short, |b| b.drop(Reason::BAD_HEADER));
    b.require(Layer::Net, bytes, Reason::TRUNCATED);
    b.set_mark(Layer::Transport, Layer::Net, bytes);
}

/// Decrements the time to live and updates the checksum (RFC 1624).
pub fn dec_ttl() -> Program {
    let mut b = Builder::new("ttl", 1, 2);
    b.input(0, |b| {
        ip_header(b);
        let ttl = b.load(W8, Layer::Net, 8);
        let low = b.le(ttl, 1);
        b.when(low, |b| b.emit(1));
        let ttl = b.sub(ttl, 1);
        b.store(Layer::Net, 8, ttl);
        let sum = b.load(W16, Layer::Net, 10);
        let sum = b.sum16(sum, 0x100);
        b.store(Layer::Net, 10, sum);
        b.emit(0);
    });
    done(b)
}

/// Drops packets whose header checksum is wrong, and those whose total length is.
pub fn check_header() -> Program {
    let mut b = Builder::new("check", 1, 1);
    b.input(0, |b| {
        ip_header(b);
        let words = b.load(W8, Layer::Net, 0);
        let words = b.and(words, 15);
        let words = b.resize(W32, words);
        let bytes = b.shl(words, 2);
        b.require(Layer::Net, bytes, Reason::TRUNCATED);
        let sum = b.checksum(Layer::Net, 0, bytes);
        let right = b.eq(sum, 0xffff);
        b.unless(right, |b| b.drop(Reason::BAD_CHECKSUM));
        let len = b.load(W16, Layer::Net, 2);
        let len = b.resize(W32, len);
        let short = b.lt(len, bytes);
        b.when(short, |b| b.drop(Reason::BAD_HEADER));
        b.require(Layer::Net, len, Reason::TRUNCATED);
        b.trim(len);
        b.emit(0);
    });
    done(b)
}

/// Sends ARP, IP from a prefix, and the rest on outputs of their own.
pub fn classifier() -> Program {
    let mut b = Builder::new("classifier", 1, 4);
    b.input(0, |b| {
        b.require_or(Layer::Data, 14, |b| b.emit(3));
        let ty = b.load(W16, Layer::Data, 12);
        b.switch(ty, &[0x806, 0x800], |b, case| match case {
            Some(0) => b.emit(0),
            Some(_) => {
                b.require_or(Layer::Data, 34, |b| b.emit(3));
                let src = b.load(W32, Layer::Data, 26);
                let net = b.and(src, 0xff00_0000u32);
                let ours = b.eq(net, 0x0a00_0000);
                b.when(ours, |b| b.emit(1));
                // Cannot be: this is inside the prefix that is gone.
                let net = b.and(src, 0xffff_0000u32);
                let inside = b.eq(net, 0x0a01_0000);
                b.when(inside, |b| b.drop(Reason::DENIED));
                let same = b.compare_bytes((Layer::Data, 0), (Layer::Data, 6), 6);
                b.when(same, |b| b.drop(Reason::new("Same")));
                b.emit(2);
            }
            None => b.emit(3),
        });
    });
    done(b)
}

/// Copies the packet, and makes a new one; each is changed after.
pub fn tee() -> Program {
    let mut b = Builder::new("tee", 1, 3);
    let seen = b.event("seen");
    b.input(0, |b| {
        b.require(Layer::Data, 2, Reason::TRUNCATED);
        let first = b.load(W8, Layer::Data, 0);
        // A partial checksum is not for programs to make.
        b.store_meta(MetaField::Checksum, first);
        b.fork(|b| {
            b.require(Layer::Data, 1, Reason::TRUNCATED);
            b.store_const(W8, Layer::Data, 0, 0xeeu8);
            let paint = b.constant(W16, 77u16);
            b.store_anno(4, paint);
            b.emit(1);
        });
        b.store_const(W8, Layer::Data, 1, 0xddu8);
        b.notify_packet(seen, &[first]);
        b.fork_new(&[first], |b, args| {
            b.push(3u32);
            b.require(Layer::Data, 3, Reason::NO_SPACE);
            b.store(Layer::Data, 1, args[0]);
            let t = b.load_meta(MetaField::Timestamp);
            let t = b.add(t, 1);
            b.store_meta(MetaField::Timestamp, t);
            b.put(2u32);
            b.emit(2);
        });
        b.emit(0);
    });
    done(b)
}

/// Waits for a binding (first byte 1: the binding of the second byte; else a packet to it), as an ARP querier.
pub fn hold() -> Program {
    let mut b = Builder::new("hold", 1, 2);
    let decl =
        TableDecl::new("arp", Kind::Exact, &[("ip", W8)], &[("known", W1), ("mac", W16)], 4).holding(2);
    let arp = b.table(decl, vec![Row::exact(&[9], &[1, 0x0909])]);
    b.input(0, |b| {
        b.require(Layer::Data, 4, Reason::TRUNCATED);
        let kind = b.load(W8, Layer::Data, 0);
        let ip = b.load(W8, Layer::Data, 1);
        let reply = b.eq(kind, 1);
        let removal = b.eq(kind, 2);
        b.when(removal, |b| {
            let e = b.find(arp, &[ip], |b| b.drop(Reason::NO_MATCH));
            b.remove(e);
            b.drop(Reason::CONSUMED);
        });
        let e = b.insert(arp, &[ip], |b| b.drop(Reason::FULL));
        b.touch(e, 1_000_000_000u64);
        b.when(reply, |b| {
            let mac = b.load(W16, Layer::Data, 2);
            b.set(e, "mac", mac);
            b.set(e, "known", 1);
            b.release(e, &[], |b, _| {
                b.push(2u32);
                b.require(Layer::Data, 4, Reason::TRUNCATED);
                let ip = b.load(W8, Layer::Data, 3);
                let e = b.find(arp, &[ip], |b| b.drop(Reason::NO_MATCH));
                let mac = b.get(e, "mac");
                b.store(Layer::Data, 0, mac);
                b.emit(0);
            });
            b.drop(Reason::CONSUMED);
        });
        let known = b.get(e, "known");
        b.when(known, |b| {
            let mac = b.get(e, "mac");
            b.push(2u32);
            b.require(Layer::Data, 2, Reason::TRUNCATED);
            b.store(Layer::Data, 0, mac);
            b.emit(0);
        });
        b.fork_new(&[ip], |b, args| {
            b.push(1u32);
            b.require(Layer::Data, 1, Reason::NO_SPACE);
            b.store(Layer::Data, 0, args[0]);
            b.emit(1);
        });
        b.hold(e, |b| b.drop(Reason::FULL));
    });
    let gone = b.event("gone");
    b.expire(arp, |b, e| {
        let ip = b.key(e, 0);
        let mac = b.get(e, "mac");
        b.notify(gone, &[ip, mac]);
    });
    done(b)
}

/// Rewrites the source port of packets from inside (input 0) and back (input 1); bytes 0..2 are the port inside,
/// 2..4 the port outside.
pub fn nat() -> Program {
    let mut b = Builder::new("nat", 2, 2);
    let out = TableDecl::new("out", Kind::Exact, &[("inside", W16)], &[("outside", W16)], 3);
    let back = TableDecl::new("back", Kind::Exact, &[("outside", W16)], &[("inside", W16)], 8);
    let (out, back) = (b.table(out, vec![]), b.table(back, vec![]));
    b.input(0, |b| {
        b.require(Layer::Data, 5, Reason::TRUNCATED);
        let inside = b.load(W16, Layer::Data, 0);
        let end = b.load(W8, Layer::Data, 4);
        let end = b.eq(end, 0xff);
        b.lookup(
            out,
            &[inside],
            |b, e| {
                let port = b.get(e, "outside");
                b.store(Layer::Data, 2, port);
                b.touch(e, 5_000u64);
                // The other direction goes with it.
                b.when(end, |b| {
                    b.remove(e);
                    b.lookup(back, &[port], |b, _| b.drop(Reason::new("Stale")), |_| {});
                });
                b.emit(0);
            },
            |b| {
                let (lo, hi) = (b.constant(W16, 1000u16), b.constant(W16, 1004u16));
                let hash = b.hash(&[inside]);
                let start = b.resize(W16, hash);
                let zero = b.constant(W16, 0u16);
                let (r, port) = b.claim(back, &[zero], 0, lo, hi, start, |b| b.drop(Reason::FULL));
                b.set(r, "inside", inside);
                let e = b.insert(out, &[inside], |b| {
                    b.remove(r);
                    b.drop(Reason::FULL);
                });
                b.set(e, "outside", port);
                b.link(e, r);
                b.touch(e, 5_000u64);
                b.store(Layer::Data, 2, port);
                b.emit(0);
            },
        );
    });
    b.input(1, |b| {
        b.require(Layer::Data, 5, Reason::TRUNCATED);
        let outside = b.load(W16, Layer::Data, 2);
        let e = b.find(back, &[outside], |b| b.drop(Reason::NO_MATCH));
        let inside = b.get(e, "inside");
        b.store(Layer::Data, 0, inside);
        b.touch(e, 5_000u64);
        b.emit(1);
    });
    done(b)
}

/// Claims two ports for a pair of connections, and frees one again if the first byte says so.
pub fn pair() -> Program {
    let mut b = Builder::new("pair", 1, 1);
    let ports = b.table(TableDecl::new("ports", Kind::Exact, &[("host", W8), ("port", W8)], &[], 6), vec![]);
    b.input(0, |b| {
        b.require(Layer::Data, 4, Reason::TRUNCATED);
        let [host, start] = [0, 1].map(|i| b.load(W8, Layer::Data, i));
        let (lo, hi) = (b.constant(W8, 1u8), b.constant(W8, 5u8));
        let (first, one) = b.claim(ports, &[host, lo], 1, lo, hi, start, |b| b.drop(Reason::FULL));
        b.store(Layer::Data, 2, one);
        let (_, two) = b.claim(ports, &[host, lo], 1, lo, hi, start, |b| {
            b.remove(first);
            b.drop(Reason::FULL);
        });
        let free = b.eq(start, 3);
        b.when(free, |b| b.remove(first));
        b.store(Layer::Data, 3, two);
        b.emit(0);
    });
    done(b)
}

/// At most two connections (bytes 1..3) for each server (byte 0); byte 3 equal 1 ends one.
pub fn limit() -> Program {
    let mut b = Builder::new("limit", 1, 1);
    let decl = TableDecl::new("conn", Kind::Exact, &[("id", W16)], &[("server", W8), ("packets", W32)], 16);
    let conns = b.table(decl.grouped_by("server"), vec![]);
    b.input(0, |b| {
        b.require(Layer::Data, 4, Reason::TRUNCATED);
        let server = b.load(W8, Layer::Data, 0);
        let id = b.load(W16, Layer::Data, 1);
        let end = b.load(W8, Layer::Data, 3);
        let end = b.eq(end, 1);
        b.lookup(
            conns,
            &[id],
            |b, e| {
                b.when(end, |b| {
                    b.remove(e);
                    b.emit(0);
                });
                let n = b.get(e, "packets");
                let n = b.add(n, 1);
                b.set(e, "packets", n);
                b.set(e, "server", server);
            },
            |b| {
                let n = b.group_count(conns, server);
                let many = b.ge(n, 2);
                b.when(many, |b| b.drop(Reason::DENIED));
                let e = b.insert(conns, &[id], |b| b.drop(Reason::FULL));
                b.set(e, "server", server);
            },
        );
        let n = b.group_count(conns, server);
        let n = b.resize(W8, n);
        b.store(Layer::Data, 3, n);
        let all = b.size(conns);
        b.store_anno(16, all);
        b.emit(0);
    });
    done(b)
}

/// Walks type-length-value options after a count byte; at most four.
pub fn options() -> Program {
    let mut b = Builder::new("options", 1, 2);
    b.input(0, |b| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        b.set_mark(Layer::Cursor, Layer::Data, 1);
        let zero = b.constant(W16, 0u16);
        let sum = b.repeat(4, &[zero], |b, l, vars| {
            b.require_or(Layer::Cursor, 1, |b| l.leave(b, vars));
            let kind = b.load(W8, Layer::Cursor, 0);
            let end = b.eq(kind, 0);
            b.when(end, |b| l.leave(b, vars));
            let nop = b.eq(kind, 1);
            b.when(nop, |b| {
                b.set_mark(Layer::Cursor, Layer::Cursor, 1);
                l.next(b, vars);
            });
            b.require(Layer::Cursor, 2, Reason::TRUNCATED);
            let len = b.load(W8, Layer::Cursor, 1);
            let short = b.lt(len, 2);
            b.when(short, |b| b.drop(Reason::BAD_HEADER));
            let long = b.gt(len, 4);
            b.when(long, |b| b.drop(Reason::BAD_HEADER));
            let len = b.resize(W32, len);
            b.require(Layer::Cursor, len, Reason::TRUNCATED);
            b.require(Layer::Cursor, 2, Reason::TRUNCATED);
            b.store_const(W8, Layer::Cursor, 1, 0x55u8);
            let kind = b.resize(W16, kind);
            let sum = b.add(vars[0], kind);
            b.set_mark(Layer::Cursor, Layer::Cursor, len);
            l.next(b, &[sum]);
        });
        b.store_anno(20, sum[0]);
        let rest = b.rest(Layer::Cursor);
        b.store_anno(24, rest);
        let more = b.lt(rest, 1);
        b.when(more, |b| b.emit(1));
        b.emit(0);
    });
    done(b)
}

/// Looks the first four bytes up in routes, the fifth in rules; rate-limits one of the results.
pub fn route() -> Program {
    let mut b = Builder::new("route", 1, 3);
    let decl = TableDecl::new("routes", Kind::Lpm, &[("dst", W32)], &[("hop", W8)], 16);
    let row =
        |ip: u32, len, hop| Row { key: vec![KeyMatch::Prefix(ip.into(), len)], ..Row::exact(&[], &[hop]) };
    let rows = vec![
        row(0x0a00_0000, 8, 1),
        row(0x0a01_0000, 16, 2),
        row(0x0a01_0203, 32, 3),
        row(0x0a00_0000, 8, 4),
    ];
    let routes = b.table(decl, rows);
    let decl = TableDecl::new("rules", Kind::Rules, &[("a", W8)], &[("hits", W32), ("deny", W1)], 16);
    let rule = |m, deny, priority| Row { key: vec![m], value: vec![0, deny], priority, ttl: None };
    let rows = vec![
        rule(KeyMatch::ANY, 0, -1),
        rule(KeyMatch::Range(10, 20), 1, 5),
        rule(KeyMatch::Mask(0x10, 0x70), 0, 7),
    ];
    let rules = b.table(decl, rows);
    let bucket = b.cell("bucket", W128, 0);
    let count = b.cell("count", W64, 7);
    b.input(0, |b| {
        b.require(Layer::Data, 5, Reason::TRUNCATED);
        let dst = b.load(W32, Layer::Data, 0);
        let kind = b.load(W8, Layer::Data, 4);
        let n = b.read_cell(count);
        let n = b.add(n, 1);
        b.write_cell(count, n);
        let r = b.find(rules, &[kind], |b| b.drop(Reason::NO_MATCH));
        let hits = b.get(r, "hits");
        let hits = b.add(hits, 1);
        b.set(r, "hits", hits);
        let last = b.eq(hits, 2);
        b.when(last, |b| {
            b.remove(r);
            // What matches now is a rule of lower priority.
            let next = b.find(rules, &[kind], |b| b.drop(Reason::new("Last")));
            let hits = b.get(next, "hits");
            b.store_anno(0, hits);
        });
        let deny = b.get(r, "deny");
        b.when(deny, |b| b.drop(Reason::DENIED));
        let e = b.find(routes, &[dst], |b| b.emit(2));
        let hop = b.get(e, "hop");
        b.store(Layer::Data, 4, hop);
        let limited = b.eq(hop, 3);
        b.when(limited, |b| {
            let e = b.index(bucket, 0);
            let [cost, rate, burst] = [1u64, 1, 2].map(|v| b.constant(W64, v));
            b.meter(e, "value", [cost, rate, burst], |b| b.emit(1), |b| b.drop(Reason::new("Limited")));
        });
        let coin = b.random();
        let coin = b.and(coin, 1);
        let heads = b.eq(coin, 1);
        b.when(heads, |b| b.emit(1));
        b.emit(0);
    });
    b.timer(1_000_000, |b| {
        let zero = b.constant(W64, 0u64);
        b.write_cell(count, zero);
        b.fork_new(&[], |b, _| {
            let now = b.now();
            b.push(8u32);
            b.require(Layer::Data, 8, Reason::NO_SPACE);
            b.store(Layer::Data, 0, now);
            b.emit(2);
        });
    });
    b.message("set", &[W64], |b, args| {
        let big = b.gt(args[0], 100);
        b.when(big, Builder::stop);
        b.write_cell(count, args[0]);
    });
    done(b)
}

/// Pulls, takes back, pads, moves bytes and looks for one.
pub fn reshape() -> Program {
    let mut b = Builder::new("reshape", 1, 1);
    b.input(0, |b| {
        b.require(Layer::Data, 6, Reason::TRUNCATED);
        b.set_mark(Layer::Mac, Layer::Data, 2);
        let n = b.load(W8, Layer::Data, 0);
        let n = b.and(n, 3);
        let n = b.resize(W32, n);
        b.copy_bytes((Layer::Data, 2), (Layer::Data, 1), 4);
        b.require(Layer::Data, n, Reason::TRUNCATED);
        b.pull(n);
        b.unpull(1u32);
        b.push(2u32);
        b.pull(1u32);
        b.unpull(1u32);
        let len = b.len();
        let short = b.lt(len, 10);
        b.when(short, |b| {
            let ten = b.constant(W32, 10u32);
            let missing = b.sub(ten, len);
            b.put(missing);
        });
        let rest = b.rest(Layer::Mac);
        b.store_anno(0, rest);
        let d = b.distance(Layer::Mac, Layer::Data);
        b.store_anno(4, d);
        let len = b.len();
        b.require(Layer::Data, len, Reason::TRUNCATED);
        let byte = b.constant(W8, 0x2au8);
        let at = b.find_byte(Layer::Data, 1, len, byte);
        b.store_anno(8, at);
        let found = b.lt(at, len);
        b.unless(found, |b| b.drop(Reason::NO_MATCH));
        let sum = b.checksum(Layer::Data, 0, len);
        b.store_anno(12, sum);
        b.emit(0);
    });
    done(b)
}

/// A cycle: the first element counts down a byte until it is 0.
pub fn cycle() -> Program {
    let mut a = Builder::new("down", 1, 2);
    a.input(0, |b| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let n = b.load(W8, Layer::Data, 0);
        let zero = b.eq(n, 0);
        b.when(zero, |b| b.emit(1));
        let n = b.sub(n, 1);
        b.store(Layer::Data, 0, n);
        b.emit(0);
    });
    let mut t = Builder::new("tee", 1, 2);
    t.input(0, |b| {
        b.fork(|b| b.emit(1));
        b.emit(0);
    });
    let wire = |element: usize, port: u32| match (element, port) {
        (0, 0) => Some(Wire::Input { element: 1, port: 0 }),
        (0, _) => Some(Wire::Exit(0)),
        (1, 0) => Some(Wire::Input { element: 0, port: 0 }),
        (1, _) => Some(Wire::Exit(1)),
        _ => None,
    };
    let p = link(&[done(a), done(t)], wire, 2).unwrap();
    check(&p).unwrap();
    p
}

/// All of them, with their names.
pub fn all() -> Vec<(&'static str, Program)> {
    vec![
        ("dec_ttl", dec_ttl()),
        ("check_header", check_header()),
        ("classifier", classifier()),
        ("tee", tee()),
        ("hold", hold()),
        ("nat", nat()),
        ("pair", pair()),
        ("limit", limit()),
        ("options", options()),
        ("route", route()),
        ("reshape", reshape()),
        ("cycle", cycle()),
    ]
}
