//! `weir tenant`.

use clap::ValueEnum;
use weir_api::access::{Tenant, TenantSettings};
use weir_api::client::NodeClient;
use weir_auth::TenantKind;
use weir_auth::quota::Quotas;

use super::node::processors;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui, table};

/// Options of `weir tenant`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Add a tenant, or change what it may have: a limit that is left out is none
    Add(Add),
    /// List the tenants, with what they have
    List,
    /// Print a tenant
    Show {
        /// Its name
        name: String,
    },
    /// Remove a tenant that has neither keys nor graphs
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct Add {
    /// Its name, as in the 'tenant' of its graphs
    name: String,
    /// What it is
    #[arg(long, value_enum, default_value = "client")]
    kind: KindName,
    /// Most graphs
    #[arg(long, value_name = "N")]
    graphs: Option<u32>,
    /// Most memory that its functions that are not inline may come to take together, in MB
    #[arg(long, value_name = "MB")]
    memory: Option<u32>,
    /// Most processor time of the same, such as 1.5
    #[arg(long, value_name = "N", value_parser = processors)]
    cpus: Option<u64>,
    /// Most requests a second
    #[arg(long, value_name = "N")]
    requests: Option<u32>,
}

/// The kinds of tenants.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum KindName {
    /// A customer, whose own traffic its graphs work on
    Client,
    /// Somebody else
    ThirdParty,
}

impl From<KindName> for TenantKind {
    fn from(kind: KindName) -> TenantKind {
        match kind {
            KindName::Client => TenantKind::Client,
            KindName::ThirdParty => TenantKind::ThirdParty,
        }
    }
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let client = args.node.client()?;
    match &args.what {
        What::Add(add) => {
            let quotas = Quotas {
                graphs: add.graphs,
                memory: add.memory.map(|mb| u64::from(mb) << 20),
                cpu: add.cpus,
                requests: add.requests,
            };
            client.put_tenant(&add.name, &TenantSettings { kind: add.kind.into(), quotas })?;
        }
        What::List => list(&client, ui)?,
        What::Show { name } => {
            let tenant = client.tenant(name)?;
            ui.print(&tenant, || text(std::slice::from_ref(&tenant)))?;
        }
        What::Remove { name } => client.remove_tenant(name)?,
    }
    Ok(())
}

/// Lists the tenants.
pub(super) fn list(client: &NodeClient, ui: &Ui) -> Result<(), Failure> {
    let tenants = client.tenants()?.tenants;
    Ok(ui.print(&tenants, || text(&tenants))?)
}

fn text(tenants: &[Tenant]) -> String {
    let mut rows =
        vec![["NAME", "KIND", "GRAPHS", "MEMORY", "CPUS", "REQUESTS/S"].map(str::to_owned).to_vec()];
    let of = |used: String, most: Option<String>| match most {
        Some(most) => format!("{used} of {most}"),
        None => used,
    };
    let cpus = |n: u64| format!("{}", n as f64 / 1000.0);
    for t in tenants {
        let q = &t.quotas;
        rows.push(vec![
            t.name.clone(),
            t.kind.name().to_owned(),
            of(t.usage.graphs.to_string(), q.graphs.map(|n| n.to_string())),
            of(weir_node::resources::size(t.usage.memory), q.memory.map(weir_node::resources::size)),
            of(cpus(t.usage.cpu), q.cpu.map(cpus)),
            q.requests.map_or_else(|| "-".to_owned(), |n| n.to_string()),
        ]);
    }
    table(&rows, &[])
}
