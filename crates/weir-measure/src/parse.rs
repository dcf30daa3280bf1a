//! The parser of whole texts.

use crate::MAX_TEXT;
use crate::error::{Mistake, Mistakes, did_you_mean, quote};
use crate::expr::Tokens;
use crate::lex::{Placed, Token, lex};
use crate::parts::{Monitoring, Parts, Trigger};

const BLOCKS: &[&str] = &["measurements", "zones", "actions"];

/// Reads a text.
pub(crate) fn parse(text: &str) -> Result<Monitoring, Mistakes> {
    if text.len() > MAX_TEXT {
        let mistake = Mistake::new(
            format!("the text has {} bytes", text.len()),
            format!("at most {MAX_TEXT} are read"),
        );
        return Err(Mistakes(vec![mistake.at((1, 1))]));
    }
    let mut reader = Reader { parts: Parts::default(), mistakes: Vec::new(), at: (1, 1) };
    let tokens = lex(text, &mut reader.mistakes);
    reader.blocks(&mut Tokens::new(&tokens));
    let Reader { parts, mut mistakes, .. } = reader;
    if mistakes.is_empty() {
        return parts.finish().map_err(|e| Mistakes(vec![e.at((1, 1))]));
    }
    mistakes.sort_by_key(|m| (m.line, m.column));
    mistakes.truncate(Mistakes::MAX);
    Err(Mistakes(mistakes))
}

struct Reader {
    parts: Parts,
    mistakes: Vec<Mistake>,
    /// Where the statement begins that is read.
    at: (usize, usize),
}

impl Reader {
    fn blocks(&mut self, t: &mut Tokens<'_>) {
        let mut seen = Vec::new();
        while t.peek().token != Token::End {
            let at = t.peek().at;
            let name = t.word("\"measurements\", \"zones\" or \"actions\"").and_then(|(name, at)| {
                if BLOCKS.contains(&name) {
                    return Ok(name);
                }
                Err(Mistake::new(format!("{} is no part of a text", quote(name)), did_you_mean(name, BLOCKS))
                    .at(at))
            });
            let begun = name.and_then(|name| t.sign("{").map(|()| name));
            match begun {
                Err(e) => {
                    self.mistakes.push(e);
                    // One token at least is skipped: the loop ends.
                    t.take();
                    skip_block(t);
                }
                Ok(name) => {
                    // What is named must have been read.
                    if seen.last().is_some_and(|last| {
                        BLOCKS.iter().position(|b| b == last) >= BLOCKS.iter().position(|b| *b == name)
                    }) {
                        let help = "write each once: measurements, then zones, then actions";
                        self.mistakes
                            .push(Mistake::new(format!("{name:?} comes too late, or twice"), help).at(at));
                    }
                    seen.push(name);
                    self.statements(name, t);
                }
            }
        }
    }

    fn statements(&mut self, block: &str, t: &mut Tokens<'_>) {
        while !t.skip("}") {
            self.at = t.peek().at;
            if t.peek().token == Token::End {
                self.mistakes.push(t.expected(&format!("\"}}\" at the end of {block:?}")));
                return;
            }
            let read = match block {
                "measurements" => self.measurement(t),
                "zones" => self.zone(t),
                _ => self.action(t),
            };
            if let Err(mistakes) = read {
                self.say(mistakes);
                skip_statement(t);
            }
        }
    }

    fn measurement(&mut self, t: &mut Tokens<'_>) -> Result<(), Vec<Mistake>> {
        let (name, metric, parameters) = (|| {
            let (name, _) = t.word("a measurement such as m1 = cpu(function = fw);")?;
            t.sign("=")?;
            let (metric, _) = t.word("a metric such as rate.rx")?;
            let parameters = t.parameters()?;
            t.sign(";")?;
            Ok::<_, Mistake>((name, metric, parameters))
        })()
        .map_err(|e| vec![e])?;
        self.keep(|parts| parts.measurement(name, metric, &parameters));
        Ok(())
    }

