//! `[1, 3-5]`: lists of port numbers.

use super::Parser;
use crate::ast::Ports;
use crate::lexer::Tok;
use crate::source::Loc;
use crate::{MAX_PORT, MAX_PORTS_WRITTEN};

impl Parser<'_> {
    pub(super) fn ports(&mut self) -> Option<Ports> {
        if !self.accept('[') {
            return None;
        }
        let mut ports = Ports::default();
        let mut range_from = None;
        loop {
            let token = self.next();
            match &token.tok {
                Tok::Ident(number) => {
                    let port = self.port_number(number, token.loc);
                    let from = match range_from.take() {
                        Some(from) if from > port => {
                            self.error(
                                token.loc,
                                format!("syntax error: port range {from}-{port} runs backwards"),
                            );
                            port
                        }
                        Some(from) => from + 1,
                        None => port,
                    };
                    let count = (port + 1).saturating_sub(from) as usize;
                    if count > self.ports_left {
                        self.give_up(token.loc, format!("more than {MAX_PORTS_WRITTEN} port numbers"));
                        return Some(ports);
                    }
                    self.ports_left -= count;
                    ports.list.extend(from..=port);
                }
                Tok::Char(']') => {
                    if ports.list.is_empty() {
                        ports.list.push(0);
                    }
                    ports.open = true;
                    return Some(ports);
                }
                _ => {
                    self.error(token.loc, "syntax error: expected port number");
                    self.unread(token);
                    self.skip_ports();
                    return Some(ports);
                }
            }
            let token = self.next();
            match &token.tok {
                Tok::Char(']') => return Some(ports),
                Tok::Char('-') => range_from = ports.list.last().copied(),
                Tok::Char(',') => {}
                _ => {
                    self.error(token.loc, "syntax error: expected ','");
                    self.unread(token);
                    self.skip_ports();
                    return Some(ports);
                }
            }
        }
    }

    /// Skips the rest of a list of ports that is wrong, unless its end is missing.
    fn skip_ports(&mut self) {
        loop {
            let token = self.next();
            match token.tok {
                Tok::Char(']') => return,
                Tok::Ident(_) | Tok::Variable(_) | Tok::Char(',' | '-') => {}
                _ => return self.unread(token),
            }
        }
    }

    /// A port number: decimal, `0x…` or octal with a leading 0.
    fn port_number(&mut self, text: &str, loc: Loc) -> u32 {
        let parsed = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            u32::from_str_radix(hex, 16)
        } else if text.len() > 1 && text.starts_with('0') {
            u32::from_str_radix(text, 8)
        } else {
            text.parse()
        };
        match parsed {
            Ok(port) if port <= MAX_PORT => port,
            Ok(_) => {
                self.error(loc, format!("port number {text} too large (the largest is {MAX_PORT})"));
                0
            }
            Err(_) => {
                self.error(loc, "syntax error: port number should be integer");
                0
            }
        }
    }
}
