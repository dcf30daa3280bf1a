//! Both ends of a connection without sockets.

mod both_ends;
mod bundles;
mod world;
