//! The output of functions, as a body that may go on.

use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Body;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// How often a file is looked at for more.
const INTERVAL: Duration = Duration::from_millis(200);
/// Most bytes of a line that are held back.
const MAX_HELD: usize = 4096;
/// Bytes that are sent at a time.
const CHUNK: usize = 64 << 10;

type Sender = mpsc::Sender<std::io::Result<Vec<u8>>>;

/// A file from its beginning, and what is written to it later if it is to be followed: until `gone` says that there is no more. Lines with
/// `noise` in them are left out.
pub(super) fn body(
    path: PathBuf,
    follow: bool,
    noise: Option<Noise>,
    gone: impl Fn() -> bool + Send + 'static,
) -> Body {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut at = 0;
        let mut out = Out { sender: sender.clone(), filter: noise.map(Filter::new) };
        // What was in the file before it was begun anew.
        if send(&path.with_extension("before"), 0, &mut out).await.is_err() {
            return;
        }
        loop {
            // What it writes before it goes is sent.
            let last = !follow || gone();
            let Ok(next) = send(&path, at, &mut out).await else { return };
            at = next;
            if last {
                let rest = out.filter.map(Filter::rest).unwrap_or_default();
                if !rest.is_empty() {
                    _ = sender.send(Ok(rest)).await;
                }
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = sender.closed() => return,
            }
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

/// The parts of lines that are not worth showing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    /// What they begin with.
    pub begins: &'static str,
    /// What else they have.
    pub has: &'static str,
}

/// Where output goes.
struct Out {
    sender: Sender,
    filter: Option<Filter>,
}

/// Leaves lines out. What may become such a line is held back, and nothing else.
struct Filter {
    noise: Noise,
    held: Vec<u8>,
    /// Whether the beginning of a line was let through already.
    within: bool,
}

impl Filter {
    fn new(noise: Noise) -> Filter {
        Filter { noise, held: Vec::new(), within: false }
    }

    fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let ends = part.ends_with(b"\n");
            if self.within {
                out.extend_from_slice(part);
                self.within = !ends;
                continue;
            }
            self.held.extend_from_slice(part);
            let (begins, has) = (self.noise.begins.as_bytes(), self.noise.has.as_bytes());
            let common = begins.len().min(self.held.len());
            if self.held.get(..common) == begins.get(..common) && !ends && self.held.len() < MAX_HELD {
                continue;
            }
            let line = std::mem::take(&mut self.held);
            if !(ends && line.starts_with(begins) && line.windows(has.len()).any(|w| w == has)) {
                out.extend(line);
                self.within = !ends;
            }
        }
        out
    }

    /// What was held back, at the end.
    fn rest(self) -> Vec<u8> {
        self.held
    }
}

/// Sends what a file has from a place on; gives the place behind it. A file that has become shorter was begun anew.
async fn send(path: &Path, at: u64, out: &mut Out) -> Result<u64, ()> {
    // Before its first line there is none.
    let Ok(mut file) = File::open(path).await else { return Ok(0) };
    let length = file.metadata().await.map_err(drop)?.len();
    let mut at = if length < at { 0 } else { at };
    file.seek(SeekFrom::Start(at)).await.map_err(drop)?;
    loop {
        let mut bytes = vec![0; CHUNK];
        let read = file.read(&mut bytes).await.map_err(drop)?;
        if read == 0 {
            return Ok(at);
        }
        bytes.truncate(read);
        at += read as u64;
        if let Some(filter) = &mut out.filter {
            bytes = filter.pass(&bytes);
        }
        if !bytes.is_empty() {
            out.sender.send(Ok(bytes)).await.map_err(drop)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_no_use_are_left_out_however_they_come() {
        let text = b"qemu: cannot: nothing\nqemu: real trouble\nlogin: qemu: cannot\nqemu";
        for size in 1..text.len() {
            let mut filter = Filter::new(Noise { begins: "qemu: ", has: "cannot" });
            let mut out: Vec<u8> = text.chunks(size).flat_map(|part| filter.pass(part)).collect();
            out.extend(filter.rest());
            let shown = String::from_utf8(out).unwrap();
            assert_eq!(shown, "qemu: real trouble\nlogin: qemu: cannot\nqemu", "{size}");
        }
        let mut filter = Filter::new(Noise { begins: "qemu: ", has: "cannot" });
        assert_eq!(filter.pass(b"login: "), b"login: ", "what waits for an answer is shown");
    }
}
