//! The data-plane process and its clients, over a real socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use weir_engine::{ServeError, WorkerOptions, serve};
use weir_plan::Classes;
use weir_protocol::{Answer, Client, ClientError, Command, Event, Reply, Request};

struct Server {
    socket: PathBuf,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("weir.sock");
        let path = socket.clone();
        let thread =
            std::thread::spawn(move || serve(&path, None, Classes::default(), WorkerOptions::default()));
        while UnixStream::connect(&socket).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Server { socket, thread: Some(thread), _dir: dir }
    }

    /// A client. The server may not yet know that others have left, so that it is asked again where there are too many.
    fn client(&self) -> Client {
        for _ in 0..1000 {
            match Client::connect(&self.socket) {
                Err(ClientError::Refused { errors }) if errors[0].contains("too many connections") => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                other => return other.unwrap(),
            }
        }
        panic!("connections that have ended are still counted");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let _ = self.client().call(Command::Shutdown);
        thread.join().unwrap().unwrap();
        assert!(!self.socket.exists());
    }
}

fn load(config: &str) -> Command {
    Command::Load {
        graph: "g".into(),
        config: config.into(),
        file: "g.click".into(),
        tag: "v1".into(),
        scope: None,
        memory: None,
    }
}

fn read(client: &mut Client, handler: &str) -> String {
    match client.call(Command::Read { graph: "g".into(), handler: handler.into() }) {
        Ok(Answer::Text { text }) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_loads_reads_writes_and_unloads() {
    let server = Server::start();
    let mut client = server.client();
    assert!(matches!(
        client.call(load("InfiniteSource(LIMIT 50) -> c :: Counter -> Discard;")).unwrap(),
        Answer::Nothing
    ));
    while read(&mut client, "c.count") != "50" {
        std::thread::yield_now();
    }
    let Answer::Graphs { graphs } = client.call(Command::List).unwrap() else { panic!() };
    assert_eq!((graphs.len(), &*graphs[0].name, &*graphs[0].tag, graphs[0].elements), (1, "g", "v1", 3));
    // Compiled code takes over when it is ready.
    while !matches!(client.call(Command::List).unwrap(), Answer::Graphs { graphs } if graphs[0].engine == "compiled")
    {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let Answer::Status { status } = client.call(Command::Status { graph: "g".into() }).unwrap() else {
        panic!()
    };
    assert_eq!(status.drops["Discard@3"]["Discarded"], 50);
    let write = |value: &str| Command::Write {
        graph: "g".into(),
        handler: "InfiniteSource@1.limit".into(),
        value: value.into(),
    };
    client.call(write("80")).unwrap();
    while read(&mut client, "c.count") != "80" {
        std::thread::yield_now();
    }
    let ClientError::Refused { errors } = client.call(write("many")).unwrap_err() else { panic!() };
    assert_eq!(errors, ["InfiniteSource@1.limit: 'many' is not a number"]);
    client.call(Command::Unload { graph: "g".into() }).unwrap();
    let ClientError::Refused { errors } = client.call(Command::Unload { graph: "g".into() }).unwrap_err()
    else {
        panic!()
    };
    assert_eq!(errors, ["there is no graph 'g'; none is loaded"]);
}

#[test]
fn errors_of_a_configuration_come_one_by_one() {
    let server = Server::start();
    let ClientError::Refused { errors } =
        server.client().call(load("Idle -> Queue(x) -> Unqueue(y) -> Discard;")).unwrap_err()
    else {
        panic!()
    };
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].starts_with("g.click:1:9: While configuring 'Queue@2 :: Queue': "), "{errors:?}");
}

#[test]
fn a_subscriber_hears_what_happens_and_a_trace_ends() {
    let server = Server::start();
    let (mut watcher, mut client) = (server.client(), server.client());
    let mut notices = watcher.stream(Command::Subscribe).unwrap();
    client.call(load("s :: InfiniteSource(ACTIVE false) -> Null -> d :: Discard;")).unwrap();
    let Some(Ok(Event::Notice { graph, what, .. })) = notices.next() else { panic!() };
    assert_eq!((graph.as_deref(), &*what), (Some("g"), "loaded"));
    let mut tracer = server.client();
    let trace = Command::Trace { graph: "g".into(), filter: String::new(), count: 3, functions: Vec::new() };
    let traces = tracer.stream(trace).unwrap();
    let write = Command::Write { graph: "g".into(), handler: "s.active".into(), value: "true".into() };
    client.call(write).unwrap();
    let traces: Vec<Event> = traces.map(Result::unwrap).collect();
    assert_eq!(traces.len(), 3);
    for trace in traces {
        let Event::Trace { from, steps, .. } = trace else { panic!() };
        assert_eq!(from, "s");
        assert_eq!(steps[1].end.as_deref(), Some("dropped: Discarded"));
    }
    // A capture that is dropped half way leaves the connection usable.
    let capture = Command::Capture {
        graph: "g".into(),
        points: vec!["d".into()],
        filter: String::new(),
        snaplen: 4,
        count: 0,
    };
    let first = tracer.stream(capture).unwrap().next().unwrap().unwrap();
    assert!(matches!(first, Event::Packet { ref bytes, .. } if bytes.len() == 8), "{first:?}");
    assert_eq!(read(&mut tracer, "d.class"), "Discard");
}

#[test]
fn a_second_instance_is_refused_and_a_stale_socket_is_not_in_the_way() {
    let server = Server::start();
    let error = serve(&server.socket, None, Classes::default(), WorkerOptions::default()).unwrap_err();
    assert!(matches!(error, ServeError::Running { .. }), "{error}");
    assert!(server.client().call(Command::List).is_ok(), "the first goes on");
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let path = socket.clone();
    let thread = std::thread::spawn(move || serve(&path, None, Classes::default(), WorkerOptions::default()));
    let mut client = loop {
        match Client::connect(&socket) {
            Ok(client) => break client,
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    client.call(Command::Shutdown).unwrap();
    thread.join().unwrap().unwrap();
}

/// Sends bytes as they are, and gives back what comes until the connection ends or `lines` lines are there.
fn raw(socket: &Path, bytes: &[u8], lines: usize) -> Vec<String> {
    let mut stream = UnixStream::connect(socket).unwrap();
    // The other side may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    BufReader::new(stream).lines().map_while(Result::ok).take(lines).collect()
}

#[test]
fn clients_that_do_not_keep_to_the_protocol_do_no_harm() {
    let server = Server::start();
    let answers = raw(&server.socket, b"hello\n\n{\"id\": 7}\n{\"id\":8,\"do\":\"list\"}\n\xff\xfe\n", 4);
    assert!(answers[0].contains("\"id\":0") && answers[0].contains("not a request"), "{answers:?}");
    assert!(answers[1].contains("\"id\":7"), "{answers:?}");
    assert!(answers[2].contains("\"done\"") && answers[2].contains("\"id\":8"), "{answers:?}");
    assert!(answers[3].contains("not a request"), "{answers:?}");
    let deep = "[".repeat(100_000) + "\n";
    assert!(raw(&server.socket, deep.as_bytes(), 1)[0].contains("not a request"));
    // Leaves in the middle of a line, and while a capture runs.
    raw(&server.socket, b"{\"id\":1,\"do\":\"subscribe\"}\n{\"id\":2", 1);
    let mut client = server.client();
    client.call(load("InfiniteSource -> d :: Discard;")).unwrap();
    // Asks for more than it reads: the events are lost, the engine goes on.
    let mut lazy = UnixStream::connect(&server.socket).unwrap();
    lazy.write_all(b"{\"id\":1,\"do\":\"capture\",\"graph\":\"g\",\"points\":[\"d\"],\"snaplen\":64}\n")
        .unwrap();
    for _ in 0..20 {
        assert_eq!(read(&mut client, "d.class"), "Discard");
    }
    let connections: Vec<UnixStream> =
        (0..80).map(|_| UnixStream::connect(&server.socket).unwrap()).collect();
    let refused = connections.last().unwrap().try_clone().unwrap();
    let mut line = String::new();
    BufReader::new(refused).read_line(&mut line).unwrap();
    assert!(line.contains("too many connections"), "{line}");
    drop(connections);
    assert_eq!(read(&mut client, "d.class"), "Discard");
}

#[test]
fn questions_are_answered_while_code_is_compiled() {
    let server = Server::start();
    server.client().call(load("FromLink(a) -> Discard;")).unwrap();
    // A graph that runs is changed when the code of the new one is ready.
    let config = format!("FromLink(a) -> {}Discard;", "Paint(1) -> Counter -> ".repeat(100));
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    for (id, command) in [(1, load(&config)), (2, Command::List)] {
        let line = serde_json::to_string(&Request { id, command }).unwrap();
        writeln!(stream, "{line}").unwrap();
    }
    let replies = BufReader::new(stream).lines().take(2).map(|line| {
        match serde_json::from_str(&line.unwrap()).unwrap() {
            Reply::Done { id, .. } => id,
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(replies.collect::<Vec<u64>>(), [2, 1]);
}
