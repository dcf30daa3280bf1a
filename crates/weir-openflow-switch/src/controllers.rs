//! Connections of controllers: those that are dialled, again and again, and those that are listened for.

use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use weir_io::Poller;
use weir_openflow::connection::{self, ConnectionId, Limits, Notification, SwitchEvent, Time};
use weir_openflow::error::bad_request;
use weir_openflow::message::Features;
use weir_pipeline::Pipeline;

use crate::stream::Stream;
use crate::target::Target;
use crate::tls::Tls;
use crate::{Options, SwitchError};

/// How long it takes until a controller is dialled again: this at first, then twice as long each time, up to the second one.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(8)];
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How often one that is being made is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Most connections to one target that is listened at; more are ended at once.
const MAX_PASSIVE: usize = 16;
/// Most requests that are done before packets have their turn.
const TURN: usize = 128;
/// Most lines about what controllers sent.
const MAX_SAID: usize = 1000;
/// How many bytes are read at a time.
const CHUNK: usize = 1 << 16;
/// What descriptors are watched as; which of them can be read is found out by reading.
const KEY: u64 = u64::MAX - 1;

/// The controllers of a switch.
#[derive(Debug)]
pub(crate) struct Controllers {
    core: connection::Switch,
    tls: Option<Tls>,
    places: Vec<ControllerLink>,
    connections: Vec<Connection>,
    /// For what is read.
    buffer: Vec<u8>,
    /// Lines that were said.
    said: usize,
}

/// Where a controller is, or is listened for.
#[derive(Debug)]
struct ControllerLink {
    target: Target,
    listener: Option<Socket>,
    /// A connection that is being made, and when that began.
    dialling: Option<(Stream, Time)>,
    /// When it is dialled, or looked at whether the connection is made.
    next: Time,
    backoff: Duration,
    /// Why there is no connection.
    trouble: String,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    stream: Stream,
    /// Of which place.
    place: usize,
    is_up: bool,
    /// What was read and not taken; nothing more is read until it is.
    held: Vec<u8>,
    watched: bool,
}

impl Controllers {
    /// Binds what is listened at.
    pub(crate) fn new(
        options: &Options,
        features: Features,
        tls: Option<Tls>,
        poller: &Poller,
    ) -> Result<Controllers, SwitchError> {
        let place = |target: &Target| {
            let failed = SwitchError::system(format!("listen at {target}"));
            let listener = listen(target).map_err(failed)?;
            if let Some(listener) = &listener {
                poller.add(KEY, listener.as_fd()).map_err(SwitchError::system("wait for connections"))?;
            }
            let (target, backoff) = (target.clone(), BACKOFF[0]);
            Ok(ControllerLink {
                target,
                listener,
                dialling: None,
                next: Time::ZERO,
                backoff,
                trouble: String::new(),
            })
        };
        let places = options.targets.iter().map(place).collect::<Result<_, SwitchError>>()?;
        let core = connection::Switch::new(features, Limits::default());
        Ok(Controllers { core, tls, places, connections: Vec::new(), buffer: vec![0; CHUNK], said: 0 })
    }

    /// Whether a controller is there. Programs of this machine that use its socket are none.
    pub(crate) fn are_there(&self) -> bool {
        let is_local = |c: &Connection| matches!(self.places[c.place].target, Target::ListenUnix(_));
        self.connections.iter().any(|c| c.is_up && !is_local(c))
    }

    /// Notifies all of them that want it.
    pub(crate) fn notify(&mut self, notification: Notification) {
        // What does not fit a message is not said; a packet that is too long was cut before.
        _ = self.core.notify(notification);
    }

    /// Does what is due; says whether more is to be done at once. `ready` is what the poller said.
    pub(crate) fn step(
        &mut self,
        pipeline: &mut Pipeline,
        poller: &Poller,
        ready: &[u64],
        now: Time,
    ) -> bool {
        let readable = ready.contains(&KEY);
        for place in 0..self.places.len() {
            if readable {
                self.accept(place, poller, now);
            }
            self.dial(place, poller, now);
        }
        self.read(readable, poller, now);
        self.core.tick(now);
        let busy = self.serve(pipeline, now);
        self.write();
        busy
    }

