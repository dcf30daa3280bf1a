//! Every operation and every end, interpreted and compiled: both must show the same.

mod control;
mod lanes;
mod network;
mod operations;
mod programs;
mod random;
mod rules;
mod runs;
mod slow_paths;
mod tables;
