//! The canonical text.

use std::fmt;

use crate::expr::Expr;
use crate::metric::{Direction, Metric, Of};
use crate::parts::{Action, Measurement, Monitoring, Trigger, Zone};
use crate::units::show_time;

/// As text.
impl serde::Serialize for Monitoring {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl fmt::Display for Monitoring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = |f: &mut fmt::Formatter<'_>, name: &str, lines: &mut dyn Iterator<Item = String>| {
            writeln!(f, "{name} {{")?;
            for line in lines {
                writeln!(f, "  {line}")?;
            }
            writeln!(f, "}}")
        };
        block(f, "measurements", &mut self.measurements().iter().map(Measurement::to_string))?;
        block(f, "zones", &mut self.zones().iter().map(Zone::to_string))?;
        block(f, "actions", &mut self.actions().iter().map(Action::to_string))
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measurement { name, metric, every } = self;
        let every = show_time(*every);
        write!(f, "{name} = {}(", metric.name())?;
        match metric {
            Metric::Cpu(function) | Metric::Memory(function) => write!(f, "function = \"{function}\"")?,
            Metric::Handler(function, handler) => {
                write!(f, "function = \"{function}\", name = \"{handler}\"")?;
            }
            Metric::Rate(_, of) | Metric::Packets(_, of) => write!(f, "{of}")?,
            Metric::OverloadRisk(_, of, capacity) => write!(f, "{of}, capacity = \"{capacity} bit/s\"")?,
        }
        write!(f, ", every = \"{every}\");")
    }
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Of::Function(function) => write!(f, "function = \"{function}\""),
            Of::Port(function, port) => write!(f, "function = \"{function}\", port = \"{port}\""),
            Of::Sap(sap) => write!(f, "sap = \"{sap}\""),
        }
    }
}

impl Metric {
    /// The word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Metric::Cpu(_) => "cpu",
            Metric::Memory(_) => "mem",
            Metric::Handler(..) => "handler",
            Metric::Rate(Direction::Rx, _) => "rate.rx",
            Metric::Rate(Direction::Tx, _) => "rate.tx",
            Metric::Packets(Direction::Rx, _) => "packets.rx",
            Metric::Packets(Direction::Tx, _) => "packets.tx",
            Metric::OverloadRisk(Direction::Rx, ..) => "overload.risk.rx",
            Metric::OverloadRisk(Direction::Tx, ..) => "overload.risk.tx",
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = ({}) for \"{}\";", self.name, self.when, show_time(self.hold))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Number(number) => write!(f, "{number}"),
            Expr::Of(a) => {
                write!(f, "{}(val = {}, max_age = \"{}\")", a.function.name(), a.of, show_time(a.max_age))
            }
            Expr::Two(operator, a, b) => {
                // Parentheses wherever an operand has operands: how strongly operators bind need not be known to read it.
                for (i, operand) in [a, b].into_iter().enumerate() {
                    if i > 0 {
                        write!(f, " {} ", operator.sign())?;
                    }
                    let inner = matches!(**operand, Expr::Two(..));
                    if inner { write!(f, "({operand})")? } else { write!(f, "{operand}")? }
                }
                Ok(())
            }
            Expr::Not(a) => write!(f, "!({a})"),
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trigger::Between(a, b) => write!(f, "{a}->{b}"),
            Trigger::Enter(a) => write!(f, "->{a}"),
            Trigger::Leave(a) => write!(f, "{a}->"),
            Trigger::In(a) => write!(f, "{a}"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Action { on, topic, message } = self;
        write!(f, "{on} = Publish(topic = \"{topic}\", message = \"{message}\");")
    }
}
