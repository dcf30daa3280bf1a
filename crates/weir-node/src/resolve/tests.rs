//! What is chosen, and what is said of it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_model::graph::ServiceGraph;

use super::*;

/// An image with two ports; `more` are fields of its manifest.
fn image(name: &str, kind: &str, more: &str) -> Template {
    let work = match kind {
        "click" => "click: 'in_0 -> out_1; in_1 -> out_0;'",
        "native" => "kind: native",
        _ => "kind: container\ncontainer: {image: /image.tar}",
    };
    let text =
        format!("name: {name}\ncapability: [firewall, filter]\nports: [inside, outside]\n{more}\n{work}\n");
    Template::parse(&text).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn function(text: &str) -> Function {
    let text = format!("id: g\nname: g\nSFs: [{{id: f, capability: firewall, {text}}}]\n");
    ServiceGraph::parse(&text).unwrap_or_else(|e| panic!("{e}")).functions[0].clone()
}

const MB: u64 = 1 << 20;

/// What inline images take, with 4 MB, and others, with 32 MB and half a processor.
fn facts(t: &Template) -> Facts {
    let proved = t.click().is_some();
    let needs = if proved {
        Needs { memory: 4 * MB, cpu: Some(0) }
    } else {
        Needs { memory: 32 * MB, cpu: Some(500) }
    };
    Facts { obstacle: None, proved, inline: proved, needs }
}

fn chosen(f: &Function, images: &[Template], running: Option<&str>) -> Result<Choice, String> {
    let asked = f.capability.clone().unwrap();
    resolve(f, &asked, images, Resources::UNBOUNDED, running, facts).map(|(_, choice)| choice)
}

#[test]
fn what_is_proved_comes_first_and_each_other_is_told_why_not() {
    let images = [
        image("a", "native", ""),
        image("b", "click", ""),
        image("c", "click", ""),
        image("d", "container", ""),
    ];
    let c = chosen(&function("ports: [inside, outside]"), &images, None).unwrap();
    assert_eq!((c.image.as_str(), c.kind.as_str(), c.capability.as_str()), ("b", "click", "firewall"));
    let others: Vec<_> = c.others.iter().map(|o| format!("{} ({}): {}", o.image, o.kind, o.why)).collect();
    assert_eq!(
        others,
        [
            "a (native): it fits, but is not proved, as 'b' is",
            "c (click): it fits as well; the name 'b' comes first",
            "d (container): it fits, but is not proved, as 'b' is",
        ]
    );
    let one = chosen(&function("constraints: {kind: container}"), &images, None).unwrap();
    assert_eq!((one.image.as_str(), one.why.as_str()), ("d", "it is the only one that fits"));
    assert_eq!(one.others[1].why, "it is of kind click, and container is asked for");
}

#[test]
fn the_image_that_runs_is_kept_while_it_fits() {
    let images = [image("a", "click", "version: '2'"), image("b", "native", "version: '1.5'")];
    let c = chosen(&function("ports: [x]"), &images, Some("b")).unwrap();
    assert_eq!((c.image.as_str(), c.why.as_str()), ("b", "it runs now, and still fits"));
    assert_eq!(c.others[0].why, "it fits, but 'b' runs now, and still fits");
    let c = chosen(&function("constraints: {version: '>=2'}"), &images, Some("b")).unwrap();
    assert_eq!(
        (c.image.as_str(), c.others[0].why.as_str()),
        ("a", "its version is 1.5, and >=2 is asked for")
    );
    assert_eq!(chosen(&function("ports: [x]"), &images, Some("gone")).unwrap().image, "a");
}

#[test]
fn each_image_that_does_not_fit_is_told_with_its_reasons() {
    let images = [
        image("plain", "native", "version: '1.0'\nfeatures: ipv4"),
        image("rich", "click", "version: new\nfeatures: [ipv4, ipv6]\nparams: [{name: RULES, type: int}]"),
    ];
    for (asked, plain, rich) in [
        ("params: {RULES: x}", "plain has no parameter \"RULES\"", "parameter RULES: found \"x\""),
        ("ports: [a, b, c]", "it has 2 ports, and the function 3", "it has 2 ports, and the function 3"),
        ("ports: [outside]", "its port 'outside' is number 2, and the function's is number 1", "number 2"),
        (
            "handlers: {rules: x}",
            "no public handler 'rules' that can be written",
            "needs the parameter RULES",
        ),
        ("constraints: {ports: 3}", "it has 2 ports, and 3 are asked for", "3 are asked for"),
        ("constraints: {features: ipv6}", "it has not the feature 'ipv6'", "RULES"),
        (
            "constraints: {version: '>1'}",
            "its version is 1.0, and >1 is asked for",
            "'new' is not made of numbers",
        ),
        (
            "constraints: {proved: true}",
            "it is not proved: only a Click script that runs inline can be",
            "RULES",
        ),
        (
            "constraints: {memory: 16 MB}",
            "it may take 32 MB of memory, and at most 16 MB is asked for",
            "RULES",
        ),
        (
            "constraints: {cpu: 100}",
            "it may take 500 thousandths of a processor, and at most 100 are",
            "RULES",
        ),
        ("constraints: {kind: container}", "it is of kind native, and container is asked for", "kind click"),
    ] {
        let e = chosen(&function(asked), &images, None);
        let e = match e {
            Err(e) => e,
            // The other fits: `plain` is all that there is.
            Ok(c) => c.others.iter().map(|o| format!("'{}': {}", o.image, o.why)).collect(),
        };
        let e =
            if e.contains("'plain'") { e } else { chosen(&function(asked), &images[..1], None).unwrap_err() };
        let found = e.contains(&format!("'plain': {plain}")) || e.contains(plain);
        assert!(found && (e.contains(rich) || !e.contains("'rich'")), "{asked}: {e}");
    }
}

#[test]
fn what_is_left_of_the_node_and_what_it_lacks_count() {
    let images = [image("big", "native", ""), image("small", "container", "")];
    let f = function("ports: [x]");
    let asked = f.capability.clone().unwrap();
    let left = Resources { memory: 20 * MB, cpu: 300 };
    let e = resolve(&f, &asked, &images, left, None, |t| Facts {
        obstacle: (t.name.as_str() == "small").then(|| "it needs the program runc".to_owned()),
        ..facts(t)
    });
    let e = e.unwrap_err();
    for part in [
        "no image with the capability 'firewall' fits",
        "'big': it may take 32 MB of memory, and 20 MB is left here; it may take 500 thousandths of a processor, and 300 are left here",
        "'small': it needs the program runc",
    ] {
        assert!(e.contains(part), "{part}: {e}");
    }
    let unknown = Function { capability: Some("firewal".parse().unwrap()), ..f };
    let e = chosen(&unknown, &images, None).unwrap_err();
    assert_eq!(
        e,
        "no image here has the capability 'firewal' (did you mean 'firewall'?); there are: filter, firewall"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Of any images the choice fits, nothing that fits comes before it, it is kept once it runs, and the order of the images does not
    /// matter.
    #[test]
    fn the_best_that_fits_is_chosen_and_stays(
        about in prop::collection::vec(((any::<bool>(), any::<bool>()), 0u64..4, prop::option::of(0u32..4), any::<bool>()), 0..6),
        most in prop::option::of(0u64..4),
        proved in any::<bool>(),
        turn in 0usize..6,
    ) {
        let mut images: Vec<Template> = (0..about.len()).map(|i| image(&format!("i{i}"), "native", "")).collect();
        let known: BTreeMap<String, Facts> = about.iter().enumerate().map(|(i, ((proved, inline), memory, cpu, bad))| {
            let needs = Needs { memory: *memory, cpu: *cpu };
            (format!("i{i}"), Facts { obstacle: bad.then(|| "bad".to_owned()), proved: *proved, inline: *inline, needs })
        }).collect();
        let mut f = function("ports: [x]");
        f.constraints.proved = proved;
        let asked = f.capability.clone().unwrap();
        let left = Resources { memory: most.unwrap_or(u64::MAX), cpu: u64::MAX };
        let choose = |images: &[Template], running: Option<&str>| {
            let found = resolve(&f, &asked, images, left, running, |t| known[t.name.as_str()].clone());
            found.map(|(_, choice)| choice)
        };
        let rank = |name: &str| {
            let k = &known[name];
            (!k.proved, !k.inline, k.needs.memory, k.needs.cpu.unwrap_or(u32::MAX), name.to_owned())
        };
        let fits = |k: &Facts| k.obstacle.is_none() && k.needs.memory <= left.memory && (k.proved || !proved);
        let expected = known.iter().filter(|(_, k)| fits(k)).map(|(name, _)| rank(name)).min();
        let found = choose(&images, None);
        prop_assert_eq!(found.as_ref().ok().map(|c| rank(&c.image)), expected);
        if let Ok(c) = &found {
            prop_assert_eq!(c.others.len() + 1, images.len());
        }
        for (name, k) in &known {
            if fits(k) {
                prop_assert_eq!(&choose(&images, Some(name)).unwrap().image, name);
            }
        }
        let by = turn % images.len().max(1);
        images.rotate_left(by);
        prop_assert_eq!(choose(&images, None), found);
    }
}
