//! The images of the node: templates in directories, read anew whenever they are asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use weir_api::images::ImageError;
use weir_model::graph::{Function, ServiceGraph};
use weir_model::template::{MANIFEST_FILE, MAX_FILE, SubGraph, Template, TemplateError};

use crate::archives::{self, Archives};
use crate::expand::MAX_DEPTH;
use crate::image_check;
use weir_model::nearest::nearest;

/// Most images that are read from one directory.
const MAX_IMAGES: usize = 10_000;

/// The images of the image directories.
#[derive(Debug, Default)]
pub struct Images {
    /// Images by name.
    pub templates: BTreeMap<String, Template>,
    /// What could not be read.
    pub errors: Vec<ImageError>,
}

impl Images {
    /// Reads all images: each subdirectory with a manifest, each `.yaml`, `.yml` or `.json` file, and each archive of such a
    /// directory, unpacked by `archives`. Of images with the same name the first counts, in the order of the directories and of the
    /// names in them.
    pub fn read(directories: &[PathBuf], archives: Option<&Archives>) -> Images {
        let mut images = Images::default();
        let mut packed = BTreeSet::new();
        for directory in directories {
            match candidates(directory) {
                Ok(paths) => {
                    packed.extend(paths.iter().filter(|p| archives::stem(p).is_some()).cloned());
                    paths.iter().for_each(|p| images.add(p, archives));
                }
                Err(e) => images.error(directory, vec![format!("the directory cannot be read: {e}")]),
            }
        }
        if let Some(archives) = archives {
            archives.retain(&packed);
        }
        images
    }

    fn add(&mut self, path: &Path, archives: Option<&Archives>) {
        if archives::stem(path).is_none() {
            return self.load(path, path);
        }
        let unpacked = match archives {
            Some(archives) => archives.unpacked(path),
            None => {
                Err("it is an archive, and there is no place to unpack it: unpack it yourself".to_owned())
            }
        };
        match unpacked {
            Ok(folder) => self.load(&folder, path),
            Err(what) => self.error(path, vec![what]),
        }
    }

    /// Reads an image from a file or directory; `path` is where people find it.
    fn load(&mut self, from: &Path, path: &Path) {
        match Template::load(from) {
            Ok(template) => {
                let name = template.name.to_string();
                if self.templates.contains_key(&name) {
                    let text = format!("there is an image '{name}' already; give this one another name");
                    return self.error(path, vec![text]);
                }
                self.templates.insert(name, template);
            }
            Err(TemplateError::Manifest { path: manifest, source }) => {
                let errors = source.errors().iter().map(ToString::to_string).collect();
                // Nobody looks for it where it was unpacked.
                let place = if from == path { manifest.as_path() } else { path };
                self.broken(name_of(from), place, errors);
            }
            Err(e) => {
                let cause = e.source().map(|s| format!(": {s}")).unwrap_or_default();
                self.error(path, vec![format!("{e}{cause}")]);
            }
        }
    }

    /// With the scripts that functions of a graph have of their own.
    pub fn add_scripts(&mut self, graph: &ServiceGraph) {
        for f in &graph.functions {
            let (Some(name), Some(text)) = (script_name(f), &f.click) else { continue };
            if let Ok(id) = name.parse() {
                self.templates.insert(name, Template::of_script(id, &f.ports, text));
            }
        }
    }

    fn error(&mut self, path: &Path, errors: Vec<String>) {
        self.broken(name_of(path), path, errors);
    }

    fn broken(&mut self, name: String, path: &Path, errors: Vec<String>) {
        self.errors.push(ImageError { name, path: path.display().to_string(), errors });
    }

