//! What an orchestrator says of replicas: lines of JSON in the answer to an HTTP request, which does not end.
//!
//! ```text
//! GET /replicas HTTP/1.0            →
//!                                   ←  HTTP/1.0 200 OK
//!                                   ←
//!                                   ←  {"task":"add","name":"b","address":"10.0.0.7"}
//!                                   ←  {"task":"remove","name":"b","address":"10.0.0.7","reason":"maintenance"}
//! ```
//!
//! The answer begins with an `add` for each replica that there is, so that nothing is missed while there is no connection. Lines that are
//! empty, or begin as comments of server-sent events (`:`), keep the connection: one must come every [`SILENCE`]. `data:` before a line
//! is skipped, so that server-sent events do as well.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// A connection on which nothing comes for so long is made anew.
pub const SILENCE: Duration = Duration::from_secs(30);

/// How long it waits until it tries again.
const RETRY: Duration = Duration::from_secs(1);

/// How often a thread that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Most bytes of a line.
const LONGEST: u64 = 64 << 10;

/// A replica came or went.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Notice {
    /// Which of both.
    pub task: Task,
    /// Name of the function that it is a replica of.
    pub name: String,
    /// Address of the replica.
    pub address: IpAddr,
    /// Why, if the orchestrator says so.
    #[serde(default)]
    pub reason: Option<Reason>,
}

/// An event of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// It is there.
    Add,
    /// It is not there any more.
    Remove,
}

/// Why something happened to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// Somebody works on it.
    Maintenance,
    /// It failed.
    Failure,
    /// There was too much to do for those that there were.
    Overload,
}

/// Why an orchestrator's notices do not come. It is tried again every second; the same failure is reported once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    /// No connection, or it ended.
    #[error("no connection to the orchestrator: {0}")]
    Unreachable(String),
    /// It answered something else.
    #[error(
        "the orchestrator answered '{0}': wanted is status 200, then lines as \
         {{\"task\":\"add\",\"name\":\"b\",\"address\":\"10.0.0.7\",\"reason\":\"overload\"}}"
    )]
    Answer(String),
}

/// A result of following an orchestrator.
pub(crate) type Noticed = (SocketAddr, Result<Notice, NoticeError>);

/// Where notices go: to each core, which has to be woken.
pub(crate) struct Cores<'a> {
    pub(crate) queues: Vec<Sender<Noticed>>,
    pub(crate) wake: &'a dyn Fn(),
    pub(crate) stopped: &'a dyn Fn() -> bool,
}

impl Cores<'_> {
    fn give(&self, noticed: &Noticed) {
        for queue in &self.queues {
            // A core that has ended wants no more.
            let _ = queue.send(noticed.clone());
        }
        (self.wake)();
    }
}

/// A core's end.
pub(crate) type Notices = Receiver<Noticed>;

/// Follows an orchestrator until the function stops.
pub(crate) fn follow(orchestrator: SocketAddr, cores: &Cores<'_>) {
    let mut reported = None;
    while !(cores.stopped)() {
        if let Err(error) = connection(orchestrator, cores, &mut reported)
            && reported.as_ref() != Some(&error)
        {
            cores.give(&(orchestrator, Err(error.clone())));
            reported = Some(error);
        }
        let since = Instant::now();
        while since.elapsed() < RETRY && !(cores.stopped)() {
            std::thread::sleep(LOOK);
        }
    }
}

