//! The `FlowTable` element.

use weir_elements::element;
use weir_elements::filter::{Headers, View};
use weir_ir::{Builder, Reason};
use weir_model::filter::{Dir, Expr, Prim};

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
    for port in 0..b.inputs() {
        let mut rules: Vec<&FlowRule> = e.rules.iter().filter(|r| r.input == port).collect();
        rules.sort_by_key(|r| std::cmp::Reverse(r.priority));
        // What stands behind a rule for every packet is never reached.
        if let Some(all) = rules.iter().position(|r| r.filter == Expr::True) {
            rules.truncate(all + 1);
        }
        b.input(port, |b| input(b, &rules));
    }
}

fn input(b: &mut Builder, rules: &[&FlowRule]) {
    // Changes to IP and transport headers need them found, even where no filter asks.
    let any_port = Expr::Prim(Prim::Port { dir: Dir::Src, lo: 0, hi: 0, proto: None });
    let edits = rules.iter().flat_map(|r| &r.actions).any(|a| {
        matches!(
            a,
            Action::DecTtl
                | Action::SetIpSrc(_)
                | Action::SetIpDst(_)
                | Action::SetTos(_)
                | Action::SetTpSrc(_)
                | Action::SetTpDst(_)
        )
    });
    let mut exprs: Vec<&Expr> = rules.iter().map(|r| &r.filter).collect();
    if edits {
        exprs.push(&any_port);
    }
    let headers = Headers::read(b, View::Ethernet, &exprs);
    for rule in rules {
        if rule.filter == Expr::True {
            return edit::apply(b, &rule.actions, &headers);
        }
        let v = headers.test(b, &rule.filter);
        b.when(v, |b| edit::apply(b, &rule.actions, &headers));
    }
    b.drop(Reason::NO_MATCH);
}
