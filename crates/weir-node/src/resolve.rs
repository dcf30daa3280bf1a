//! The resolver: which image a function is made from that a graph asks for by what it can do (COMPOSER paper, section 5.6). Pure: what
//! has to be looked up of an image comes in as [`Facts`].

use std::cmp::Ordering;

use weir_api::plan::{Choice, OtherImage};
use weir_model::graph::Function;
use weir_model::nearest::nearest;
use weir_model::template::Template;
use weir_model::value::{Id, Name, Version};

use crate::resources::{Needs, Resources, size};

/// Facts about an image that are not in its manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Why the node cannot run it with the function's parameters, if that is so.
    pub obstacle: Option<String>,
    /// Whether its programs are proved.
    pub proved: bool,
    /// Whether its graph's data plane runs it.
    pub inline: bool,
    /// What it may come to take.
    pub needs: Needs,
}

/// An image that fits.
#[derive(Debug, Clone, Copy)]
struct Fit<'t> {
    template: &'t Template,
    proved: bool,
    inline: bool,
    needs: Needs,
}

/// Chooses the image of a function that asks for a capability: the one that runs now, if it still fits; else of those that fit the
/// first that is proved, then what is inline, then the one that takes least memory, then processor time, then the first by name. `images` are all of the
/// node's, `left` is what the node has left for the function, and `running` the image that it has now.
///
/// # Errors
/// No image fits; with each that has the capability, and why it does not fit.
pub fn resolve<'t>(
    function: &Function,
    capability: &Id,
    images: impl IntoIterator<Item = &'t Template>,
    left: Resources,
    running: Option<&str>,
    facts: impl Fn(&Template) -> Facts,
) -> Result<(&'t Template, Choice), String> {
    let mut known: Vec<&str> = Vec::new();
    let (mut fits, mut unfit): (Vec<Fit<'t>>, Vec<(&Template, String)>) = (Vec::new(), Vec::new());
    for template in images {
        known.extend(template.capability.iter().map(Id::as_str));
        if !template.capability.contains(capability) {
            continue;
        }
        // What runs has its part already.
        let runs = running == Some(template.name.as_str());
        match fit(function, template, if runs { Resources::UNBOUNDED } else { left }, &facts) {
            Ok(fit) => fits.push(fit),
            Err(why) => unfit.push((template, why)),
        }
    }
    fits.sort_by(|a, b| order(a, b).0);
    let kept = fits.iter().position(|f| Some(f.template.name.as_str()) == running);
    let Some(best) = (!fits.is_empty()).then(|| fits.remove(kept.unwrap_or(0))) else {
        return Err(none_fits(capability, &mut unfit, known));
    };
    let name = best.template.name.as_str();
    let why = match (kept, fits.first()) {
        (_, None) => "it is the only one that fits".to_owned(),
        (Some(_), Some(_)) => "it runs now, and still fits".to_owned(),
        (None, Some(next)) => order(&best, next).1.for_first(&best),
    };
    let loser = |f: &Fit<'t>| match kept {
        Some(_) => (f.template, format!("it fits, but '{name}' runs now, and still fits")),
        None => (f.template, order(&best, f).1.for_second(&best, f)),
    };
    let mut others: Vec<(&Template, String)> = fits.iter().map(loser).chain(unfit).collect();
    others.sort_by_key(|(t, _)| t.name.clone());
    let kind = |t: &Template| {
        let run_as = function.kind.and_then(|kind| t.run_as(kind).ok());
        run_as.as_ref().unwrap_or(t).implementation.kind().to_owned()
    };
    let other = |(t, why): (&Template, String)| OtherImage { image: t.name.to_string(), kind: kind(t), why };
    let choice = Choice {
        function: function.id.to_string(),
        capability: capability.to_string(),
        image: name.to_owned(),
        kind: kind(best.template),
        why,
        others: others.into_iter().map(other).collect(),
    };
    Ok((best.template, choice))
}

/// The criterion by which one image was better than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Criterion {
    Proved,
    Inline,
    Memory,
    Cpu,
    Name,
}

/// Which of two images that fit comes first, and why.
fn order(a: &Fit<'_>, b: &Fit<'_>) -> (Ordering, Criterion) {
    let cpu = |f: &Fit<'_>| f.needs.cpu.unwrap_or(u32::MAX);
    let steps = [
        (b.proved.cmp(&a.proved), Criterion::Proved),
        (b.inline.cmp(&a.inline), Criterion::Inline),
        (a.needs.memory.cmp(&b.needs.memory), Criterion::Memory),
        (cpu(a).cmp(&cpu(b)), Criterion::Cpu),
    ];
    let last = (a.template.name.cmp(&b.template.name), Criterion::Name);
    steps.into_iter().find(|(order, _)| order.is_ne()).unwrap_or(last)
}

impl Criterion {
    /// What is said of the image that came first.
    fn for_first(self, first: &Fit<'_>) -> String {
        match self {
            Criterion::Proved => "of those that fit only it is proved".to_owned(),
            Criterion::Inline => "of those that are proved only it is inline".to_owned(),
            Criterion::Memory => {
                let alike = if first.proved { "those that are proved" } else { "those that fit" };
                format!("of {alike} it may take least memory, {}", size(first.needs.memory))
            }
            Criterion::Cpu => format!("of those that fit it may take least processor time, {}", cpu(first)),
            Criterion::Name => "others fit as well; its name comes first".to_owned(),
        }
    }

