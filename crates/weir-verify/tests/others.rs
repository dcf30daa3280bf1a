//! What packets of others left in tables before.

mod net;

use std::sync::Arc;

use net::{Net, checker, holds, shown};
use weir_ir::program::{Layer, Width};
use weir_ir::{Builder, Reason, TableDecl};
use weir_table::Kind;
use weir_verify::NodePort;
use weir_verify::checks::{Verdict, never};

/// Stateful firewalls in a row on the way from `c` to `inside`. Each lets in what answers a UDP packet of one of these.
fn doors(insiders: &str) -> Net {
    doors_behind("c = CheckIPHeader\n fc = IPFilter(allow ip hl 5, deny all)\n c -> fc", insiders)
}

/// The same behind other elements, where the last wire ends.
fn doors_behind(front: &str, insiders: &str) -> Net {
    let (mut text, mut way) = ("inside = sink".to_owned(), front.to_owned());
    for i in insiders.chars() {
        text += &format!(
            "\n {i} = CheckIPHeader
             f{i} = IPFilter(allow udp and ip hl 5, deny all)
             r{i} = IPRewriter(keep 0 1, drop)
             gone{i} = sink
             {i} -> f{i} -> r{i}:0 -> gone{i}"
        );
        way += &format!(" -> r{i}:1\n r{i}:1");
    }
    Net::new(&format!("{text}\n {way} -> inside"))
}

#[test]
fn what_several_strangers_left_counts_together() {
    for insiders in ["ab", "abde"] {
        let mut n = doors(insiders);
        let udp = n.query("c", "inside", "udp");
        let tcp = n.query("c", "inside", "tcp");
        let of = |letters: &str| letters.chars().map(String::from).collect::<Vec<_>>().join(" ") + " c";
        for shut in insiders.chars() {
            let others = n.others(udp.clone(), &of(&insiders.replace(shut, "")));
            let v = never(&mut checker(&n), &others);
            assert!(holds(&v), "the one of {shut} stays shut: {v:?}");
        }
        let (udp, tcp) = (n.others(udp, &of(insiders)), n.others(tcp, &of(insiders)));
        match never(&mut checker(&n), &udp) {
            Verdict::Violated(Some(e)) => {
                assert_eq!(e.packets.len(), insiders.len() + 1, "one for each, and the one that comes in");
            }
            v => panic!("{v:?}"),
        }
        let v = never(&mut checker(&n), &tcp);
        assert!(holds(&v), "they are opened for UDP only: {v:?}");
    }
    // More rounds are not tried, which is no proof.
    let mut n = doors("abdeg");
    let q = n.query("c", "inside", "udp");
    let v = never(&mut checker(&n), &n.others(q.clone(), "a b d e g c"));
    assert!(matches!(v, Verdict::Inconclusive(_)), "{v:?}");
    // For a proof it does not matter how many they are.
    let v = never(&mut checker(&n), &n.others(q, "a b e g c"));
    assert!(holds(&v), "the one of d stays shut: {v:?}");
}

