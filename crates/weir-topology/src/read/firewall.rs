//! Firewalls: rules in the filter language, or those of a Linux machine.

use weir_filter::Expr;
use weir_filter::text::quote;
use weir_model::doc::{At, Fields, Reader, did_you_mean};

use super::Context;
use super::boxes::{import, in_file, is_map, port_names};
use crate::import::iptables::Ruleset;
use crate::import::iptables_save;
use crate::{FilterRule, Firewall, FirewallRules, MAX_ENTRIES};

pub(crate) fn firewall(
    r: &mut Reader,
    at: &At<'_>,
    f: &Fields<'_>,
    context: &mut Context<'_, '_>,
) -> Option<Firewall> {
    let ports_at = f.need(r, "ports", "its two ports, such as [lan, wan]")?;
    let Ok(ports) = <[String; 2]>::try_from(port_names(r, &ports_at)) else {
        r.error(&ports_at, "a firewall has two ports", "write, for example, [lan, wan]");
        return None;
    };
    let stateful = f.get("stateful").map_or(Some(false), |at| r.bool(&at));
    let Some(rules_at) = f.get("rules") else {
        r.error(
            at,
            "the firewall has no rules",
            "add \"rules\": a list such as [allow from lan all, deny all]",
        );
        return None;
    };
    if is_map(&rules_at) {
        let ruleset = iptables(r, &rules_at, context)?;
        if let Some(at) = f.get("stateful") {
            r.error(&at, "iptables rules say themselves what they do with replies", "leave \"stateful\" out");
        }
        return Some(Firewall { ports, rules: FirewallRules::Iptables(Box::new(ruleset)) });
    }
    let mut rules = Vec::new();
    for (i, node) in r.items(&rules_at, "rules", MAX_ENTRIES).unwrap_or_default().iter().enumerate() {
        rules.extend(rule(r, &rules_at.index(i, node), &ports));
    }
    Some(Firewall { ports, rules: FirewallRules::Filters { rules, stateful: stateful? } })
}

/// `{file: NAME}`: what `iptables-save` printed.
pub(crate) fn iptables(r: &mut Reader, at: &At<'_>, context: &mut Context<'_, '_>) -> Option<Ruleset> {
    let f = r.fields(at, &["file"])?;
    let (name, text) = import(r, at, &f, context)?;
    match iptables_save(&text) {
        Ok(mut ruleset) => {
            ruleset.file = name;
            context.notes.extend(ruleset.not_modelled.iter().cloned());
            Some(ruleset)
        }
        Err(errors) => {
            in_file(r, at, &name, &errors);
            None
        }
    }
}

/// `allow|deny [from PORT] FILTER`.
fn rule(r: &mut Reader, at: &At<'_>, ports: &[String; 2]) -> Option<FilterRule> {
    let text = r.text(at, "a rule such as \"allow tcp dst port 80\"")?;
    let next = |rest: &'_ str| -> (String, String) {
        let rest = rest.trim_start();
        let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        (word.to_string(), rest.trim_start().to_string())
    };
    let (verdict, mut rest) = next(text);
    let allow = match verdict.as_str() {
        "allow" => true,
        "deny" | "drop" => false,
        other => {
            let help = "a rule is \"allow FILTER\" or \"deny FILTER\", such as \"allow tcp dst port 80\"";
            r.error(at, format!("{} does not begin a rule", quote(other)), help);
            return None;
        }
    };
    let mut from = None;
    if let (word, after) = next(&rest)
        && word == "from"
    {
        let (port, after) = next(&after);
        if !ports.contains(&port) {
            let known: Vec<&str> = ports.iter().map(String::as_str).collect();
            r.error(at, format!("the firewall has no port {}", quote(&port)), did_you_mean(&port, &known));
            return None;
        }
        (from, rest) = (Some(port), after);
    }
    match Expr::parse(&rest) {
        Ok(filter) if filter.needs_ethernet_bytes() => {
            let help =
                "packets between the boxes of a topology are IP packets: write a rule about IP addresses";
            r.error(
                at,
                "the rule asks for bytes of the Ethernet header, of which nothing is known here",
                help,
            );
            None
        }
        Ok(filter) => Some(FilterRule { allow, from, filter, text: text.to_string() }),
        Err(e) => {
            let before = text.chars().count() - rest.chars().count();
            r.error(at, format!("column {}: {}", before + e.column, e.message), e.help);
            None
        }
    }
}
