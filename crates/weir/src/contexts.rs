//! Which servers a user works with, and as whom: `contexts.yaml` in the user's configuration directory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use weir_api::client::Credentials;
use weir_auth::key::PrivateKey;
use weir_model::doc::{At, Node, Reader};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The fields of a context.
const FIELDS: [&str; 5] = ["url", "key", "token", "ca", "fingerprint"];

/// A server, and as whom it is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// Its address.
    pub(crate) url: String,
    /// The file of the key that signs.
    pub(crate) key: Option<PathBuf>,
    /// A secret in place of a key.
    pub(crate) token: Option<String>,
    /// The file of the certificates that the server's has to lead to.
    pub(crate) ca: Option<PathBuf>,
    /// The fingerprint of the server's own certificate.
    pub(crate) fingerprint: Option<String>,
}

impl Context {
    /// As whom it is asked.
    pub(crate) fn credentials(&self) -> anyhow::Result<Credentials> {
        match (&self.key, &self.token) {
            (Some(file), _) => Ok(Credentials::Key(Arc::new(private_key(file)?))),
            (None, Some(token)) => Ok(Credentials::Token(token.clone())),
            (None, None) => Ok(Credentials::None),
        }
    }
}

impl Context {
    /// By what it is known, if it is reached by TLS and something says so.
    pub(crate) fn tls(&self) -> anyhow::Result<Option<rustls::ClientConfig>> {
        if !self.url.starts_with("https://") {
            return Ok(None);
        }
        match (&self.fingerprint, &self.ca) {
            (Some(pin), _) => Ok(Some(weir_tls::client::config(pin.parse()?, None)?)),
            (None, Some(file)) => {
                let of_no_use = || format!("the certificates {} are of no use", file.display());
                let text = fs::read_to_string(file).with_context(of_no_use)?;
                Ok(Some(weir_tls::client::rooted(&text, None).with_context(of_no_use)?))
            }
            (None, None) => Ok(None),
        }
    }
}

/// Reads a private key's file.
pub(crate) fn private_key(file: &Path) -> anyhow::Result<PrivateKey> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the key {}", file.display()))?;
    PrivateKey::from_openssh(&text).with_context(|| format!("the key {} is of no use", file.display()))
}

/// The file of a key that is given by its path, or by its name in `~/.ssh`.
pub(crate) fn key_file(given: &Path) -> anyhow::Result<PathBuf> {
    let in_ssh = home().map(|home| home.join(".ssh").join(given)).filter(|_| given.components().count() == 1);
    let found = if given.exists() { Some(given.to_owned()) } else { in_ssh.filter(|file| file.exists()) };
    let found = found.ok_or_else(|| {
        anyhow!(
            "there is no key {}, neither here nor in ~/.ssh; make one with: ssh-keygen -t ed25519",
            given.display()
        )
    })?;
    std::path::absolute(&found).with_context(|| format!("cannot find {}", found.display()))
}

/// The names of the keys in `~/.ssh`.
pub(crate) fn keys_of_user() -> Vec<String> {
    let files = home().and_then(|home| fs::read_dir(home.join(".ssh")).ok()).into_iter().flatten().flatten();
    let names = files.filter_map(|f| f.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter_map(|n| n.strip_suffix(".pub").map(str::to_owned)).collect();
    names.sort();
    names
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|h| !h.is_empty()).map(PathBuf::from)
}

