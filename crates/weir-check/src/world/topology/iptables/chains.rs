//! Chains of iptables rules as programs. Rules are asked in their order; a chain that is jumped to stands where the jump
//! is, so the program is as long as all paths through the chains.

use weir_elements::filter::{RuleList, View};
use weir_ir::{Builder, V, Width};
use weir_topology::import::iptables::{Chain, ConnState, InterfaceMatch, Rule, Table, Target};

use super::STATE;

/// Most rules in a program, each as often as chains lead to it.
const MAX_RULES: usize = 1 << 14;
/// How deep jumps may be nested, and rules behind one that returns.
const MAX_DEPTH: usize = 256;

/// The decision about a packet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate<'a> {
    Accept,
    Drop,
    Reject,
    /// A translation of the table nat.
    Translate(&'a Rule),
    /// This rule decides, of which not all is modelled.
    Unknown(&'a Rule),
}

/// The chains of a table within a program.
pub(super) struct Chains<'a> {
    table: &'a Table,
    /// The interfaces that packets come in and leave by, where they do.
    pub input: Option<&'a str>,
    pub output: Option<&'a str>,
    left: usize,
    depth: usize,
}

/// A program gets too long.
#[derive(Debug)]
pub(super) struct TooLong;

type End<'e> = &'e mut dyn FnMut(&mut Builder, Fate<'_>);

impl<'a> Chains<'a> {
    pub(super) fn new(table: &'a Table) -> Chains<'a> {
        Chains { table, input: None, output: None, left: MAX_RULES, depth: 0 }
    }

    /// Asks the rules of a built-in chain; `end` has to end.
    pub(super) fn run(&mut self, b: &mut Builder, chain: &str, end: End<'_>) -> Result<(), TooLong> {
        let Some(chain) = self.table.chain(chain) else {
            end(b, Fate::Accept);
            return Ok(());
        };
        self.rules(b, chain, 0, end)?;
        if !b.ended() {
            end(b, if chain.accepts == Some(false) { Fate::Drop } else { Fate::Accept });
        }
        Ok(())
    }

    /// The rules of a chain from one on. Goes on behind where the chain returns.
    fn rules(&mut self, b: &mut Builder, chain: &'a Chain, from: usize, end: End<'_>) -> Result<(), TooLong> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TooLong);
        }
        for (i, rule) in chain.rules.iter().enumerate().skip(from) {
            if b.ended() {
                break;
            }
            if !self.interfaces_fit(rule) {
                continue;
            }
            self.left = self.left.checked_sub(1).ok_or(TooLong)?;
            let rest = match rule.target {
                Target::Continue => continue,
                _ if !rule.unknown.is_empty() => None,
                Target::Return => Some(None),
                Target::Goto(to) => Some(self.table.chains.get(to)),
                _ => None,
            };
            let fits = fits(b, rule);
            let Some(other) = rest else {
                self.when(b, rule, fits, end)?;
                continue;
            };
            // Behind a rule that returns, the rest is for others.
            let (mut there, mut behind) = (Ok(()), Ok(()));
            let shared = std::cell::RefCell::new((&mut *self, &mut *end));
            b.if_else(
                fits,
                |b| {
                    if let Some(chain) = other {
                        let (this, end) = &mut *shared.borrow_mut();
                        there = this.rules(b, chain, 0, end);
                    }
                },
                |b| {
                    let (this, end) = &mut *shared.borrow_mut();
                    behind = this.rules(b, chain, i + 1, end);
                },
            );
            there?;
            behind?;
            break;
        }
        self.depth -= 1;
        Ok(())
    }

    /// What a rule does with what fits it; the rest goes on, and what a chain returns.
    fn when(&mut self, b: &mut Builder, rule: &'a Rule, fits: V, end: End<'_>) -> Result<(), TooLong> {
        let mut done = Ok(());
        b.when(fits, |b| match &rule.target {
            _ if !rule.unknown.is_empty() => end(b, Fate::Unknown(rule)),
            Target::Accept => end(b, Fate::Accept),
            Target::Drop => end(b, Fate::Drop),
            Target::Reject(_) => end(b, Fate::Reject),
            Target::Jump(to) => {
                if let Some(chain) = self.table.chains.get(*to) {
                    done = self.rules(b, chain, 0, end);
                }
            }
            Target::Snat(_) | Target::Dnat(_) | Target::Masquerade(_) | Target::Redirect(_) => {
                end(b, Fate::Translate(rule));
            }
            Target::ClampMss => super::mss::clamp(b),
            Target::Unknown => end(b, Fate::Unknown(rule)),
            Target::Return | Target::Goto(_) | Target::Continue => {}
        });
        done
    }

    fn interfaces_fit(&self, rule: &Rule) -> bool {
        let fits = |wanted: &Option<InterfaceMatch>, name: Option<&str>| {
            // Where there is no interface, its name is empty: only a negation fits.
            wanted.as_ref().is_none_or(|w| w.fits(name.unwrap_or("")))
        };
        fits(&rule.in_interface, self.input) && fits(&rule.out_interface, self.output)
    }
}

/// Whether the packet fits what a rule asks of it and of its connection.
fn fits(b: &mut Builder, rule: &Rule) -> V {
    let packet = RuleList::new(View::Ip, [(&rule.filter, 0)]).matches(b);
    let Some(states) = &rule.states else { return packet };
    let state = b.load_anno(Width::W8, STATE);
    let mut any = b.constant(Width::W1, 0_u8);
    for s in states {
        let same = b.eq(state, number(*s));
        any = b.or(any, same);
    }
    b.and(any, packet)
}

/// The number of a state in the annotation.
pub(super) fn number(state: ConnState) -> u8 {
    match state {
        ConnState::New => 1,
        ConnState::Established => 2,
        ConnState::Related => 3,
        ConnState::Invalid => 4,
        ConnState::Untracked => 5,
    }
}
