//! The images of the node: templates in directories, read anew whenever they are asked for.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_model::graph::Function;
use weir_model::template::{MANIFEST_FILE, Template, TemplateError};

/// Most images that are read from one directory.
const MAX_IMAGES: usize = 10_000;

/// What was found in the image directories.
#[derive(Debug, Default)]
pub struct Images {
    /// Images by name.
    pub templates: BTreeMap<String, Template>,
    /// What could not be read.
    pub errors: Vec<ImageError>,
}

/// An image that cannot be used. Others are not concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageError {
    /// The file or directory.
    pub path: String,
    /// What is wrong with it, one line each.
    pub errors: Vec<String>,
}

impl Images {
    /// Reads all images: each subdirectory with a manifest, and each `.yaml`, `.yml` or `.json` file. Of images with the
    /// same name the first counts, in the order of the directories and of the names in them.
    pub fn read(directories: &[PathBuf]) -> Images {
        let mut images = Images::default();
        for directory in directories {
            match candidates(directory) {
                Ok(paths) => paths.iter().for_each(|p| images.add(p)),
                Err(e) => images.error(directory, vec![format!("the directory cannot be read: {e}")]),
            }
        }
        images
    }

    fn add(&mut self, path: &Path) {
        match Template::load(path) {
            Ok(template) => {
                let name = template.name.to_string();
                if self.templates.contains_key(&name) {
                    let text = format!("there is an image '{name}' already; give this one another name");
                    return self.error(path, vec![text]);
                }
                self.templates.insert(name, template);
            }
            Err(TemplateError::Manifest { path, source }) => {
                self.error(&path, source.errors().iter().map(ToString::to_string).collect());
            }
            Err(e) => {
                let cause = e.source().map(|s| format!(": {s}")).unwrap_or_default();
                self.error(path, vec![format!("{e}{cause}")]);
            }
        }
    }

    fn error(&mut self, path: &Path, errors: Vec<String>) {
        self.errors.push(ImageError { path: path.display().to_string(), errors });
    }

    /// The image of a function: its `template`, or the image of its name.
    pub fn find(&self, function: &Function) -> Option<&Template> {
        self.templates.get(function.template.as_ref().unwrap_or(&function.name).as_str())
    }
}

/// Files and directories that should be images, sorted.
fn candidates(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)?.take(MAX_IMAGES) {
        let path = entry?.path();
        let image = if path.is_dir() {
            path.join(MANIFEST_FILE).exists()
        } else {
            matches!(path.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json"))
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
        let images = Images::read(&[dir.path().into(), dir.path().join("absent")]);
        assert_eq!(images.templates.keys().collect::<Vec<_>>(), ["good", "pair"]);
        let errors: Vec<String> =
            images.errors.iter().map(|e| format!("{} {:?}", e.path, e.errors)).collect();
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors[0].contains("bad.yaml") && errors[0].contains("prots"), "{errors:?}");
        assert!(errors[1].contains("already"), "{errors:?}");
        assert!(errors[2].contains("absent"), "{errors:?}");
    }
}