/// All contexts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contexts {
    /// The name of the one that counts if none is named.
    pub(crate) current: Option<String>,
    /// By name.
    pub(crate) contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// Where they are kept (XDG Base Directory Specification).
    pub(crate) fn file() -> anyhow::Result<PathBuf> {
        let absolute = |dir: PathBuf| dir.is_absolute().then_some(dir);
        let config = std::env::var_os("XDG_CONFIG_HOME").and_then(|d| absolute(d.into()));
        let config = config.or_else(|| home().map(|home| home.join(".config")));
        let config =
            config.ok_or_else(|| anyhow!("neither HOME nor XDG_CONFIG_HOME says where contexts are kept"))?;
        Ok(config.join("weir/contexts.yaml"))
    }

    /// Those of the user; none if there is no file.
    pub(crate) fn load() -> anyhow::Result<Contexts> {
        // Without a home there are none.
        let Ok(file) = Contexts::file() else { return Ok(Contexts::default()) };
        match fs::metadata(&file) {
            Ok(m) if m.len() > MAX_FILE => return Err(anyhow!("{} is too large", file.display())),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Contexts::default()),
            _ => {}
        }
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Contexts::parse(&text).with_context(|| format!("{} is of no use", file.display()))
    }

    /// Keeps them. Only the user can read the file: it may have secrets.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        let file = Contexts::file()?;
        let failed = || format!("cannot write {}", file.display());
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory).with_context(failed)?;
        }
        // Whole or not at all.
        let new = file.with_extension(format!("{}.tmp", std::process::id()));
        let mut out = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .with_context(failed)?;
        out.set_permissions(fs::Permissions::from_mode(0o600)).with_context(failed)?;
        out.write_all(self.text().as_bytes()).and_then(|()| out.sync_all()).with_context(failed)?;
        fs::rename(&new, &file).with_context(failed)
    }

    /// The one of that name.
    pub(crate) fn get(&self, name: &str) -> anyhow::Result<&Context> {
        self.contexts.get(name).ok_or_else(|| {
            let hint = weir_model::nearest::nearest(name, self.contexts.keys().map(String::as_str));
            anyhow!("there is no context '{name}'{hint}; 'weir context' lists them")
        })
    }

    fn parse(text: &str) -> anyhow::Result<Contexts> {
        if text.trim().is_empty() {
            return Ok(Contexts::default());
        }
        let node = Node::from_yaml(text)?;
        let mut r = Reader::default();
        let read = contexts(&mut r, &At::root(&node, "contexts.yaml"));
        Ok(r.finish(read)?)
    }

    /// As YAML. Strings stand in quotes, as JSON has them, which YAML takes.
    fn text(&self) -> String {
        let quote = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = String::new();
        if let Some(current) = &self.current {
            _ = writeln!(out, "current: {}", quote(current));
        }
        out.push_str(if self.contexts.is_empty() { "contexts: {}\n" } else { "contexts:\n" });
        for (name, c) in &self.contexts {
            let path = |p: &Option<PathBuf>| p.as_ref().map(|p| p.display().to_string());
            let values =
                [Some(c.url.clone()), path(&c.key), c.token.clone(), path(&c.ca), c.fingerprint.clone()];
            _ = writeln!(out, "  {}:", quote(name));
            for (field, value) in FIELDS.iter().zip(values) {
                if let Some(value) = value {
                    _ = writeln!(out, "    {field}: {}", quote(&value));
                }
            }
        }
        out
    }
}

fn contexts(r: &mut Reader, at: &At<'_>) -> Option<Contexts> {
    let fields = r.fields(at, &["current", "contexts"])?;
    let current =
        fields.get("current").and_then(|at| r.text(&at, "the name of a context")).map(str::to_owned);
    let mut contexts = BTreeMap::new();
    if let Some(at) = fields.get("contexts") {
        let all = r.map(&at, "a map of contexts by name")?;
        for (name, node) in all.entries {
            let at = at.key(name, node);
            if let Some(context) = context(r, &at) {
                contexts.insert(name.clone(), context);
            }
        }
    }
    Some(Contexts { current, contexts })
}

fn context(r: &mut Reader, at: &At<'_>) -> Option<Context> {
    let fields = r.fields(at, &FIELDS)?;
    let url = fields.need(r, "url", "the server's address")?;
    let url = r.text(&url, "the server's address")?.to_owned();
    let mut text = |name| fields.get(name).and_then(|at| r.text(&at, "a text")).map(str::to_owned);
    let (key, token, ca) = (text("key"), text("token"), text("ca"));
    let fingerprint = text("fingerprint");
    Some(Context { url, key: key.map(PathBuf::from), token, ca: ca.map(PathBuf::from), fingerprint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_mistakes_are_told_with_their_place() {
        let lab = Context {
            url: "https://10.0.0.1:7400".into(),
            key: Some("/home/a b/id".into()),
            ..Context::default()
        };
        let odd = Context {
            url: "http://[::1]:1".into(),
            token: Some("a: \"b\"\n#".into()),
            ca: Some("/c".into()),
            ..Context::default()
        };
        let contexts = [("lab".to_owned(), lab), ("it's: odd".to_owned(), odd)].into();
        let all = Contexts { current: Some("lab".into()), contexts };
        assert_eq!(Contexts::parse(&all.text()).unwrap(), all);
        assert_eq!(Contexts::parse(&Contexts::default().text()).unwrap(), Contexts::default());
        assert_eq!(Contexts::parse("").unwrap(), Contexts::default());
        let error = Contexts::parse("contexts: {a: {url: x, kye: y}, b: {}}").unwrap_err().to_string();
        assert!(
            error.contains("kye") && error.contains("key, token") && error.contains("contexts.b"),
            "{error}"
        );
    }
}
