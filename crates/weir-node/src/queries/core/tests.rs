use proptest::prelude::*;
use weir_api::queries::{Condition, Relation};

use super::*;

fn query(measure: Measure, every: u64) -> Query {
    let ask = Question { measure, graph: None, function: None, tenant: None, handler: None };
    Query { ask, every, when: None, until: None, times: None }
}

fn of(function: &str, sample: Sample) -> Samples {
    let target = Target { graph: Some("g".into()), function: Some(function.into()), interface: None };
    [(target, sample)].into()
}

fn counts(packets: u64) -> Sample {
    let counts = Counts { packets, bytes: 100 * packets };
    Sample::Counts(counts, counts)
}

fn above(value: f64) -> Option<Condition> {
    Some(Condition { relation: Relation::Gt, value })
}

#[test]
fn a_periodic_query_reports_each_look_with_rates_of_the_time_between() {
    let mut q = Queries::default();
    assert!(q.put(1000, "a", query(Measure::PacketsCount, 500), false, false));
    assert_eq!((q.next(), q.due(999).len(), q.due(1000).len()), (Some(1000), 0, 1));
    let first = q.look(1000, "a", of("f", counts(10))).unwrap();
    let r = &first.report.as_ref().unwrap().readings[0];
    assert_eq!((r.value, r.receive_rate, first.keep), (Some(20.0), None, false));
    let r = q.look(1500, "a", of("f", counts(60))).unwrap().report.unwrap().readings[0].clone();
    assert_eq!((r.value, r.receive_rate), (Some(120.0), Some(Rate { packets: 100.0, bytes: 10_000.0 })));
    // What was missed is not made up for, and counters that began anew count from 0.
    assert_eq!(q.next(), Some(2000));
    let r = q.look(9500, "a", of("f", counts(8))).unwrap().report.unwrap().readings[0].clone();
    assert_eq!((r.send_rate.unwrap().packets, q.next()), (1.0, Some(9501)));
}

#[test]
fn a_condition_is_said_the_first_time_and_not_again_as_long_as_it_stays_so() {
    let mut q = Queries::default();
    let load = Query { when: above(80.0), ..query(Measure::CpuUtil, 1000) };
    q.put(0, "cpu", load, false, false);
    let mut seconds = 0.0;
    let mut said = Vec::new();
    for (i, load) in [0.0, 0.5, 0.9, 0.95, 0.85, 0.2, 0.9].into_iter().enumerate() {
        seconds += load;
        let look = q.look(1000 * i as u64, "cpu", of("f", Sample::Seconds(seconds))).unwrap();
        if let Some(report) = look.report {
            assert!(look.keep && report.readings.len() == 1);
            said.push(i);
        }
    }
    assert_eq!(said, [2, 6]);
}

#[test]
fn each_thing_begins_to_hold_by_itself_and_what_vanished_may_begin_again() {
    let mut q = Queries::default();
    q.put(0, "m", Query { when: above(50.0), ..query(Measure::MemUtil, 100) }, false, false);
    let both = |a: u64, b: u64| {
        let mut all = of("a", Sample::Bytes(a, 100));
        all.extend(of("b", Sample::Bytes(b, 100)));
        all
    };
    let mut names = |now, samples| {
        let look = q.look(now, "m", samples).unwrap();
        let readings = look.report.map(|r| r.readings).unwrap_or_default();
        (readings.into_iter().filter_map(|r| r.function).collect::<Vec<_>>().join(" "), look.vanished)
    };
    assert_eq!(names(0, both(60, 10)), ("a".into(), false));
    assert_eq!(names(100, both(60, 70)), ("b".into(), false));
    assert_eq!(names(200, Samples::new()), (String::new(), true));
    assert_eq!(names(300, Samples::new()), (String::new(), false), "it is said once that it vanished");
    assert_eq!(names(400, both(60, 70)), ("a b".into(), false));
}

#[test]
fn queries_end_by_condition_or_by_number_and_say_so() {
    let mut q = Queries::default();
    q.put(0, "n", Query { times: Some(2), ..query(Measure::PacketsCount, 100) }, false, false);
    assert!(!q.look(0, "n", of("f", counts(1))).unwrap().report.unwrap().ended);
    let last = q.look(100, "n", of("f", counts(1))).unwrap();
    assert!(last.report.unwrap().ended && last.keep);
    assert!(q.look(200, "n", of("f", counts(1))).is_none() && q.due(1000).is_empty() && q.next().is_none());
    assert!(q.get("n").unwrap().ended);
    // A condition that never begins to hold, and one that ends it.
    let query = Query { when: above(1e9), until: above(100.0), ..query(Measure::PacketsCount, 100) };
    q.put(0, "u", query.clone(), false, false);
    assert!(q.look(0, "u", of("f", counts(1))).unwrap().report.is_none());
    let end = q.look(100, "u", of("f", counts(51))).unwrap().report.unwrap();
    assert!(end.ended && end.readings.is_empty());
    // The same again goes on as it is, ended; another one begins.
    assert!(!q.put(200, "u", query.clone(), true, false) && q.get("u").unwrap().of_domain);
    assert!(q.put(200, "u", Query { every: 200, ..query }, true, false) && !q.get("u").unwrap().ended);
    assert!(q.remove("u") && !q.remove("u"));
}

#[test]
fn what_a_handler_says_is_a_value_if_it_is_a_number() {
    let ask = query(Measure::Handler, 100).ask;
    let value = |text: &str| readings(&ask, &of("f", Sample::Text(text.into())), None)[0].value;
    assert_eq!(
        (value("17\n"), value("-1.5"), value("a table"), value("inf")),
        (Some(17.0), Some(-1.5), None, None)
    );
}

proptest! {
    /// Reports of a condition are as many as the beginnings of its holding, whatever is measured when.
    #[test]
    fn reports_are_the_beginnings(values in prop::collection::vec((1u64..5000, 0u64..200), 0..60)) {
        let mut q = Queries::default();
        q.put(0, "q", Query { when: above(100.0), ..query(Measure::MemUtil, 100) }, false, false);
        let (mut now, mut held, mut expected, mut said) = (0, false, 0, 0);
        for (step, value) in values {
            now += step;
            let holds = value > 100;
            expected += usize::from(holds && !held);
            held = holds;
            let look = q.look(now, "q", of("f", Sample::Bytes(value, 100))).unwrap();
            said += look.report.map_or(0, |r| r.readings.len());
            prop_assert!(q.next().unwrap() > now);
        }
        prop_assert_eq!(said, expected);
    }
}
