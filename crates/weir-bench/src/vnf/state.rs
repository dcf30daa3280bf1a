//! State (libVNF paper, figure 9): a server that reads a value for each request and does nothing else, from memory, from Redis, and from
//! Redis with a cache that has 97 of 100.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use weir_vnf::{Buffer, CacheUse, Connection, Core, Error, Function, Protocol, Redis, Vnf};

use super::{Server, exchange, free_port, on};
use crate::functions::Figure;
use crate::stats::Spread;

/// What the figures are called.
pub(super) const RATE: &str = "requests a second, each with a value of state";

/// Where the value is; the first is what the others are held against.
pub(super) const KINDS: [&str; 3] = ["local", "remote", "remote, 97 % in the cache"];

/// Keys that are asked for again and again.
const KEYS: u64 = 97;

struct Reader {
    kind: &'static str,
    count: u64,
}

impl Reader {
    /// The next key: of a hundred, three that nobody asked for before.
    fn key(&mut self) -> String {
        self.count += 1;
        let n = self.count % 100;
        if n < KEYS { format!("key {n}") } else { format!("new {}", self.count) }
    }
}

impl Function for Reader {
    type Request = ();

    fn start(&mut self, core: &mut Core<Self>) {
        for n in 0..KEYS {
            let key = format!("key {n}");
            match self.kind {
                "local" => core.store().set("t", key.as_bytes(), &[7; 64]),
                // What fails here is missed by the requests.
                _ => _ = core.remote_set("t", key.as_bytes(), &[7; 64], |_, _, _| {}),
            }
        }
    }

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        let key = self.key();
        let answer = move |core: &mut Core<Self>, found: Result<Option<Arc<[u8]>>, Error>| {
            // The asker counts only what is answered.
            if found.is_ok() {
                let _ = core.send(connection, data);
            }
        };
        let cache = if self.kind == "remote" { CacheUse::Skip } else { CacheUse::Check };
        if self.kind == "local" {
            let found = core.store().get("t", key.as_bytes());
            answer(core, Ok(found));
        } else if core
            .remote_get("t", key.as_bytes(), cache, move |_, core, found| answer(core, found))
            .is_err()
        {
            let _ = core.close(connection);
        }
    }
}

/// Measures them: the server on a processor of its own, who asks and Redis on another.
pub(super) fn measure(samples: usize, time: Duration) -> Result<Vec<Figure>> {
    let port = free_port()?;
    let mut redis = Command::new("redis-server");
    redis.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]).stdout(Stdio::null());
    let _redis = Server::start(&mut redis, 1, port)?;
    let redis = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut found: [Vec<f64>; KINDS.len()] = Default::default();
    for _ in 0..samples {
        for (kind, found) in KINDS.into_iter().zip(&mut found) {
            let port = free_port()?;
            let mut vnf = Vnf::new(1);
            vnf.remote(Redis::new(redis));
            vnf.server((Ipv4Addr::LOCALHOST, port).into(), Protocol::Tcp, None)?;
            let runs = on(0, || Ok(vnf.start(move || Reader { kind, count: 0 })?))?;
            let begun = Instant::now();
            while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
                ensure!(begun.elapsed() < Duration::from_secs(10), "the server does not listen");
            }
            let [rate, ..] = exchange(port, time, || Ok(0.0)).with_context(|| format!("state: {kind}"))?;
            found.push(rate);
            runs.stop()?;
        }
    }
    let figures = KINDS.iter().zip(found).map(|(kind, values)| Figure {
        what: RATE.into(),
        kind: (*kind).into(),
        value: Spread::of(values),
    });
    Ok(figures.collect())
}
