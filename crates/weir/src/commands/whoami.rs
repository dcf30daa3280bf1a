//! `weir whoami` and `weir sign`.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_api::BASE;
use weir_auth::audience::of_url;
use weir_auth::token::{request, sign};

use super::remote::NodeArgs;
use crate::contexts::private_key;
use crate::ui::{Failure, Ui};

/// Options of `weir whoami`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let who = args.node.client()?.whoami()?;
    ui.print(&who, || {
        let tenant = who.tenant.as_ref().map_or(String::new(), |t| format!(" of tenant {t}"));
        let graph = who.graph.as_ref().map_or(String::new(), |g| format!(", only graph {g}"));
        let functions: Vec<&str> = who.functions.iter().map(String::as_str).collect();
        let functions =
            if functions.is_empty() { String::new() } else { format!(", only {}", functions.join(", ")) };
        let key = who.fingerprint.as_ref().map_or(String::new(), |f| format!(", key {f}"));
        let login = if who.login { "" } else { "; the node asks for no login" };
        format!("{}: {}{tenant}{graph}{functions}{key}{login}\n", who.name, who.role)
    })?;
    Ok(())
}

/// Options of `weir sign`.
#[derive(Debug, clap::Args)]
pub(crate) struct SignArgs {
    /// The method of the request, such as GET
    method: String,
    /// Its path with the query, such as /v1/graphs
    path: String,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn sign_request(args: &SignArgs, ui: &Ui) -> Result<(), Failure> {
    let context = args.node.resolve().map_err(Failure::Unreachable)?;
    let Some(file) = &context.key else {
        return Err(Failure::refused(
            "there is no key to sign with; 'weir context add NAME URL --key FILE' names one",
        ));
    };
    if !args.path.starts_with('/') {
        let path = args.path.trim_start_matches('/');
        return Err(Failure::refused(format!("the path begins with '/', such as {BASE}/{path}")));
    }
    let key = private_key(file).map_err(Failure::Unreachable)?;
    let audience = of_url(&context.url)
        .ok_or_else(|| Failure::refused(format!("{} is no address of a node", context.url)))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let token = sign(&key, &audience, &request(&args.method.to_uppercase(), &args.path), now);
    let token = token.map_err(|e| Failure::Other(e.into()))?;
    ui.print(&serde_json::json!({ "token": token }), || format!("{token}\n"))?;
    Ok(())
}
