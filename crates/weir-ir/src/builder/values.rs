//! Arithmetic and other operations on numbers.

use super::*;

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(&mut self, a: V, b: impl Into<Arg>) -> V {
            let b = self.arg(b.into(), a.width);
            let dst = self.value(Type::Int(a.width));
            self.op(Op::Binary { op: BinOp::$op, dst, a: a.value, b: b.value });
            V { value: dst, width: a.width }
        }
    )* };
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(&mut self, a: V, b: impl Into<Arg>) -> V {
            let b = self.arg(b.into(), a.width);
            self.define(Width::W1, |dst| Op::Compare { op: CmpOp::$op, dst, a: a.value, b: b.value })
        }
    )* };
}

impl Builder {
    /// A constant.
    pub fn constant(&mut self, width: Width, value: impl Into<u128>) -> V {
        let value = value.into() & width.max();
        self.define(width, |dst| Op::Const { dst, value })
    }

    binary! {
        /// `a + b`
        add = Add;
        /// `a - b`
        sub = Sub;
        /// `a * b`
        mul = Mul;
        /// `a mod b`, 0 if `b` is 0
        rem = Rem;
        /// `a & b`
        and = And;
        /// `a | b`
        or = Or;
        /// `a ^ b`
        xor = Xor;
        /// `a << b`
        shl = Shl;
        /// `a >> b`
        shr = Shr;
    }

    compare! {
        /// `a == b`
        eq = Eq;
        /// `a != b`
        ne = Ne;
        /// `a < b`
        lt = Lt;
        /// `a <= b`
        le = Le;
    }

    /// `a > b`
    pub fn gt(&mut self, a: V, b: impl Into<Arg>) -> V {
        let b = self.arg(b.into(), a.width);
        self.lt(b, a)
    }

    /// `a >= b`
    pub fn ge(&mut self, a: V, b: impl Into<Arg>) -> V {
        let b = self.arg(b.into(), a.width);
        self.le(b, a)
    }

    /// All bits inverted.
    pub fn not(&mut self, a: V) -> V {
        self.define(a.width, |dst| Op::Not { dst, a: a.value })
    }

    /// `a` with another width: zero-extended or cut.
    pub fn resize(&mut self, width: Width, a: V) -> V {
        if a.width == width {
            return a;
        }
        self.define(width, |dst| Op::Resize { dst, a: a.value })
    }

    /// `a` if `cond`, else `b`.
    pub fn select(&mut self, cond: V, a: V, b: impl Into<Arg>) -> V {
        let b = self.arg(b.into(), a.width);
        self.define(a.width, |dst| Op::Select { dst, cond: cond.value, a: a.value, b: b.value })
    }

    /// Ones' complement sum of two 16-bit values.
    pub fn sum16(&mut self, a: V, b: impl Into<Arg>) -> V {
        let b = self.arg(b.into(), Width::W16);
        self.define(Width::W16, |dst| Op::Sum16 { dst, a: a.value, b: b.value })
    }

    /// A 32-bit hash.
    pub fn hash(&mut self, args: &[V]) -> V {
        let args = args.iter().map(|v| v.value).collect();
        self.define(Width::W32, |dst| Op::Hash { dst, args })
    }

    /// A random 32-bit number.
    pub fn random(&mut self) -> V {
        self.define(Width::W32, |dst| Op::Random { dst })
    }

    /// The time in nanoseconds.
    pub fn now(&mut self) -> V {
        self.define(Width::W64, |dst| Op::Now { dst })
    }
}
