//! Texts as people write them, and what becomes of samples.

use proptest::prelude::*;

use super::*;

const ROUTER: &str = r#"
measurements {
  m1 = cpu(vnf = ctrl);
  m2 = overload.risk.rx(interface = sap:lan, capacity = "10 Mbit/s", every = "50 ms");
}
zones {
  calm = (AVG(val = m2, max_age = "1 second") < 0.2) for "100 ms";
  busy = ((AVG(val = m2, max_age = "1 second") > 0.5) && (MAX(val = m1, max_age = "1 minute") < 2)) for "200 ms";
}
actions {
  calm->busy = Publish(topic = "alarms", message = "scale out"); Notify(target = \"ctrl\", message = \"now\");
  ->calm = Publish(topic = "alarms", message = "calm");
  busy-> = Publish(topic = "alarms", message = "not busy");
  busy = Publish(topic = "alarms", message = "busy");
}
"#;

fn mistakes(text: &str) -> Vec<String> {
    Monitoring::parse(text).unwrap_err().list().iter().map(Mistake::to_string).collect()
}

#[test]
fn a_text_is_read_and_its_canonical_form_is_the_same() {
    let m = Monitoring::parse(ROUTER).unwrap();
    assert_eq!((m.measurements().len(), m.zones().len(), m.actions().len()), (2, 2, 5));
    assert_eq!(m.measurements()[0].metric, Metric::Cpu("ctrl".into()));
    let of = Of::Sap("lan".into());
    assert_eq!(m.measurements()[1].metric, Metric::OverloadRisk(Direction::Rx, of, 10_000_000));
    assert_eq!((m.measurements()[1].every, m.zones()[1].hold), (50, 200));
    let again = Monitoring::parse(&m.to_string()).unwrap();
    assert_eq!((again.to_string(), again), (m.to_string(), m));
}

#[test]
fn operators_bind_as_in_other_languages() {
    let zone = |text: &str| {
        let text = format!("measurements {{ m = cpu(function = f); }} zones {{ z = {text}; }}");
        Monitoring::parse(&text).map(|m| m.zones()[0].when.to_string()).map_err(|e| e.to_string())
    };
    assert_eq!(
        zone("1 + 2 * 3 < 4 || 5 - 1 - 1 > 0 && !(1 == 2)").unwrap(),
        "((1 + (2 * 3)) < 4) || ((((5 - 1) - 1) > 0) && !(1 == 2))"
    );
    assert_eq!(zone("10-2 > 7 and -1 < 0").unwrap(), "((10 - 2) > 7) && (-1 < 0)");
    for (text, why) in [
        ("AVG(val = m, max_age = \"1 second\")", "is a number"),
        ("(1 < 2) + 1 > 0", "joins two numbers"),
        ("1 && 2", "joins two conditions"),
        ("1 < 2 < 3", "joins two numbers"),
        ("AVG(val = m, max_age = \"0 ms\") > 1", "is not 0"),
        ("AVF(val = m, max_age = \"1 s\") > 1", "did you mean \"AVG\""),
        ("AVG(val = m, max_age = \"9 fortnights\") > 1", "is no time"),
        ("!5 > 1", "only a condition has an opposite"),
    ] {
        let error = zone(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn all_mistakes_are_said_at_once_where_they_are() {
    let text = "measurements {
  m1 = cpuu(function = f);
  m2 = rate.rx(sap = lan, evry = \"1 s\");
  m2 = mem(function = f);
}
zones {
  z1 = (AVG(val = m1, max_age = \"1 second\") > 0.5);
  z2 = (AVG(val = m9, max_age = \"1 second\") > );
  z3 = (AVG(val = m9, max_age = \"1 second\") > 1);
}
actions {
  z1->z4 = Publish(topic = \"alarms\", message = \"a\");
  z1->z2 = Publish(topic = \"no topic\", message = \"a\");
}";
    let said = mistakes(text);
    let expected = [
        ("line 2, column 3: \"cpuu\" is not measured", "did you mean \"cpu\"?"),
        ("line 3, column 3: the parameter \"evry\"", "did you mean \"every\"?"),
        ("line 4, column 3: a second measurement \"m2\"", "choose another name"),
        ("line 8, column 47: found \")\"", "expected a number"),
        ("line 9, column 3: there is no measurement \"m9\"", "did you mean \"m1\"?"),
        ("line 12, column 3: there is no zone \"z4\"", "did you mean"),
        ("line 13, column 3: \"no topic\" is no topic", "letters"),
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (said, (what, help)) in said.iter().zip(expected) {
        assert!(said.starts_with(what) && said.contains(help), "{said}");
    }
}

#[test]
fn texts_that_are_too_large_are_refused_clearly() {
    let mut text = String::from("measurements { m = cpu(function = f); } zones {\n");
    for i in 0..10_000 {
        text += &format!("z{i} = 1<2;\n");
    }
    let said = mistakes(&(text + "}"));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("more than 1000 zones"), "{}", said[0]);
    assert!(mistakes(&" ".repeat(MAX_TEXT + 1))[0].contains("bytes"));
    let deep = format!("zones {{ z = {}1<2{}; }}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(mistakes(&deep)[0].contains("parentheses are open"));
    let long = format!("zones {{ z = {}1<2; }}", "1<2 && ".repeat(20));
    assert!(mistakes(&long)[0].contains("too many parts"));
    let mut windows = String::from("measurements { m = cpu(function = f); } zones {\n");
    let aggregate = |age: usize| format!("AVG(val = m, max_age = \"{age} ms\")");
    for i in 0..=MAX_WINDOWS / 2 {
        windows += &format!("z{i} = {} > {};\n", aggregate(2 * i + 1), aggregate(2 * i + 2));
    }
    assert!(mistakes(&(windows + "}"))[0].contains("more than 1000 windows"));
}

#[test]
fn what_is_accepted_is_read_back_from_its_canonical_text() {
    let read_back = |text: &str| {
        let m = Monitoring::parse(text).unwrap_or_else(|e| panic!("{text}\n{e:?}"));
        assert_eq!(Monitoring::parse(&m.to_string()).unwrap(), m, "{text}");
    };
    // As many parts as there may be: the canonical text has more parentheses.
    for n in 2..=16 {
        read_back(&format!("zones {{ z = {}1<2; }}", "1<2 && ".repeat(n - 1)));
    }
    read_back("zones { notify = 1<2; publish = 2<1; x = 1<1; }
        actions { ->x = Publish(topic = \"t\", message = \"a\"); notify->x = Publish(topic = \"t\", message = \"b\"); publish = Notify(target = \"t\", message = \"c\"); }");
    // It would be longer than what may be read.
    let mut parts = Parts::default();
    parts.zone("z", "1<2", None).unwrap();
    for _ in 0..MAX_ACTIONS {
        parts.action(Trigger::In("z".into()), "t", &"m".repeat(150)).unwrap();
    }
    assert!(parts.finish().unwrap_err().message.contains("bytes when written out"));
}

/// A watch over one measurement, and what it says to samples every 10 ms.
fn run(zones: &str, actions: &str, samples: &[(u64, Option<f64>)]) -> Vec<(u64, String)> {
    let text = format!(
        "measurements {{ m = handler(function = f, name = \"h\", every = \"10 ms\"); }} zones {{ {zones} }} actions {{ {actions} }}"
    );
    let mut watch = Watch::new(Monitoring::parse(&text).unwrap(), 0);
    let mut said = Vec::new();
    for (now, value) in samples {
        said.extend(watch.take(*now, &[(0, *value)]).into_iter().map(|a| (*now, a.message)));
    }
    said
}

const TWO: &str = "calm = LAST(val = m, max_age = \"1 second\") < 1 for \"20 ms\";
    busy = LAST(val = m, max_age = \"1 second\") > 1 for \"50 ms\";";
const SAY: &str = "calm->busy = Publish(topic = \"t\", message = \"up\"); busy->calm = Publish(topic = \"t\", message = \"down\");";

fn samples(values: impl IntoIterator<Item = f64>) -> Vec<(u64, Option<f64>)> {
    values.into_iter().enumerate().map(|(i, v)| (i as u64 * 10, Some(v))).collect()
}

#[test]
fn an_alarm_is_raised_once_the_condition_held_and_cleared_once_it_did_not() {
    let values = [0.0; 5].into_iter().chain([2.0; 20]).chain([0.0; 20]);
    // Up: 5 samples of calm, then 50 ms. Down: at 250 ms calm begins to hold, but busy holds on for 50 ms.
    assert_eq!(run(TWO, SAY, &samples(values)), [(100, "up".to_owned()), (300, "down".to_owned())]);
}

#[test]
fn what_flaps_raises_no_alarm() {
    let flapping = (0..200).map(|i| if i < 5 || i % 2 == 0 { 0.0 } else { 2.0 });
    assert_eq!(run(TWO, SAY, &samples(flapping)), []);
}

#[test]
fn what_is_not_known_changes_nothing() {
    let mut all = samples([0.0; 5]);
    all.extend((5..9).map(|i| (i * 10, Some(2.0))));
    // The old samples are too old at last: nothing is known.
    all.extend((9..200).map(|i| (i * 10, None)));
    assert_eq!(run(TWO, SAY, &all), [(100, "up".to_owned())]);
    let short = "calm = LAST(val = m, max_age = \"30 ms\") < 1 for \"20 ms\"; busy = LAST(val = m, max_age = \"30 ms\") > 1 for \"200 ms\";";
    assert_eq!(run(short, SAY, &all), []);
}

#[test]
fn entering_leaving_and_being_in_a_zone_are_said() {
    let actions = "->busy = Publish(topic = \"t\", message = \"enter\"); busy-> = Publish(topic = \"t\", message = \"leave\");
        busy = Publish(topic = \"t\", message = \"in\");";
    let mut all = samples([2.0; 10]);
    all.push((REPEAT + 40, Some(2.0)));
    all.push((REPEAT + 50, Some(2.0)));
    all.extend((0..10).map(|i| (REPEAT + 60 + i * 10, Some(0.0))));
    let said = run(TWO, actions, &all);
    let said: Vec<(u64, &str)> = said.iter().map(|(t, m)| (*t, m.as_str())).collect();
    assert_eq!(said, [(50, "enter"), (50, "in"), (REPEAT + 50, "in"), (REPEAT + 110, "leave")]);
}

#[test]
fn aggregates_are_over_the_samples_that_are_not_too_old() {
    let mut window = window::Window::new(640);
    for i in 0..200 {
        window.add(i * 10, i as f64);
    }
    // 640 ms hold 65 samples, the newest of which is 199.
    assert_eq!(window.value(Function::Last), Some(199.0));
    assert_eq!(window.value(Function::Max), Some(199.0));
    assert_eq!(window.value(Function::Min), Some(135.0));
    assert_eq!(window.value(Function::Avg), Some((135.0 + 199.0) / 2.0));
    window.forget(10_000);
    assert_eq!(window.value(Function::Avg), None);
}

#[test]
fn samples_are_due_when_their_time_has_come_and_are_not_made_up_for() {
    let text = "measurements { a = handler(function = f, name = \"h\", every = \"10 ms\"); b = mem(function = f, every = \"1 second\"); }";
    let mut watch = Watch::new(Monitoring::parse(text).unwrap(), 1_000);
    assert_eq!(watch.due(1_000), [0, 1]);
    watch.take(1_000, &[(0, None), (1, Some(0.5))]);
    assert_eq!((watch.next(|_| true), watch.due(1_010)), (Some(1_010), vec![0]));
    watch.take(1_500, &[(0, Some(1.0))]);
    assert_eq!(watch.next(|_| true), Some(1_501));
    assert_eq!(watch.values().collect::<Vec<_>>(), [("a", Some(1.0)), ("b", Some(0.5))]);
}

proptest! {
    #[test]
    fn no_text_is_too_much_for_the_parser(text in "[a-z0-9=(){};,.\"<>+*/!&| \\n-]{0,200}") {
        let blocks = format!("measurements {{ m = cpu(function = f); {text} }} zones {{ {text} }} actions {{ {text} }}");
        for text in [&text, &blocks] {
            match Monitoring::parse(text) {
                Ok(m) => prop_assert_eq!(Monitoring::parse(&m.to_string()).unwrap(), m),
                Err(e) => prop_assert!(e.list().iter().all(|m| m.line > 0 && m.column > 0)),
            }
        }
    }
}