    /// Tries the scripts of all images: those with mistakes count as broken then.
    #[must_use]
    pub fn tried(mut self) -> Images {
        let graphs = self.templates.iter().filter_map(|(name, t)| Some((name, t.graph()?)));
        let graphs: BTreeMap<String, Vec<String>> =
            graphs.map(|(name, graph)| (name.clone(), self.mistakes_within(name, graph))).collect();
        let errors = &mut self.errors;
        self.templates.retain(|name, template| {
            let of_graph = graphs.get(name).cloned();
            let mistakes = of_graph.unwrap_or_else(|| image_check::mistakes(template));
            if !mistakes.is_empty() {
                let script = template.click().and_then(|c| c.script.file.clone());
                let folder = template.folder().map(|f| f.display().to_string());
                let path = script.or(folder).unwrap_or_default();
                errors.push(ImageError { name: name.clone(), path, errors: mistakes.clone() });
            }
            mistakes.is_empty()
        });
        self
    }

    /// What is wrong with an image that is made of functions, whatever a graph gives for its parameters.
    fn mistakes_within(&self, image: &str, graph: &SubGraph) -> Vec<String> {
        let mut mistakes = Vec::new();
        for f in &graph.functions {
            let wrong = match &f.capability {
                Some(word) if !self.templates.values().any(|t| t.capability.contains(word)) => {
                    vec![format!("no image here has the capability '{word}'")]
                }
                Some(_) => Vec::new(),
                None => match self.find(f) {
                    Err(what) => vec![what],
                    Ok(t) if self.has_part(t, image, MAX_DEPTH) => {
                        vec![format!("'{}' is made of '{image}' itself", t.name)]
                    }
                    Ok(t) => unfit(f, t),
                },
            };
            mistakes.extend(wrong.into_iter().map(|what| format!("function '{}': {what}", f.id)));
        }
        mistakes
    }

    /// Whether an image is this one, or is made of it.
    fn has_part(&self, t: &Template, image: &str, depth: usize) -> bool {
        let (Some(graph), Some(depth)) = (t.graph(), depth.checked_sub(1)) else {
            return t.name.as_str() == image;
        };
        let named = graph.functions.iter().filter(|f| f.capability.is_none());
        t.name.as_str() == image
            || named.filter_map(|f| self.find(f).ok()).any(|t| self.has_part(t, image, depth))
    }

    /// The image of a function that names it: its `template`, or the image of its name.
    ///
    /// # Errors
    /// That there is none, or what is wrong with it.
    pub(crate) fn find(&self, function: &Function) -> Result<&Template, String> {
        let script = script_name(function);
        let named = || function.template.as_ref().unwrap_or(&function.name).as_str();
        let wanted = script.as_deref().unwrap_or_else(named);
        if let Some(template) = self.templates.get(wanted) {
            return Ok(template);
        }
        Err(match self.errors.iter().find(|e| e.name == wanted) {
            Some(e) => format!("the image '{wanted}' is broken: {}: {}", e.path, e.errors.join("; ")),
            None => {
                let hint = nearest(wanted, self.templates.keys().map(String::as_str));
                let broken = match self.errors.len() {
                    0 => String::new(),
                    n => format!("; {n} cannot be read, see 'weir images'"),
                };
                format!("there is no image '{wanted}' here{hint}{broken}")
            }
        })
    }
}

/// The name of what a function's own script makes: the same for the same script with the same ports.
fn script_name(f: &Function) -> Option<String> {
    let mut hash = Sha256::new();
    hash.update(f.click.as_ref()?);
    for port in &f.ports {
        hash.update([0]);
        hash.update(port.id.as_str());
    }
    let hex: String = hash.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect();
    Some(format!("script-{hex}"))
}

/// What is wrong with a function inside of an image, whatever the values of its parameters are.
fn unfit(f: &Function, t: &Template) -> Vec<String> {
    let mut wrong = Vec::new();
    let (given, has) = (f.ports.len(), t.ports.len());
    if given > has {
        wrong.push(format!("{given} ports are given, but the image '{}' has {has}", t.name));
    }
    let known = || t.params.iter().map(|p| p.name.as_str());
    let unknown = f.params.keys().filter(|name| !known().any(|k| k == name.as_str()));
    wrong.extend(
        unknown.map(|name| {
            format!("the image '{}' has no parameter '{name}'{}", t.name, nearest(name, known()))
        }),
    );
    let missing = t.params.iter().filter(|p| p.default.is_none() && !f.params.contains_key(&p.name));
    wrong.extend(missing.map(|p| format!("the image '{}' needs the parameter '{}'", t.name, p.name)));
    wrong.extend(f.kind.and_then(|kind| t.run_as(kind).err()));
    wrong
}

