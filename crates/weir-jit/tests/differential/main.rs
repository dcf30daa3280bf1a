//! Every operation and every end, interpreted and compiled: both must show the same.

mod aside;
mod control;
mod lanes;
mod network;
mod operations;
mod programs;
mod random;
mod rules;
mod runs;
mod tables;
