mod hassel;
mod iptables;
mod routes;