/// Reads notices as long as a connection holds.
fn connection(
    orchestrator: SocketAddr,
    cores: &Cores<'_>,
    reported: &mut Option<NoticeError>,
) -> Result<(), NoticeError> {
    let unreachable = |error: std::io::Error| NoticeError::Unreachable(error.to_string());
    let mut stream = TcpStream::connect_timeout(&orchestrator, RETRY).map_err(unreachable)?;
    stream.set_read_timeout(Some(LOOK)).map_err(unreachable)?;
    let request =
        format!("GET /replicas HTTP/1.0\r\nHost: {orchestrator}\r\nAccept: application/x-ndjson\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(unreachable)?;
    let mut input = BufReader::new(stream);
    let mut reader = Reader::default();
    let mut line = Vec::new();
    let mut last = Instant::now();
    while !(cores.stopped)() {
        match (&mut input).take(LONGEST - line.len() as u64).read_until(b'\n', &mut line) {
            Ok(0) => return Err(unreachable(ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if last.elapsed() > SILENCE {
                    return Err(unreachable(ErrorKind::TimedOut.into()));
                }
                continue;
            }
            Err(error) => return Err(unreachable(error)),
        }
        last = Instant::now();
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        match reader.line(&text) {
            Ok(None) => {}
            Ok(Some(notice)) => {
                *reported = None;
                cores.give(&(orchestrator, Ok(notice)));
            }
            Err(()) => {
                return Err(NoticeError::Answer(text.chars().take(200).collect()));
            }
        }
        line.clear();
    }
    Ok(())
}

/// Where in the answer it is.
#[derive(Debug, Default)]
pub(crate) enum Reader {
    #[default]
    Status,
    Headers,
    Body,
}

impl Reader {
    /// Takes the next line of the answer.
    pub(crate) fn line(&mut self, line: &str) -> Result<Option<Notice>, ()> {
        match self {
            Self::Status => {
                let mut words = line.split(' ');
                let http = words.next().is_some_and(|w| w.starts_with("HTTP/1."));
                if !http || words.next() != Some("200") {
                    return Err(());
                }
                *self = Self::Headers;
            }
            Self::Headers if line.is_empty() => *self = Self::Body,
            // HTTP/1.0 has no chunks; a server that sends them would give lines that are no notices.
            Self::Headers => {}
            Self::Body if line.is_empty() || line.starts_with(':') => {}
            Self::Body => {
                let json = line.strip_prefix("data:").unwrap_or(line);
                return serde_json::from_str(json).map(Some).map_err(|_| ());
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Notice>, String> {
        let mut reader = Reader::default();
        let mut notices = Vec::new();
        for line in text.lines() {
            notices.extend(reader.line(line).map_err(|()| line.to_owned())?);
        }
        Ok(notices)
    }

    #[test]
    fn notices_are_lines_of_json_also_as_server_sent_events() {
        let text = "HTTP/1.0 200 OK\nServer: x\n\n{\"task\":\"add\",\"name\":\"b\",\"address\":\"10.0.0.7\"}\n\n: still here\n\
                    data: {\"task\":\"remove\",\"name\":\"b\",\"address\":\"::1\",\"reason\":\"failure\"}\n";
        let add = Notice { task: Task::Add, name: "b".into(), address: [10, 0, 0, 7].into(), reason: None };
        let remove = Notice {
            task: Task::Remove,
            address: std::net::Ipv6Addr::LOCALHOST.into(),
            reason: Some(Reason::Failure),
            ..add.clone()
        };
        assert_eq!(read(text), Ok(vec![add, remove]));
    }

    #[test]
    fn anything_else_is_refused() {
        for (answer, wrong) in [
            ("HTTP/1.0 404 Not Found\n", "HTTP/1.0 404 Not Found"),
            ("SSH-2.0\n", "SSH-2.0"),
            ("HTTP/1.1 200 OK\n\n4f\n", "4f"),
            ("HTTP/1.0 200 OK\n\n{\"task\":\"add\",\"name\":\"b\"}\n", "{\"task\":\"add\",\"name\":\"b\"}"),
            (
                "HTTP/1.0 200 OK\n\n{\"task\":\"grow\",\"name\":\"b\",\"address\":\"10.0.0.7\"}",
                "{\"task\":\"grow\",\"name\":\"b\",\"address\":\"10.0.0.7\"}",
            ),
        ] {
            assert_eq!(read(answer), Err(wrong.to_owned()));
        }
    }
}
