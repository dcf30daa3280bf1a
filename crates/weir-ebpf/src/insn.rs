//! eBPF instructions as values, their text, and their encoding.
//!
//! The text is the one that LLVM and `bpftool` print.

use std::fmt;

/// A register. `R10` is the frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "a register is its number")]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Bytes of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "a size is its number of bytes")]
pub enum Size {
    B1,
    B2,
    B4,
    B8,
}

impl Size {
    /// The size of so many bytes.
    pub fn of(bytes: u32) -> Size {
        match bytes {
            0 | 1 => Size::B1,
            2 => Size::B2,
            4 => Size::B4,
            _ => Size::B8,
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> u32 {
        1 << self as u32
    }

    fn code(self) -> u8 {
        match self {
            Size::B1 => 0x10,
            Size::B2 => 0x08,
            Size::B4 => 0x00,
            Size::B8 => 0x18,
        }
    }
}

/// Arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the instruction set")]
pub enum Alu {
    Add,
    Sub,
    Mul,
    Or,
    And,
    Lsh,
    Rsh,
    Mod,
    Xor,
    Mov,
}

impl Alu {
    fn code(self) -> u8 {
        match self {
            Alu::Add => 0x00,
            Alu::Sub => 0x10,
            Alu::Mul => 0x20,
            Alu::Or => 0x40,
            Alu::And => 0x50,
            Alu::Lsh => 0x60,
            Alu::Rsh => 0x70,
            Alu::Mod => 0x90,
            Alu::Xor => 0xa0,
            Alu::Mov => 0xb0,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Alu::Add => "+=",
            Alu::Sub => "-=",
            Alu::Mul => "*=",
            Alu::Or => "|=",
            Alu::And => "&=",
            Alu::Lsh => "<<=",
            Alu::Rsh => ">>=",
            Alu::Mod => "%=",
            Alu::Xor => "^=",
            Alu::Mov => "=",
        }
    }
}

/// Unsigned comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the instruction set")]
pub enum Cond {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
    /// Greater, signed.
    Sgt,
}

impl Cond {
    fn code(self) -> u8 {
        match self {
            Cond::Eq => 0x10,
            Cond::Gt => 0x20,
            Cond::Ge => 0x30,
            Cond::Ne => 0x50,
            Cond::Sgt => 0x60,
            Cond::Lt => 0xa0,
            Cond::Le => 0xb0,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Cond::Eq => "==",
            Cond::Ne => "!=",
            Cond::Gt => ">",
            Cond::Ge => ">=",
            Cond::Lt => "<",
            Cond::Le => "<=",
            Cond::Sgt => "s>",
        }
    }
}

/// The second operand: a register, or a number that is sign-extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are what they hold")]
pub enum Src {
    Reg(Reg),
    Imm(i32),
}

/// Functions of the kernel that programs call (`linux/bpf.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the kernel")]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    Ktime = 5,
    Random = 7,
    Redirect = 23,
    SkbChangeTail = 38,
    SkbPullData = 39,
    XdpAdjustHead = 44,
    RedirectMap = 51,
    XdpAdjustTail = 65,
}

/// A place in the code, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(pub u32);

/// An instruction. Maps are named by their number in [`Object::maps`](crate::Object::maps).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the instruction set")]
pub enum Insn {
    /// 64 bits, or (not `wide`) 32 bits with the upper half zero.
    Alu {
        op: Alu,
        wide: bool,
        dst: Reg,
        src: Src,
    },
    Load {
        size: Size,
        dst: Reg,
        base: Reg,
        off: i16,
    },
    Store {
        size: Size,
        base: Reg,
        off: i16,
        src: Src,
    },
    /// Adds in memory, as one step.
    AtomicAdd {
        size: Size,
        base: Reg,
        off: i16,
        src: Reg,
    },
    /// Network byte order of the lowest `bits`; the rest becomes zero.
    ToBe {
        dst: Reg,
        bits: u32,
    },
    Imm64 {
        dst: Reg,
        value: u64,
    },
    Map {
        dst: Reg,
        map: u32,
    },
    /// The address of a byte of the only value of an array.
    MapValue {
        dst: Reg,
        map: u32,
        off: u32,
    },
    Jump(Label),
    JumpIf {
        cond: Cond,
        a: Reg,
        b: Src,
        to: Label,
    },
    Call(Helper),
    Exit,
    /// No instruction: where jumps lead.
    At(Label),
}

/// Code that cannot be encoded: a jump is too far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("the program has {0} instructions, and a jump over more than 32,767 of them")]
pub struct TooFar(pub usize);

impl Insn {
    /// Number of 64-bit words.
    fn words(&self) -> usize {
        match self {
            Insn::At(_) => 0,
            Insn::Imm64 { .. } | Insn::Map { .. } | Insn::MapValue { .. } => 2,
            _ => 1,
        }
    }
}

fn word(code: u8, dst: Reg, src: u8, off: i16, imm: i32) -> u64 {
    // struct bpf_insn: opcode, registers (bit fields), offset, immediate.
    let dst = dst as u8;
    let registers = if cfg!(target_endian = "little") { src << 4 | dst } else { dst << 4 | src };
    let ([o0, o1], [i0, i1, i2, i3]) = (off.to_ne_bytes(), imm.to_ne_bytes());
    u64::from_ne_bytes([code, registers, o0, o1, i0, i1, i2, i3])
}

/// The instructions as the kernel takes them; `fd` gives the descriptor of a map.
///
/// # Errors
/// If a jump is too far.
///
/// # Panics
/// If a label that is jumped to stands nowhere, which the compiler never does.
pub fn encode(code: &[Insn], fd: impl Fn(u32) -> i32) -> Result<Vec<u64>, TooFar> {
    let mut places = std::collections::HashMap::new();
    let mut at = 0;
    for i in code {
        if let Insn::At(l) = i {
            places.insert(*l, at);
        }
        at += i.words();
    }
    let total = at;
    let mut out = Vec::with_capacity(total);
    for i in code {
        let far = |to: &Label, from: usize| {
            let distance = places[to] as i64 - from as i64 - 1;
            i16::try_from(distance).map_err(|_| TooFar(total))
        };
        let src_of = |s: Src| match s {
            Src::Reg(r) => (0x08, r as u8, 0),
            Src::Imm(i) => (0, 0, i),
        };
        match *i {
            Insn::Alu { op, wide, dst, src } => {
                let (x, reg, imm) = src_of(src);
                out.push(word(op.code() | x | if wide { 0x07 } else { 0x04 }, dst, reg, 0, imm));
            }
            Insn::Load { size, dst, base, off } => {
                out.push(word(0x61 | size.code(), dst, base as u8, off, 0));
            }
            Insn::Store { size, base, off, src } => match src {
                Src::Reg(r) => out.push(word(0x63 | size.code(), base, r as u8, off, 0)),
                Src::Imm(i) => out.push(word(0x62 | size.code(), base, 0, off, i)),
            },
            Insn::AtomicAdd { size, base, off, src } => {
                out.push(word(0xc3 | size.code(), base, src as u8, off, 0));
            }
            Insn::ToBe { dst, bits } => out.push(word(0xdc, dst, 0, 0, bits as i32)),
            Insn::Imm64 { dst, value } => {
                out.push(word(0x18, dst, 0, 0, value as u32 as i32));
                out.push(word(0, Reg::R0, 0, 0, (value >> 32) as i32));
            }
            Insn::Map { dst, map } => {
                out.push(word(0x18, dst, 1, 0, fd(map)));
                out.push(word(0, Reg::R0, 0, 0, 0));
            }
            Insn::MapValue { dst, map, off } => {
                out.push(word(0x18, dst, 2, 0, fd(map)));
                out.push(word(0, Reg::R0, 0, 0, off as i32));
            }
            Insn::Jump(to) => out.push(word(0x05, Reg::R0, 0, far(&to, out.len())?, 0)),
            Insn::JumpIf { cond, a, b, to } => {
                let (x, reg, imm) = src_of(b);
                out.push(word(cond.code() | x | 0x05, a, reg, far(&to, out.len())?, imm));
            }
            Insn::Call(h) => out.push(word(0x85, Reg::R0, 0, 0, h as i32)),
            Insn::Exit => out.push(word(0x95, Reg::R0, 0, 0, 0)),
            Insn::At(_) => {}
        }
    }
    Ok(out)
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", *self as u8)
    }
}

