mod common;
use weir_verify::*;
fn show(x: &Exprs, e: Expr) -> String {
    match x.node(e) {
        Node::Const(v) => format!("{v}"),
        Node::Symbol(s) => match s {
            Symbol::Byte(s, i) => format!("{:?}[{i}]", x.source(*s).clone()),
            Symbol::Has(at) => format!("Has({})", ent(x, at)),
            Symbol::Field(at, f) => format!("Field({},{f})", ent(x, at)),
            Symbol::HeldCount(at) => format!("HeldCount({})", ent(x, at)),
            Symbol::Group(t, v) => format!("Group({t},{})", show(x, *v)),
            o => format!("{o:?}"),
        },
        Node::Binary(o, a, b) => format!("({} {o:?} {})", show(x, *a), show(x, *b)),
        Node::Equal(a, b) => format!("({} == {})", show(x, *a), show(x, *b)),
        Node::Less(a, b) => format!("({} < {})", show(x, *a), show(x, *b)),
        Node::Not(a) => format!("!{}", show(x, *a)),
        Node::Resize(a) => format!("r{}({})", x.width(e).bits(), show(x, *a)),
        Node::Concat(l) => format!("[{}]", l.iter().map(|&b| show(x, b)).collect::<Vec<_>>().join(" ")),
        o => format!("{o:?}"),
    }
}
fn ent(x: &Exprs, at: &EntryAt) -> String {
    format!(
        "t{} {}",
        at.table,
        match &at.at {
            At::Key(k) => k.iter().map(|&k| show(x, k)).collect::<Vec<_>>().join(","),
            At::Row(r) => format!("row{r}"),
        }
    )
}
#[test]
fn dbg() {
    let want = std::env::var("P").unwrap_or("hold".into());
    for (name, p) in common::all() {
        if name != want {
            continue;
        }
        for e in &p.entries {
            let t = std::time::Instant::now();
            let f = explore(
                &p,
                e.block,
                &SymbolicInput { pulled: 0..=20, ..Default::default() },
                Limits::default(),
            );
            println!("{:?} paths {} {:?} {:?}", e.kind, f.paths.len(), f.incomplete, t.elapsed());
            let mut n = 0;
            for path in &f.paths {
                if solve(&p, path).is_none() {
                    n += 1;
                    if n < 6 {
                        println!(
                            "--- {:?} {:?}",
                            path.blocks,
                            path.ends.iter().map(|e| &e.how).collect::<Vec<_>>()
                        );
                        for &c in path.facts.conditions() {
                            println!("  {}", show(&path.exprs, c));
                        }
                    }
                }
            }
            println!("unsolved {n} {:?}", t.elapsed());
        }
    }
}
