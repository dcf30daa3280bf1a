//! The node that commands talk to.

use std::time::Duration;

use clap_complete::engine::ArgValueCandidates;
use weir_api::client::{ClientError, NodeClient};

use super::complete;
use crate::contexts::{Context, Contexts};
use crate::ui::Failure;

/// Where a node listens unless it is told otherwise.
pub(crate) const DEFAULT: &str = "http://127.0.0.1:7400";

/// Which node.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct NodeArgs {
    /// The node's address, asked without a login [default: that of the context, or http://127.0.0.1:7400]
    #[arg(long, env = "WEIR_NODE", value_name = "URL", global = true)]
    pub(crate) node: Option<String>,
    /// The context: a node's address, and as whom it is asked [default: the current one, see 'weir context']
    #[arg(
        long,
        env = "WEIR_CONTEXT",
        value_name = "NAME",
        global = true,
        add = ArgValueCandidates::new(complete::contexts)
    )]
    pub(crate) context: Option<String>,
}

impl NodeArgs {
    /// The node, and as whom it is asked.
    pub(crate) fn resolve(&self) -> anyhow::Result<Context> {
        let given = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
        if let Some(url) = given(&self.node) {
            return Ok(Context { url, ..Context::default() });
        }
        let contexts = Contexts::load()?;
        match given(&self.context).as_ref().or(contexts.current.as_ref()) {
            Some(name) => contexts.get(name).cloned(),
            None => Ok(Context { url: DEFAULT.to_owned(), ..Context::default() }),
        }
    }

    pub(crate) fn client(&self) -> Result<NodeClient, Failure> {
        connect(&self.resolve().map_err(Failure::Unreachable)?, None)
    }

    /// One that gives up each request after `time`.
    pub(crate) fn client_within(&self, time: Duration) -> Result<NodeClient, Failure> {
        connect(&self.resolve().map_err(Failure::Unreachable)?, Some(time))
    }

    /// Where the node is, for people.
    pub(crate) fn label(&self) -> String {
        self.resolve().map_or_else(|_| DEFAULT.to_owned(), |c| c.url)
    }
}

/// A client of a node.
pub(crate) fn connect(context: &Context, time: Option<Duration>) -> Result<NodeClient, Failure> {
    let credentials = context.credentials().map_err(Failure::Unreachable)?;
    let client = match time {
        Some(time) => NodeClient::with_timeout(&context.url, time),
        None => NodeClient::new(&context.url),
    };
    let client = client.with_credentials(credentials);
    Ok(match context.tls().map_err(Failure::Unreachable)? {
        Some(tls) => client.with_tls(tls),
        None => client,
    })
}

impl From<ClientError> for Failure {
    fn from(e: ClientError) -> Failure {
        match e {
            ClientError::Problem(p) => Failure::Refused(p.to_string().lines().map(str::to_owned).collect()),
            ClientError::Unreachable { .. }
            | ClientError::Untrusted { .. }
            | ClientError::Interrupted { .. } => Failure::Unreachable(anyhow::Error::new(e)),
            ClientError::Protocol { .. } | ClientError::Credentials { .. } => {
                Failure::Other(anyhow::Error::new(e))
            }
        }
    }
}
