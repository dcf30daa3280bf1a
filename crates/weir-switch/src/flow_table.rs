//! The `FlowTable` element.

use std::cmp::Reverse;
use std::collections::HashMap;

use weir_elements::element;
use weir_elements::filter::{RuleList, View};
use weir_ir::{Builder, Reason};

use crate::edit;
use crate::rule::{Action, FlowRule};

element! {
    /// Steers Ethernet frames by flow rules: the logical switch of a service graph.
    ///
    /// A rule is `PRIORITY in PORT [FILTER] => ACTION; ACTION …`, with a filter expression over the frame, and actions
    /// `output N`, `drop`, `pop_vlan`, `push_vlan ID`, `set_vlan ID`, `dec_ttl`, `set_ether_src A`, `set_ether_dst A`,
    /// `set_ip_src A`, `set_ip_dst A`, `set_ip_tos N`, `set_tp_src N` and `set_tp_dst N`, carried out in order. Of the
    /// rules that match, the one with the highest priority applies; of equal ones, the first. Packets that no rule
    /// matches are dropped (`NoMatch`), and so are those of rules without output (`Denied`).
    FlowTable: "-/-", "h/h";
    example "Idle -> t :: FlowTable(10 in 0 tcp dst port 80 => dec_ttl; output 1, 1 in 0 => output 0); t [0] -> Discard; t [1] -> Discard;";
    params {
        /// Flow rules.
        rest rules: Vec<FlowRule>,
    }
    handlers {
        /// The rules, one a line, in the order of their arguments.
        read rules = |e, _| Ok(e.rules.iter().map(|r| format!("{r}\n")).collect()),
    }
}

fn program(e: &FlowTable, b: &mut Builder) {
    let ports: Vec<Input<'_>> = (0..b.inputs()).map(|port| Input::new(e, port, b)).collect();
    for (port, input) in (0..).zip(ports) {
        b.input(port, |b| input.run(b));
    }
}

/// The rules for packets of one input.
struct Input<'a> {
    /// The lists of actions of its rules, each once.
    actions: Vec<&'a [Action]>,
    plan: RuleList,
}

impl<'a> Input<'a> {
    fn new(e: &'a FlowTable, port: u32, b: &mut Builder) -> Input<'a> {
        let mut rules: Vec<&FlowRule> = e.rules.iter().filter(|r| r.input == port).collect();
        rules.sort_by_key(|r| Reverse(r.priority));
        let mut actions: Vec<&[Action]> = Vec::new();
        let mut known: HashMap<&[Action], u32> = HashMap::new();
        let filters = rules.iter().map(|r| {
            let n = *known.entry(&r.actions).or_insert_with(|| {
                actions.push(&r.actions);
                actions.len() as u32 - 1
            });
            (&r.filter, n)
        });
        let filters: Vec<_> = filters.collect();
        // Changes to IP and transport headers need them found, even where no filter asks.
        let edits = |a: &Action| {
            matches!(
                a,
                Action::DecTtl
                    | Action::SetIpSrc(_)
                    | Action::SetIpDst(_)
                    | Action::SetTos(_)
                    | Action::SetTpSrc(_)
                    | Action::SetTpDst(_)
            )
        };
        let mut plan = if rules.iter().flat_map(|r| &r.actions).any(edits) {
            RuleList::for_edits(filters)
        } else {
            RuleList::new(View::Ethernet, filters)
        };
        plan.declare(b, &format!("rules_{port}"));
        Input { actions, plan }
    }

    fn run(&self, b: &mut Builder) {
        self.plan.run(b, |b, headers, n, _| edit::apply(b, self.actions[n as usize], headers));
        if !b.ended() {
            b.drop(Reason::NO_MATCH);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_elements::testing::{Harness, Outcome};
    use weir_filter::PacketView;
    use weir_net::build;

    use super::*;

    fn harness(rules: &[String], outputs: u32) -> Harness {
        let element = weir_elements::class::<FlowTable>("switch").configure(rules);
        Harness::of(element.unwrap_or_else(|e| panic!("{e:?}")), 1, outputs)
    }

    fn frame(n: usize, tag: Option<u16>) -> Vec<u8> {
        let host = |i: usize| std::net::Ipv4Addr::from(0x0a00_0000 + (i % 64) as u32);
        let (src, dst) = ((host(n), 1000 + (n % 7) as u16), (host(n / 3), 50 + (n % 11) as u16));
        let mut frame = if n.is_multiple_of(2) {
            build::udp4(src, dst, b"x")
        } else {
            build::tcp4(src, dst, Default::default(), b"")
        };
        if let Some(id) = tag {
            build::tag_vlan(&mut frame, id);
        }
        frame
    }

    #[test]
    fn many_access_points_are_one_lookup_by_vlan() {
        let mut rules: Vec<String> =
            (1..=100).map(|id| format!("2 in 0 vlan {id} => pop_vlan; output {}", id % 9)).collect();
        rules.push("1 in 0 => output 9".into());
        let mut e = harness(&rules, 10);
        let tables: Vec<(usize, usize)> =
            e.program.tables.iter().map(|t| (t.rows.len(), t.decl.key.len())).collect();
        assert_eq!(tables, [(100, 1)]);
        for id in [1, 50, 100] {
            let out = e.send(0, &frame(4, Some(id)));
            assert_eq!(out[0].out(), (u32::from(id) % 9, &frame(4, None)[..]));
        }
        for tag in [None, Some(0), Some(101)] {
            let frame = frame(4, tag);
            assert_eq!(e.send(0, &frame)[0].out(), (9, &frame[..]));
        }
    }

    #[test]
    fn of_many_rules_the_first_of_the_highest_priority_applies() {
        let rules: Vec<String> = (0..60)
            .map(|i| match i % 5 {
                0 => format!("{} in 0 src host 10.0.0.{i} and dst port {} => output {i}", i % 4, 50 + i % 11),
                1 => format!("{} in 0 vlan {i} and not tcp => pop_vlan; output {i}", 1 + i % 3),
                2 => format!("{} in 0 dst net 10.0.0.{}/30 => set_ip_tos 4; output {i}", i % 3, i / 4 * 4),
                3 => format!("{} in 0 src portrange {}-1004 and not vlan => output {i}", i % 2, 1000 + i % 5),
                _ => format!("{} in 0 tcp and not dst port {} => output {i}", i % 2, 50 + i % 11),
            })
            .collect();
        let parsed: Vec<FlowRule> =
            rules.iter().map(|r| weir_elements::FromArg::from_arg(r).unwrap()).collect();
        let mut e = harness(&rules, 60);
        assert!(e.program.tables.iter().any(|t| t.decl.name == "rules_0"));
        let mut hit = std::collections::BTreeSet::new();
        for n in 0..400 {
            let frame = frame(n, n.is_multiple_of(3).then_some((n % 61) as u16));
            let view = PacketView::ethernet(&frame);
            let fitting = (0_u32..).zip(&parsed).filter(|(_, r)| r.filter.matches(&view));
            let wanted = fitting.max_by_key(|(i, r)| (r.priority, Reverse(*i))).map(|(i, _)| i);
            let got = match &e.send(0, &frame)[0] {
                Outcome::Out(port, _) => Some(*port),
                Outcome::Drop(reason) => {
                    assert_eq!(reason, "NoMatch");
                    None
                }
            };
            assert_eq!(got, wanted, "{frame:02x?}");
            hit.extend(got);
        }
        assert!(hit.len() > 20, "{hit:?}");
    }
}
