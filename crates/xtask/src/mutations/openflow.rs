//! Mistakes in OpenFlow: what a controller or a switch may make us do.

use super::{Mutation, Test};

const GOLDEN: Test = Test { package: "weir-openflow", target: Some("golden"), filter: "" };
const CODEC: Test = Test { package: "weir-openflow", target: Some("codec"), filter: "" };
const CONNECTION: Test = Test { package: "weir-openflow", target: Some("connection"), filter: "" };
const HOSTILE: Test = Test { package: "weir-openflow", target: Some("hostile"), filter: "" };

pub(super) const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "openflow: a prerequisite may stand behind",
        file: "crates/weir-openflow/src/matching.rs",
        text: "let before = Match::before(&self.fields[..i]);",
        instead: "let before = Match::before(&self.fields[i..]);",
        test: CODEC,
    },
    Mutation {
        name: "openflow: bits that a mask leaves out are kept",
        file: "crates/weir-openflow/src/oxm.rs",
        text: "Some(mask) if value & !mask != 0 => wrong(",
        instead: "Some(mask) if value & !mask > most => wrong(",
        test: GOLDEN,
    },
    Mutation {
        name: "openflow: padding counts as part of a body",
        file: "crates/weir-openflow/src/describe.rs",
        text: "let used = length - body.left();",
        instead: "let used = length;",
        test: CODEC,
    },
    Mutation {
        name: "openflow: a barrier does not wait",
        file: "crates/weir-openflow/src/connection/switch.rs",
        text: "if self.open.is_empty()\n",
        instead: "if self.open.len() < 2\n",
        test: CONNECTION,
    },
    Mutation {
        name: "openflow: the counter of elections does not wrap",
        file: "crates/weir-openflow/src/connection/switch/requests.rs",
        text: "(request.generation.wrapping_sub(known) as i64) < 0;",
        instead: "request.generation < known;",
        test: CONNECTION,
    },
    Mutation {
        name: "openflow: a secondary controller sets what tables can",
        file: "crates/weir-openflow/src/connection/switch/requests.rs",
        text: "if changes && connection.role == Role::Secondary {",
        instead: "if changes && connection.role == Role::NoChange {",
        test: CONNECTION,
    },
    Mutation {
        name: "openflow: the last part of a refused request is a request",
        file: "crates/weir-openflow/src/connection/join.rs",
        text: "                return Joined::Waiting;\n            }\n        };\n        self.bytes -= before;",
        instead: "                (None, 0)\n            }\n        };\n        self.bytes -= before;",
        test: CONNECTION,
    },
    Mutation {
        name: "openflow: requests are handed over without a limit",
        file: "crates/weir-openflow/src/connection/switch.rs",
        text: "let full = self.open.len() >= self.channel.limits().requests || self.channel.is_full();",
        instead: "let full = self.channel.is_full();",
        test: HOSTILE,
    },
    Mutation {
        name: "openflow: a peer that does not read is served",
        file: "crates/weir-openflow/src/connection/channel.rs",
        text: "if waiting > self.limits.output.saturating_mul(2) {",
        instead: "if waiting > self.limits.output.saturating_mul(20) {",
        test: CONNECTION,
    },
    Mutation {
        name: "openflow: a bundle happens without what was refused",
        file: "crates/weir-openflow/src/connection/controller/bundles.rs",
        text: "=> refused.or(unanswered),",
        instead: "=> refused.and(unanswered),",
        test: CONNECTION,
    },
];
