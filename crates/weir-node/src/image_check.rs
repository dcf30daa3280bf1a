//! What is wrong with an image's script whatever a graph gives for its parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use weir_api::images::{ImageTable, TableField};
use weir_click::{ElementDecl, Graph};
use weir_model::template::{Container, Implementation, SCRIPTS, Template, Vm};
use weir_oci::Source;
use weir_plan::{Plan, Problem};
use weir_switch::function::alone;

use crate::compute::digest;
use crate::guard::{CLASSES, has_handler, parse, reaches_outside, unknown_variable};

/// Stands for a parameter that graphs have to give: what depends on it is not known.
const UNKNOWN: &str = "UNKNOWN_PARAMETER";
/// The function's element.
const FUNCTION: &str = "f";

/// The mistakes, one text each, with their place in the image.
pub fn mistakes(template: &Template) -> Vec<String> {
    let mut arguments = BTreeMap::new();
    for p in &template.params {
        let default = p.default.as_ref().and_then(|value| p.check(value).ok());
        arguments.insert(p.name.clone(), default.unwrap_or_else(|| UNKNOWN.to_owned()));
    }
    examine(template, &arguments).err().unwrap_or_default()
}

/// Most bytes that tables and queues of a Click script may come to take with these values of its parameters; nothing of another
/// kind, and of one that depends on what is not known.
///
/// # Errors
/// The mistakes, as [`mistakes`] has them.
pub fn examine(template: &Template, arguments: &BTreeMap<String, String>) -> Result<u64, Vec<String>> {
    let none_of = |list: Vec<String>| if list.is_empty() { Ok(0) } else { Err(list) };
    match &template.implementation {
        Implementation::Click(_) | Implementation::Process { .. } => {}
        Implementation::Native { .. } => return none_of(missing_scripts(template)),
        // Whether its program is there, and what it is made of, is a matter of the node that is to run it.
        Implementation::Dpdk { .. } | Implementation::Graph { .. } => return Ok(0),
        Implementation::Vm { vm } => return none_of(missing_files(template, vm)),
        Implementation::Container { container } => return none_of(missing_archive(template, container)),
    }
    let config = alone(FUNCTION, template, arguments);
    let flat = match parse(&config) {
        Ok(flat) => flat,
        Err(errors) => {
            // One that comes from what is not known may have others follow.
            let list: Vec<String> = errors.list.iter().map(ToString::to_string).collect();
            return if list.iter().any(|e| e.contains(UNKNOWN)) { Ok(0) } else { Err(list) };
        }
    };
    let mut list: Vec<String> = flat.elements.iter().filter_map(unknown_variable).collect();
    list.extend(flat.elements.iter().filter_map(reaches_outside));
    for (name, h) in &template.handlers {
        list.extend(has_handler(&flat, (name, &format!("{FUNCTION}/{}", h.handler)), h.access).err());
    }
    if !list.is_empty() {
        return Err(list);
    }
    let unknown = unknown_elements(&flat);
    let problems = match Plan::new(&CLASSES, &config, "image") {
        Ok(plan) => return Ok(plan.memory()),
        Err(e) => e.0,
    };
    let own = |p: &&Problem| match p {
        Problem::Element { element, .. } => !unknown.contains(element),
        _ => unknown.is_empty(),
    };
    none_of(problems.iter().filter(own).map(ToString::to_string).collect())
}

