use weir_filter::{Expr, Layer as Header, Prim};

use super::filter::{RuleList, View};
use super::tree::Tree;
use crate::prelude::*;

element! {
    /// Sends IPv4 packets to the output of the first pattern that they match.
    ///
    /// Patterns are filter expressions (see the filter language), in which names of `AddressInfo` may stand behind `host`
    /// and `net`; `-` matches every packet. Packets that
    /// match none are dropped (`NoMatch`). The `net` mark has to stand on an IPv4 header. Expressions are read as Click reads
    /// them: `and` binds tighter than `or`, and `port` means TCP or UDP.
    IPClassifier: "1/-", "h/h";
    example "Idle -> CheckIPHeader -> c :: IPClassifier(tcp dst port 80 or 443, udp, -); c [0] -> Discard; c [1] -> Discard; c [2] -> Discard;";
    params {
        /// A filter expression for each output.
        rest patterns: Vec<Pattern>,
    }
    handlers {
        /// The patterns, one a line.
        read patterns = |e, _| Ok(e.patterns.iter().map(|p| format!("{}\n", p.0)).collect()),
        /// The decision tree, as Click shows it, for packets with whole headers: for each step where it looks, value and
        /// mask, and where it leads; `[X]` is dropped.
        read program = |e, _| program_text(&e.patterns),
    }
    ports |e| format!("1/{}", e.patterns.len());
}

/// The decision tree of the patterns.
fn program_text(patterns: &[Pattern]) -> Result<String, String> {
    Tree::of(patterns.iter().zip(0..).map(|(p, output)| (&p.0, Some(output)))).map(|tree| tree.to_string())
}

/// A filter expression for an IP packet, or `-` for all.
#[derive(Debug)]
pub struct Pattern(pub(super) Expr);

impl FromArg for Pattern {
    const SYNTAX: &'static str = "filter expression";
    fn from_arg(text: &str) -> Result<Pattern, String> {
        filter_of_ip(text).map(Pattern)
    }
}

/// Reads a filter expression that can be tested behind `Strip(14)`.
pub(super) fn filter_of_ip(text: &str) -> Result<Expr, String> {
    let expr = if text.trim() == "-" {
        Expr::True
    } else {
        Expr::parse_click(&crate::names::filter(text)).map_err(|e| format!("'{text}': {e}"))?
    };
    if expr.needs_ethernet() {
        return Err(format!(
            "'{text}' looks at the Ethernet header, which this element does not see: use Classifier"
        ));
    }
    Ok(expr)
}

/// Refuses filters that ask for bytes of IPv4 packets, where there are none.
pub(super) fn of_ipv6(expr: &Expr) -> Result<(), String> {
    let of_ipv4 = |layer: &Header| matches!(layer, Header::Ip | Header::Proto4(_));
    let bytes = |leaf: &Expr| match leaf {
        Expr::Prim(Prim::Field(f)) => of_ipv4(&f.layer),
        Expr::Compare(c) => c.layers().iter().any(of_ipv4),
        _ => false,
    };
    if expr.any_leaf(&mut |_, leaf| bytes(leaf)) {
        return Err(format!(
            "'{expr}' looks at bytes of IPv4 packets: write ip6[…], or transp[…] for the transport header, as in tcp transp[13]"
        ));
    }
    Ok(())
}

fn program(e: &IPClassifier, b: &mut Builder) {
    classify(&e.patterns, View::Ip, b);
}

/// The program: sends packets whose `net` mark stands on a header of that kind to the output of their pattern.
pub(super) fn classify(patterns: &[Pattern], view: View, b: &mut Builder) {
    let mut plan = RuleList::new(view, (0..).zip(patterns).map(|(port, p)| (&p.0, port)));
    plan.declare(b, "patterns");
    b.input(0, |b| {
        require_marked(b, Layer::Net, if view == View::Ip { 20 } else { 40 });
        plan.run(b, |b, _, port, _| b.emit(port));
        if !b.ended() {
            b.drop(Reason::NO_MATCH);
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, tcp, udp};

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let mut e = Harness::new("IPClassifier", &["tcp dst port 80", "tcp", "udp src port 7"], 1, 3);
        let a = ([10, 0, 0, 1], 7);
        assert_eq!(e.send_ip(0, &tcp(a, ([10, 0, 0, 2], 80), 2, 0, b""))[0].out().0, 0);
        assert_eq!(e.send_ip(0, &tcp(a, ([10, 0, 0, 2], 81), 2, 0, b""))[0].out().0, 1);
        assert_eq!(e.send_ip(0, &udp(a, ([10, 0, 0, 2], 80), b""))[0].out().0, 2);
        assert_eq!(e.send_ip(0, &udp(([10, 0, 0, 1], 8), ([10, 0, 0, 2], 80), b""))[0].reason(), "NoMatch");
    }

    #[test]
    fn bad_patterns_are_named_with_the_column() {
        let class = crate::class_named("IPClassifier").unwrap();
        let errors = class.configure(&["tcp".into(), "tcp dst prot 80".into()]).err().unwrap();
        assert!(errors[0].contains("argument 2") && errors[0].contains("column"), "{errors:?}");
        let errors = class.configure(&["ether src 02:00:00:00:00:01".into()]).err().unwrap();
        assert!(errors[0].contains("use Classifier"), "{errors:?}");
    }
}
