//! Configurations on the command line: a file or the text itself.

use std::path::PathBuf;

use super::{images, is_service_graph, read};
use crate::ui::{Failure, Ui};

/// Where a configuration is.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// Click configuration; `check` and `ir` also take a service graph (.yaml, .json); - is standard input
    #[arg(required_unless_present = "expression", conflicts_with = "expression")]
    file: Option<PathBuf>,
    /// Take this Click configuration instead of a file
    #[arg(short, long, value_name = "CONFIG")]
    expression: Option<String>,
}

impl ConfigArgs {
    /// A file.
    pub(crate) fn of(file: &std::path::Path) -> ConfigArgs {
        ConfigArgs { file: Some(file.to_owned()), expression: None }
    }

    /// The file, if it is not the text itself.
    pub(crate) fn file(&self) -> Option<&std::path::Path> {
        self.file.as_deref()
    }

    /// The Click configuration, and its name for messages.
    pub(crate) fn click(&self) -> Result<(String, String), Failure> {
        match (&self.expression, &self.file) {
            (Some(e), _) => Ok((e.clone(), "config".to_owned())),
            (None, Some(f)) => Ok((read(f)?, f.display().to_string())),
            (None, None) => unreachable!("clap requires one of them"),
        }
    }

    /// The same; a service graph becomes the Click configuration that it compiles to.
    pub(crate) fn any(&self, images: &images::ImageArgs, ui: &Ui) -> Result<(String, String), Failure> {
        let (text, name) = self.click()?;
        match &self.file {
            Some(file) if is_service_graph(file, &text) => {
                ui.progress("compiling the service graph");
                Ok((images::compile(images, &name, &text)?.config, name))
            }
            _ => Ok((text, name)),
        }
    }
}