    /// What is said of the other.
    fn for_second(self, first: &Fit<'_>, second: &Fit<'_>) -> String {
        let name = &first.template.name;
        match self {
            Criterion::Proved => format!("it fits, but is not proved, as '{name}' is"),
            Criterion::Inline => format!("it fits, but is not inline, as '{name}' is"),
            Criterion::Memory => {
                let (first, second) = (size(first.needs.memory), size(second.needs.memory));
                format!("it fits, but may take {second} of memory, and '{name}' {first}")
            }
            Criterion::Cpu => {
                format!(
                    "it fits, but may take {} of processor time, and '{name}' {}",
                    cpu(second),
                    cpu(first)
                )
            }
            Criterion::Name => format!("it fits as well; the name '{name}' comes first"),
        }
    }
}

fn cpu(f: &Fit<'_>) -> String {
    f.needs.cpu.map_or("all".to_owned(), |n| format!("{n}/1000"))
}

/// Whether an image fits a function; if not, why.
fn fit<'t>(
    f: &Function,
    template: &'t Template,
    left: Resources,
    facts: &impl Fn(&Template) -> Facts,
) -> Result<Fit<'t>, String> {
    let wrong = of_manifest(f, template);
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    let Facts { obstacle, proved, inline, needs } = facts(template);
    let mut wrong: Vec<String> = obstacle.into_iter().collect();
    if f.constraints.proved && !proved {
        wrong.push("it is not proved: only a Click script that runs inline can be".to_owned());
    }
    let memory = size(needs.memory);
    if let Some(most) = f.constraints.memory.filter(|most| needs.memory > most.bytes()) {
        wrong.push(format!("it may take {memory} of memory, and at most {most} is asked for"));
    }
    if needs.memory > left.memory {
        wrong.push(format!("it may take {memory} of memory, and {} is left here", size(left.memory)));
    }
    if let Some(most) = f.constraints.cpu {
        match needs.cpu {
            None => wrong.push(format!(
                "it has no limit of processor time, and at most {most} thousandths of a processor are asked for"
            )),
            Some(cpu) if cpu > most => wrong.push(format!(
                "it may take {cpu} thousandths of a processor, and at most {most} are asked for"
            )),
            Some(_) => {}
        }
    }
    if let Some(cpu) = needs.cpu.filter(|cpu| u64::from(*cpu) > left.cpu) {
        wrong.push(format!("it may take {cpu} thousandths of a processor, and {} are left here", left.cpu));
    }
    if wrong.is_empty() { Ok(Fit { template, proved, inline, needs }) } else { Err(wrong.join("; ")) }
}

/// What keeps an image from being a function's, by its manifest.
fn of_manifest(f: &Function, t: &Template) -> Vec<String> {
    let mut wrong = Vec::new();
    let run_as = f.kind.map(|kind| t.run_as(kind));
    if let Some(Err(what)) = &run_as {
        wrong.push(what.clone());
    }
    let kind = run_as.and_then(Result::ok).map_or(t.implementation.kind(), |t| t.implementation.kind());
    let asked = &f.constraints;
    if !asked.kind.is_empty() && !asked.kind.iter().any(|k| k == kind) {
        wrong.push(format!("it is of kind {kind}, and {} is asked for", asked.kind.join(" or ")));
    }
    if let Some(range) = &asked.version {
        let version = t.version.as_ref().map(Name::as_str);
        match version.map(|v| (v, v.parse::<Version>())) {
            None => wrong.push(format!("it has no version, and {range} is asked for")),
            Some((v, Err(_))) => {
                wrong.push(format!(
                    "its version '{v}' is not made of numbers with dots, and {range} is asked for"
                ));
            }
            Some((v, Ok(version))) if !range.contains(&version) => {
                wrong.push(format!("its version is {v}, and {range} is asked for"));
            }
            Some(_) => {}
        }
    }
    let missing = asked.features.iter().filter(|f| !t.features.contains(f));
    wrong.extend(missing.map(|f| format!("it has not the feature '{f}'")));
    let (ports, needed) = (t.ports.len(), usize::from(asked.ports.unwrap_or(0)));
    if ports < needed {
        wrong.push(format!("it has {ports} ports, and {needed} are asked for"));
    }
    if ports < f.ports.len() {
        wrong.push(format!("it has {ports} ports, and the function {}", f.ports.len()));
    }
    // Ports are those of the image in its order: one of the same name has to be in the same place.
    for (i, port) in f.ports.iter().enumerate() {
        let place = t.ports.iter().position(|p| p.name == port.id);
        if let Some(place) = place.filter(|place| *place != i) {
            wrong.push(format!(
                "its port '{}' is number {}, and the function's is number {}",
                port.id,
                place + 1,
                i + 1
            ));
        }
    }
    if let Err(errors) = t.arguments(&f.params) {
        wrong.extend(errors.iter().map(|e| e.message.clone()));
    }
    let writable = |name: &str| t.handlers.get(name).is_some_and(|h| h.access.writable());
    let handlers = f.handlers.iter().filter(|h| !writable(h.name.as_str()));
    wrong.extend(handlers.map(|h| format!("it has no public handler '{}' that can be written", h.name)));
    wrong
}

fn none_fits(capability: &Id, unfit: &mut [(&Template, String)], mut known: Vec<&str>) -> String {
    if unfit.is_empty() {
        known.sort_unstable();
        known.dedup();
        let hint = nearest(capability.as_str(), known.iter().copied());
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return format!("no image here has the capability '{capability}'{hint}; there are: {known}");
    }
    unfit.sort_by_key(|(t, _)| t.name.clone());
    let list: Vec<String> = unfit.iter().map(|(t, why)| format!("'{}': {why}", t.name)).collect();
    format!("no image with the capability '{capability}' fits: {}", list.join(". "))
}

#[cfg(test)]
mod tests;