    fn zone(&mut self, t: &mut Tokens<'_>) -> Result<(), Vec<Mistake>> {
        let one = |e: Mistake| vec![e];
        let (name, _) =
            t.word("a zone such as z1 = (AVG(val = m1, max_age = \"5 second\") > 0.5);").map_err(one)?;
        t.sign("=").map_err(one)?;
        let when = match t.condition() {
            Ok(when) => when,
            Err(e) => {
                // The zone is known, so that actions on it are not refused for it.
                return Err(self.parts.zone_of(name, Err(e), None).err().unwrap_or_default());
            }
        };
        let mut hold = None;
        if matches!(&t.peek().token, Token::Word(word) if word == "for") {
            t.take();
            match &t.peek().token {
                Token::Text(time) => hold = Some(time.as_str()),
                _ => return Err(one(t.expected("a time such as \"500 ms\""))),
            }
            t.take();
        }
        t.sign(";").map_err(one)?;
        self.keep(|parts| parts.zone_of(name, Ok(when), hold));
        Ok(())
    }

    fn action(&mut self, t: &mut Tokens<'_>) -> Result<(), Vec<Mistake>> {
        let one = |e: Mistake| vec![e];
        let mut text = String::new();
        while let Token::Word(part) = &t.peek().token {
            text += part;
            t.take();
            if t.skip("->") {
                text += "->";
            } else {
                break;
            }
        }
        if text.is_empty() && t.skip("->") {
            text = format!("->{}", t.word("a zone").map_err(one)?.0);
        }
        let on: Trigger = match text.parse() {
            Ok(on) => on,
            Err(_) if text.is_empty() => return Err(one(t.expected("zones, as in z1->z2 = Publish(…);"))),
            Err(e) => return Err(one(e)),
        };
        t.sign("=").map_err(one)?;
        // Several, each with its semicolon.
        let mut first = true;
        loop {
            // A zone may have such a name.
            if !t.is_call(&["publish", "notify"], "(") {
                return if first {
                    Err(one(t.expected("Publish(topic = \"…\", message = \"…\");")))
                } else {
                    Ok(())
                };
            }
            first = false;
            self.publish(&on, t)?;
        }
    }

    fn publish(&mut self, on: &Trigger, t: &mut Tokens<'_>) -> Result<(), Vec<Mistake>> {
        let one = |e: Mistake| vec![e];
        t.take();
        let parameters = t.parameters().map_err(one)?;
        t.sign(";").map_err(one)?;
        let (mut topic, mut message) = (None, None);
        for (name, value) in &parameters {
            match name.as_str() {
                "topic" | "target" => topic = Some(value.as_str()),
                "message" => message = Some(value.as_str()),
                _ => {
                    let message = format!("the parameter {} has no meaning here", quote(name));
                    self.mistakes.push(
                        Mistake::new(message, did_you_mean(name, &["topic", "message"])).at(t.peek().at),
                    );
                }
            }
        }
        let (Some(topic), Some(message)) = (topic, message) else {
            let help = "write Publish(topic = \"alarms\", message = \"…\");";
            self.say(vec![Mistake::new("an action needs a topic and a message", help)]);
            return Ok(());
        };
        self.keep(|parts| parts.action(on.clone(), topic, message));
        Ok(())
    }

    /// Adds what was read to its end: a mistake in it is said, and nothing is skipped.
    fn keep(&mut self, add: impl FnOnce(&mut Parts) -> Result<(), Vec<Mistake>>) {
        if let Err(mistakes) = add(&mut self.parts) {
            self.say(mistakes);
        }
    }

    /// Keeps mistakes; those without a place are of the statement.
    fn say(&mut self, mistakes: Vec<Mistake>) {
        let at = self.at;
        self.mistakes.extend(mistakes.into_iter().map(|m| if m.line == 0 { m.at(at) } else { m }));
    }
}

/// To the end of a statement, or before the end of its block.
fn skip_statement(t: &mut Tokens<'_>) {
    loop {
        match t.peek() {
            Placed { token: Token::End | Token::Sign("}"), .. } => return,
            Placed { token: Token::Sign(";"), .. } => {
                t.take();
                return;
            }
            _ => {
                t.take();
            }
        }
    }
}

/// Past the end of a block.
fn skip_block(t: &mut Tokens<'_>) {
    while t.peek().token != Token::End {
        if t.skip("}") {
            return;
        }
        t.take();
    }
}
