//! Diameter (RFC 6733), and what the Cx interface between CSCFs and HSS (3GPP TS 29.229) says with it.

/// What a peer sends that is no Diameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a message of Diameter: {0}")]
pub struct Wrong(pub &'static str);

/// Commands.
pub const CAPABILITIES: u32 = 257;
pub const WATCHDOG: u32 = 280;
pub const DISCONNECT: u32 = 282;
pub const USER_AUTHORIZATION: u32 = 300;
pub const SERVER_ASSIGNMENT: u32 = 301;
pub const MULTIMEDIA_AUTH: u32 = 303;

/// The application Cx, and who defined it.
const CX: u32 = 16_777_216;
const THREE_GPP: u32 = 10_415;

/// Attributes: code and vendor.
pub type Kind = (u32, u32);
pub const USER_NAME: Kind = (1, 0);
const DIGEST_REALM: Kind = (104, 0);
const DIGEST_QOP: Kind = (110, 0);
const DIGEST_ALGORITHM: Kind = (111, 0);
const DIGEST_HA1: Kind = (121, 0);
const HOST_ADDRESS: Kind = (257, 0);
const AUTH_APPLICATION: Kind = (258, 0);
const VENDOR_APPLICATION: Kind = (260, 0);
pub const SESSION: Kind = (263, 0);
const ORIGIN_HOST: Kind = (264, 0);
const SUPPORTED_VENDOR: Kind = (265, 0);
const VENDOR: Kind = (266, 0);
pub const RESULT: Kind = (268, 0);
const PRODUCT: Kind = (269, 0);
const AUTH_STATE: Kind = (277, 0);
const DESTINATION_REALM: Kind = (283, 0);
const ORIGIN_REALM: Kind = (296, 0);
pub const EXPERIMENTAL: Kind = (297, 0);
pub const EXPERIMENTAL_CODE: Kind = (298, 0);
const VISITED_NETWORK: Kind = (600, THREE_GPP);
pub const PUBLIC_IDENTITY: Kind = (601, THREE_GPP);
pub const SERVER_NAME: Kind = (602, THREE_GPP);
const SERVER_CAPABILITIES: Kind = (603, THREE_GPP);
const USER_DATA: Kind = (606, THREE_GPP);
const AUTH_ITEMS: Kind = (607, THREE_GPP);
const AUTH_SCHEME: Kind = (608, THREE_GPP);
const AUTH_ITEM: Kind = (612, THREE_GPP);
const AUTHORIZATION_TYPE: Kind = (623, THREE_GPP);
pub const ASSIGNMENT: Kind = (614, THREE_GPP);
const DATA_AVAILABLE: Kind = (624, THREE_GPP);
const DIGEST: Kind = (635, THREE_GPP);

/// Results, and kinds of assignment.
pub const SUCCESS: u32 = 2001;
const FIRST_REGISTRATION: u32 = 2001;
const SUBSEQUENT_REGISTRATION: u32 = 2002;
const COMMAND_UNSUPPORTED: u32 = 3001;
const USER_UNKNOWN: u32 = 5001;
const IDENTITIES_DONT_MATCH: u32 = 5002;
const MISSING_AVP: u32 = 5005;
pub const REGISTRATION: u32 = 1;
pub const USER_DEREGISTRATION: u32 = 5;

/// Bytes of a message.
const LONGEST: usize = 65_536;
const HEADER: usize = 20;
const REQUEST: u8 = 0x80;
const PROXIABLE: u8 = 0x40;
const ERROR: u8 = 0x20;
const HAS_VENDOR: u8 = 0x80;
const MANDATORY: u8 = 0x40;

/// Adds an attribute, with zeroes up to a multiple of four bytes.
fn put(out: &mut Vec<u8>, (code, vendor): Kind, data: &[u8]) {
    let head = if vendor == 0 { 8 } else { 12 };
    out.extend_from_slice(&code.to_be_bytes());
    let flags = if vendor == 0 { MANDATORY } else { MANDATORY | HAS_VENDOR };
    out.extend_from_slice(&((u32::from(flags) << 24) | (head + data.len()) as u32).to_be_bytes());
    if vendor != 0 {
        out.extend_from_slice(&vendor.to_be_bytes());
    }
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// A list of attributes: of a message, or within another attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Avps(Vec<(Kind, Vec<u8>)>);

impl Avps {
    fn parse(mut bytes: &[u8]) -> Result<Self, Wrong> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let word = |n: usize| Some(u32::from_be_bytes(bytes.get(n * 4..n * 4 + 4)?.try_into().ok()?));
            let (Some(code), Some(second)) = (word(0), word(1)) else {
                return Err(Wrong("the last attribute is cut off"));
            };
            let (flags, length) = ((second >> 24) as u8, (second & 0xff_ffff) as usize);
            let (head, vendor) = if flags & HAS_VENDOR == 0 {
                (8, 0)
            } else {
                (12, word(2).ok_or(Wrong("a vendor is cut off"))?)
            };
            let data = bytes.get(head..length).ok_or(Wrong("an attribute is longer than its message"))?;
            all.push(((code, vendor), data.to_vec()));
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(Self(all))
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.iter().for_each(|(kind, data)| put(&mut out, *kind, data));
        out
    }

    #[must_use]
    pub fn with(mut self, kind: Kind, data: impl AsRef<[u8]>) -> Self {
        self.0.push((kind, data.as_ref().to_vec()));
        self
    }

    #[must_use]
    fn number(self, kind: Kind, number: u32) -> Self {
        self.with(kind, number.to_be_bytes())
    }

    #[must_use]
    fn group(self, kind: Kind, group: &Avps) -> Self {
        self.with(kind, group.bytes())
    }

    fn find(&self, kind: Kind) -> Option<&[u8]> {
        self.0.iter().find(|(k, _)| *k == kind).map(|(_, data)| &**data)
    }

    pub fn text(&self, kind: Kind) -> Option<&str> {
        std::str::from_utf8(self.find(kind)?).ok()
    }

    pub fn value(&self, kind: Kind) -> Option<u32> {
        self.find(kind)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn inner(&self, kind: Kind) -> Option<Avps> {
        Self::parse(self.find(kind)?).ok()
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub request: bool,
    error: bool,
    pub command: u32,
    application: u32,
    /// By which a peer finds the question of an answer.
    pub hop: u32,
    end: u32,
    pub avps: Avps,
}

impl Message {
    pub fn parse(bytes: &[u8]) -> Result<Self, Wrong> {
        if bytes.len() < HEADER {
            return Err(Wrong("shorter than a header"));
        }
        let word = |n: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| bytes[n * 4 + i]));
        let flags = (word(1) >> 24) as u8;
        Ok(Self {
            request: flags & REQUEST != 0,
            error: flags & ERROR != 0,
            command: word(1) & 0xff_ffff,
            application: word(2),
            hop: word(3),
            end: word(4),
            avps: Avps::parse(&bytes[HEADER..])?,
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        let avps = self.avps.bytes();
        let mut flags = if self.application == 0 { 0 } else { PROXIABLE };
        flags |= if self.request { REQUEST } else { 0 } | if self.error { ERROR } else { 0 };
        let first = (1 << 24) | (HEADER + avps.len()) as u32;
        let words = [first, (u32::from(flags) << 24) | self.command, self.application, self.hop, self.end];
        words.iter().flat_map(|w| w.to_be_bytes()).chain(avps).collect()
    }

    /// Whether the peer did what it was asked to, if this is an answer.
    pub fn succeeded(&self) -> bool {
        let experimental = || self.avps.inner(EXPERIMENTAL)?.value(EXPERIMENTAL_CODE);
        self.avps.value(RESULT).or_else(experimental).is_some_and(|code| code / 1000 == 2)
    }
}

/// The bytes that came of a stream, of which messages are taken.
#[derive(Debug, Default)]
pub struct Input(Vec<u8>);

impl Input {
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next message, if all of it has come.
    pub fn next(&mut self) -> Result<Option<Message>, Wrong> {
        let Some(&[version, a, b, c]) = self.0.first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if version != 1 || !(HEADER..=LONGEST).contains(&length) || !length.is_multiple_of(4) {
            return Err(Wrong("a version other than 1, or a length that cannot be"));
        }
        if self.0.len() < length {
            return Ok(None);
        }
        let message = Message::parse(&self.0[..length]);
        self.0.drain(..length);
        message.map(Some)
    }
}

/// Who speaks Diameter: the first part of its host's name.
#[derive(Debug, Clone, Copy)]
pub struct Host(pub &'static str);

impl Host {
    fn origin(self, avps: Avps) -> Avps {
        avps.with(ORIGIN_HOST, format!("{}.ims.example", self.0)).with(ORIGIN_REALM, "ims.example")
    }

    fn capabilities(self, avps: Avps) -> Avps {
        self.origin(avps)
            .with(HOST_ADDRESS, [0, 1, 127, 0, 0, 1])
            .number(VENDOR, 0)
            .with(PRODUCT, "weir-vnf")
            .number(SUPPORTED_VENDOR, THREE_GPP)
            .group(VENDOR_APPLICATION, &application())
    }

    /// The first message on a connection.
    pub fn hello(self) -> Message {
        let avps = self.capabilities(Avps::default());
        Message { request: true, error: false, command: CAPABILITIES, application: 0, hop: 0, end: 0, avps }
    }

    fn question(self, command: u32, number: u32, private: &str, public: &str) -> Message {
        let avps = Avps::default()
            .with(SESSION, format!("{}.ims.example;{};{number}", self.0, std::process::id()))
            .group(VENDOR_APPLICATION, &application())
            .number(AUTH_STATE, 1);
        let avps = self
            .origin(avps)
            .with(DESTINATION_REALM, "ims.example")
            .with(USER_NAME, private)
            .with(PUBLIC_IDENTITY, public);
        Message { request: true, error: false, command, application: CX, hop: number, end: number, avps }
    }

    /// Which S-CSCF serves a user? Asked by an I-CSCF.
    pub fn user_authorization(self, number: u32, private: &str, public: &str, leaves: bool) -> Message {
        let mut message = self.question(USER_AUTHORIZATION, number, private, public);
        message.avps =
            message.avps.with(VISITED_NETWORK, "ims.example").number(AUTHORIZATION_TYPE, u32::from(leaves));
        message
    }

    /// With what does a user show who it is? Asked by an S-CSCF.
    pub fn multimedia_auth(self, number: u32, private: &str, public: &str) -> Message {
        let mut message = self.question(MULTIMEDIA_AUTH, number, private, public);
        let item = Avps::default().with(AUTH_SCHEME, "SIP Digest");
        message.avps = message.avps.number(AUTH_ITEMS, 1).group(AUTH_ITEM, &item).with(SERVER_NAME, SCSCF);
        message
    }

    /// This S-CSCF serves the user from now on, or not any more.
    pub fn server_assignment(self, number: u32, private: &str, public: &str, kind: u32) -> Message {
        let mut message = self.question(SERVER_ASSIGNMENT, number, private, public);
        message.avps =
            message.avps.with(SERVER_NAME, SCSCF).number(ASSIGNMENT, kind).number(DATA_AVAILABLE, 0);
        message
    }

    /// What every peer answers to questions about the connection itself; `None`: it is another question.
    pub fn base_answer(self, question: &Message) -> Option<Message> {
        let avps = Avps::default().number(RESULT, SUCCESS);
        let avps = match question.command {
            CAPABILITIES => self.capabilities(avps),
            WATCHDOG | DISCONNECT => self.origin(avps),
            _ => return None,
        };
        Some(Message { request: false, avps, ..question.clone() })
    }

    /// The HSS's answer. What is to be known of the user that is asked for, by its private identity: its public one, the hash of its
    /// password (HA1), and the S-CSCF that serves it.
    pub fn answer(self, question: &Message, subscriber: Option<&Subscriber>) -> (Message, Option<Change>) {
        if let Some(answer) = self.base_answer(question) {
            return (answer, None);
        }
        let asked = &question.avps;
        let base = asked.text(SESSION).map_or_else(Avps::default, |id| Avps::default().with(SESSION, id));
        let base = base.group(VENDOR_APPLICATION, &application()).number(AUTH_STATE, 1);
        let base = self.origin(base);
        let answer = |avps| Message { request: false, avps, ..question.clone() };
        let refuse = |code| (answer(base.clone().number(RESULT, code)), None);
        let experimental = |code| {
            let result = Avps::default().number(VENDOR, THREE_GPP).number(EXPERIMENTAL_CODE, code);
            base.clone().group(EXPERIMENTAL, &result)
        };
        if !matches!(question.command, USER_AUTHORIZATION | SERVER_ASSIGNMENT | MULTIMEDIA_AUTH) {
            let (mut message, _) = refuse(COMMAND_UNSUPPORTED);
            message.error = true;
            return (message, None);
        }
        let (Some(private), Some(public)) = (asked.text(USER_NAME), asked.text(PUBLIC_IDENTITY)) else {
            return refuse(MISSING_AVP);
        };
        let Some(user) = subscriber else { return (answer(experimental(USER_UNKNOWN)), None) };
        if public != user.public {
            return (answer(experimental(IDENTITIES_DONT_MATCH)), None);
        }
        match question.command {
            USER_AUTHORIZATION => match &user.server {
                Some(server) => {
                    (answer(experimental(SUBSEQUENT_REGISTRATION).with(SERVER_NAME, server)), None)
                }
                None => (answer(experimental(FIRST_REGISTRATION).with(SERVER_CAPABILITIES, [])), None),
            },
            MULTIMEDIA_AUTH => {
                let digest = Avps::default()
                    .with(DIGEST_REALM, "ims.example")
                    .with(DIGEST_ALGORITHM, "MD5")
                    .with(DIGEST_QOP, "auth")
                    .with(DIGEST_HA1, &user.ha1);
                let item = Avps::default().with(AUTH_SCHEME, "SIP Digest").group(DIGEST, &digest);
                let avps = base.clone().number(RESULT, SUCCESS).with(USER_NAME, private);
                (answer(avps.number(AUTH_ITEMS, 1).group(AUTH_ITEM, &item)), None)
            }
            _ => {
                let avps = base.clone().number(RESULT, SUCCESS).with(USER_NAME, private);
                match (asked.value(ASSIGNMENT), asked.text(SERVER_NAME)) {
                    // Registration, and again.
                    (Some(1 | 2), Some(server)) => {
                        let profile = format!(
                            "<?xml version=\"1.0\"?><IMSSubscription><PrivateID>{private}</PrivateID><ServiceProfile>\
                             <PublicIdentity><Identity>{public}</Identity></PublicIdentity></ServiceProfile></IMSSubscription>"
                        );
                        (answer(avps.with(USER_DATA, profile)), Some(Change::Serves(server.to_owned())))
                    }
                    // All kinds of de-registration.
                    (Some(4..=8), _) => (answer(avps), Some(Change::Left)),
                    _ => refuse(MISSING_AVP),
                }
            }
        }
    }
}

/// The name of the S-CSCF, which all of its replicas share.
pub const SCSCF: &str = "sip:scscf.ims.example";

fn application() -> Avps {
    Avps::default().number(VENDOR, THREE_GPP).number(AUTH_APPLICATION, CX)
}

/// The hash of a password that an answer to [`Host::multimedia_auth`] carries.
pub fn ha1(answer: &Message) -> Option<String> {
    let digest = answer.avps.inner(AUTH_ITEM)?.inner(DIGEST)?;
    Some(digest.text(DIGEST_HA1)?.to_owned())
}

/// What the HSS knows of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    pub public: String,
    pub ha1: String,
    pub server: Option<String>,
}

/// What an answer of the HSS changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Serves(String),
    Left,
}
