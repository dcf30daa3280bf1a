//! `weir context`.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap_complete::engine::ArgValueCandidates;
use serde_json::json;

use super::{complete, dhcp, read};
use crate::contexts::{Context, Contexts, key_file, private_key};
use crate::ui::{Failure, Ui, table};

/// Options of `weir context`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the contexts
    List,
    /// Add a context, or write one anew; the first one is the current one
    Add {
        /// Its name
        name: String,
        /// The node's address, such as https://node.example:7400; dhcp:INTERFACE: what the network there says by DHCP
        url: String,
        /// The private key that signs requests: a file of OpenSSH's, or its name in ~/.ssh, such as id_ed25519
        #[arg(long, value_name = "FILE", add = ArgValueCandidates::new(complete::keys_of_user))]
        key: Option<PathBuf>,
        /// A secret in place of a key: the admin token; - reads it from standard input
        #[arg(long, value_name = "TOKEN", conflicts_with = "key")]
        token: Option<String>,
        /// The fingerprint of the node's certificate or of its authority's, which the node prints at its start
        #[arg(long, value_name = "SHA256", value_parser = pin)]
        fingerprint: Option<String>,
        /// A file of certificates in PEM, in place of a fingerprint: the node's has to lead to one, and be for its address
        #[arg(long, value_name = "FILE", conflicts_with = "fingerprint")]
        ca: Option<PathBuf>,
    },
    /// Make a context the current one
    Use {
        /// Its name
        #[arg(add = ArgValueCandidates::new(complete::contexts))]
        name: String,
    },
    /// Remove a context
    Remove {
        /// Its name
        #[arg(add = ArgValueCandidates::new(complete::contexts))]
        name: String,
    },
    /// Print a context, with the public key that a node has to know
    Show {
        /// Its name; the current one, if left out
        #[arg(add = ArgValueCandidates::new(complete::contexts))]
        name: Option<String>,
    },
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let mut contexts = Contexts::load().map_err(Failure::Unreachable)?;
    match args.what.as_ref().unwrap_or(&What::List) {
        What::List => list(&contexts, *ui),
        What::Add { name, url, key, token, fingerprint, ca } => {
            let mut fingerprint = fingerprint.clone();
            let url = match url.strip_prefix("dhcp:") {
                Some(interface) => &said_by_dhcp(interface, &mut fingerprint, ca.is_some())?,
                None => url,
            };
            let url = if url.contains("://") { url.clone() } else { format!("http://{url}") };
            if weir_auth::audience::of_url(&url).is_none() {
                return Err(Failure::refused(format!(
                    "{url:?} is no address of a node; write one such as https://node.example:7400"
                )));
            }
            let key = key.as_ref().map(|file| key_file(file)).transpose()?;
            // A key that cannot sign is told of now, not later.
            let public = key.as_ref().map(|file| private_key(file)).transpose()?;
            let token = match token.as_deref() {
                Some("-") => Some(read(Path::new("-"))?.trim().to_owned()),
                token => token.map(str::to_owned),
            };
            let ca = ca.as_ref().map(std::path::absolute).transpose()?;
            let context = Context { url, key, token, ca, fingerprint };
            let is_known = context.fingerprint.is_some() || context.ca.is_some();
            match (context.url.starts_with("https://"), is_known) {
                (true, false) => {
                    return Err(Failure::refused(
                        "nothing says by which certificate the node is known: give --fingerprint, which the node prints at its start, or --ca",
                    ));
                }
                (false, true) => return Err(Failure::refused("a certificate is of https: write https://…")),
                _ => drop(context.tls()?),
            }
            contexts.contexts.insert(name.clone(), context);
            contexts.current.get_or_insert_with(|| name.clone());
            contexts.save()?;
            if let Some(key) = public {
                ui.note(&format!(
                    "an operator of the node lets this key in: weir key add NAME '{}' --role ROLE",
                    key.public()
                ));
            }
            Ok(())
        }
        What::Use { name } => {
            contexts.get(name)?;
            contexts.current = Some(name.clone());
            Ok(contexts.save()?)
        }
        What::Remove { name } => {
            contexts.get(name)?;
            contexts.contexts.remove(name);
            contexts.current = contexts.current.filter(|current| current != name);
            Ok(contexts.save()?)
        }
        What::Show { name } => {
            let name = name.as_ref().or(contexts.current.as_ref());
            let name = name.ok_or_else(|| anyhow!("no context is the current one; name one"))?;
            show(name, contexts.get(name)?, *ui)
        }
    }
}

