use weir_filter::Expr;

use super::filter::{MatchedBy, RuleList, View};
use super::ip_classifier::filter_of_ip;
use super::tree::Tree;
use crate::prelude::*;

element! {
    /// Filters IPv4 packets by rules; the first that matches decides.
    ///
    /// A rule is an action and a filter expression: `allow EXPR` sends the packet to output 0, `deny EXPR` (or
    /// `drop`) drops it (`Denied`), and `N EXPR` sends it to output N. Packets
    /// that no rule matches are dropped (`NoMatch`). The `net` mark has to stand on an IPv4 header. Expressions are read as Click
    /// reads them: `and` binds tighter than `or`, and `port` means TCP or UDP.
    IPFilter: "1/-", "h/h";
    example "Idle -> CheckIPHeader -> IPFilter(allow tcp dst port 80 or 443, allow icmp, deny all) -> Discard;";
    params {
        /// A rule: `allow`, `deny`, `drop` or an output's number, then a filter expression (`all` for every packet).
        rest rules: Vec<Rule>,
    }
    handlers {
        /// The rules, one a line.
        read rules = |e, _| Ok(list(&e.rules)),
        /// The decision tree, as Click shows it, for packets with whole headers: for each step where it looks, value and
        /// mask, and where it leads; `[X]` is dropped.
        read program = |e, _| program_text(&e.rules),
        /// Number of packets that each rule decided, one a line.
        read hits = |e, s| Ok(hits(&e.rules, View::Ip, s)),
        /// Sets the numbers of hits to 0.
        write reset = |e, s, _| { reset(&e.rules, View::Ip, s); Ok(()) },
    }
}

/// Name of the table of rules.
const TABLE: &str = "rules";

/// A rule.
#[derive(Debug)]
pub struct Rule {
    action: Action,
    expr: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Allow,
    Deny,
    Output(u32),
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Allow => write!(f, "allow"),
            Action::Deny => write!(f, "deny"),
            Action::Output(n) => write!(f, "{n}"),
        }
    }
}

impl Rule {
    /// The filter expression.
    pub(super) fn expr(&self) -> &Expr {
        &self.expr
    }
}

