//! C of figure 2: answers a request of 32 bytes with each of them plus one. Usage: c PORT

#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr};

use weir_vnf::{Buffer, Connection, Core, Function, Protocol, Vnf};

const LEN: usize = 32;

struct C;

impl Function for C {
    type Request = ();

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, mut data: Buffer) {
        for byte in data.iter_mut() {
            *byte = byte.wrapping_add(1);
        }
        if data.len() != LEN || core.send(connection, data).is_err() {
            let _ = core.close(connection);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: c PORT [ADDRESS]")?.parse()?;
    let address: IpAddr = std::env::args().nth(2).map_or(Ok(Ipv4Addr::LOCALHOST.into()), |a| a.parse())?;
    let mut vnf = Vnf::new(std::thread::available_parallelism()?.into());
    vnf.server((address, port).into(), Protocol::Tcp, None)?;
    Ok(vnf.start(|| C)?.wait()?)
}
