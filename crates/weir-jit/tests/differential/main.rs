//! Every operation and every end, interpreted and compiled: both must show the same.

mod control;
mod operations;
mod programs;
mod random;
mod rules;
mod runs;
mod tables;
