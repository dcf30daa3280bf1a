//! Settings of daemons in files: the options of their command lines, as YAML.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;
use clap::{Arg, ArgAction, Command};
use serde_yaml_ng::Value;
use weir_model::nearest::nearest;

use crate::ui::{Failure, Ui};

/// Options that are no settings.
const NOT_SETTINGS: [&str; 8] =
    ["config", "check-config", "new-admin-token", "describe", "help", "version", "node", "context"];

/// Where the settings of a daemon stand.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ConfigArgs {
    /// Take the settings of this file, in YAML: the options below by their names, as 'listen: 127.0.0.1:7400'; those of the command line go before
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<std::path::PathBuf>,
    /// Check the settings, and end
    #[arg(long)]
    check_config: bool,
}

impl ConfigArgs {
    /// Says that the settings are right, if nothing else is asked for.
    pub(crate) fn checked(&self, ui: Ui) -> Result<bool, Failure> {
        if self.check_config {
            let file = self.config.as_ref().map(|f| f.display().to_string());
            let name = file.clone().unwrap_or_else(|| "the command line".into());
            ui.print(&serde_json::json!({ "config": file, "ok": true }), || {
                format!("{name}: all settings are right\n")
            })?;
        }
        Ok(self.check_config)
    }
}

/// The command line of a daemon with the settings of its file put in front of its other options.
///
/// # Errors
/// The file cannot be read, or has something in it that is no setting: all of it at once.
pub(crate) fn expand(
    line: Vec<OsString>,
    daemon: &str,
    command: &Command,
    file: &Path,
) -> Result<Vec<OsString>, Failure> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {}", file.display()))
        .map_err(Failure::Unreachable)?;
    let found = arguments(&text, command).map_err(|mistakes| {
        Failure::Refused(mistakes.iter().map(|m| format!("{}: {m}", file.display())).collect())
    })?;
    let at = line.iter().position(|a| a == daemon);
    let mut all: Vec<OsString> = line.iter().take(1).cloned().collect();
    all.push(daemon.into());
    all.extend(found);
    // The daemon's name stands in front of all options now.
    let rest = line.into_iter().enumerate().skip(1).filter(|(i, _)| Some(*i) != at);
    all.extend(rest.map(|(_, argument)| argument));
    Ok(all)
}

/// The options that settings stand for.
fn arguments(text: &str, command: &Command) -> Result<Vec<OsString>, Vec<String>> {
    let value: Value = match serde_yaml_ng::from_str(text) {
        Ok(value) => value,
        Err(e) => return Err(vec![format!("it is no YAML: {e}")]),
    };
    let map = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Mapping(map) => map,
        _ => return Err(vec!["it is no map of settings, such as 'listen: 127.0.0.1:7400'".into()]),
    };
    let settings = |arg: &&Arg| arg.get_long().is_some_and(|name| !NOT_SETTINGS.contains(&name));
    let settings: Vec<&Arg> = command.get_arguments().filter(settings).collect();
    let (mut found, mut mistakes) = (Vec::new(), Vec::new());
    for (key, value) in map {
        let key = key.as_str().map_or_else(|| format!("{key:?}"), str::to_owned);
        match settings.iter().find(|a| a.get_long() == Some(key.as_str())) {
            None => {
                let hint = nearest(&key, settings.iter().filter_map(|a| a.get_long()));
                mistakes.push(format!("there is no setting '{key}'{hint}"));
            }
            Some(arg) => match options(&key, arg, &value) {
                Ok(options) => found.extend(options),
                Err(what) => mistakes.push(format!("{key}: {what}")),
            },
        }
    }
    if mistakes.is_empty() { Ok(found) } else { Err(mistakes) }
}

fn options(key: &str, arg: &Arg, value: &Value) -> Result<Vec<OsString>, String> {
    let one = |value: &Value| match value {
        Value::Bool(b) => Ok(b.to_string()),
        Value::Number(n) => Ok(n.to_string()),
        Value::String(text) => Ok(text.clone()),
        _ => Err("give a word or a number".to_owned()),
    };
    let option = |value: &Value| one(value).map(|value| OsString::from(format!("--{key}={value}")));
    match (arg.get_action(), value) {
        (_, Value::Null) => Ok(Vec::new()),
        (ArgAction::SetTrue, Value::Bool(true)) => Ok(vec![format!("--{key}").into()]),
        (ArgAction::SetTrue, Value::Bool(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("give true or false".into()),
        (ArgAction::Append, Value::Sequence(list)) => list.iter().map(option).collect(),
        (_, Value::Sequence(_)) => Err("give one value, not a list".into()),
        (_, value) => option(value).map(|o| vec![o]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let arg = |name: &'static str| Arg::new(name).long(name);
        Command::new("node")
            .arg(arg("listen"))
            .arg(arg("tls").action(ArgAction::SetTrue))
            .arg(arg("images").action(ArgAction::Append))
            .arg(arg("config"))
    }

    #[test]
    fn settings_become_options_and_the_command_line_follows() {
        let found = arguments("listen: 1.2.3.4:5\ntls: true\nimages: [a, b]\n", &command()).unwrap();
        assert_eq!(found, ["--listen=1.2.3.4:5", "--tls", "--images=a", "--images=b"]);
        for nothing in ["", "# listen: x\n", "listen:\ntls: false\nimages: []\n"] {
            assert!(arguments(nothing, &command()).unwrap().is_empty(), "{nothing}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "tls: true\n").unwrap();
        let line = ["weir", "--json", "node", "--listen", "node"].map(OsString::from).to_vec();
        let all = expand(line, "node", &command(), file.path()).unwrap();
        assert_eq!(all, ["weir", "node", "--tls", "--json", "--listen", "node"]);
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let wrong =
            arguments("lisen: x\ntls: 3\nlisten: [a]\nimages: [[1]]\nconfig: y\n", &command()).unwrap_err();
        let text = wrong.join("\n");
        for part in [
            "'lisen'",
            "listen'",
            "tls: give true or false",
            "listen: give one value",
            "images: give a word",
            "no setting 'config'",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(wrong.len(), 5, "{text}");
        assert!(arguments("- a\n", &command()).unwrap_err()[0].contains("no map"));
        assert!(arguments("a: [\n", &command()).unwrap_err()[0].contains("no YAML"));
    }
}
