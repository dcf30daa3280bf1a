//! Functions that are not inline.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a program is started inside a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Inside {
    /// For this version of the program, on the machine of the node: namespaces, control group, directories, environment, command.
    pub launch: serde_json::Value,
}
