//! Configurations on the command line: a file or the text itself, and values for its parameters.

use std::path::{Path, PathBuf};

use weir_plan::{Plan, PlanError};

use super::{classes, images, is_service_graph, read};
use crate::ui::{Failure, Ui};

/// Where a configuration is.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// Click configuration, or a service graph (.yaml, .json); - is standard input. And values for parameters of a
    /// configuration
    #[arg(value_name = "FILE | PARAM=VALUE", required_unless_present = "expression")]
    words: Vec<String>,
    /// Take this Click configuration instead of a file
    #[arg(short, long, value_name = "CONFIG")]
    expression: Option<String>,
}

/// A value for a parameter of a configuration: its name, and the value.
pub(crate) type Define = (String, String);

/// A document that was named on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    file: Option<PathBuf>,
    expression: Option<String>,
    defines: Vec<Define>,
}

/// The file names among some words, and the values for parameters.
///
/// # Errors
/// If a parameter has two values.
pub(crate) fn split(words: &[String]) -> Result<(Vec<&str>, Vec<Define>), Failure> {
    let (mut files, mut defines): (Vec<&str>, Vec<Define>) = (Vec::new(), Vec::new());
    for word in words {
        match parameter(word) {
            Some((name, _)) if defines.iter().any(|(n, _)| n == name) => {
                return Err(Failure::refused(format!("parameter '{name}' is given twice")));
            }
            Some((name, value)) => defines.push((name.to_owned(), value.to_owned())),
            None => files.push(word),
        }
    }
    Ok((files, defines))
}

/// `NAME=VALUE`.
fn parameter(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

impl ConfigArgs {
    /// The only document.
    pub(crate) fn one(&self) -> Result<Source, Failure> {
        match self.some()? {
            (source, None) => Ok(source),
            (_, Some(more)) => too_many(&more.file().unwrap_or(Path::new("-")).display().to_string()),
        }
    }

    /// A document, and a second one with the same values for parameters, if there is one.
    pub(crate) fn some(&self) -> Result<(Source, Option<Source>), Failure> {
        let (files, defines) = split(&self.words)?;
        let expression = self.expression.clone();
        let source = |file: &&str| Source {
            file: Some(PathBuf::from(file)),
            expression: None,
            defines: defines.clone(),
        };
        match (&expression, files.as_slice()) {
            (Some(_), []) => Ok((Source { file: None, expression, defines }, None)),
            (None, [file]) => Ok((source(file), None)),
            (None, [old, new]) => Ok((source(old), Some(source(new)))),
            (None, []) => wrong_usage("there is no file to read: name one, or - for standard input"),
            (Some(_), [more, ..]) | (None, [_, _, more, ..]) => too_many(more),
        }
    }
}

fn too_many(file: &str) -> ! {
    wrong_usage(&format!("{file} is one document too many; values for parameters are written NAME=VALUE"))
}

/// Ends the program: the command line is wrong.
pub(super) fn wrong_usage(message: &str) -> ! {
    clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, format!("{message}\n")).exit()
}

impl Source {
    /// The file, if it is not the text itself.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The text, and its name for messages.
    pub(crate) fn text(&self) -> Result<(String, String), Failure> {
        match (&self.expression, &self.file) {
            (Some(e), _) => Ok((e.clone(), "config".to_owned())),
            (None, Some(f)) => Ok((read(f)?, f.display().to_string())),
            (None, None) => Ok((String::new(), "config".to_owned())),
        }
    }

    /// The Click configuration; a service graph becomes the one that it compiles to.
    pub(crate) fn any(&self, images: &images::ImageArgs, ui: &Ui) -> Result<Plan, Failure> {
        let (text, name) = self.text()?;
        match &self.file {
            Some(file) if is_service_graph(file, &text) => {
                self.no_parameters(&name)?;
                ui.progress("compiling the service graph");
                let config = images::compile(images, &name, &text, ui)?.1.config.text;
                Plan::new(&classes(), &config, &name).map_err(Failure::plan)
            }
            _ => self.plan(&text, &name).map_err(Failure::plan),
        }
    }

    /// The plan of a Click configuration, with the values of its parameters.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub(crate) fn plan(&self, text: &str, name: &str) -> Result<Plan, PlanError> {
        let options = weir_click::Options { defines: self.defines.clone(), ..weir_click::Options::default() };
        Plan::with_options(&classes(), text, name, &options)
    }

    /// Refuses values for parameters of what has none.
    pub(crate) fn no_parameters(&self, name: &str) -> Result<(), Failure> {
        match self.defines.first() {
            None => Ok(()),
            Some((parameter, _)) => Err(Failure::refused(format!(
                "{name} is no Click configuration, so it has no parameter '{parameter}'"
            ))),
        }
    }
}