    /// When something is due.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let dialled = self.places.iter().enumerate().filter(|(i, p)| self.is_dialled(*i, p));
        let waiting =
            self.connections.iter().any(|c| !self.core.output(c.id).is_empty() || c.stream.is_waiting());
        let soon = waiting.then_some(Time::ZERO);
        dialled.map(|(_, p)| p.next).chain(self.core.next_timeout()).chain(soon).min()
    }

    /// Whether a controller is to be dialled: it has no connection.
    fn is_dialled(&self, at: usize, place: &ControllerLink) -> bool {
        !place.target.is_passive() && !self.connections.iter().any(|c| c.place == at)
    }

    fn accept(&mut self, place: usize, poller: &Poller, now: Time) {
        let tls = self.places[place].target.is_tls();
        for _ in 0..MAX_PASSIVE {
            let Some(listener) = &self.places[place].listener else { break };
            let Ok((socket, _)) = listener.accept() else { break };
            // One that was left to wait would end each sleep.
            if self.connections.iter().filter(|c| c.place == place).count() >= MAX_PASSIVE {
                continue;
            }
            match Stream::accepted(socket, self.tls.as_ref().filter(|_| tls)) {
                Ok(stream) => self.add(stream, place, poller, now),
                Err(e) => self.places[place].trouble = e.to_string(),
            }
        }
    }

    fn dial(&mut self, at: usize, poller: &Poller, now: Time) {
        if now < self.places[at].next || !self.is_dialled(at, &self.places[at]) {
            return;
        }
        let place = &mut self.places[at];
        let Some((mut stream, since)) = place.dialling.take() else {
            let made = match &place.target {
                Target::Tcp(to, tls) => Stream::dial(*to, self.tls.as_ref().filter(|_| *tls)),
                Target::Unix(path) => Stream::dial_unix(path),
                Target::Listen(..) | Target::ListenUnix(_) => return,
            };
            match made {
                Ok(stream) => place.dialling = Some((stream, now)),
                Err(e) => place.wait(e.to_string(), now),
            }
            return;
        };
        match stream.is_connected() {
            Ok(true) => self.add(stream, at, poller, now),
            Ok(false) if now.saturating_sub(since) < CONNECT => {
                place.dialling = Some((stream, since));
                place.next = now + LOOK;
            }
            Ok(false) => place.wait("it does not answer".to_owned(), now),
            Err(e) => place.wait(e.to_string(), now),
        }
    }

    fn add(&mut self, stream: Stream, place: usize, poller: &Poller, now: Time) {
        let watched = poller.add(KEY, stream.fd()).is_ok();
        let id = self.core.connect(now);
        self.connections.push(Connection { id, stream, place, is_up: false, held: Vec::new(), watched });
    }

    fn read(&mut self, readable: bool, poller: &Poller, now: Time) {
        let mut ended = Vec::new();
        for c in &mut self.connections {
            if !c.held.is_empty() {
                let taken = self.core.receive(c.id, &c.held, now);
                c.held.drain(..taken);
            } else if readable {
                match c.stream.read(&mut self.buffer) {
                    Ok(0) => ended.push((c.id, "it ended the connection".to_owned())),
                    Ok(n) => {
                        let taken = self.core.receive(c.id, &self.buffer[..n], now);
                        c.held.extend_from_slice(&self.buffer[taken..n]);
                    }
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                    Err(e) => ended.push((c.id, e.to_string())),
                }
            }
            // What is not read would end each sleep.
            let watch = c.held.is_empty();
            if watch != c.watched {
                let done = if watch { poller.add(KEY, c.stream.fd()) } else { poller.remove(c.stream.fd()) };
                c.watched = if done.is_ok() { watch } else { c.watched };
            }
        }
        ended.into_iter().for_each(|(id, why)| self.end(id, &why, now));
    }

    /// Does what they ask; says whether there is more.
    fn serve(&mut self, pipeline: &mut Pipeline, now: Time) -> bool {
        for _ in 0..TURN {
            match self.core.poll() {
                None => {
                    return self
                        .connections
                        .iter()
                        .any(|c| !c.held.is_empty() && self.core.output(c.id).is_empty());
                }
                Some(SwitchEvent::Up(id)) => {
                    for c in self.connections.iter_mut().filter(|c| c.id == id) {
                        c.is_up = true;
                        let place = &mut self.places[c.place];
                        (place.backoff, place.trouble) = (BACKOFF[0], String::new());
                    }
                }
                Some(SwitchEvent::Request { id, message }) => {
                    let answer = pipeline.request(message, now).and_then(|answer| match answer {
                        // One thing that it has is longer than a message.
                        Some(answer) => self.core.answer(id, answer).map_err(|_| bad_request::EPERM),
                        None => Ok(()),
                    });
                    match answer {
                        Ok(()) => self.core.finish(id),
                        Err(code) => self.core.fail(id, code),
                    }
                    if pipeline.is_loaded() {
                        return true;
                    }
                }
                Some(SwitchEvent::Refused { error, .. }) => {
                    self.say(&format!("a controller sent what is no message: {error}"));
                }
                Some(SwitchEvent::Error { error, .. }) => self.say(&format!("a controller says: {error:?}")),
                Some(SwitchEvent::Role { .. }) => {}
                Some(SwitchEvent::Closed { connection, reason }) => {
                    // What was said last is still written.
                    self.write();
                    self.end(connection, &reason.to_string(), now);
                }
            }
        }
        true
    }

    /// Says something to people, a limited number of times: controllers could have it say any number of lines.
    fn say(&mut self, line: &str) {
        if self.said < MAX_SAID {
            self.said += 1;
            eprintln!("{line}");
        }
    }

    fn write(&mut self) {
        for c in &mut self.connections {
            while c.stream.is_waiting() || !self.core.output(c.id).is_empty() {
                let output = self.core.output(c.id);
                match c.stream.write(output) {
                    Ok(0) => break,
                    Ok(n) => self.core.sent(c.id, n),
                    // Reading says how it ended.
                    Err(_) => break,
                }
            }
        }
    }

    fn end(&mut self, id: ConnectionId, why: &str, now: Time) {
        self.core.disconnect(id);
        for c in self.connections.iter().filter(|c| c.id == id) {
            self.places[c.place].wait(why.to_owned(), now);
        }
        self.connections.retain(|c| c.id != id);
    }

    /// How they are, a line each.
    pub(crate) fn status(&self) -> String {
        let mut text = String::new();
        for (i, place) in self.places.iter().enumerate() {
            let mut up = self.connections.iter().filter(|c| c.place == i && c.is_up).peekable();
            _ = write!(text, "{} ", place.target);
            if up.peek().is_none() {
                let how = if place.listener.is_some() { "waiting" } else { "not connected" };
                _ = write!(text, "{how}");
                if !place.trouble.is_empty() {
                    _ = write!(text, ": {}", place.trouble);
                }
            }
            let roles: Vec<String> = up.filter_map(|c| self.core.role(c.id)).map(|r| r.to_string()).collect();
            if !roles.is_empty() {
                _ = write!(text, "connected, {}", roles.join(", "));
            }
            text.push('\n');
        }
        text
    }
}

