//! What a node reports.
