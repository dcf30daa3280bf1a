//! What the network functions of `examples/vnf` read.

use bytes::Bytes;

#[path = "../../../examples/vnf/ims/cx.rs"]
mod cx;
#[expect(dead_code, reason = "the functions use it")]
#[path = "../../../examples/vnf/ims/sip.rs"]
mod sip;

#[expect(dead_code, reason = "the library uses it")]
#[path = "../../weir-vnf/src/notices.rs"]
mod notices;
#[expect(dead_code, reason = "its main function is that of the example")]
#[path = "../../../examples/vnf/proxy.rs"]
mod proxy;
#[expect(dead_code, reason = "the library uses it")]
#[path = "../../weir-vnf/src/remote/wire.rs"]
mod wire;

/// SIP as datagrams and as a stream: what is read is written as something that reads as the same, and a proxy's Via comes and goes.
pub fn vnf_sip(data: &[u8]) {
    for datagram in [true, false] {
        let Ok(Some((message, length))) = sip::Message::parse(&Bytes::copy_from_slice(data), datagram) else {
            continue;
        };
        assert!(length <= data.len());
        let written = message.bytes();
        let again = sip::Message::parse(&Bytes::from(written.clone()), datagram);
        if let Ok(Some((again, length))) = again {
            assert_eq!((length, again.bytes()), (written.len(), written.clone()));
        }
        let registration = message.registration();
        if let Ok(registration) = &registration {
            assert!(!registration.is_right("no hash"));
        }
        let mut forwarded = message.clone();
        forwarded.forward(5060, 7);
        assert_eq!(forwarded.number(), Some(7));
        forwarded.back();
        assert_eq!(forwarded.via(), message.via());
        if message.is_request() && registration.is_ok() {
            let response = message.response(200, "OK", &[]);
            let read = sip::Message::parse(&Bytes::from(response), false).expect("a response is SIP");
            assert!(read.is_some_and(|(response, _)| !response.is_request()));
        }
    }
    let mut input = sip::Input::default();
    for part in data.chunks(100) {
        input.push(part);
        while let Ok(Some(_)) = input.next(false) {}
    }
}

pub(crate) fn sip_seeds() -> Vec<Vec<u8>> {
    let head = "REGISTER sip:ims.example SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bK-1, SIP/2.0/TCP \"a,b\".example\r\n\
                Max-Forwards: 70\r\nFrom: \"A\" <sip:a@ims.example>;tag=1\r\nTo: <sip:a@ims.example>\r\nCall-ID: 1@x\r\nCSeq: 2 REGISTER\r\n";
    let auth = "Authorization: Digest username=\"a@ims.example\", realm=\"ims.example\", nonce=\"1f\", uri=\"sip:ims.example\", \
                response=\"0123456789abcdef0123456789abcdef\", algorithm=AKAv1-MD5, qop=auth, cnonce=\"c\", nc=00000001\r\n";
    [
        format!("{head}Contact: <sip:a@127.0.0.1>;expires=60\r\nContent-Length: 0\r\n\r\n"),
        format!("{head}{auth}Contact: *\r\nExpires: 0\r\nl: 5\r\n\r\nhello"),
        "\r\n\r\nSIP/2.0 200 OK\r\nv: SIP/2.0/TCP [::1];branch=z9hG4bK-weir-9\r\nSubject: a\r\n folded\r\nContent-Length: 0\r\n\r\n".into(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Diameter: what is read is written as something that reads as the same, and the HSS has an answer to every question.
pub fn vnf_diameter(data: &[u8]) {
    let mut input = cx::Input::default();
    for part in data.chunks(50) {
        input.push(part);
        while let Ok(Some(message)) = input.next() {
            let again = cx::Message::parse(&message.bytes()).expect("what was written is Diameter");
            assert_eq!(again.avps, message.avps);
            let _ = (message.succeeded(), cx::ha1(&message));
            let user = cx::Subscriber { public: "sip:a@x".into(), ha1: "00".into(), server: None };
            for user in [None, Some(&user)] {
                let (answer, _) = cx::Host("hss").answer(&message, user);
                assert_eq!((answer.request, answer.hop), (false, message.hop));
                cx::Message::parse(&answer.bytes()).expect("an answer is Diameter");
            }
        }
    }
}

pub(crate) fn diameter_seeds() -> Vec<Vec<u8>> {
    let host = cx::Host("scscf");
    let questions = [
        host.hello(),
        host.user_authorization(1, "a@x", "sip:a@x", false),
        host.multimedia_auth(2, "a@x", "sip:a@x"),
        host.server_assignment(3, "a@x", "sip:a@x", cx::REGISTRATION),
        host.server_assignment(4, "a@x", "sip:a@x", cx::USER_DEREGISTRATION),
    ];
    let user = cx::Subscriber { public: "sip:a@x".into(), ha1: "0f".into(), server: Some(cx::SCSCF.into()) };
    questions.iter().flat_map(|q| [q.bytes(), cx::Host("hss").answer(q, Some(&user)).0.bytes()]).collect()
}

/// HTTP: the head that the proxy passes on has one wish for the connection, its own, and loses nothing else; what an orchestrator answers is
/// read line by line.
pub fn vnf_http(data: &[u8]) {
    if let Some(end) = data.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = proxy::rewrite(data, end + 2);
        let body = &data[end + 2..];
        assert!(head.ends_with(body) && head.len() <= data.len() + 64);
        let lines = head[..head.len() - body.len()].split(|byte| *byte == b'\n');
        let wishes = lines.filter(|l| l.len() >= 11 && l[..11].eq_ignore_ascii_case(b"connection:")).count();
        assert_eq!(wishes, 1, "{}", head.escape_ascii());
    }
    let mut reader = notices::Reader::default();
    for line in String::from_utf8_lossy(data).lines() {
        if reader.line(line.trim()).is_err() {
            break;
        }
    }
}

pub(crate) fn http_seeds() -> Vec<Vec<u8>> {
    [
        "POST /a HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{\"task\":\"add\",\"name\":\"b\",\"address\":\"10.0.0.7\"}\n\n: still here\n\
         data: {\"task\":\"remove\",\"name\":\"b\",\"address\":\"::1\",\"reason\":\"failure\"}\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Replies of Redis: taken one by one, never more than there is.
pub fn vnf_redis(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some((_, length))) = wire::reply(rest) {
        assert!((1..=rest.len()).contains(&length));
        rest = &rest[length..];
    }
}

pub(crate) fn redis_seeds() -> Vec<Vec<u8>> {
    vec![
        b"$3\r\na\r\n\r\n_\r\n:-7\r\n*2\r\n:0\r\n_\r\n-ERR no\r\n".to_vec(),
        b"%2\r\n+server\r\n+redis\r\n+proto\r\n:3\r\n#t\r\n,1.5\r\n(123\r\n!5\r\nERR x\r\n=7\r\ntxt:abc\r\n~1\r\n:1\r\n>1\r\n+a\r\n".to_vec(),
        b"*1\r\n".repeat(10_000),
    ]
}
