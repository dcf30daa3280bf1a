//! Elements without packets: they hold information for others, or say something.

use weir_elements::FromArg;
use weir_ir::{ClassInfo, ParamInfo, ParamKind};

use crate::node::{Model, NodeClass, Reach};
use crate::prelude::*;

const ENTRIES: &[ParamInfo] = &[ParamInfo {
    name: "entries",
    kind: ParamKind::Rest,
    default: Some("none"),
    syntax: "words",
    doc: "What it says.",
}];

/// Declares classes that only hold entries.
macro_rules! infos {
    ($($(#[doc = $doc:expr])* $name:ident, $example:literal;)*) => {
        /// All of them.
        pub(crate) const CLASSES: &[NodeClass] = &[$({
            static INFO: ClassInfo = ClassInfo {
                name: stringify!($name),
                doc: concat!($($doc, "\n"),*),
                ports: "0/0",
                processing: "h/h",
                flow: "x/x",
                params: ENTRIES,
                handlers: &[],
                examples: &[$example],
            };
            NodeClass {
                info: &INFO,
                model: Model::Sink,
                reach: Reach::Graph,
                configure: |_| Ok(Box::new(Info)),
            }
        }),*];
    };
}

infos! {
    /// Gives addresses names: `AddressInfo(NAME ADDRESS..., ...)`.
    ///
    /// Addresses are IPv4 (also with a prefix), IPv6 and Ethernet; or a device of the machine, which stands for those it
    /// has. Elements of the same compound element, and of those in it, may write the name where an address is wanted:
    /// `NAME`, or `NAME:ip`, `NAME:ipnet` (the prefix), `NAME:bcast`, `NAME:ip6`, `NAME:eth`. Devices need no entry:
    /// `eth0:eth`, `eth0:ip`, and `eth0:gw`, the default gateway.
    AddressInfo, "AddressInfo(me 10.0.0.1/24 02:00:00:00:00:01); Idle -> SetIPAddress(me) -> Discard;";
    /// Accepted for Click's sake: it says how packets' data are aligned, which does not matter here.
    AlignmentInfo, "AlignmentInfo(d 4 0); Idle -> d :: Discard;";
    /// Accepted for Click's sake: it lists annotations that are used, which does not matter here.
    AnnotationInfo, "AnnotationInfo(CHECK_ALL false); Idle -> Discard;";
    /// Accepted for Click's sake: it holds where a graphical editor draws elements.
    ClickyInfo, "ClickyInfo(STYLE none); Idle -> Discard;";
    /// Accepted for Click's sake: it stands for the names of protocols and services, which are there without it.
    IPNameInfo, "IPNameInfo; Idle -> IPFilter(allow udp port domain, deny all) -> Discard;";
    /// Gives UDP ports names: `PortInfo(NAME PORT[/udp] [NAME...], ...)`; what stands behind `#` is a comment.
    ///
    /// Elements of the same compound element, and of those in it, may write the name where a UDP port is wanted. Well-known
    /// services need no entry.
    PortInfo, "PortInfo(game 27015/udp); Idle -> UDPIPEncap(10.0.0.1, game, 10.0.0.2, game) -> Discard;";
    /// Accepted for Click's sake: it gives elements shares of the processor. Here each element that has work runs for
    /// a short while in turn.
    ScheduleInfo, "ScheduleInfo(s 0.5); s :: InfiniteSource(LIMIT 1) -> Discard;";
}

struct Info;

impl Behavior for Info {}

impl EngineNode for Info {
    fn read(&self, handler: &str, _env: &Env) -> Result<String, String> {
        Err(format!("no read handler '{handler}'"))
    }

    fn write(&mut self, handler: &str, _value: &str, _env: &mut Env) -> Result<(), String> {
        Err(format!("no write handler '{handler}'"))
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// The severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Message,
    Warning,
    Error,
}

impl FromArg for Level {
    const SYNTAX: &'static str = "MESSAGE, WARNING or ERROR";
    fn from_arg(text: &str) -> Result<Level, String> {
        match text {
            "MESSAGE" => Ok(Level::Message),
            "WARNING" => Ok(Level::Warning),
            "ERROR" => Ok(Level::Error),
            _ => Err(format!("'{text}' is not a kind of message: write MESSAGE, WARNING or ERROR")),
        }
    }
}
