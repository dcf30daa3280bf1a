use crate::prelude::*;

element! {
    /// Passes each packet on with a probability, at random; the others leave on output 1, or are dropped (`Sampled`).
    RandomSample: "1/1-2", "a/ah";
    example "Idle -> s :: RandomSample(0.1) -> Discard; s [1] -> Discard;";
    params {
        /// The probability with which packets pass.
        pos p: Option<Probability> = None,
        /// The same.
        key sample: Option<Probability> = None,
        /// The probability with which packets do not pass.
        key drop: Option<Probability> = None,
        /// Whether it takes samples; otherwise all packets pass.
        key active: bool = true,
    }
    check |e| match (e.p.or(e.sample), e.drop) {
        (Some(_), Some(_)) => Err("give at most one of SAMPLE and DROP".into()),
        (None, None) => Err("missing mandatory P argument (number from 0 to 1)".into()),
        _ => Ok(()),
    };
    handlers {
        /// The probability with which packets pass.
        read sampling_prob = |_, s| Ok(show(s.cell("probability") as u32)),
        /// Changes it.
        write sampling_prob = |_, s, v| set(s, Probability::from_arg(v)?.0),
        /// The probability with which packets do not pass.
        read drop_prob = |_, s| Ok(show(ONE - s.cell("probability") as u32)),
        /// Changes it.
        write drop_prob = |_, s, v| set(s, ONE - Probability::from_arg(v)?.0),
        /// Whether it takes samples.
        cell active: bool,
        /// Number of packets that did not pass.
        count drops,
    }
}

/// A certainty: probabilities have 28 binary places, as Click's.
const ONE: u32 = 1 << 28;
/// The packet is not in the sample.
const SAMPLED: Reason = Reason::new("Sampled");

/// A probability.
#[derive(Debug, Clone, Copy)]
pub struct Probability(u32);

impl FromArg for Probability {
    const SYNTAX: &'static str = "number from 0 to 1";
    fn from_arg(text: &str) -> Result<Probability, String> {
        match text.trim().parse::<f64>() {
            Ok(p) if (0.0..=1.0).contains(&p) => Ok(Probability((p * f64::from(ONE)).round() as u32)),
            _ => Err(format!("'{text}' is not a probability: write a number from 0 to 1")),
        }
    }
}

fn show(p: u32) -> String {
    let rounded = (f64::from(p) / f64::from(ONE) * 1e7).round() / 1e7;
    rounded.to_string()
}

fn set(s: &mut State<'_>, p: u32) -> Result<(), String> {
    s.set_cell("probability", p.into());
    Ok(())
}

fn program(e: &RandomSample, b: &mut Builder) {
    let p = e.p.or(e.sample).map_or_else(|| ONE - e.drop.map_or(0, |q| q.0), |p| p.0);
    let probability = b.live("probability", W32, p.into());
    let active = b.live("active", W1, e.active.into());
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        let active = b.read_cell(active);
        b.unless(active, |b| b.emit(0));
        let draw = b.random();
        let draw = b.shr(draw, 4);
        let p = b.read_cell(probability);
        let passes = b.lt(draw, p);
        b.when(passes, |b| b.emit(0));
        count(b, drops);
        b.emit_or_drop(1, SAMPLED);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    fn passed(e: &mut Harness) -> usize {
        (0..1000).filter(|_| e.send(0, b"x")[0].out().0 == 0).count()
    }

    #[test]
    fn about_as_many_pass_as_the_probability_says() {
        for (arg, want) in
            [("0.25", 200..=300), ("SAMPLE 1", 1000..=1000), ("DROP 1", 0..=0), ("DROP .1", 860..=940)]
        {
            let n = passed(&mut Harness::new("RandomSample", &[arg], 1, 2));
            assert!(want.contains(&n), "{arg}: {n}");
        }
    }

    #[test]
    fn it_can_change_while_it_runs() {
        let mut e = Harness::new("RandomSample", &["0.2"], 1, 2);
        assert_eq!((e.read("sampling_prob"), e.read("drop_prob")), ("0.2".into(), "0.8".into()));
        e.write("drop_prob", "1").unwrap();
        assert_eq!((passed(&mut e), e.read("drops")), (0, "1000".into()));
        e.write("active", "false").unwrap();
        assert_eq!(passed(&mut e), 1000);
        assert!(e.write("sampling_prob", "1.5").unwrap_err().contains("from 0 to 1"));
    }

    #[test]
    fn what_does_not_pass_is_dropped_without_a_second_output() {
        assert_eq!(Harness::new("RandomSample", &["0"], 1, 1).send(0, b"x")[0].reason(), "Sampled");
        let class = crate::class_named("RandomSample").unwrap();
        assert!(class.configure(&[]).err().unwrap()[0].contains("missing mandatory P"));
        let both = class.configure(&["SAMPLE 1".into(), "DROP 0".into()]);
        assert!(both.err().unwrap()[0].contains("one of SAMPLE and DROP"));
    }
}
