//! Comparisons of computed numbers, such as `tcp[((tcp[12] & 0xf0) >> 2):1] = 0x78`.

use super::{Cmp, Layer};

/// A comparison of two numbers. It is false if one of them is not there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Compare {
    /// The left number.
    pub left: Arith,
    /// The comparison, of unsigned numbers.
    pub cmp: Cmp,
    /// The right number.
    pub right: Arith,
}

/// A number of 32 bits. Sums, differences and products wrap around.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Arith {
    /// A constant.
    Number(u32),
    /// The packet's length in bytes, from its first byte on.
    Len,
    /// Header bytes, in network order. The number is not there if the packet has no such header, or not so many bytes.
    Load {
        /// The header.
        layer: Layer,
        /// First byte, counted from the header's start.
        offset: Box<Arith>,
        /// Number of bytes: 1 to 4.
        width: u8,
    },
    /// An operation.
    Op(ArithOp, Box<Arith>, Box<Arith>),
}

/// An operation on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `%`; the right side is a constant that is not 0.
    Rem,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `<<`; 0 for distances of 32 and more.
    Shl,
    /// `>>`; 0 for distances of 32 and more.
    Shr,
}

impl ArithOp {
    /// The result.
    pub fn of(self, a: u32, b: u32) -> u32 {
        match self {
            ArithOp::Add => a.wrapping_add(b),
            ArithOp::Sub => a.wrapping_sub(b),
            ArithOp::Mul => a.wrapping_mul(b),
            ArithOp::Rem => a.checked_rem(b).unwrap_or(0),
            ArithOp::And => a & b,
            ArithOp::Or => a | b,
            ArithOp::Xor => a ^ b,
            ArithOp::Shl => a.checked_shl(b).unwrap_or(0),
            ArithOp::Shr => a.checked_shr(b).unwrap_or(0),
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            ArithOp::Add => "+",
            ArithOp::Sub => "-",
            ArithOp::Mul => "*",
            ArithOp::Rem => "%",
            ArithOp::And => "&",
            ArithOp::Or => "|",
            ArithOp::Xor => "^",
            ArithOp::Shl => "<<",
            ArithOp::Shr => ">>",
        }
    }
}

impl Arith {
    /// An operation; of constants, its result.
    pub(super) fn op(op: ArithOp, a: Arith, b: Arith) -> Arith {
        match (&a, &b) {
            (Arith::Number(a), Arith::Number(b)) => Arith::Number(op.of(*a, *b)),
            _ => Arith::Op(op, Box::new(a), Box::new(b)),
        }
    }

    fn visit(&self, f: &mut impl FnMut(&Arith)) {
        f(self);
        match self {
            Arith::Number(_) | Arith::Len => {}
            Arith::Load { offset, .. } => offset.visit(f),
            Arith::Op(_, a, b) => {
                a.visit(f);
                b.visit(f);
            }
        }
    }
}

impl Compare {
    /// The headers that it looks at.
    pub fn layers(&self) -> Vec<Layer> {
        let mut layers = Vec::new();
        self.visit(&mut |a| {
            if let Arith::Load { layer, .. } = a
                && !layers.contains(layer)
            {
                layers.push(*layer);
            }
        });
        layers
    }

    pub(super) fn size(&self) -> usize {
        let mut size = 0;
        self.visit(&mut |_| size += 1);
        size
    }

    fn visit(&self, f: &mut impl FnMut(&Arith)) {
        self.left.visit(f);
        self.right.visit(f);
    }
}
