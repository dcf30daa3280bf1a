//! What operations on numbers mean.

use crate::program::{BinOp, CmpOp, Width};

/// The meaning of [`BinOp`] on numbers of a width.
pub fn binary(op: BinOp, width: Width, a: u128, b: u128) -> u128 {
    let bits = u128::from(width.bits());
    let r = match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Rem => a.checked_rem(b).unwrap_or(0),
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => {
            if b < bits {
                a << b
            } else {
                0
            }
        }
        BinOp::Shr => {
            if b < bits {
                a >> b
            } else {
                0
            }
        }
    };
    r & width.max()
}

/// The meaning of [`CmpOp`].
pub fn compare(op: CmpOp, a: u128, b: u128) -> bool {
    match op {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Lt => a < b,
        CmpOp::Le => a <= b,
    }
}

/// The meaning of [`Op::Sum16`](crate::program::Op::Sum16).
pub fn sum16(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// The meaning of [`Op::Checksum`](crate::program::Op::Checksum): ones' complement sum of big-endian 16-bit words (RFC 1071).
pub fn checksum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let mut sum: u64 = words.iter().map(|w| u64::from(u16::from_be_bytes(*w))).sum();
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The meaning of [`Op::Hash`](crate::program::Op::Hash).
pub fn hash(seed: u64, args: &[u128]) -> u32 {
    let mut h = seed ^ 0x9e37_79b9_7f4a_7c15;
    for a in args {
        let high = (*a >> 64) as u64 ^ h.rotate_left(32) ^ 0xd6e8_feb8_6659_fd93;
        let m = u128::from(h ^ *a as u64) * u128::from(high);
        h = (m as u64) ^ (m >> 64) as u64 ^ 0x5851_f42d_4c95_7f2d;
    }
    let m = u128::from(h) * 0x9e37_79b9_7f4a_7c15;
    ((m >> 64) as u64 ^ m as u64) as u32
}
