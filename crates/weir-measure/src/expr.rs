//! Conditions of zones.

use crate::error::{Mistake, did_you_mean, quote};
use crate::lex::{Placed, Token};
use crate::{MAX_NODES, units};

/// How samples become a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Their mean.
    Avg,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The newest.
    Last,
}

impl Function {
    pub(crate) const NAMES: [(&'static str, Function); 4] =
        [("AVG", Function::Avg), ("MIN", Function::Min), ("MAX", Function::Max), ("LAST", Function::Last)];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Function::NAMES.iter().find(|(_, f)| *f == self).map_or("AVG", |(name, _)| name)
    }
}

/// A number made of samples.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Aggregate {
    /// How.
    pub function: Function,
    /// The measurement.
    pub of: String,
    /// The age of the oldest samples, in milliseconds.
    pub max_age: u64,
}

/// An operator between two expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Or,
    And,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operator {
    const ALL: [(&'static str, Operator); 12] = [
        ("||", Operator::Or),
        ("&&", Operator::And),
        ("<", Operator::Less),
        ("<=", Operator::LessOrEqual),
        (">", Operator::Greater),
        (">=", Operator::GreaterOrEqual),
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("+", Operator::Add),
        ("-", Operator::Subtract),
        ("*", Operator::Multiply),
        ("/", Operator::Divide),
    ];

    /// The sign for it.
    pub fn sign(self) -> &'static str {
        Operator::ALL.iter().find(|(_, o)| *o == self).map_or("", |(sign, _)| sign)
    }

    /// How strongly it binds.
    fn strength(self) -> u8 {
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Add | Operator::Subtract => 4,
            Operator::Multiply | Operator::Divide => 5,
            _ => 3,
        }
    }

    /// Whether it joins conditions rather than numbers.
    pub(crate) fn of_conditions(self) -> bool {
        self.strength() < 3
    }

    /// Whether it makes a condition.
    pub(crate) fn is_condition(self) -> bool {
        self.strength() < 4
    }
}

/// An expression. Its numbers are finite.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number.
    Number(f64),
    /// A number made of samples.
    Of(Aggregate),
    /// Two expressions.
    Two(Operator, Box<Expr>, Box<Expr>),
    /// The opposite of a condition.
    Not(Box<Expr>),
}

impl Expr {
    fn is_condition(&self) -> bool {
        match self {
            Expr::Number(_) | Expr::Of(_) => false,
            Expr::Two(operator, ..) => operator.is_condition(),
            Expr::Not(_) => true,
        }
    }

    /// The aggregates in it.
    pub fn aggregates(&self) -> Vec<&Aggregate> {
        match self {
            Expr::Number(_) => Vec::new(),
            Expr::Of(aggregate) => vec![aggregate],
            Expr::Two(_, a, b) => a.aggregates().into_iter().chain(b.aggregates()).collect(),
            Expr::Not(a) => a.aggregates(),
        }
    }
}

/// Words and how far they are read.
pub(crate) struct Tokens<'a> {
    list: &'a [Placed],
    next: usize,
    /// Parts that the expression may still have.
    left: usize,
    /// How many parentheses are open.
    depth: usize,
}

static END: Placed = Placed { token: Token::End, at: (0, 0) };

impl<'a> Tokens<'a> {
    pub(crate) fn new(list: &'a [Placed]) -> Tokens<'a> {
        Tokens { list, next: 0, left: 0, depth: 0 }
    }

    pub(crate) fn peek(&self) -> &'a Placed {
        self.list.get(self.next).or(self.list.last()).unwrap_or(&END)
    }

