//! Mistakes in what is shared with peers that are not trusted.

use super::{Mutation, Test};

const DIRECT: Test =
    Test { package: "weir-engine", target: Some("direct"), filter: "rings_come_and_go_under_traffic" };
const HOSTILE: Test = Test { package: "weir-io", target: Some("memif_hostile"), filter: "" };
const DRIVER: Test = Test { package: "weir-io", target: Some("vhost_hostile"), filter: "" };

pub(super) const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "memif: a position of the peer is believed",
        file: "crates/weir-io/src/memif/link.rs",
        text: "let filled = Some(theirs.wrapping_sub(ours)).filter(|&n| n <= size);",
        instead: "let filled = Some(theirs.wrapping_sub(ours).min(size));",
        test: HOSTILE,
    },
    Mutation {
        name: "memif: a length in our own buffer is believed",
        file: "crates/weir-io/src/memif/link.rs",
        text: "Some(own) if said.len <= own.size =>",
        instead: "Some(own) if said.len <= 2 * own.size =>",
        test: HOSTILE,
    },
    Mutation {
        name: "memif: memory that may shrink is taken",
        file: "crates/weir-io/src/memif/region.rs",
        text: "if !unsealed && !is_sealed_memory(fd) {",
        instead: "if !unsealed && !is_sealed_memory(fd) && index > 0 {",
        test: HOSTILE,
    },
    Mutation {
        name: "memif: a buffer may end behind its region",
        file: "crates/weir-io/src/memif/region.rs",
        text: "(end <= region.len)",
        instead: "(end <= region.len + 1)",
        test: HOSTILE,
    },
    Mutation {
        name: "memif: a message with two descriptors is taken",
        file: "crates/weir-io/src/memif/socket.rs",
        text: "if header.msg_flags & libc::MSG_CTRUNC != 0 || fds.len() > 1 {",
        instead: "if header.msg_flags & libc::MSG_CTRUNC != 0 {",
        test: HOSTILE,
    },
    Mutation {
        name: "vhost: a position of the driver is believed",
        file: "crates/weir-io/src/vhost/ring.rs",
        text: "let filled = Some(theirs.wrapping_sub(ours)).filter(|&n| n <= size);",
        instead: "let filled = Some(theirs.wrapping_sub(ours).min(size));",
        test: DRIVER,
    },
    Mutation {
        name: "vhost: a descriptor behind the last is read",
        file: "crates/weir-io/src/vhost/ring.rs",
        text: "if index >= self.size {",
        instead: "if index > self.size {",
        test: DRIVER,
    },
    Mutation {
        name: "vhost: memory that may shrink is taken",
        file: "crates/weir-io/src/vhost/memory.rs",
        text: "if !options.unsealed && !is_sealed_memory(file.as_fd()) {",
        instead: "if !options.unsealed && !is_sealed_memory(file.as_fd()) && index > 0 {",
        test: DRIVER,
    },
    Mutation {
        name: "vhost: memory may end behind its file",
        file: "crates/weir-io/src/vhost/memory.rs",
        text: ".is_none_or(|end| end > has)",
        instead: ".is_none_or(|end| end > 2 * has)",
        test: DRIVER,
    },
    Mutation {
        name: "vhost: buffers to receive into may be those to send from",
        file: "crates/weir-io/src/vhost/net.rs",
        text: "if len == 0 || chain.iter().any(|s| !s.writable) {",
        instead: "if len == 0 {",
        test: DRIVER,
    },
    Mutation {
        name: "direct rings: the receiver takes from one before it has got all else",
        file: "crates/weir-io/src/memif/joined.rs",
        text: "Order::Receive(end) => self.slave.into = Some(end),",
        instead: "Order::Receive(end) => { self.slave.into = Some(end); self.open_direct(); }",
        test: DIRECT,
    },
    Mutation {
        name: "direct rings: the master takes packets before the rest of a ring is taken",
        file: "crates/weir-nodes/src/env/device/direct.rs",
        text: "if !late && (over || now >= until) {",
        instead: "if !late {",
        test: DIRECT,
    },
];
