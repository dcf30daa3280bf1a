//! Rules that change under compiled code, and with them the form in which it searches.

use weir_ir::{Builder, Interpreter, Layer, Program, Reason, TableDecl, Width::*, check};
use weir_jit::differential::{Recorder, Seen, tables_of};
use weir_jit::{Compiled, Runner};
use weir_packet::Packet;
use weir_table::{KeyMatch, Kind, Row, Table, TableSet};

/// Looks source, port and bits of a packet (and, if the key is long, 128 bits more) up, and says what it finds.
fn program(long: bool) -> Program {
    let mut b = Builder::new("Rules", 1, 2);
    let event = b.event("found");
    let mut fields = vec![("src", W32), ("port", W16), ("bits", W8)];
    if long {
        fields.push(("long", W128));
    }
    let decl = TableDecl::new("rules", Kind::Rules, &fields, &[("v", W32)], 4096);
    let rules = b.table(decl, vec![]);
    b.input(0, |b| {
        b.require(Layer::Data, 24, Reason::TRUNCATED);
        let mut key =
            vec![b.load(W32, Layer::Data, 0), b.load(W16, Layer::Data, 4), b.load(W8, Layer::Data, 6)];
        if long {
            key.push(b.load(W128, Layer::Data, 8));
        }
        let found = |b: &mut Builder, e| {
            let v = b.get(e, "v");
            b.notify(event, &[v]);
            b.emit(0);
        };
        b.lookup(rules, &key, found, |b| b.emit(1));
    });
    let program = b.finish();
    check(&program).expect("the program is right");
    program
}

struct Both {
    program: Program,
    compiled: Compiled,
    interpreter: Interpreter,
    runner: Runner,
    tables: [TableSet; 2],
    long: bool,
}

impl Both {
    fn new(long: bool) -> Both {
        let program = program(long);
        let compiled = Compiled::new(&program).expect("it compiles");
        let tables = [tables_of(&program), tables_of(&program)];
        Both {
            program,
            compiled,
            interpreter: Interpreter::default(),
            runner: Runner::default(),
            tables,
            long,
        }
    }

    fn edit(&mut self, f: impl Fn(&mut Table)) {
        for tables in &mut self.tables {
            f(tables.table_mut(0));
        }
    }

    /// Adds rows, one by one or all at once.
    fn add(&mut self, rows: impl IntoIterator<Item = Row>, at_once: bool) {
        let long = |row: Row| Row { key: row.key.into_iter().chain([KeyMatch::ANY]).collect(), ..row };
        let rows: Vec<Row> = rows.into_iter().map(|r| if self.long { long(r) } else { r }).collect();
        self.edit(|t| {
            if at_once {
                t.insert_rows(&rows, 0).expect("they fit");
            } else {
                rows.iter().for_each(|r| _ = t.insert_row(r, 0).expect("it fits"));
            }
        });
    }

    /// Takes out those of all rules whose number is chosen.
    fn remove(&mut self, chosen: impl Fn(usize) -> bool) {
        for tables in &mut self.tables {
            let slots: Vec<u32> = tables.table(0).rows().iter().map(|r| r.0).collect();
            for (_, &slot) in slots.iter().enumerate().filter(|(i, _)| chosen(*i)) {
                tables.remove(weir_table::EntryRef { table: 0, slot });
            }
        }
    }

    /// Runs packets of all kinds both ways, and gives how many different answers there were.
    fn check(&mut self, what: &str) -> usize {
        let entry = self.program.packet_entry(0, 0).expect("it has an input");
        let mut found = std::collections::HashSet::new();
        for i in 0..600_u32 {
            let (n, kind) = (i % 150, i / 150);
            let mut frame = [0x5a_u8; 32];
            frame[..4].copy_from_slice(&(0xac10_0000 + n * [1, 1, 1, 77][kind as usize]).to_be_bytes());
            frame[4..6].copy_from_slice(&(1000 + if kind == 1 { 3 } else { n as u16 }).to_be_bytes());
            frame[6] = if kind == 2 { 1 } else { 7 };
            let (mut a, mut b) = (Recorder::new(1), Recorder::new(1));
            let packet = Packet::from_bytes(&frame).expect("it is short");
            let second = packet.copy();
            let [a_tables, b_tables] = &mut self.tables;
            self.interpreter.run(&self.program, a_tables, &mut a, 1, entry, &[], Some(packet));
            self.compiled.run(&mut self.runner, b_tables, &mut b, 1, entry, &[], Some(second));
            assert_eq!(a.seen, b.seen, "{what}: packet {i}");
            found.insert(match a.seen.first() {
                Some(Seen::Notify { args, .. }) => args.first().copied(),
                _ => None,
            });
        }
        found.len()
    }
}

fn row(src: KeyMatch, port: KeyMatch, bits: KeyMatch, priority: i32, v: u32) -> Row {
    Row { key: vec![src, port, bits], value: vec![v.into()], priority, ttl: None }
}

/// Rules that name a source and a port.
fn uniform(n: u32) -> impl Iterator<Item = Row> {
    (0..n).map(|i| {
        let (src, port) = (0xac10_0000 + i, 1000 + i);
        row(KeyMatch::Exact(src.into()), KeyMatch::Exact(port.into()), KeyMatch::Mask(4, 4), 0, i)
    })
}

const ANY: KeyMatch = KeyMatch::ANY;

#[test]
fn rules_change_their_form_under_compiled_code() {
    for long in [false, true] {
        for n in [5, 20, 120] {
            let mut both = Both::new(long);
            both.check("nothing");
            // One shape, then one more rule for all, before and behind the others.
            both.add(uniform(n), n != 20);
            assert!(both.check("one shape") > n as usize / 2);
            both.add([row(ANY, ANY, ANY, -5, 7001)], false);
            both.check("and the rest");
            let exception = row(KeyMatch::Prefix(0xac10_0000, 29), ANY, KeyMatch::Mask(0, 1), 9, 7002);
            both.add([exception, row(KeyMatch::Prefix(0xac10_0004, 31), ANY, ANY, 3, 7003)], false);
            both.check("and exceptions");
            both.remove(|i| i % 3 == 1);
            both.check("and some gone");
            // Ranges and many shapes.
            let mixed = (0..30_u32).map(|i| {
                let ports = KeyMatch::Range((900 + 10 * i).into(), (1003 + 5 * i).max(900 + 10 * i).into());
                row(KeyMatch::Prefix(0xac10_0000, 8 + i % 24), ports, ANY, i as i32 % 4, 8000 + i)
            });
            both.add(mixed, n == 20);
            both.check("mixed");
            both.remove(|i| i % 2 == 0);
            both.check("some of the mixed gone");
            both.edit(Table::clear);
            assert_eq!(both.check("empty"), 1);
            // One by one, so that rules stand beside the index for a while.
            for (i, rule) in uniform(n).enumerate() {
                both.add([rule], false);
                if i % 16 == 7 {
                    both.check("growing");
                }
            }
            both.check("one shape again");
            both.remove(|_| true);
            assert_eq!(both.check("all gone"), 1);
        }
    }
}