#[test]
fn packets_that_others_left_waiting_go_on_with_the_answer() {
    // What `w` sends waits for an address. The answer comes from `c`, and what waited goes on through the doors.
    let front = "w = CheckIPHeader
         fw = IPFilter(allow udp and ip hl 5, deny all)
         c = Classifier(12/0806 20/0002)
         q = ARPQuerier(10.0.0.1, 02:00:00:00:00:01)
         strip = Strip(14)
         back = CheckIPHeader
         w -> fw -> q:0
         c -> q:1
         q -> strip -> back";
    let mut n = doors_behind(front, "a");
    let q = n.query("c", "inside", "udp");
    shown(&never(&mut checker(&n), &n.others(q, "w a c")), false);
    // With more doors than packets are let in before, a proof is tried.
    let mut n = doors_behind(front, "abdeg");
    let q = n.query("c", "inside", "udp");
    let v = never(&mut checker(&n), &n.others(q.clone(), "w a b d e g c"));
    assert!(matches!(v, Verdict::Inconclusive(_)), "all doors may be open: {v:?}");
    for (others, why) in [("w a b e g c", "the one of d stays shut"), ("a b d e g c", "nothing waits")] {
        let v = never(&mut checker(&n), &n.others(q.clone(), others));
        assert!(holds(&v), "{why}: {v:?}");
    }
    // Copies of an answer for two of them; what one that comes second sees may have changed, of which nothing is proved.
    let twice = |second: &str| {
        let more = "t = Tee(2)
             p = ARPQuerier(10.0.0.2, 02:00:00:00:00:02)
             gone = sink
             p -> gone";
        let copies = format!("c -> t\n t:0 -> q:1\n t:1 -> {second}:1");
        let mut n = doors_behind(&format!("{more}\n {}", front.replace("c -> q:1", &copies)), "abdeg");
        let q = n.query("c", "inside", "udp");
        never(&mut checker(&n), &n.others(q, "w a b e g c"))
    };
    assert!(holds(&twice("p")));
    assert!(matches!(twice("q"), Verdict::Inconclusive(_)));
}

#[test]
fn what_strangers_left_in_one_table_counts_together() {
    // Who comes from one address goes on from another, and each takes a packet that was sent there.
    let asked = |sent: &str| {
        let mut n = Net::new(&format!(
            "a = CheckIPHeader
             fa = IPFilter(allow udp and ip hl 5 and {sent}, deny all)
             c = CheckIPHeader
             fc = IPFilter(allow udp and src host 10.0.0.5 and ip hl 5, deny all)
             door = IPRewriter(keep 0 1, drop)
             which = IPClassifier(src host 10.0.0.5, -)
             other = StoreIPAddress(10.0.0.7, src)
             gone = sink
             inside = sink
             a -> fa -> door:0 -> gone
             c -> fc -> door:1
             door:1 -> which:0 -> other -> door:1
             which:1 -> inside"
        ));
        let q = n.query("c", "inside", "");
        never(&mut checker(&n), &n.others(q, "a c"))
    };
    match asked("(dst host 10.0.0.5 or dst host 10.0.0.7)") {
        Verdict::Violated(Some(e)) => {
            assert_eq!(e.packets.len(), 3, "one to each, and the one that comes in");
        }
        v => panic!("{v:?}"),
    }
    for one in ["dst host 10.0.0.5", "dst host 10.0.0.7"] {
        let v = asked(one);
        assert!(holds(&v), "one is not enough: {v:?}");
    }
}

/// Counts the packets on input 0 from each address, by its last byte, and lets in what comes on input 1 from one that sent
/// so many. Those go on, or not.
fn knocks(wanted: u8, go_on: bool) -> Arc<weir_ir::Program> {
    let mut b = Builder::new("knocks", 2, 2);
    let decl = TableDecl::new("seen", Kind::Exact, &[("from", Width::W8)], &[("more", Width::W8)], 8);
    let seen = b.table(decl, Vec::new());
    b.input(0, |b| {
        b.require(Layer::Data, 20, Reason::TRUNCATED);
        let from = b.load(Width::W8, Layer::Data, 15);
        b.lookup(
            seen,
            &[from],
            |b, e| {
                let more = b.get(e, "more");
                let more = b.add(more, 1);
                b.set(e, "more", more);
            },
            |b| _ = b.insert(seen, &[from], |b| b.drop(Reason::FULL)),
        );
        if go_on { b.emit(0) } else { b.drop(Reason::DENIED) }
    });
    b.input(1, |b| {
        b.require(Layer::Data, 20, Reason::TRUNCATED);
        let from = b.load(Width::W8, Layer::Data, 15);
        let e = b.find(seen, &[from], |b| b.drop(Reason::NO_MATCH));
        let more = b.get(e, "more");
        let enough = b.eq(more, u128::from(wanted - 1));
        b.unless(enough, |b| b.drop(Reason::DENIED));
        b.emit(1);
    });
    Arc::new(b.finish())
}

