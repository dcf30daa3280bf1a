//! `weir elements`.

use clap_complete::engine::ArgValueCandidates;
use weir_plan::AnyClass;

use super::{classes, complete};
use crate::ui::{Failure, Ui, table};

/// Options of `weir elements`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the manual page of this element
    #[arg(add = ArgValueCandidates::new(complete::elements))]
    name: Option<String>,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let classes = classes();
    match &args.name {
        None => {
            let list: Vec<_> = classes.iter().map(summary).collect();
            ui.print(&list, || {
                let rows: Vec<Vec<String>> = list
                    .iter()
                    .map(|s| vec![s.name.to_owned(), s.family.to_owned(), s.summary.clone()])
                    .collect();
                table(&rows, &[])
            })?;
        }
        Some(name) => {
            let class = classes.get(name).ok_or_else(|| unknown(name, &classes))?;
            let info = class.info();
            let page = weir_elements::reference::manual(info, class.family());
            ui.print(
                &serde_json::json!({ "name": info.name, "family": class.family(), "manual": page }),
                || page.clone(),
            )?;
        }
    }
    Ok(())
}

#[derive(serde::Serialize)]
struct Summary {
    name: &'static str,
    family: &'static str,
    ports: &'static str,
    processing: &'static str,
    summary: String,
}

fn summary(class: &AnyClass) -> Summary {
    let info = class.info();
    Summary {
        name: info.name,
        family: class.family(),
        ports: info.ports,
        processing: info.processing,
        summary: weir_elements::reference::summary(info),
    }
}

fn unknown(name: &str, classes: &weir_plan::Classes) -> Failure {
    let lower = name.to_lowercase();
    let distance = |known: &'static str| {
        let other = known.to_lowercase();
        // A short name happens to be part of many words.
        let inside =
            lower.len() > 2 && (other.contains(&lower) || (other.len() > 4 && lower.contains(&other)));
        let edits = strsim::damerau_levenshtein(&lower, &other);
        (edits <= lower.chars().count() / 3 || inside).then_some((edits, known))
    };
    let mut near: Vec<_> = classes.iter().filter_map(|c| distance(c.info().name)).collect();
    near.sort_unstable();
    let near: Vec<&str> = near.into_iter().take(5).map(|(_, name)| name).collect();
    let hint = if near.is_empty() {
        "weir elements lists them".to_owned()
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    Failure::refused(format!("there is no element '{name}': {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_keyboard_are_understood() {
        let hint = |name| match unknown(name, &classes()) {
            Failure::Refused(errors) => errors.join("\n"),
            other => panic!("{other:?}"),
        };
        assert!(hint("Conuter").contains("did you mean Counter"), "{}", hint("Conuter"));
        assert!(hint("checkipheader2").contains("did you mean CheckIPHeader2"));
        assert!(!hint("StoreData").contains("RED"), "{}", hint("StoreData"));
        assert!(hint("Xyzzyxyzzy").contains("weir elements lists them"));
    }
}