/// What an image that cannot be read would be called: what its manifest says, else the name of its file.
fn name_of(path: &Path) -> String {
    let manifest = if path.is_dir() { path.join(MANIFEST_FILE) } else { path.to_owned() };
    // Not through links or from devices, as images are read.
    let regular = archives::stem(path).is_none()
        && manifest.symlink_metadata().is_ok_and(|m| m.is_file() && m.len() <= MAX_FILE);
    let text = if regular { std::fs::read_to_string(&manifest).unwrap_or_default() } else { String::new() };
    let said = text.lines().find_map(|l| l.strip_prefix("name:"));
    let said = said.map(|n| n.trim().trim_matches(['"', '\'']).to_owned()).filter(|n| !n.is_empty());
    let stem = || path.file_stem().map(|s| s.to_string_lossy().into_owned());
    let file = || archives::stem(path).map(str::to_owned).or_else(stem);
    said.or_else(file).unwrap_or_default()
}

/// Files and directories that should be images, sorted.
fn candidates(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)?.take(MAX_IMAGES) {
        let entry = entry?;
        let path = entry.path();
        // One that is just being pulled, for example.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let image = if path.is_dir() {
            path.join(MANIFEST_FILE).exists()
        } else {
            let document = matches!(path.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json"));
            document || archives::stem(&path).is_some()
        };
        if image {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_image_is_reported_and_the_others_work() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("good.yaml", "name: good\nports: [a]\nclick: 'in_0 -> out_0;'\n");
        file("same.yaml", "name: good\nports: [a]\nclick: 'in_0 -> out_0;'\n");
        file("bad.yaml", "name: bad\nprots: [a]\nclick: ''\n");
        file("pair/function.yaml", "name: pair\nports: [a, b]\n");
        file("pair/function.click", "in_0 -> out_1; in_1 -> out_0;");
        file("nothing/readme.txt", "no image");
        let images = Images::read(&[dir.path().into(), dir.path().join("absent")], None);
        assert_eq!(images.templates.keys().collect::<Vec<_>>(), ["good", "pair"]);
        let errors: Vec<String> =
            images.errors.iter().map(|e| format!("{} {:?}", e.path, e.errors)).collect();
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors[0].contains("bad.yaml") && errors[0].contains("prots"), "{errors:?}");
        assert!(errors[1].contains("already"), "{errors:?}");
        assert!(errors[2].contains("absent"), "{errors:?}");
        let find = |name: &str| {
            let text = format!(
                "id: g\nname: g\nSFs: [{{id: f, name: {name}, ports: [a]}}]\nsaps: []\nflowrules: []\n"
            );
            let graph = weir_model::graph::ServiceGraph::parse(&text).unwrap_or_else(|e| panic!("{e}"));
            images.find(&graph.functions[0]).map(|t| t.name.to_string())
        };
        assert_eq!(find("good").as_deref(), Ok("good"));
        let e = find("bad").unwrap_err();
        assert!(e.contains("'bad' is broken") && e.contains("bad.yaml") && e.contains("prots"), "{e}");
        let missing = find("goad").unwrap_err();
        let reported = "there is no image 'goad' here (did you mean 'good'?); ";
        assert!(missing.starts_with(reported) && missing.ends_with("see 'weir images'"), "{missing}");

        file("script.yaml", "name: script\nports: [a]\nclick: 'in_0 -> Frobnicate -> out_0;'\n");
        let images = Images::read(&[dir.path().into()], None).tried();
        assert_eq!(images.templates.keys().collect::<Vec<_>>(), ["good", "pair"]);
        let e = images.errors.last().unwrap();
        assert!(e.name == "script" && e.errors[0].contains("script.yaml:3:17: "), "{e:?}");
    }
}
