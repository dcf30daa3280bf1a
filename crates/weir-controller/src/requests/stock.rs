//! Images as modules of a request. Pure.
//!
//! A function of an image has frames at its ports, a module has IP packets: each port gets what is between them. What is addressed to the
//! module comes in at the first port, or at those that links lead to; what leaves by any port leaves the module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use weir_api::problem::Mistake;
use weir_model::nearest::nearest;
use weir_model::request::{Module, Request, Stock};
use weir_model::template::{Implementation, Template};

/// The request with scripts in place of images that are scripts. Others are programs, of which it is not known what they do.
///
/// # Errors
/// Which modules cannot be run, and why.
pub fn with_scripts(request: Request, images: &BTreeMap<String, Template>) -> Result<Request, Vec<Mistake>> {
    let (mut request, mut wrong) = (request, Vec::new());
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for m in &request.modules {
        let template = m.stock.as_ref().and_then(|s| images.get(&s.image));
        let ports = template.map(|t| t.ports.iter().map(|p| p.name.to_string()).collect());
        names.extend(ports.map(|ports| (m.name.clone(), ports)));
    }
    for link in &mut request.links {
        for (module, port) in [&mut link.from, &mut link.to] {
            let Some(ports) = names.get(module) else { continue };
            let numbered = port.parse::<usize>().ok().and_then(|n| ports.get(n));
            match numbered {
                Some(name) => port.clone_from(name),
                None if ports.contains(port) => {}
                None => wrong.push(at(module, format!("it has no port '{port}'"), known(ports))),
            }
        }
    }
    let links = &request.links;
    for m in &mut request.modules {
        let Some(stock) = m.stock.take() else { continue };
        let to = links.iter().filter(|l| l.to.0 == m.name).map(|l| l.to.1.as_str());
        if let Err(mistakes) = fill(m, &stock, &to.collect(), images) {
            wrong.extend(mistakes);
        }
    }
    if wrong.is_empty() { Ok(request) } else { Err(wrong) }
}

/// Why nothing is known of the modules that are programs.
pub fn unknown(request: &Request, images: &BTreeMap<String, Template>) -> BTreeMap<String, String> {
    let why = |m: &Module| {
        let stock = m.stock.as_ref()?;
        let kind = images.get(&stock.image).map_or("unknown", |t| t.implementation.kind());
        let why = format!(
            "the image '{}' is of the kind {kind}, and what it does to packets cannot be proved",
            stock.image
        );
        Some((m.name.clone(), why))
    };
    request.modules.iter().filter_map(why).collect()
}

fn known(names: &[String]) -> String {
    format!("it has: {}", names.join(", "))
}

fn at(module: &str, message: String, help: String) -> Mistake {
    Mistake { path: format!("module {module}"), message, help, ..Mistake::default() }
}

fn fill(
    m: &mut Module,
    stock: &Stock,
    linked: &BTreeSet<&str>,
    images: &BTreeMap<String, Template>,
) -> Result<(), Vec<Mistake>> {
    let Some(template) = images.get(&stock.image) else {
        let message = format!("there is no image '{}' for modules", stock.image);
        let help = format!(
            "see those with 'weir images'{}",
            nearest(&stock.image, images.keys().map(String::as_str))
        );
        return Err(vec![at(&m.name, message, help)]);
    };
    let click = match &template.implementation {
        Implementation::Click(click) | Implementation::Process { click, .. } => click,
        Implementation::Graph { .. } => {
            let message =
                format!("the image '{}' is made of other functions, and a module is one", stock.image);
            return Err(vec![at(&m.name, message, "ask for images of another kind".into())]);
        }
        // It stays an image, which runs in a sandbox.
        _ => {
            m.stock = Some(stock.clone());
            return Ok(());
        }
    };
    let params = template
        .arguments(&stock.params)
        .map_err(|list| list.into_iter().map(|e| at(&m.name, e.message, e.help)).collect::<Vec<Mistake>>())?;
    m.params = params.into_iter().collect();
    let (mut before, mut behind) = (String::new(), String::new());
    for (i, port) in template.ports.iter().enumerate() {
        let name = &port.name;
        let opens = if linked.is_empty() { i == 0 } else { linked.contains(name.as_str()) };
        let (input, output) = (format!("in_{i}"), format!("out_{i}"));
        if mentions(&click.text, &input) {
            before += &match opens {
                true => format!(
                    "FromNetfront({name}) -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> {input} :: Null; "
                ),
                false => format!("{input} :: Idle; "),
            };
        }
        if mentions(&click.text, &output) {
            before += &format!("{output} :: Null; ");
            _ = write!(
                behind,
                "\n{output} -> frames_{i} :: Classifier(12/0800, -); frames_{i} [0] -> Strip(14) -> MarkIPHeader -> ToNetfront({name}); frames_{i} [1] -> Discard;"
            );
        }
    }
    m.click = before + &click.text + &behind;
    Ok(())
}

/// Whether a word stands in a script.
fn mentions(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !is_part(c)).any(|w| w == word)
}

#[cfg(test)]
mod tests {
    use weir_plan::Classes;

    use super::*;

    fn images() -> BTreeMap<String, Template> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../images/");
        let load = |name: &str| Template::load(&std::path::Path::new(folder).join(name)).unwrap();
        ["packet-filter", "squid", "branch-office"].map(|n| (n.to_owned(), load(n))).into()
    }

    fn filled(modules: &str, links: &str) -> Result<Request, Vec<Mistake>> {
        let text = format!("version: 1\nmodules: {{{modules}}}\nlinks: [{links}]\n");
        with_scripts(Request::parse(&text).unwrap(), &images())
    }

    #[test]
    fn an_image_becomes_a_script_with_values() {
        let request = filled(
            "f: {image: packet-filter, params: {RULES: 'allow udp, deny all'}}, a: {click: 'FromNetfront -> ToNetfront'}",
            "'f:1 -> a:0'",
        )
        .unwrap();
        assert_eq!(request.links[0].from.1, "outside", "numbers of ports are names now");
        let f = &request.modules[0];
        assert!(f.params.contains(&("RULES".into(), "allow udp, deny all".into())), "{:?}", f.params);
        let options = weir_click::Options { defines: f.params.clone(), ..weir_click::Options::default() };
        let classes = Classes::with(weir_switch::CLASSES.iter().copied());
        weir_plan::Plan::with_options(&classes, &f.click, "f", &options).unwrap();
        let inputs = f.click.matches("FromNetfront").count();
        assert_eq!((inputs, f.click.matches("ToNetfront(").count()), (1, 2), "{}", f.click);
    }

    #[test]
    fn what_cannot_run_is_said() {
        let wrong = |modules: &str, links: &str| {
            filled(modules, links)
                .unwrap_err()
                .iter()
                .map(|m| format!("{}: {} {}", m.path, m.message, m.help))
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert!(wrong("f: {image: packet-filte}", "").contains("packet-filter"));
        assert!(wrong("f: {image: branch-office}", "").contains("made of other functions"));
        assert!(wrong("f: {image: packet-filter, params: {RULE: x}}", "").contains("RULES"));
        assert!(
            wrong("f: {image: packet-filter}, g: {image: packet-filter}", "'f:7 -> g:0'")
                .contains("no port '7'")
        );
    }
}
