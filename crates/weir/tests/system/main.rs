//! Tests of the whole system: the `weir` binary between network namespaces, with real programs on both sides.
//!
//! Most of them make network namespaces and so need root; without it they fail and say so.

mod access;
mod changes;
mod check;
mod click;
mod composed;
mod compute;
mod containers;
mod dashboard;
mod direct;
mod domain;
mod dpdk;
mod encrypted;
mod errors;
mod faults;
mod functions;
mod hangs;
mod history;
mod images;
mod iptables;
mod ipv6;
mod lab;
mod labs;
mod lost;
mod many;
mod metrics;
mod mixed;
mod nat;
mod native;
mod node;
mod packages;
mod processes;
mod reference;
mod requests;
mod resolver;
mod resources;
mod rest;
mod run;
mod sandbox;
mod saps;
mod traffic;
mod tunnels;
mod vm;
mod watching;
mod wishes;