/// The tables that packets change of a function of an image with these values of its parameters, as they are declared; none of one that is neither a
/// Click script nor in a process.
///
/// # Errors
/// The mistakes, as [`mistakes`] has them.
pub fn tables(
    template: &Template,
    arguments: &BTreeMap<String, String>,
) -> Result<Vec<ImageTable>, Vec<String>> {
    examine(template, arguments)?;
    if template.click().is_none() {
        return Ok(Vec::new());
    }
    let config = alone(FUNCTION, template, arguments);
    let plan = Plan::new(&CLASSES, &config, "image")
        .map_err(|e| e.0.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let field = |name: &str, bits: u32| TableField { name: name.to_owned(), bits };
    let tables = plan.linked.tables.iter().filter(|t| !t.decl.configured || t.decl.counts);
    let of = tables.filter_map(|t| {
        let element = &plan.graph.elements[plan.owners[t.owner as usize]];
        let name = t.decl.shared_name.as_ref().unwrap_or(&element.name);
        let within = name.strip_prefix(FUNCTION).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        Some(ImageTable {
            element: within.trim_start_matches('/').to_owned(),
            class: if t.decl.shared_name.is_some() { String::new() } else { element.class.clone() },
            name: t.decl.name.clone(),
            kind: format!("{:?}", t.decl.kind).to_lowercase(),
            key: t.decl.key.iter().map(|f| field(&f.name, f.width.bits())).collect(),
            value: t.decl.value.iter().map(|f| field(&f.name, f.width.bits())).collect(),
            capacity: t.decl.capacity,
        })
    });
    Ok(of.collect())
}

/// What a virtual machine's image does not have.
fn missing_files(template: &Template, vm: &Vm) -> Vec<String> {
    let Some(folder) = template.folder() else {
        return vec![
            "an image of kind vm is a folder with function.yaml and the files that it names".to_owned(),
        ];
    };
    let files = [&vm.kernel, &vm.initrd, &vm.disk].into_iter().flatten();
    let missing = files.filter(|file| !folder.join(file).is_file());
    missing.map(|file| format!("there is no file {file} in {}", folder.display())).collect()
}

/// What is wrong with where a container's image is, as far as this machine can tell.
fn missing_archive(template: &Template, container: &Container) -> Vec<String> {
    let relative = container.image.starts_with('.');
    match Source::parse(&container.image, template.folder().unwrap_or(Path::new(""))) {
        Err(e) => vec![e.to_string()],
        Ok(_) if relative && template.folder().is_none() => {
            vec![format!("the image {} is beside no folder: write its full path", container.image)]
        }
        Ok(Source::Path { path, .. }) if !path.exists() => {
            vec![format!("there is no container image {}", path.display())]
        }
        Ok(_) => Vec::new(),
    }
}

/// What a function that is not inline has not beside its manifest.
fn missing_scripts(template: &Template) -> Vec<String> {
    let Some(folder) = template.folder() else {
        return vec!["an image of this kind is a folder with scripts beside its function.yaml".to_owned()];
    };
    if let Err(e) = digest::of_folder(folder) {
        return vec![e.to_string()];
    }
    let has = |script: &str| folder.join("scripts").join(script).is_file();
    let mut list = Vec::new();
    if !has("start") && !has("run") {
        list.push("it has neither scripts/start nor scripts/run".to_owned());
    }
    let handlers = template.handlers.keys().filter(|name| !has(&format!("handlers/{name}")));
    list.extend(
        handlers.map(|name| format!("the public handler '{name}' has no file scripts/handlers/{name}")),
    );
    let executable = |script: &&&str| {
        let file = folder.join("scripts").join(script);
        file.metadata().is_ok_and(|m| m.permissions().mode() & 0o111 == 0)
    };
    list.extend(
        SCRIPTS.iter().filter(executable).map(|s| format!("scripts/{s} is not executable: chmod +x it")),
    );
    list
}

/// The elements that depend on what is not known, also by the name of another, as `name :: Class`.
fn unknown_elements(flat: &Graph) -> BTreeSet<String> {
    let mut names = BTreeSet::from([UNKNOWN]);
    let mut found = BTreeSet::new();
    loop {
        let word = |c: char| !(c.is_ascii_alphanumeric() || "_/@".contains(c));
        let depends = |e: &&ElementDecl| {
            e.args.iter().flat_map(|a| a.split(word)).any(|w| names.contains(w) || w.contains(UNKNOWN))
        };
        let more: Vec<&ElementDecl> = flat.elements.iter().filter(depends).collect();
        let before = found.len();
        found.extend(more.iter().map(|e| format!("{} :: {}", e.name, e.class)));
        if found.len() == before {
            return found;
        }
        names.extend(more.iter().filter_map(|e| e.name.rsplit('/').next()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(params: &str, click: &str) -> Vec<String> {
        let text = format!(
            "name: f\nports: [a, b]\nparams: [{params}]\nclick: |\n  in_0 -> {click} -> out_1; in_1 -> out_0;\n"
        );
        mistakes(&Template::parse(&text).unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn a_script_is_tried_with_what_is_known() {
        let port = "{name: PORT, type: port}";
        assert_eq!(of(port, "IPFilter(allow tcp dst port $PORT, deny all)"), Vec::<String>::new());
        assert_eq!(of("{name: CHAIN, type: text}", "$CHAIN"), Vec::<String>::new(), "not known");
        let e = of(port, "IPFilter(allow tcp dst port $PORT) -> IPFilter(alow all)");
        assert_eq!(e.len(), 1, "{e:?}");
        assert!(e[0].starts_with("f:5:") && e[0].contains("alow"), "{e:?}");
        let e = of("{name: PORT, type: text, default: htpt}", "IPFilter(allow tcp dst port $PORT)");
        assert!(e.len() == 1 && e[0].contains("htpt"), "a default is known: {e:?}");
        assert!(of("", "IPFilter(allow tcp dst port $PORT)")[0].contains("$PORT is no parameter"));
        assert!(of("", "ToDump(x)")[0].contains("reaches files"));
    }

    #[test]
    fn the_images_of_this_repository_have_none() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images");
        for entry in std::fs::read_dir(folder).unwrap() {
            let template = Template::load(&entry.unwrap().path()).unwrap();
            assert_eq!(mistakes(&template), Vec::<String>::new(), "{}", template.name);
        }
    }
}
