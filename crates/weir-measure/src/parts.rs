//! What is measured, and what is made of it.

use std::collections::BTreeSet;

use crate::error::{Mistake, Mistakes, did_you_mean, quote};
use crate::expr::{Expr, Tokens};
use crate::lex::{Token, lex};
use crate::metric::{self, Metric};
use crate::{
    DEFAULT_HOLD, MAX_ACTIONS, MAX_MEASUREMENTS, MAX_TEXT, MAX_WINDOWS, MAX_WORD, MAX_ZONES, parse, units,
};

/// A measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// Its name.
    pub name: String,
    /// What is measured.
    pub metric: Metric,
    /// The time between two samples, in milliseconds.
    pub every: u64,
}

/// A zone: where the measurements are while a condition holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// The condition.
    pub when: Expr,
    /// How long it must hold before the zone is entered, and not hold before it is left, in milliseconds.
    pub hold: u64,
}

/// When an action is taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// `a->b`: one zone is left and another entered.
    Between(String, String),
    /// `->a`: a zone is entered.
    Enter(String),
    /// `a->`: a zone is left.
    Leave(String),
    /// `a`: a zone is entered, and again each minute in it.
    In(String),
}

impl Trigger {
    /// The zones that it names.
    pub fn zones(&self) -> Vec<&str> {
        match self {
            Trigger::Between(a, b) => vec![a, b],
            Trigger::Enter(a) | Trigger::Leave(a) | Trigger::In(a) => vec![a],
        }
    }
}

/// An alarm that is raised when a zone is entered or left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// When.
    pub on: Trigger,
    /// The topic.
    pub topic: String,
    /// What is said.
    pub message: String,
}

/// A monitoring document: names are unique, and those that are used are there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Monitoring(Parts);

// All numbers in it are finite.
impl Eq for Monitoring {}

impl Monitoring {
    /// Reads a text.
    ///
    /// # Errors
    /// All mistakes.
    pub fn parse(text: &str) -> Result<Monitoring, Mistakes> {
        parse::parse(text)
    }

    /// The measurements.
    pub fn measurements(&self) -> &[Measurement] {
        &self.0.measurements
    }

    /// The zones.
    pub fn zones(&self) -> &[Zone] {
        &self.0.zones
    }

    /// The actions.
    pub fn actions(&self) -> &[Action] {
        &self.0.actions
    }
}

/// Measurements, zones and actions that are put together one by one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    measurements: Vec<Measurement>,
    zones: Vec<Zone>,
    actions: Vec<Action>,
    // A refused measurement or zone is known all the same: what uses it is not refused for it.
    names: BTreeSet<String>,
    zone_names: BTreeSet<String>,
    /// Measurements and ages of aggregates.
    windows: BTreeSet<(String, u64)>,
    /// How many there were, whatever became of them.
    counts: [usize; 3],
}

fn check_name(name: &str, what: &str) -> Result<(), Mistake> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty()
        || name.len() > MAX_WORD
        || !name.chars().all(good)
        || name.starts_with(|c: char| c.is_ascii_digit())
    {
        let help = "it begins with a letter and has letters, digits and _";
        return Err(Mistake::new(format!("{} is no name of a {what}", quote(name)), help));
    }
    Ok(())
}

impl Parts {
    fn more(&mut self, kind: usize, most: usize, what: &str) -> Result<(), Vec<Mistake>> {
        let count = self.counts.get_mut(kind);
        let is = count.map_or(0, |c| {
            *c += 1;
            *c
        });
        // Said once, at the first that is too many.
        match is {
            n if n <= most => Ok(()),
            n if n == most + 1 => Err(vec![Mistake::new(
                format!("there are more than {most} {what}"),
                "a graph has no more; leave some out",
            )]),
            _ => Err(Vec::new()),
        }
    }