/// The controller's address as the network says it, and the fingerprint if nothing else says how it is known.
fn said_by_dhcp(interface: &str, fingerprint: &mut Option<String>, ca: bool) -> Result<String, Failure> {
    let (url, said) = dhcp::controller(interface).map_err(Failure::Unreachable)?;
    if let (None, Some(said), false) = (&fingerprint, said, ca) {
        let wrong =
            |e| Failure::refused(format!("the network says a fingerprint that is none, {said:?}: {e}"));
        *fingerprint = Some(pin(&said).map_err(wrong)?);
    }
    Ok(url)
}

/// A fingerprint, as it is kept.
fn pin(text: &str) -> Result<String, String> {
    text.parse::<weir_tls::Pin>().map(|pin| pin.to_string()).map_err(|e| e.to_string())
}

fn list(contexts: &Contexts, ui: Ui) -> Result<(), Failure> {
    let current = |name: &str| contexts.current.as_deref() == Some(name);
    let all: Vec<_> = contexts.contexts.iter().map(|(name, c)| describe(name, c, current(name))).collect();
    if all.is_empty() && !ui.json {
        ui.note("there are no contexts; 'weir context add NAME URL --key FILE' adds one");
        return Ok(());
    }
    let text = |value: &serde_json::Value, field: &str| value[field].as_str().unwrap_or("-").to_owned();
    ui.print(&all, || {
        let mut rows = vec![["", "NAME", "URL", "LOGIN"].map(str::to_owned).to_vec()];
        for c in &all {
            let mark = if c["current"] == true { "*" } else { "" };
            let login = if c["token"] == true { "token".to_owned() } else { text(c, "key") };
            rows.push(vec![mark.to_owned(), text(c, "name"), text(c, "url"), login]);
        }
        table(&rows, &[])
    })?;
    Ok(())
}

/// A context without its secret.
fn describe(name: &str, c: &Context, current: bool) -> serde_json::Value {
    json!({
        "name": name,
        "url": c.url,
        "key": c.key,
        "token": c.token.is_some(),
        "ca": c.ca,
        "fingerprint": c.fingerprint,
        "current": current,
    })
}

fn show(name: &str, c: &Context, ui: Ui) -> Result<(), Failure> {
    let public = c.key.as_ref().map(|file| private_key(file)).transpose()?.map(|key| key.public().clone());
    let mut value = describe(name, c, false);
    if let Some(object) = value.as_object_mut() {
        object.remove("current");
        object.insert("public_key".into(), json!(public.as_ref().map(ToString::to_string)));
    }
    ui.print(&value, || {
        let mut rows = vec![vec!["name".to_owned(), name.to_owned()], vec!["url".to_owned(), c.url.clone()]];
        let mut row = |field: &str, value: Option<String>| {
            rows.extend(value.map(|value| vec![field.to_owned(), value]));
        };
        row("key", c.key.as_ref().map(|p| p.display().to_string()));
        row("fingerprint", public.as_ref().map(|p| p.fingerprint().to_string()));
        row("public key", public.as_ref().map(ToString::to_string));
        row("token", c.token.as_ref().map(|_| "(kept, not shown)".to_owned()));
        row("CA", c.ca.as_ref().map(|p| p.display().to_string()));
        row("certificate", c.fingerprint.clone());
        table(&rows, &[])
    })?;
    Ok(())
}