impl ControllerLink {
    /// It is tried again later.
    fn wait(&mut self, why: String, now: Time) {
        // Those that are listened for come and go.
        if self.target.is_passive() {
            return;
        }
        self.trouble = why;
        self.next = now + self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF[1]);
    }
}

fn listen(target: &Target) -> io::Result<Option<Socket>> {
    let socket = match target {
        Target::Listen(at, _) => {
            let socket = Socket::new(Domain::for_address(*at), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&(*at).into())?;
            socket
        }
        Target::ListenUnix(path) => {
            // That of a process before this one. Anything else stays, and binding fails.
            if std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
                std::fs::remove_file(path)?;
            }
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.bind(&SockAddr::unix(path)?)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            socket
        }
        Target::Tcp(..) | Target::Unix(_) => return Ok(None),
    };
    socket.set_nonblocking(true)?;
    socket.listen(MAX_PASSIVE as i32)?;
    Ok(Some(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::path::{Path, PathBuf};
    use weir_openflow::Message;
    use weir_openflow::hello::HelloElement;
    use weir_openflow::message::{Frame, VERSION};

    /// A switch that listens at a socket, and what it is driven by.
    struct Lab {
        path: PathBuf,
        pipeline: Pipeline,
        poller: Poller,
        ready: Vec<u64>,
        controllers: Controllers,
        _folder: tempfile::TempDir,
    }

    fn at(path: &Path, pipeline: &Pipeline, poller: &Poller) -> Result<Controllers, SwitchError> {
        let targets = vec![Target::ListenUnix(path.to_owned())];
        Controllers::new(&Options { targets, ..Options::default() }, pipeline.features(), None, poller)
    }

    impl Lab {
        fn new() -> Lab {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("control");
            let options =
                weir_pipeline::Options { datapath: 7, name: "t".into(), tables: 1, version: "1".into() };
            let (pipeline, poller) = (Pipeline::new(options), Poller::new().unwrap());
            let controllers = at(&path, &pipeline, &poller).unwrap();
            Lab { path, pipeline, poller, ready: Vec::new(), controllers, _folder: folder }
        }

        fn connect(&self) -> UnixStream {
            let client = UnixStream::connect(&self.path).unwrap();
            client.set_nonblocking(true).unwrap();
            client
        }

        /// Turns until nothing is to be done.
        fn turns(&mut self) {
            loop {
                self.poller.poll(&mut self.ready).unwrap();
                let busy = self.controllers.step(&mut self.pipeline, &self.poller, &self.ready, Time::ZERO);
                if !busy && self.ready.is_empty() {
                    return;
                }
            }
        }
    }

    #[test]
    fn a_controller_is_answered_and_its_end_is_seen() {
        let mut lab = Lab::new();
        let mut client = lab.connect();
        let hello = Message::Hello(vec![HelloElement::versions(&[VERSION])]);
        for (xid, message) in (1..).zip([hello, Message::FeaturesRequest, Message::BarrierRequest]) {
            client.write_all(&Frame { xid, message }.encode().unwrap()).unwrap();
        }
        lab.turns();
        assert!(lab.controllers.status().ends_with("connected, equal\n"), "{}", lab.controllers.status());
        assert!(!lab.controllers.are_there(), "one of this machine is no controller");
        let mut heard = Vec::new();
        assert_eq!(client.read_to_end(&mut heard).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut frames = Vec::new();
        while !heard.is_empty() {
            let length = usize::from(u16::from_be_bytes([heard[2], heard[3]]));
            frames.push(Frame::decode(&heard.drain(..length).collect::<Vec<_>>()).unwrap());
        }
        assert!(
            matches!(
                &frames[..],
                [
                    Frame { message: Message::Hello(_), .. },
                    Frame { xid: 2, message: Message::FeaturesReply(Features { datapath: 7, .. }) },
                    Frame { xid: 3, message: Message::BarrierReply },
                ]
            ),
            "{frames:?}"
        );
        drop(client);
        lab.turns();
        assert!(lab.controllers.status().ends_with("waiting\n"), "{}", lab.controllers.status());
    }

    #[test]
    fn connections_that_are_too_many_are_ended_and_keep_nobody_awake() {
        let mut lab = Lab::new();
        let mut clients = Vec::new();
        for _ in 0..MAX_PASSIVE + 4 {
            clients.push(lab.connect());
            lab.turns();
        }
        let ended = clients.iter().filter(|client| {
            let mut client: &UnixStream = client;
            client.read_to_end(&mut Vec::new()).is_ok()
        });
        assert_eq!(ended.count(), 4);
        assert_eq!(lab.controllers.connections.len(), MAX_PASSIVE);
    }

    #[test]
    fn a_socket_is_made_anew_and_another_file_stays() {
        let lab = Lab::new();
        at(&lab.path, &lab.pipeline, &lab.poller).unwrap();
        let file = lab.path.with_file_name("file");
        std::fs::write(&file, "text").unwrap();
        at(&file, &lab.pipeline, &lab.poller).unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
    }
}