impl FromArg for Rule {
    const SYNTAX: &'static str = "rule";
    fn from_arg(text: &str) -> Result<Rule, String> {
        let (word, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let action = match word {
            "allow" => Action::Allow,
            "deny" | "drop" => Action::Deny,
            other => match other.parse() {
                Ok(n) => Action::Output(n),
                Err(_) => {
                    return Err(format!(
                        "'{text}': a rule starts with allow, deny, drop or an output's number"
                    ));
                }
            },
        };
        if rest.trim().is_empty() {
            return Err(format!(
                "'{text}': a filter expression has to follow; write '{word} all' for every packet"
            ));
        }
        Ok(Rule { action, expr: filter_of_ip(rest)? })
    }
}

/// The decision tree of the rules.
fn program_text(rules: &[Rule]) -> Result<String, String> {
    let output = |action| match action {
        Action::Allow => Some(0),
        Action::Deny => None,
        Action::Output(n) => Some(n),
    };
    Tree::of(rules.iter().map(|r| (&r.expr, output(r.action)))).map(|tree| tree.to_string())
}

/// The actions, each once, and the rules with the number of their action.
fn plan(rules: &[Rule], view: View) -> (Vec<Action>, RuleList) {
    let mut actions: Vec<Action> = Vec::new();
    let rules: Vec<(&Expr, u32)> = rules
        .iter()
        .map(|r| {
            let n = actions.iter().position(|a| *a == r.action).unwrap_or_else(|| {
                actions.push(r.action);
                actions.len() - 1
            });
            (&r.expr, n as u32)
        })
        .collect();
    (actions, RuleList::new(view, rules).counted())
}

fn program(e: &IPFilter, b: &mut Builder) {
    filter(&e.rules, View::Ip, b);
}

/// The program: does with packets whose `net` mark stands on a header of that kind what the first rule says.
pub(super) fn filter(rules: &[Rule], view: View, b: &mut Builder) {
    let n = rules.len().max(1) as u32;
    let decl = TableDecl::new("hits", Kind::Array, &[("rule", W32)], &[("packets", W64)], n);
    let hits = b.table(decl.counting(), vec![]);
    let (actions, mut plan) = plan(rules, view);
    plan.declare(b, TABLE);
    b.input(0, |b| {
        require_marked(b, Layer::Net, if view == View::Ip { 20 } else { 40 });
        plan.run(b, |b, _, action, found| {
            let hit = match found {
                MatchedBy::Rule(i) => b.index(hits, i as u32),
                MatchedBy::Entry(entry) => entry,
            };
            let packets = b.get(hit, "packets");
            let packets = b.add(packets, 1);
            b.set(hit, "packets", packets);
            match actions[action as usize] {
                Action::Allow => b.emit(0),
                Action::Deny => b.drop(Reason::DENIED),
                Action::Output(n) => b.emit(n),
            }
        });
        if !b.ended() {
            b.drop(Reason::NO_MATCH);
        }
    });
}

/// The rules, one a line.
pub(super) fn list(rules: &[Rule]) -> String {
    rules.iter().map(|r| format!("{} {}\n", r.action, r.expr)).collect()
}

/// Packets of each rule: those that a test found, and those that rows of tables found.
pub(super) fn hits(rules: &[Rule], view: View, s: &State<'_>) -> String {
    let mut packets: Vec<u128> = s.table("hits").rows().iter().map(|(_, row)| row.value[0]).collect();
    for name in plan(rules, view).1.names(TABLE) {
        for (_, row) in s.table(&name).rows() {
            if let [_, rule, n] = row.value[..]
                && let Some(sum) = packets.get_mut(rule as usize)
            {
                *sum = sum.wrapping_add(n);
            }
        }
    }
    packets.iter().map(|n| format!("{n}\n")).collect()
}

/// Sets the numbers of hits to 0.
pub(super) fn reset(rules: &[Rule], view: View, s: &mut State<'_>) {
    (0..rules.len()).for_each(|i| s.table_mut("hits").set(i as u32, 0, 0));
    for name in plan(rules, view).1.names(TABLE) {
        let table = s.table_mut(&name);
        for (slot, _) in table.rows() {
            table.set(slot, 2, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, tcp, udp};

    #[test]
    fn rules_allow_deny_and_choose_outputs() {
        let mut e = Harness::new("IPFilter", &["deny tcp dst port 22", "2 udp", "allow tcp"], 1, 3);
        let (a, b) = (([10, 0, 0, 1], 7), [10, 0, 0, 2]);
        // Never by output 1, which is for rules that say so.
        assert_eq!(e.send_ip(0, &tcp(a, (b, 22), 2, 0, b""))[0].reason(), "Denied");
        assert_eq!(e.send_ip(0, &tcp(a, (b, 80), 2, 0, b""))[0].out().0, 0);
        assert_eq!(e.send_ip(0, &udp(a, (b, 80), b""))[0].out().0, 2);
        assert_eq!(e.read("hits"), "1\n1\n1\n");
        e.write("reset", "").unwrap();
        assert_eq!(e.read("hits"), "0\n0\n0\n");
    }

    #[test]
    fn many_rules_count_what_they_decide() {
        let mut rules =
            vec!["deny src host 10.0.0.9", "allow tcp dst port 80 or 443", "2 udp and not dst port 53"];
        rules.extend([
            "deny tcp opt syn and not ack",
            "2 src net 10.0.0.0/8 and ip ttl < 2",
            "allow dst port 53",
        ]);
        let mut e = Harness::new("IPFilter", &[&rules[..], &["deny all"]].concat(), 1, 3);
        assert!(e.program.tables.iter().any(|t| t.decl.name == super::TABLE), "they are looked up");
        let (a, b) = (([10, 0, 0, 1], 7), [10, 0, 0, 2]);
        let mut out = |packet: &[u8]| match &e.send_ip(0, packet)[0] {
            Outcome::Out(port, _) => *port,
            Outcome::Drop(_) => 1,
        };
        assert_eq!(out(&tcp(([10, 0, 0, 9], 7), (b, 80), 2, 0, b"")), 1);
        assert_eq!(out(&tcp(a, (b, 80), 2, 0, b"")), 0);
        assert_eq!(out(&tcp(a, (b, 443), 2, 0, b"")), 0);
        assert_eq!(out(&udp(a, (b, 52), b"")), 2);
        assert_eq!(out(&udp(a, (b, 53), b"")), 0);
        assert_eq!(out(&tcp(a, (b, 53), 0x10, 0, b"")), 0);
        assert_eq!(out(&tcp(a, (b, 53), 0x02, 0, b"")), 1);
        assert_eq!(out(&tcp(a, (b, 7), 0x12, 0, b"")), 1);
        assert_eq!(e.read("hits"), "1\n2\n1\n1\n0\n2\n1\n");
        e.write("reset", "").unwrap();
        assert_eq!(e.read("hits"), "0\n".repeat(7));
    }

    #[test]
    fn what_is_denied_or_not_named_is_dropped_with_its_reason() {
        let mut e = Harness::new("IPFilter", &["deny tcp dst port 22", "allow tcp"], 1, 1);
        let (a, b) = (([10, 0, 0, 1], 7), [10, 0, 0, 2]);
        assert_eq!(e.send_ip(0, &tcp(a, (b, 22), 2, 0, b""))[0].reason(), "Denied");
        assert_eq!(e.send_ip(0, &udp(a, (b, 22), b""))[0].reason(), "NoMatch");
        for n in 0..20 {
            assert_eq!(e.send_ip(0, &udp(a, (b, 22), b"")[..n])[0].reason(), "Truncated");
        }
    }

    #[test]
    fn bad_rules_say_what_is_right() {
        let class = crate::class_named("IPFilter").unwrap();
        let error = |rule: &str| class.configure(&[rule.to_owned()]).err().unwrap().remove(0);
        assert!(error("permit tcp").contains("starts with allow, deny, drop"));
        assert!(error("allow").contains("allow all"));
    }
}
