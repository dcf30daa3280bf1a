use crate::prelude::*;

element! {
    /// Gives packets that are pulled, and pushes a copy of each out of all further outputs.
    PullTee: "1/1-", "l/lh";
    example "Idle -> t :: PullTee -> Discard; t [1] -> Discard;";
    params {
        /// Number of outputs; as many as are connected, if it is not given.
        pos n: Option<u32> = None,
    }
    check |e| match e.n {
        Some(0 | 65_537..) => Err("N: write a number from 1 to 65536".into()),
        _ => Ok(()),
    };
    ports |e| e.n.map_or_else(|| "1/1-".to_owned(), |n| format!("1/{n}"));
}

fn program(_: &PullTee, b: &mut Builder) {
    b.input(0, |b| {
        for port in 1..b.outputs() {
            b.fork(|b| b.emit(port));
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    #[test]
    fn every_output_gets_the_packet() {
        let out = Harness::new("PullTee", &[], 1, 3).send(0, b"ab");
        let mut out: Vec<_> = out.iter().map(Outcome::out).collect();
        out.sort_unstable();
        assert_eq!(out, [(0, &b"ab"[..]), (1, b"ab"), (2, b"ab")]);
    }

    #[test]
    fn there_is_an_output_at_least() {
        let class = crate::class_named("PullTee").unwrap();
        assert!(class.configure(&["0".into()]).err().unwrap()[0].contains("from 1 to 65536"));
        assert_eq!(class.configure(&["2".into()]).unwrap().ports(), "1/2");
    }
}
