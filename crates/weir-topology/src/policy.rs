//! What requesters' modules may do (CHANGE paper section 2.2.4 and table 2.1).

use std::fmt;
use std::str::FromStr;

use weir_filter::text::quote;
use weir_model::ValueError;
use weir_model::doc::did_you_mean;
use weir_model::value::IpPrefix;

/// A kind of requester of processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Requester {
    /// Somebody outside, for example a content provider.
    ThirdParty,
    /// A customer of the operator.
    Client,
    /// The operator.
    Operator,
}

/// The security rules for each requester. The default is the paper's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// For third parties.
    pub third_party: Rules,
    /// For customers.
    pub client: Rules,
    /// For the operator.
    pub operator: Rules,
}

/// The rules for modules of one requester. A packet must keep all three; within a rule, one entry suffices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What the modules may receive.
    pub receive: Vec<Receive>,
    /// Sources of what they send.
    pub send_from: Vec<SendFrom>,
    /// Destinations of what they send.
    pub send_to: Vec<SendTo>,
    /// What to do if a rule can neither be proved nor refuted.
    pub inconclusive: Inconclusive,
}

/// Traffic that a module may receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Receive {
    /// What is addressed to the module (explicit addressing).
    Module,
    /// What is addressed to this prefix.
    Prefix(IpPrefix),
    /// Anything.
    Anything,
}

/// A source address that a module may send from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendFrom {
    /// The module's own address.
    Module,
    /// The source that the packet had when it arrived.
    Unchanged,
    /// An address of this prefix.
    Prefix(IpPrefix),
    /// Anything.
    Anything,
}

/// A destination that a module may send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendTo {
    /// Destinations that the owner registered.
    Registered,
    /// The owner's other modules.
    OwnModules,
    /// The source of the packet that is being answered (implicit authorization: same address, protocol and ports, for the flow's life).
    Answered,
    /// An address of this prefix.
    Prefix(IpPrefix),
    /// Anything.
    Anything,
}

/// The policy for a request of which nothing is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inconclusive {
    /// Refuse it.
    Refuse,
    /// Run it behind an enforcer of the rules.
    Sandbox,
}

impl Policy {
    /// The rules for a requester.
    pub fn rules(&self, who: Requester) -> &Rules {
        match who {
            Requester::ThirdParty => &self.third_party,
            Requester::Client => &self.client,
            Requester::Operator => &self.operator,
        }
    }

    pub(crate) fn rules_mut(&mut self, who: Requester) -> &mut Rules {
        match who {
            Requester::ThirdParty => &mut self.third_party,
            Requester::Client => &mut self.client,
            Requester::Operator => &mut self.operator,
        }
    }
}

/// The paper's rules.
impl Default for Policy {
    fn default() -> Self {
        let third_party = Rules {
            receive: vec![Receive::Module],
            send_from: vec![SendFrom::Module, SendFrom::Unchanged],
            send_to: vec![SendTo::Registered, SendTo::OwnModules, SendTo::Answered],
            inconclusive: Inconclusive::Refuse,
        };
        let client = Rules { send_to: vec![SendTo::Anything], ..third_party.clone() };
        let operator = Rules {
            receive: vec![Receive::Anything],
            send_from: vec![SendFrom::Anything],
            send_to: vec![SendTo::Anything],
            inconclusive: Inconclusive::Refuse,
        };
        Self { third_party, client, operator }
    }
}

impl Requester {
    /// All of them.
    pub const ALL: [Requester; 3] = [Requester::ThirdParty, Requester::Client, Requester::Operator];

    /// The name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Requester::ThirdParty => "third-party",
            Requester::Client => "client",
            Requester::Operator => "operator",
        }
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One word of a closed list.
fn word<T: Copy>(text: &str, what: &str, words: &[(&str, T)]) -> Result<T, ValueError> {
    let found = words.iter().find(|(w, _)| *w == text).map(|(_, v)| *v);
    found.ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        ValueError::new(format!("{} is not {what}", quote(text)), did_you_mean(text, &known))
    })
}

/// A word of a closed list, or a prefix.
fn word_or_prefix<T: Copy>(
    text: &str,
    what: &str,
    words: &[(&str, T)],
    prefix: impl Fn(IpPrefix) -> T,
) -> Result<T, ValueError> {
    if text.contains(['.', ':', '/']) {
        return text.parse().map(prefix);
    }
    word(text, what, words).map_err(|e| ValueError { help: format!("{}; or write a prefix", e.help), ..e })
}

impl FromStr for Requester {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        word(text, "a requester", &Self::ALL.map(|r| (r.name(), r)))
    }
}

impl FromStr for Receive {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let words = [("module", Self::Module), ("anything", Self::Anything)];
        word_or_prefix(text, "something to receive", &words, Self::Prefix)
    }
}

impl FromStr for SendFrom {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let words = [("module", Self::Module), ("unchanged", Self::Unchanged), ("anything", Self::Anything)];
        word_or_prefix(text, "a source", &words, Self::Prefix)
    }
}

impl FromStr for SendTo {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let words = [
            ("registered", Self::Registered),
            ("own-modules", Self::OwnModules),
            ("answered", Self::Answered),
            ("anything", Self::Anything),
        ];
        word_or_prefix(text, "a destination", &words, Self::Prefix)
    }
}

impl FromStr for Inconclusive {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        word(text, "what to do", &[("refuse", Self::Refuse), ("sandbox", Self::Sandbox)])
    }
}