#[test]
fn what_later_packets_change_counts() {
    for (wanted, go_on) in (1..=5).flat_map(|n| [(n, true), (n, false)]) {
        let mut n = Net::new(
            "a = CheckIPHeader
             fa = IPFilter(allow ip hl 5, deny all)
             c = CheckIPHeader
             fc = IPFilter(allow ip hl 5, deny all)
             gone = sink
             inside = sink
             a -> fa
             c -> fc",
        );
        let door = n.net.add_program("door", &knocks(wanted, go_on), 0);
        let (a, c, gone) = (n.port("fa"), n.port("fc"), n.port("gone"));
        n.net.connect(a, NodePort { node: door, port: 0 });
        n.net.connect(c, NodePort { node: door, port: 1 });
        n.net.connect(NodePort { node: door, port: 0 }, gone);
        n.net.connect(NodePort { node: door, port: 1 }, n.port("inside"));
        let q = n.query("c", "inside", "");
        match never(&mut checker(&n), &n.others(q, "a c")) {
            Verdict::Violated(Some(e)) => assert_eq!(e.packets.len(), usize::from(wanted) + 1),
            // So many rounds are not tried, which is no proof.
            Verdict::Inconclusive(_) => assert_eq!(wanted, 5),
            v => panic!("{wanted}: {v:?}"),
        }
    }
}

/// Packets on each input look their source up in these tables, in order, and go on, or get into a table, where they are in all.
fn clubs(inputs: &[(&[usize], Option<usize>)]) -> Net {
    let mut b = Builder::new("clubs", inputs.len() as u32, 1);
    let tables = ["first", "second", "third"]
        .map(|name| b.table(TableDecl::new(name, Kind::Exact, &[("from", Width::W8)], &[], 8), Vec::new()));
    for (input, (wanted, into)) in (0..).zip(inputs) {
        b.input(input, |b| {
            b.require(Layer::Data, 20, Reason::TRUNCATED);
            let from = b.load(Width::W8, Layer::Data, 15);
            for &table in *wanted {
                b.find(tables[table], &[from], |b| b.drop(Reason::NO_MATCH));
            }
            let Some(into) = *into else { return b.emit(0) };
            let into = tables[into];
            b.lookup(into, &[from], |_, _| {}, |b| _ = b.insert(into, &[from], |b| b.drop(Reason::FULL)));
            b.drop(Reason::DENIED);
        });
    }
    let mut text = "inside = sink".to_owned();
    for i in 0..inputs.len() {
        text += &format!("\n c{i} = CheckIPHeader\n f{i} = IPFilter(allow ip hl 5, deny all)\n c{i} -> f{i}");
    }
    let mut n = Net::new(&text);
    let clubs = n.net.add_program("clubs", &Arc::new(b.finish()), 0);
    for port in 0..inputs.len() as u32 {
        let from = n.port(&format!("f{port}"));
        n.net.connect(from, NodePort { node: clubs, port });
    }
    n.net.connect(NodePort { node: clubs, port: 0 }, n.port("inside"));
    n
}

#[test]
fn what_strangers_make_thanks_to_others_counts() {
    let shown_by = |inputs: &[(&[usize], Option<usize>)]| {
        let mut n = clubs(inputs);
        let q = n.query(&format!("c{}", inputs.len() - 1), "inside", "");
        let others: Vec<String> = (0..inputs.len() - 1).map(|i| format!("c{i}")).collect();
        match never(&mut checker(&n), &n.others(q, &others.join(" "))) {
            Verdict::Violated(Some(e)) => assert_eq!(e.packets.len(), 4),
            v => panic!("{v:?}"),
        }
    };
    // Who is in the first two may get into the third.
    shown_by(&[(&[], Some(0)), (&[], Some(1)), (&[0, 1], Some(2)), (&[2], None)]);
    // Who is in the first may get into the second, and is asked for the third before the second.
    shown_by(&[(&[], Some(0)), (&[0], Some(1)), (&[], Some(2)), (&[2, 1], None)]);
    // The other way round.
    shown_by(&[(&[], Some(0)), (&[0], Some(1)), (&[], Some(2)), (&[1, 2], None)]);
}
