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
/// Bytes that are sent at a time.
const CHUNK: usize = 64 << 10;

type Sender = mpsc::Sender<std::io::Result<Vec<u8>>>;

/// A file from its beginning, and what is written to it later if it is to be followed.
pub(super) fn body(path: PathBuf, follow: bool) -> Body {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut at = 0;
        // What was in the file before it was begun anew.
        if send(&path.with_extension("before"), 0, &sender).await.is_err() {
            return;
        }
        while let Ok(next) = send(&path, at, &sender).await {
            at = next;
            if !follow {
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

/// Sends what a file has from a place on; gives the place behind it. A file that has become shorter was begun anew.
async fn send(path: &Path, at: u64, sender: &Sender) -> Result<u64, ()> {
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
        sender.send(Ok(bytes)).await.map_err(drop)?;
    }
}
