//! `weir policy`.

use weir_api::client::NodeClient;
use weir_api::policies::{Policy, PolicySettings};
use weir_auth::TenantKind;

use super::remote::NodeArgs;
use super::tenant::KindName;
use crate::ui::{Failure, Ui, table};

/// Options of `weir policy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Set what is required of graphs: of those that run, and of all that are applied or changed from now on
    Set(Set),
    /// List the policies, with the number of graphs that each is for
    List,
    /// Remove a policy
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct Set {
    /// Its name
    name: String,
    /// A requirement, such as 'never * * tcp dst port 25': never, only or noloops; * is each access point of a graph (may be repeated)
    #[arg(long, value_name = "REQUIREMENT", required = true)]
    require: Vec<String>,
    /// For the graphs of this tenant (may be repeated); without it, of all tenants and of the operator
    #[arg(long, value_name = "TENANT")]
    tenant: Vec<String>,
    /// For the graphs of tenants of this kind
    #[arg(long, value_enum)]
    kind: Option<KindName>,
    /// Let graphs stay that run and do not hold it; they cannot be changed until they do
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let client = args.node.client()?;
    match &args.what {
        What::Set(set) => {
            let kind = set.kind.map(TenantKind::from);
            let settings = PolicySettings { require: set.require.clone(), tenants: set.tenant.clone(), kind };
            let policy = client.put_policy(&set.name, &settings, set.keep)?;
            ui.print(&policy, || text(std::slice::from_ref(&policy)))?;
        }
        What::List => list(&client, ui)?,
        What::Remove { name } => client.remove_policy(name)?,
    }
    Ok(())
}

/// Lists the policies.
pub(super) fn list(client: &NodeClient, ui: &Ui) -> Result<(), Failure> {
    let policies = client.policies()?.policies;
    Ok(ui.print(&policies, || text(&policies))?)
}

fn text(policies: &[Policy]) -> String {
    if policies.is_empty() {
        return "no policies; 'weir policy set' sets one\n".into();
    }
    let mut rows = vec![["NAME", "FOR", "GRAPHS", "REQUIRES"].map(str::to_owned).to_vec()];
    for p in policies {
        let s = &p.settings;
        let mut whom: Vec<String> = s.tenants.clone();
        whom.extend(s.kind.map(|k| format!("every {}", k.name())));
        let whom = if whom.is_empty() { "all".to_owned() } else { whom.join(", ") };
        rows.push(vec![p.name.clone(), whom, p.graphs.to_string(), s.require.join("; ")]);
    }
    table(&rows, &[2])
}