impl fmt::Display for Src {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Src::Reg(r) => r.fmt(f),
            Src::Imm(i) if i.unsigned_abs() < 256 => i.fmt(f),
            Src::Imm(i) => write!(f, "{i:#x}"),
        }
    }
}

impl fmt::Display for Insn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = |size: Size, base: Reg, off: i16| {
            let sign = if off < 0 { '-' } else { '+' };
            format!("*(u{} *)({base} {sign} {})", size.bytes() * 8, off.unsigned_abs())
        };
        match *self {
            Insn::Alu { op, wide, dst, src } => {
                let name = |r: Reg| if wide { format!("r{}", r as u8) } else { format!("w{}", r as u8) };
                match src {
                    Src::Reg(r) => write!(f, "{} {} {}", name(dst), op.text(), name(r)),
                    Src::Imm(_) => write!(f, "{} {} {src}", name(dst), op.text()),
                }
            }
            Insn::Load { size, dst, base, off } => write!(f, "{dst} = {}", memory(size, base, off)),
            Insn::Store { size, base, off, src } => write!(f, "{} = {src}", memory(size, base, off)),
            Insn::AtomicAdd { size, base, off, src } => {
                write!(f, "lock {} += {src}", memory(size, base, off))
            }
            Insn::ToBe { dst, bits } => write!(f, "{dst} = be{bits} {dst}"),
            Insn::Imm64 { dst, value } => write!(f, "{dst} = {value:#x} ll"),
            Insn::Map { dst, map } => write!(f, "{dst} = map {map} ll"),
            Insn::MapValue { dst, map, off } => write!(f, "{dst} = map {map} value + {off} ll"),
            Insn::Jump(to) => write!(f, "goto L{}", to.0),
            Insn::JumpIf { cond, a, b, to } => write!(f, "if {a} {} {b} goto L{}", cond.text(), to.0),
            Insn::Call(h) => write!(f, "call {h:?}"),
            Insn::Exit => write!(f, "exit"),
            Insn::At(l) => write!(f, "L{}:", l.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reg::{R0, R1, R2, R3, R10};

    /// Words as `clang -target bpf` writes them: opcode, registers, offset, immediate.
    #[test]
    fn instructions_are_encoded_as_the_kernel_takes_them() {
        let l = Label(1);
        let code = [
            Insn::Load { size: Size::B4, dst: R2, base: R1, off: 16 },
            Insn::Map { dst: R1, map: 3 },
            Insn::Alu { op: Alu::Mov, wide: true, dst: R3, src: Src::Imm(2) },
            Insn::Call(Helper::RedirectMap),
            Insn::JumpIf { cond: Cond::Eq, a: R0, b: Src::Imm(0), to: l },
            Insn::Store { size: Size::B1, base: R10, off: -1, src: Src::Reg(R0) },
            Insn::ToBe { dst: R0, bits: 16 },
            Insn::AtomicAdd { size: Size::B8, base: R1, off: 8, src: R2 },
            Insn::Alu { op: Alu::Mov, wide: false, dst: R0, src: Src::Reg(R0) },
            Insn::At(l),
            Insn::Exit,
        ];
        let words = encode(&code, |map| map as i32 + 4).unwrap();
        let bytes: Vec<String> =
            words.iter().map(|w| format!("{:016x}", u64::from_be_bytes(w.to_ne_bytes()))).collect();
        assert_eq!(
            bytes,
            [
                "6112100000000000",
                "1811000007000000",
                "0000000000000000",
                "b703000002000000",
                "8500000033000000",
                "1500040000000000",
                "730affff00000000",
                "dc00000010000000",
                "db21080000000000",
                "bc00000000000000",
                "9500000000000000",
            ]
        );
    }

    #[test]
    fn a_jump_that_is_too_far_is_an_error() {
        let mut code = vec![Insn::Jump(Label(0))];
        code.extend(std::iter::repeat_n(Insn::Exit, 40_000));
        code.push(Insn::At(Label(0)));
        code.push(Insn::Exit);
        assert_eq!(encode(&code, |_| 0), Err(TooFar(40_002)));
    }
}
