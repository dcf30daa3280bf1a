//! Queries: what a node measures of functions and links, again and again, and says when something holds (Scylla paper, table I).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most queries of a node or a domain.
pub const MAX_QUERIES: usize = 10_000;
/// The shortest and the longest time between two looks, in milliseconds.
pub const EVERY: (u64, u64) = (100, 86_400_000);
/// The longest name of a query, in bytes.
const MAX_NAME: usize = 128;

/// A measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Packets that functions received and sent; the value is their sum.
    PacketsCount,
    /// Bytes of these.
    BytesCount,
    /// Processor time that functions take, in percent of a processor.
    CpuUtil,
    /// Memory that functions have taken, in percent of what the node has for functions; of inline ones that of their tables.
    MemUtil,
    /// What a handler says; the value is its number, if it is one.
    Handler,
    /// Packets and bytes of the node's interfaces; the value is the bit rate of both directions since the look before.
    Lqm,
}

/// A measurement: the quantity, and its subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What is measured.
    pub measure: Measure,
    /// The graph; without one, all that the tenant has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub graph: Option<String>,
    /// The function of the graph; without one, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub function: Option<String>,
    /// The tenant, if no graph is named; without one, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub tenant: Option<String>,
    /// The public handler, for the measure `handler`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub handler: Option<String>,
}

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Relation {
    /// Greater than.
    Gt,
    /// Less than.
    Lt,
    /// Greater than or equal.
    Ge,
    /// Less than or equal.
    Le,
    /// Equal.
    Eq,
}

/// A condition on a value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// How it is compared.
    pub relation: Relation,
    /// With what.
    pub value: f64,
}

impl Condition {
    /// Whether it holds.
    pub fn holds(&self, of: f64) -> bool {
        match self.relation {
            Relation::Gt => of > self.value,
            Relation::Lt => of < self.value,
            Relation::Ge => of >= self.value,
            Relation::Le => of <= self.value,
            Relation::Eq => (of - self.value).abs() <= f64::EPSILON * of.abs().max(1.0),
        }
    }
}

/// A query that stands: each look is reported, or, with `when`, only one by which the condition begins to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// What to measure.
    pub ask: Question,
    /// How often, in milliseconds.
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub every: u64,
    /// What has to begin to hold; it is reported the first time, and not again as long as it stays so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// What ends the query, once it holds of any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Condition>,
    /// How many reports there are at most, at each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub times: Option<u64>,
}

/// Whether a name can be one of a query.
///
/// # Errors
/// What would be right.
pub fn check_name(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(good) {
        return Err(format!(
            "'{name}' is no name of a query; it has 1 to {MAX_NAME} letters, digits, and characters of -_.:"
        ));
    }
    Ok(())
}

impl Question {
    /// Whether it can be asked.
    ///
    /// # Errors
    /// What would be right.
    pub fn check(&self) -> Result<(), String> {
        let (handler, of_one) = (self.handler.is_some(), self.graph.is_some() && self.function.is_some());
        if self.measure == Measure::Handler && !(handler && of_one) {
            return Err("ask: 'handler' is measured of one handler: give graph, function and handler".into());
        }
        if handler && self.measure != Measure::Handler {
            return Err("ask.handler: only the measure 'handler' has one".into());
        }
        if self.function.is_some() && self.graph.is_none() {
            return Err("ask.function: give the graph that it is of".into());
        }
        if self.graph.is_some() && self.tenant.is_some() {
            return Err("ask.tenant: the graph says whose it is: leave the tenant out".into());
        }
        if self.measure == Measure::Lqm && (self.graph.is_some() || self.tenant.is_some()) {
            return Err("ask: 'lqm' is measured of the node's interfaces: leave out graph and tenant".into());
        }
        Ok(())
    }
}

impl Query {
    /// Whether it can stand.
    ///
    /// # Errors
    /// What would be right.
    pub fn check(&self) -> Result<(), String> {
        self.ask.check()?;
        let (least, most) = EVERY;
        if !(least..=most).contains(&self.every) {
            return Err(format!(
                "every: {} ms; a query looks every {least} to {most} ms (POST /measure looks once)",
                self.every
            ));
        }
        if [self.when, self.until].into_iter().flatten().any(|c| !c.value.is_finite()) {
            return Err("when, until: the value is a finite number".into());
        }
        if self.times == Some(0) {
            return Err("times: at least 1".into());
        }
        Ok(())
    }
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Packets and bytes in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rate {
    /// Packets a second.
    pub packets: f64,
    /// Bytes a second.
    pub bytes: f64,
}

/// Something measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reading {
    /// The node, in a domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// The function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The value that conditions are about; none of what needs two looks, at the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What a handler says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Counts>,
    /// What was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Counts>,
    /// What was received a second since the look before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_rate: Option<Rate>,
    /// What was sent a second since the look before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_rate: Option<Rate>,
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// A measured value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Measured {
    /// One for each thing that there is.
    pub readings: Vec<Reading>,
}

/// A report of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// The query's name.
    pub query: String,
    /// What was measured; with `when`, only that of which it began to hold.
    pub readings: Vec<Reading>,
    /// Whether it was the last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// A query that stands, or has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StandingQuery {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub query: Query,
    /// Whether it has ended: it stays until it is deleted.
    pub ended: bool,
    /// Whether a node's controller wants it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_domain: bool,
}

/// Queries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueryList {
    /// By name.
    pub queries: Vec<StandingQuery>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str) -> Result<(), String> {
        serde_json::from_str::<Question>(text).map_err(|e| e.to_string())?.check()
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_what_would_be_right() {
        assert_eq!(question(r#"{"measure": "cpu_util", "graph": "g", "function": "f"}"#), Ok(()));
        for (text, why) in [
            (r#"{"measure": "handler", "graph": "g", "handler": "h"}"#, "give graph, function and handler"),
            (r#"{"measure": "mem_util", "function": "f"}"#, "give the graph"),
            (r#"{"measure": "lqm", "tenant": "t"}"#, "leave out graph and tenant"),
            (r#"{"measure": "disk_util"}"#, "unknown variant"),
            (r#"{"measure": "lqm", "addr": "x"}"#, "unknown field"),
        ] {
            let error = question(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(check_name("a b").is_err() && check_name("").is_err() && check_name("a-1.b:c_").is_ok());
    }

    #[test]
    fn relations_are_those_of_numbers() {
        let holds = |relation, of| Condition { relation, value: 80.0 }.holds(of);
        assert!(holds(Relation::Gt, 80.5) && !holds(Relation::Gt, 80.0) && holds(Relation::Ge, 80.0));
        assert!(holds(Relation::Lt, 79.0) && !holds(Relation::Lt, 80.0) && holds(Relation::Le, 80.0));
        assert!(holds(Relation::Eq, 80.0) && !holds(Relation::Eq, 80.1));
        assert!(!holds(Relation::Gt, f64::NAN) && !holds(Relation::Eq, f64::NAN));
    }
}
