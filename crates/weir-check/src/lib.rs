//! Requirements of Click configurations, service graphs and topologies, checked before anything runs.
//!
//! Documents become a [`weir_verify::Network`]: [`click`] does that for a configuration. Requirements become questions
//! about it: [`filter`] makes a program of a filter expression.

#![forbid(unsafe_code)]

pub mod click;
pub mod filter;
