//! The functions of an IP multimedia subsystem that register users (libVNF paper, section 4.2):
//!
//! ```text
//! user ─SIP─ P-CSCF ─SIP─ I-CSCF ─SIP─ S-CSCF (replicas) ─ Redis
//!                           └─Diameter─ HSS ─Diameter─┘
//! ```
//!
//! Usage, all on 127.0.0.1:
//! ims hss PORT FILE-OF-SUBSCRIBERS (a line each: USER PASSWORD)
//! ims scscf PORT PORT-OF-HSS (needs WEIR_VNF_REDIS=127.0.0.1:PORT)
//! ims icscf PORT PORT-OF-HSS PORT-OF-S-CSCF...
//! ims pcscf PORT PORT-OF-I-CSCF

#![forbid(unsafe_code)]

mod cx;
mod hss;
mod icscf;
mod pcscf;
mod peer;
mod scscf;
mod sip;

use std::net::{Ipv4Addr, SocketAddr};

use weir_vnf::{Redis, Vnf};

const USAGE: &str =
    "usage: ims hss PORT FILE | scscf PORT HSS | icscf PORT HSS S-CSCF... | pcscf PORT I-CSCF";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cores = std::env::var("WEIR_VNF_CORES").ok().and_then(|n| n.parse().ok());
    let mut vnf = Vnf::new(cores.unwrap_or(std::thread::available_parallelism()?.into()));
    if let Ok(redis) = std::env::var("WEIR_VNF_REDIS") {
        vnf.remote(Redis::new(redis.parse()?));
    }
    let port = |n: usize| Ok::<u16, Box<dyn std::error::Error>>(arguments.get(n).ok_or(USAGE)?.parse()?);
    let at =
        |n: usize| Ok::<_, Box<dyn std::error::Error>>(SocketAddr::from((Ipv4Addr::LOCALHOST, port(n)?)));
    let running = match arguments.first().map(String::as_str) {
        Some("hss") => {
            let file = arguments.get(2).ok_or(USAGE)?;
            hss::start(vnf, at(1)?, &std::fs::read_to_string(file)?)?
        }
        Some("scscf") => scscf::start(vnf, at(1)?, at(2)?)?,
        Some("icscf") => {
            let replicas = (3..arguments.len()).map(at).collect::<Result<_, _>>()?;
            icscf::start(vnf, at(1)?, at(2)?, replicas)?
        }
        Some("pcscf") => pcscf::start(vnf, at(1)?, at(2)?)?,
        _ => return Err(USAGE.into()),
    };
    Ok(running.wait()?)
}
