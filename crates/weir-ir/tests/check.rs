//! What the checker must refuse: each program here would read outside its packet, lose a packet, or never end.

use weir_ir::Width::*;
use weir_ir::{Builder, Layer, Reason, TableDecl, check};
use weir_table::Kind;

/// The messages of the checker about a program.
fn refused(build: impl FnOnce(&mut Builder)) -> String {
    let mut b = Builder::new("e", 1, 1);
    build(&mut b);
    match check(&b.finish()) {
        Ok(()) => panic!("the program was accepted"),
        Err(errors) => errors.iter().map(|e| format!("{e}\n")).collect(),
    }
}

#[test]
fn bytes_that_were_not_required() {
    let text = refused(|b| {
        b.input(0, |b| {
            b.require(Layer::Data, 14, Reason::TRUNCATED);
            let v = b.load(W16, Layer::Data, 13);
            b.store_anno(0, v);
            b.emit(0);
        });
    });
    assert!(text.contains("bytes 13 to 15 of data are not proved"), "{text}");
}

#[test]
fn bytes_that_were_required_on_one_way_only() {
    refused(|b| {
        b.input(0, |b| {
            b.if_has(Layer::Data, 20, |_| {}, |_| {});
            b.load(W8, Layer::Data, 0);
            b.emit(0);
        });
    });
}

#[test]
fn bytes_that_were_pulled_or_cut_since() {
    refused(|b| {
        b.input(0, |b| {
            b.require(Layer::Data, 20, Reason::TRUNCATED);
            b.pull(14);
            b.load(W32, Layer::Data, 4);
            b.emit(0);
        });
    });
    refused(|b| {
        b.input(0, |b| {
            b.require(Layer::Data, 20, Reason::TRUNCATED);
            let n = b.constant(W32, 10_u32);
            b.trim(n);
            b.load(W16, Layer::Data, 9);
            b.emit(0);
        });
    });
}

#[test]
fn bytes_that_stay_when_the_packet_is_cut_to_a_length_that_a_branch_bounds() {
    let program = |least: u32| {
        let mut b = Builder::new("e", 1, 1);
        b.input(0, |b| {
            b.require(Layer::Data, 34, Reason::TRUNCATED);
            b.set_mark(Layer::Net, Layer::Data, 14);
            let len = b.load(W16, Layer::Net, 2);
            let len = b.resize(W32, len);
            let short = b.lt(len, least);
            b.when(short, |b| b.drop(Reason::BAD_HEADER));
            let total = b.add(len, 14);
            b.trim(total);
            b.load(W32, Layer::Net, 16);
            b.pull(14);
            b.load(W8, Layer::Data, 19);
            b.push(10);
            b.load(W32, Layer::Data, 26);
            b.emit(0);
        });
        check(&b.finish())
    };
    assert_eq!(program(20), Ok(()));
    assert!(program(19).is_err());
}

#[test]
fn a_mark_that_may_be_unset() {
    refused(|b| {
        b.input(0, |b| {
            b.set_mark(Layer::Cursor, Layer::Net, 0);
            b.emit(0);
        });
    });
}

#[test]
fn a_length_that_changes_in_a_loop() {
    refused(|b| {
        b.input(0, |b| {
            let four = b.constant(W32, 4_u32);
            b.require(Layer::Data, four, Reason::TRUNCATED);
            b.repeat(3, &[four], |b, this, vars| {
                b.set_mark(Layer::Net, Layer::Data, vars[0]);
                let far = b.constant(W32, 4000_u32);
                this.next(b, &[far]);
            });
            b.emit(0);
        });
    });
}

#[test]
fn a_new_packet_has_no_bytes() {
    refused(|b| {
        b.input(0, |b| {
            b.require(Layer::Data, 20, Reason::TRUNCATED);
            b.fork_new(&[], |b, _| {
                b.load(W8, Layer::Data, 0);
                b.emit(0);
            });
            b.emit(0);
        });
    });
}

#[test]
fn a_timer_has_no_packet() {
    let text = refused(|b| {
        b.timer(1_000_000_000, |b| {
            b.len();
        });
    });
    assert!(text.contains("there is no packet here"), "{text}");
}

#[test]
fn a_packet_that_is_lost() {
    let text = refused(|b| b.input(0, Builder::stop));
    assert!(text.contains("the packet is lost here"), "{text}");
}

#[test]
fn a_plain_exit_that_is_not_there() {
    let mut b = Builder::new("e", 1, 1);
    b.input(0, |b| b.emit(0));
    let mut p = b.finish();
    p.plain_exits = vec![0];
    assert_eq!(check(&p), Ok(()));
    p.plain_exits = vec![0, 1];
    assert!(check(&p).unwrap_err()[0].to_string().contains("exit 1 is said to be plain, and does not exist"));
}

#[test]
fn entries_by_prefix_are_only_read() {
    let text = refused(|b| {
        let decl = TableDecl::new("routes", Kind::Lpm, &[("dst", W32)], &[("hits", W32)], 8);
        let routes = b.table(decl, Vec::new());
        b.input(0, |b| {
            b.require(Layer::Data, 4, Reason::TRUNCATED);
            let dst = b.load(W32, Layer::Data, 0);
            let route = b.find(routes, &[dst], |b| b.drop(Reason::NO_MATCH));
            let hits = b.get(route, "hits");
            b.set(route, "hits", hits);
            let second = b.constant(W64, 1_000_000_000_u64);
            b.touch(route, second);
            b.remove(route);
            b.emit(0);
        });
    });
    let all = "programs read the entries of table 'routes', which is by prefix, and change none";
    assert_eq!(text.matches(all).count(), 3, "{text}");
}