    /// Adds a measurement.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn measurement(
        &mut self,
        name: &str,
        metric: &str,
        parameters: &[(String, String)],
    ) -> Result<(), Vec<Mistake>> {
        self.more(0, MAX_MEASUREMENTS, "measurements")?;
        let mut mistakes: Vec<Mistake> = check_name(name, "measurement").err().into_iter().collect();
        if !self.names.insert(name.to_owned()) {
            mistakes
                .push(Mistake::new(format!("a second measurement {}", quote(name)), "choose another name"));
        }
        match metric::read(metric, parameters) {
            Ok((metric, every)) if mistakes.is_empty() => {
                self.measurements.push(Measurement { name: name.to_owned(), metric, every });
                return Ok(());
            }
            Ok(_) => {}
            Err(more) => mistakes.extend(more),
        }
        Err(mistakes)
    }

    /// Adds a zone, whose condition is text.
    ///
    /// # Errors
    /// What is wrong with it; columns are those of the condition.
    pub fn zone(&mut self, name: &str, condition: &str, hold: Option<&str>) -> Result<(), Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let tokens = lex(condition, &mut mistakes);
        let mut tokens = Tokens::new(&tokens);
        let when = tokens.condition().and_then(|when| match tokens.peek().token {
            Token::End => Ok(when),
            _ => Err(tokens.expected("the end of the condition")),
        });
        let added = self.zone_of(name, when, hold);
        mistakes.extend(added.err().into_iter().flatten());
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }

    pub(crate) fn zone_of(
        &mut self,
        name: &str,
        when: Result<Expr, Mistake>,
        hold: Option<&str>,
    ) -> Result<(), Vec<Mistake>> {
        self.more(1, MAX_ZONES, "zones")?;
        let mut mistakes: Vec<Mistake> = check_name(name, "zone").err().into_iter().collect();
        if !self.zone_names.insert(name.to_owned()) {
            mistakes.push(Mistake::new(format!("a second zone {}", quote(name)), "choose another name"));
        }
        let hold = hold.map_or(Ok(DEFAULT_HOLD), units::time);
        let known = |of: &str| self.names.contains(of);
        if let Ok(when) = &when {
            let unknown: BTreeSet<&str> =
                when.aggregates().into_iter().map(|a| a.of.as_str()).filter(|of| !known(of)).collect();
            for of in unknown {
                let names: Vec<&str> = self.names.iter().take(20).map(String::as_str).collect();
                mistakes.push(Mistake::new(
                    format!("there is no measurement {}", quote(of)),
                    did_you_mean(of, &names),
                ));
            }
        }
        match (when, hold) {
            (Ok(when), Ok(hold)) if mistakes.is_empty() => {
                self.windows.extend(when.aggregates().into_iter().map(|a| (a.of.clone(), a.max_age)));
                if self.windows.len() > MAX_WINDOWS {
                    let message =
                        format!("the zones look at measurements over more than {MAX_WINDOWS} windows");
                    return Err(vec![Mistake::new(message, "let zones have the same max_age")]);
                }
                self.zones.push(Zone { name: name.to_owned(), when, hold });
                return Ok(());
            }
            (when, hold) => {
                mistakes.extend(when.err());
                mistakes.extend(hold.err());
            }
        }
        Err(mistakes)
    }

    /// Adds an action.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn action(&mut self, on: Trigger, topic: &str, message: &str) -> Result<(), Vec<Mistake>> {
        self.more(2, MAX_ACTIONS, "actions")?;
        let mut mistakes = Vec::new();
        for zone in on.zones() {
            if !self.zone_names.contains(zone) {
                let names: Vec<&str> = self.zone_names.iter().take(20).map(String::as_str).collect();
                mistakes.push(Mistake::new(
                    format!("there is no zone {}", quote(zone)),
                    did_you_mean(zone, &names),
                ));
            }
        }
        if let Trigger::Between(a, b) = &on
            && a == b
        {
            mistakes.push(Mistake::new("a zone cannot follow itself", "write ->ZONE for its beginning"));
        }
        let topic_is_good = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
        if topic.is_empty() || topic.len() > MAX_WORD || !topic.chars().all(topic_is_good) {
            let help = "it has letters, digits, and characters of -_.:/";
            mistakes.push(Mistake::new(format!("{} is no topic", quote(topic)), help));
        }
        if message.len() > MAX_WORD || message.contains(['"', '\\', '\n', '\r']) {
            let help = format!("it has at most {MAX_WORD} bytes on one line, and no quotes or backslashes");
            mistakes.push(Mistake::new("the message cannot be one", help));
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        self.actions.push(Action { on, topic: topic.to_owned(), message: message.to_owned() });
        Ok(())
    }

    /// The whole of what was added; what was refused is missing in it.
    ///
    /// # Errors
    /// Its canonical text, which is what is kept, is longer than may be read.
    pub fn finish(self) -> Result<Monitoring, Mistake> {
        let Parts { measurements, zones, actions, .. } = self;
        let monitoring = Monitoring(Parts { measurements, zones, actions, ..Parts::default() });
        let length = monitoring.to_string().len();
        if length > MAX_TEXT {
            let message = format!("it has {length} bytes when written out");
            return Err(Mistake::new(message, format!("at most {MAX_TEXT} are kept")));
        }
        Ok(monitoring)
    }
}

impl std::str::FromStr for Trigger {
    type Err = Mistake;

    /// `a->b`, `->a`, `a->` or `a`.
    fn from_str(text: &str) -> Result<Trigger, Mistake> {
        let zone = |text: &str| check_name(text.trim(), "zone").map(|()| text.trim().to_owned());
        Ok(match text.split_once("->") {
            None => Trigger::In(zone(text)?),
            Some((a, b)) if a.trim().is_empty() => Trigger::Enter(zone(b)?),
            Some((a, b)) if b.trim().is_empty() => Trigger::Leave(zone(a)?),
            Some((a, b)) => Trigger::Between(zone(a)?, zone(b)?),
        })
    }
}
