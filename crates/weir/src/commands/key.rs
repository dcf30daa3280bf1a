//! `weir key`.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use weir_api::access::{Key, NewKey};
use weir_auth::Role;
use weir_auth::key::{PrivateKey, PublicKey};

use super::events::time;
use super::read;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui, table};

/// Options of `weir key`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Let the owner of a key in
    Add(Box<Add>),
    /// List the keys that are let in
    List,
    /// Let the owner of a key in no longer; 'admin' is the admin token, 'metrics' the token of metrics
    Remove {
        /// The key's name
        name: String,
    },
    /// Make a token by which Prometheus reads metrics, and nothing else; the one before is good no more ('remove metrics' removes it)
    Metrics,
    /// Make a key: FILE and FILE.pub
    New {
        /// The file of the private key
        file: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct Add {
    /// The key's name, which errors and the audit log have
    name: String,
    /// The public key: a file, such as id_ed25519.pub, - for standard input, or the key itself
    key: String,
    /// What its owner is
    #[arg(long, value_enum)]
    role: RoleName,
    /// The tenant that its owner acts for
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// The only graph that it reaches
    #[arg(long, value_name = "GRAPH")]
    graph: Option<String>,
    /// The only functions of that graph (may be repeated)
    #[arg(long, value_name = "FUNCTION", requires = "graph")]
    function: Vec<String>,
}

/// A role that a key may have.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleName {
    /// May do everything
    Operator,
    /// Sees and changes the graphs of a tenant
    Tenant,
    /// Sees, and changes nothing
    ReadOnly,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Role {
        match name {
            RoleName::Operator => Role::Operator,
            RoleName::Tenant => Role::Tenant,
            RoleName::ReadOnly => Role::ReadOnly,
        }
    }
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    match &args.what {
        What::Add(add) => {
            let text = if add.key.starts_with("ssh-") { add.key.clone() } else { read(Path::new(&add.key))? };
            let public: PublicKey = text.parse().with_context(|| format!("{} is of no use", add.key))?;
            let new = NewKey {
                public_key: public.to_string(),
                role: add.role.into(),
                tenant: add.tenant.clone(),
                graph: add.graph.clone(),
                functions: add.function.iter().cloned().collect::<BTreeSet<_>>(),
            };
            let added = args.node.client()?.add_key(&add.name, &new)?;
            ui.print(&added, || format!("{} {}\n", added.name, added.fingerprint))?;
        }
        What::List => {
            let keys = args.node.client()?.keys()?.keys;
            ui.print(&keys, || text(&keys))?;
        }
        What::Remove { name } => args.node.client()?.remove_key(name)?,
        What::Metrics => {
            let made = args.node.client()?.new_metrics_token()?;
            ui.print(&made, || format!("{}\n", made.token))?;
        }
        What::New { file } => make(file, *ui)?,
    }
    Ok(())
}

fn text(keys: &[Key]) -> String {
    let mut rows =
        vec![["NAME", "ROLE", "TENANT", "ONLY", "FINGERPRINT", "ADDED"].map(str::to_owned).to_vec()];
    for k in keys {
        let functions: Vec<&str> = k.functions.iter().map(String::as_str).collect();
        let only = match (&k.graph, functions.is_empty()) {
            (None, _) => "-".to_owned(),
            (Some(graph), true) => format!("graph {graph}"),
            (Some(graph), false) => format!("graph {graph}: {}", functions.join(", ")),
        };
        rows.push(vec![
            k.name.clone(),
            k.role.to_string(),
            k.tenant.clone().unwrap_or_else(|| "-".into()),
            only,
            k.fingerprint.clone(),
            time(k.added),
        ]);
    }
    table(&rows, &[])
}

/// Writes a new key to files that are not there yet.
fn make(file: &Path, ui: Ui) -> Result<(), Failure> {
    let public_file = PathBuf::from(format!("{}.pub", file.display()));
    for there in [file, &public_file] {
        if there.exists() {
            return Err(Failure::refused(format!(
                "{} is there already; choose another name",
                there.display()
            )));
        }
    }
    let user = std::env::var("USER").unwrap_or_else(|_| "weir".into());
    let key = PrivateKey::generate(&user).context("cannot make a key")?;
    let text = key.to_openssh().context("cannot make a key")?;
    let failed = || format!("cannot write {}", file.display());
    let mut out =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).with_context(failed)?;
    out.write_all(text.as_bytes()).with_context(failed)?;
    fs::write(&public_file, format!("{}\n", key.public())).with_context(failed)?;
    let fingerprint = key.public().fingerprint();
    ui.print(&serde_json::json!({ "file": file, "fingerprint": fingerprint }), || {
        format!("{fingerprint}\n")
    })?;
    Ok(())
}
