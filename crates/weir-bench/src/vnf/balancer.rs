//! The load balancer (libVNF paper, table 2): what goes through it from clients to a replica, with the library and without, both in C.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Server, compile, on};
use crate::functions::Figure;
use crate::references::process::Folder;
use crate::stats::Spread;

/// What the figures are called.
pub(super) const RATE: &str = "Gbit/s through the load balancer";

/// Programs; the first is what the other is held against.
pub(super) const KINDS: [&str; 2] = ["epoll, in C", "weir-vnf, in C"];

/// Connections that send as much as they can.
const CLIENTS: usize = 4;

/// Says to whoever asks that there is one replica.
fn orchestrate(listener: &TcpListener) {
    let mut all = Vec::new();
    for mut stream in listener.incoming().map_while(Result::ok) {
        let Ok(copy) = stream.try_clone() else { continue };
        let asked = BufReader::new(copy).lines().map_while(Result::ok).any(|line| line.is_empty());
        let add = "HTTP/1.0 200 OK\r\n\r\n{\"task\":\"add\",\"name\":\"b\",\"address\":\"127.0.0.1\"}\n";
        if asked && stream.write_all(add.as_bytes()).is_ok() {
            all.push(stream);
        }
    }
}

/// Counts what comes.
fn receive(listener: &TcpListener, received: &Arc<AtomicU64>) {
    for mut stream in listener.incoming().map_while(Result::ok) {
        let received = Arc::clone(received);
        std::thread::spawn(move || {
            let mut bytes = vec![0; 256 << 10];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
    }
}

/// Measures them: the balancer on a processor of its own, all others on another. `library` is the library for C, if it was built.
pub(super) fn measure(
    samples: usize,
    time: Duration,
    folder: &Folder,
    library: Option<&Path>,
) -> Result<Vec<Figure>> {
    let epoll = compile("without/balancer.c", &[], folder)?;
    let in_c = library.map(|l| compile("balancer.c", &[PathBuf::from(l)], folder)).transpose()?;
    let [orchestrator, replica] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let (orchestrator, replica) = (orchestrator?, replica?);
    let ports = [replica.local_addr()?.port(), orchestrator.local_addr()?.port()];
    let received = Arc::<AtomicU64>::default();
    let count = Arc::clone(&received);
    on(1, || {
        std::thread::spawn(move || orchestrate(&orchestrator));
        std::thread::spawn(move || receive(&replica, &count));
        Ok(())
    })?;
    let mut figures = Vec::new();
    let programs = [Some(epoll), in_c];
    let mut found: [Vec<f64>; KINDS.len()] = Default::default();
    for _ in 0..samples {
        for (program, found) in programs.iter().zip(&mut found) {
            if let Some(program) = program {
                found.push(sample(program, ports, &received, time)?);
            }
        }
    }
    for (kind, values) in KINDS.iter().zip(found).filter(|(_, values)| !values.is_empty()) {
        figures.push(Figure { what: RATE.into(), kind: (*kind).into(), value: Spread::of(values) });
    }
    Ok(figures)
}

fn sample(program: &Path, ports: [u16; 2], received: &Arc<AtomicU64>, time: Duration) -> Result<f64> {
    let port = super::free_port()?;
    let mut command = Command::new(program);
    command.args([port, ports[0], ports[1]].map(|p| p.to_string())).env("WEIR_VNF_CORES", "1");
    let _balancer = Server::start(&mut command, 0, port)?;
    let stop = Arc::new(AtomicBool::new(false));
    on(1, || {
        for _ in 0..CLIENTS {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                // Until it knows the replica, the balancer ends connections.
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                        while !stop.load(Ordering::Relaxed) && stream.write_all(&[7; 64 << 10]).is_ok() {}
                    }
                }
            });
        }
        Ok(())
    })?;
    let before = received.load(Ordering::Relaxed);
    let begun = Instant::now();
    while received.load(Ordering::Relaxed) == before {
        ensure!(begun.elapsed() < Duration::from_secs(10), "nothing comes through the balancer");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(time / 4);
    let (before, begun) = (received.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(time);
    let bytes = received.load(Ordering::Relaxed) - before;
    let took = begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    ensure!(bytes > 0, "nothing comes through the balancer any more");
    Ok(bytes as f64 * 8.0 / 1e9 / took)
}
