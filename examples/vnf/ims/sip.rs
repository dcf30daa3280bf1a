//! SIP (RFC 3261), as much of it as registration needs. Messages are read by `ezk-sip-types`.

use bytes::Bytes;
use ezk_sip_types::header::typed::{
    Algorithm, AlgorithmValue, AuthResponse, Contact, ContentLength, DigestResponse, Expires, FromTo,
    MaxForwards, QopOption, Username, Via,
};
use ezk_sip_types::msg::{Line, MessageLine, PullParser};
use ezk_sip_types::parse::Parse;
use ezk_sip_types::print::AppendCtx;
use ezk_sip_types::uri::SipUriUserPart;
use ezk_sip_types::{Headers, Method, Name};
use md5::{Digest, Md5};

/// What a peer sends that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a message of SIP that can be used: {0}")]
pub struct Wrong(pub &'static str);

/// The home domain, which is also the realm of passwords.
pub const REALM: &str = "ims.example";

/// Bytes of a message.
const LONGEST: usize = 65_536;

/// How the branches of our Via headers begin; a number follows.
const BRANCH: &str = "z9hG4bK-weir-";

/// Seconds of a registration whose length nobody says, and the longest.
const EXPIRES: u32 = 3600;

/// A request or a response.
#[derive(Debug, Clone)]
pub struct Message {
    line: MessageLine,
    /// The first line as it came.
    first: String,
    pub headers: Headers,
    body: Bytes,
}

/// Values of a header that may have several, divided by commas, which quotes and angle brackets protect.
fn split(values: &str) -> Vec<&str> {
    let (mut quoted, mut escaped, mut angle, mut begin) = (false, false, false, 0);
    let mut parts = Vec::new();
    for (at, c) in values.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '<' if !quoted => angle = true,
            '>' if !quoted => angle = false,
            ',' if !quoted && !angle => {
                parts.push(values[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(values[begin..].trim());
    parts
}

impl Message {
    /// The first message of a stream, and its length; `None` if not all of it has come. A datagram is a message as a whole.
    pub fn parse(bytes: &Bytes, datagram: bool) -> Result<Option<(Self, usize)>, Wrong> {
        // Empty lines before a message keep connections open.
        let begin = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(bytes.len());
        let mut lines = PullParser::new(bytes, begin);
        let mut read = Vec::new();
        for line in &mut lines {
            match line {
                Ok(line) => {
                    read.push(std::str::from_utf8(line).map_err(|_| Wrong("a header is no UTF-8"))?);
                }
                Err(_) if datagram || bytes.len() >= LONGEST => return Err(Wrong("the head does not end")),
                Err(_) => return Ok(None),
            }
        }
        let mut read = read.into_iter();
        let first = read.next().ok_or(Wrong("no first line"))?;
        let line = match MessageLine::parse(bytes)(first) {
            Ok(("", line)) => line,
            _ => return Err(Wrong("the first line is neither a request's nor a response's")),
        };
        let mut headers = Headers::new();
        for line in read {
            let (_, Line { name, value }) =
                Line::parse(bytes, line).map_err(|_| Wrong("a header without a name"))?;
            headers.insert(name, value);
        }
        let rest = bytes.len() - lines.head_end();
        let length = match headers.try_get_named::<ContentLength>() {
            Some(Ok(length)) => length.0,
            Some(Err(_)) => return Err(Wrong("Content-Length is no number")),
            None if datagram => rest,
            None => return Err(Wrong("no Content-Length in a stream")),
        };
        if length > LONGEST || (datagram && length > rest) {
            return Err(Wrong("the body is too long"));
        }
        if length > rest {
            return Ok(None);
        }
        let end = lines.head_end() + length;
        let body = bytes.slice(lines.head_end()..end);
        Ok(Some((Self { line, first: first.to_owned(), headers, body }, end)))
    }

    /// How it goes over the network.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = format!("{}\r\n{}\r\n", self.first, self.headers).into_bytes();
        out.extend_from_slice(&self.body);
        out
    }

    /// Whether it is a request to register.
    pub fn is_register(&self) -> bool {
        self.line.request_method() == Some(&Method::REGISTER)
    }

    pub fn is_request(&self) -> bool {
        self.line.is_request()
    }

    fn vias(&self) -> Vec<String> {
        self.headers.get_raw(&Name::VIA).flat_map(|v| split(v)).map(str::to_owned).collect()
    }

    fn set_vias(&mut self, vias: &[String]) {
        self.headers.remove(&Name::VIA);
        vias.iter().for_each(|via| self.headers.insert(Name::VIA, via.as_str()));
    }

    /// The first Via, by which a request is known that came before.
    pub fn via(&self) -> String {
        self.vias().into_iter().next().unwrap_or_default()
    }

    fn branch(&self) -> Option<String> {
        let via = self.headers.get::<Via>(Name::VIA).ok()?;
        via.params.get_val("branch").map(ToString::to_string)
    }

    /// The number that [`Message::forward`] gave the request of this response.
    pub fn number(&self) -> Option<u64> {
        self.branch()?.strip_prefix(BRANCH)?.parse().ok()
    }

    /// Puts a Via before the others, so that the response comes back here. False if the request went by too many proxies.
    pub fn forward(&mut self, port: u16, number: u64) -> bool {
        let left = self.headers.get_named::<MaxForwards>().map_or(70, |max| max.0);
        self.headers.remove(&Name::MAX_FORWARDS);
        self.headers.insert(Name::MAX_FORWARDS, left.saturating_sub(1).to_string());
        let mut vias = self.vias();
        vias.insert(0, format!("SIP/2.0/TCP 127.0.0.1:{port};branch={BRANCH}{number}"));
        self.set_vias(&vias);
        left > 0
    }

    /// Takes the first Via away, which is ours: the response goes on to who asked.
    pub fn back(&mut self) {
        let vias = self.vias();
        self.set_vias(vias.get(1..).unwrap_or_default());
    }

    /// A response to this request.
    pub fn response(&self, status: u16, reason: &str, more: &[(&'static str, String)]) -> Vec<u8> {
        let mut out = format!("SIP/2.0 {status} {reason}\r\n");
        for (name, value) in self.headers.iter() {
            match name.as_print_str() {
                "To" if !value.contains(";tag=") => {
                    let branch = self.branch().unwrap_or_default();
                    out += &format!("To: {value};tag={}\r\n", hash(&[&branch]));
                }
                name @ ("Via" | "From" | "To" | "Call-ID" | "CSeq") => out += &format!("{name}: {value}\r\n"),
                _ => {}
            }
        }
        more.iter().for_each(|(name, value)| out += &format!("{name}: {value}\r\n"));
        (out + "Content-Length: 0\r\n\r\n").into_bytes()
    }

    /// What a request to register asks for.
    pub fn registration(&self) -> Result<Registration, Wrong> {
        let to: FromTo = self.headers.get(Name::TO).map_err(|_| Wrong("To is missing or wrong"))?;
        for name in [Name::FROM, Name::CALL_ID, Name::CSEQ, Name::VIA] {
            if !self.headers.contains(&name) {
                return Err(Wrong("From, Call-ID, CSeq or Via is missing"));
            }
        }
        let SipUriUserPart::User(user) = &to.uri.uri.user_part else { return Err(Wrong("To names no user")) };
        let name = format!("{user}@{}", to.uri.uri.host_port.host);
        let digest = match self.headers.get_raw(&Name::AUTHORIZATION).next() {
            // The parser divides at bytes, which may be within a character.
            Some(value) if !value.is_ascii() => return Err(Wrong("Authorization is no ASCII")),
            Some(_) => match self.headers.get(Name::AUTHORIZATION) {
                Ok(AuthResponse::Digest(digest)) => Some(digest),
                _ => return Err(Wrong("Authorization is no digest")),
            },
            None => None,
        };
        let private = match digest.as_ref().map(|d| &d.username) {
            Some(Username::Username(user)) => user.to_string(),
            _ => name.clone(),
        };
        let all = self.headers.try_get_named::<Expires>().map_or(Ok(EXPIRES), |e| e.map(|e| e.0));
        let all = all.map_err(|_| Wrong("Expires is no number"))?;
        let contact = self.headers.get_raw(&Name::CONTACT).next().ok_or(Wrong("Contact is missing"))?;
        let (contact, expires) = if contact.as_str() == "*" {
            ("*".to_owned(), 0)
        } else {
            let Ok(Contact { uri, params }) = self.headers.get_named::<Contact>() else {
                return Err(Wrong("Contact is wrong"));
            };
            let own = params.get_val("expires").map(|e| e.parse());
            let own = own.unwrap_or(Ok(all)).map_err(|_| Wrong("expires of Contact is no number"))?;
            (format!("<{}>", uri.uri.default_print_ctx()), own.min(EXPIRES))
        };
        Ok(Registration { public: format!("sip:{name}"), private, contact, expires, digest })
    }
}

/// What a user wants to have registered.
#[derive(Debug, Clone)]
pub struct Registration {
    pub public: String,
    pub private: String,
    /// Where calls are to go, or `*` for all places that were registered.
    pub contact: String,
    /// Seconds; 0: it is to be undone.
    pub expires: u32,
    digest: Option<DigestResponse>,
}

impl Registration {
    /// Whether it has the answer to a challenge.
    pub fn answers(&self, nonce: &str) -> bool {
        self.digest.as_ref().is_some_and(|d| d.nonce.as_str() == nonce)
    }

    pub fn has_answer(&self) -> bool {
        self.digest.as_ref().is_some_and(|d| !d.nonce.is_empty() && !d.response.is_empty())
    }

    /// Whether the answer is that of who knows the password of this hash.
    pub fn is_right(&self, ha1: &str) -> bool {
        let Some(digest) = &self.digest else { return false };
        let ha2 = hash(&["REGISTER", &digest.uri]);
        let right = match &digest.qop_response {
            Some(qop) if qop.qop == QopOption::Auth => {
                hash(&[ha1, &digest.nonce, &format!("{:08x}", qop.nc), &qop.cnonce, "auth", &ha2])
            }
            Some(_) => return false,
            None => hash(&[ha1, &digest.nonce, &ha2]),
        };
        digest.algorithm == Algorithm::AlgorithmValue(AlgorithmValue::MD5)
            && digest.realm.as_str() == REALM
            && digest.response.as_str() == right
    }
}

/// The MD5 of parts with colons between, in hexadecimal.
pub fn hash(parts: &[&str]) -> String {
    Md5::digest(parts.join(":")).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that came of a stream, of which messages are taken.
#[derive(Debug, Default)]
pub struct Input(Vec<u8>);

impl Input {
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next message, if all of it has come.
    pub fn next(&mut self, datagram: bool) -> Result<Option<Message>, Wrong> {
        if self.0.iter().all(|b| matches!(b, b'\r' | b'\n')) {
            self.0.clear();
            return Ok(None);
        }
        match Message::parse(&Bytes::copy_from_slice(&self.0), datagram)? {
            Some((message, length)) => {
                self.0.drain(..length);
                Ok(Some(message))
            }
            None => Ok(None),
        }
    }
}