    pub(crate) fn take(&mut self) -> &'a Placed {
        let token = self.peek();
        self.next += 1;
        token
    }

    /// Whether these come next: a word, in whatever case, and a sign.
    pub(crate) fn is_call(&self, words: &[&str], sign: &str) -> bool {
        let after = self.list.get(self.next + 1).map(|p| &p.token);
        matches!(&self.peek().token, Token::Word(word) if words.iter().any(|w| w.eq_ignore_ascii_case(word)))
            && matches!(after, Some(Token::Sign(s)) if *s == sign)
    }

    /// Takes a sign, if it comes next.
    pub(crate) fn skip(&mut self, sign: &str) -> bool {
        let there = matches!(self.peek().token, Token::Sign(s) if s == sign);
        self.next += usize::from(there);
        there
    }

    /// A mistake at what comes next.
    pub(crate) fn expected(&self, what: &str) -> Mistake {
        let found = self.peek();
        Mistake::new(format!("found {}", found.token.describe()), format!("expected {what}")).at(found.at)
    }

    pub(crate) fn sign(&mut self, sign: &str) -> Result<(), Mistake> {
        if self.skip(sign) { Ok(()) } else { Err(self.expected(&format!("{sign:?}"))) }
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<(&'a str, (usize, usize)), Mistake> {
        match &self.peek().token {
            Token::Word(word) => Ok((word.as_str(), self.take().at)),
            _ => Err(self.expected(what)),
        }
    }

    /// `(name = value, …)`.
    pub(crate) fn parameters(&mut self) -> Result<Vec<(String, String)>, Mistake> {
        self.sign("(")?;
        let mut parameters = Vec::new();
        while !self.skip(")") {
            if !parameters.is_empty() {
                self.sign(",")?;
            }
            let (name, _) = self.word("a parameter such as max_age = \"5 second\"")?;
            self.sign("=")?;
            let value = match &self.peek().token {
                Token::Word(value) | Token::Text(value) => value.clone(),
                _ => return Err(self.expected("a name, a number, or text in quotes")),
            };
            self.take();
            parameters.push((name.to_owned(), value));
        }
        Ok(parameters)
    }

    /// A condition.
    pub(crate) fn condition(&mut self) -> Result<Expr, Mistake> {
        (self.left, self.depth) = (MAX_NODES, 0);
        let at = self.peek().at;
        let expr = self.expression(0)?;
        if !expr.is_condition() {
            let help = "compare it, as in AVG(val = m1, max_age = \"5 second\") > 0.5";
            return Err(Mistake::new("a zone's condition is a number", help).at(at));
        }
        Ok(expr)
    }

    /// What binds at least so strongly.
    fn expression(&mut self, strength: u8) -> Result<Expr, Mistake> {
        let mut left = self.operand()?;
        loop {
            let Placed { token, at } = self.peek();
            let operator = match token {
                Token::Sign(sign) => Operator::ALL.iter().find(|(s, _)| s == sign),
                Token::Word(word) if word.eq_ignore_ascii_case("and") => Some(&("&&", Operator::And)),
                Token::Word(word) if word.eq_ignore_ascii_case("or") => Some(&("||", Operator::Or)),
                _ => None,
            };
            let Some((sign, operator)) = operator.filter(|(_, o)| o.strength() > strength) else {
                return Ok(left);
            };
            self.take();
            self.spend(*at)?;
            let right = self.expression(operator.strength())?;
            let conditions = operator.of_conditions();
            if [&left, &right].into_iter().any(|e| e.is_condition() != conditions) {
                let what = if conditions { "two conditions" } else { "two numbers" };
                return Err(Mistake::new(
                    format!("{sign:?} joins {what}"),
                    "put parentheses where they are meant",
                )
                .at(*at));
            }
            left = Expr::Two(*operator, Box::new(left), Box::new(right));
        }
    }

    fn spend(&mut self, at: (usize, usize)) -> Result<(), Mistake> {
        let help = format!("it has at most {MAX_NODES}; split it over several zones");
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| Mistake::new("the condition has too many parts", help).at(at))?;
        Ok(())
    }

    fn operand(&mut self) -> Result<Expr, Mistake> {
        let what = "a number, an aggregate such as AVG(val = m1, max_age = \"5 second\"), or \"(\"";
        let Placed { token, at } = self.peek();
        // Parentheses are no parts: the canonical text has more of them.
        if self.skip("(") {
            self.depth += 1;
            if self.depth > MAX_NODES {
                let message = format!("more than {MAX_NODES} parentheses are open");
                return Err(Mistake::new(message, "leave out those that are not needed").at(*at));
            }
            let expr = self.expression(0)?;
            self.sign(")")?;
            self.depth -= 1;
            return Ok(expr);
        }
        self.spend(*at)?;
        if self.skip("-") {
            let number = self.operand()?;
            let Expr::Number(n) = number else {
                return Err(Mistake::new("\"-\" stands before a number only", "write 0 - …").at(*at));
            };
            return Ok(Expr::Number(-n));
        }
        let not = matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("not"));
        if self.skip("!") || not {
            self.next += usize::from(not);
            let expr = self.operand()?;
            if !expr.is_condition() {
                return Err(Mistake::new("only a condition has an opposite", "put it in parentheses").at(*at));
            }
            return Ok(Expr::Not(Box::new(expr)));
        }
        let Token::Word(word) = token else { return Err(self.expected(what)) };
        self.take();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return match word.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Expr::Number(number)),
                _ => Err(Mistake::new(format!("{} is no number", quote(word)), "write a number such as 0.5")
                    .at(*at)),
            };
        }
        let names = Function::NAMES.map(|(name, _)| name);
        let function = Function::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        let Some((_, function)) = function else {
            let message = format!("{} is no aggregate", quote(word));
            return Err(Mistake::new(message, did_you_mean(&word.to_ascii_uppercase(), &names)).at(*at));
        };
        let at = *at;
        let (mut of, mut max_age) = (None, None);
        for (name, value) in self.parameters()? {
            match name.as_str() {
                "val" if of.is_none() => of = Some(value),
                "max_age" if max_age.is_none() => max_age = Some(units::time(&value).map_err(|e| e.at(at))?),
                _ => {
                    let message =
                        format!("the parameter {} has no meaning here, or is given twice", quote(&name));
                    return Err(Mistake::new(message, "an aggregate has val and max_age").at(at));
                }
            }
        }
        let (Some(of), Some(max_age)) = (of, max_age.filter(|age| *age > 0)) else {
            let help = "write AVG(val = m1, max_age = \"5 second\")";
            return Err(Mistake::new("an aggregate needs val and max_age, which is not 0", help).at(at));
        };
        Ok(Expr::Of(Aggregate { function: *function, of, max_age }))
    }
}
