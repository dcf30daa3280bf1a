//! The node that commands talk to.

use weir_api::client::{ClientError, NodeClient};

use crate::ui::Failure;

/// Where a node listens unless it is told otherwise.
pub(crate) const DEFAULT: &str = "http://127.0.0.1:7400";

/// Which node.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// The node's address
    #[arg(
        long,
        env = "WEIR_NODE",
        value_name = "URL",
        default_value = DEFAULT,
        global = true
    )]
    pub(crate) node: String,
}

impl NodeArgs {
    pub(crate) fn client(&self) -> NodeClient {
        NodeClient::new(&self.node)
    }
}

impl From<ClientError> for Failure {
    fn from(e: ClientError) -> Failure {
        match e {
            ClientError::Problem(p) => Failure::Refused(p.to_string().lines().map(str::to_owned).collect()),
            ClientError::Unreachable { .. } => Failure::Unreachable(anyhow::Error::new(e)),
            ClientError::Protocol { .. } => Failure::Other(anyhow::Error::new(e)),
        }
    }
}
