//! From blocks to instructions.
//!
//! `r6` is the context, `r7` the first byte of the frame, `r8`, `r9` and the stack are values ([`Places`]), the others are for
//! short use. The layers of the packet are where the compiler knows them to be, or pointers on the stack ([`Marks`]).

mod ends;
mod frame;
mod marks;
mod numbers;
mod ops;
mod packet;
mod tables;

use std::collections::HashMap;

use weir_ir::program::{BlockId, Program, Target, Value};
use weir_ir::{Known, Reason};

use crate::insn::{Alu, Cond, Helper, Insn, Label, Reg, Size, Src};
use crate::maps::{Layout, Map, MapKind, Role};
use crate::places::{Location, Places};
use crate::refuse::{Cause, Refusal};
use crate::usage::Usages;
use crate::{Ended, Hook, Options};
use frame::Frame;
use marks::Marks;

use Reg::{R0, R1, R2, R3, R5, R6, R7, R8, R9, R10};

/// The source of a value of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Location(Location),
    Number(u64),
}

/// The compiler at work on a program.
pub(crate) struct Emit<'p> {
    p: &'p Program,
    options: &'p Options,
    known: Known,
    places: Places,
    usages: Usages,
    layouts: Vec<Option<Layout>>,
    /// How packets end, in the order of their counters.
    ends: &'p [Ended],
    pub(crate) maps: Vec<Map>,
    pub(crate) code: Vec<Insn>,
    frame: Frame,
    labels: u32,
    fault: Label,
    /// Where counted packets end: with a verdict in `r9`.
    finish: Label,
    /// The number of an exit is in `r9`.
    leave: Label,
    used: [bool; 3],
    /// The layers here.
    m: Marks,
    /// The layers where blocks begin, of those that were come to.
    ins: Vec<Option<Marks>>,
    /// Code is only for real once nothing changes any more in what is known at blocks.
    real: bool,
    changed: bool,
    /// What cannot be compiled.
    pub(crate) refused: Vec<Refusal>,
}

impl<'p> Emit<'p> {
    pub(crate) fn new(
        p: &'p Program,
        options: &'p Options,
        entry: BlockId,
        reached: &[bool],
        layouts: Vec<Option<Layout>>,
        usages: Usages,
        ends: &'p [Ended],
    ) -> Emit<'p> {
        let n = p.blocks.len() as u32;
        let mut places = Places::of(p, reached);
        let frame = Frame::of(p, reached, &layouts, &usages);
        places.put_below(-(frame.bytes as i16));
        let (need, most) = (frame.bytes + places.stack(), 512);
        let mut e = Emit {
            p,
            options,
            known: weir_ir::facts(p),
            places,
            usages,
            layouts,
            ends,
            maps: Vec::new(),
            code: Vec::new(),
            frame,
            labels: n + 3,
            fault: Label(n),
            finish: Label(n + 1),
            leave: Label(n + 2),
            used: [false; 3],
            m: Marks::at_entry(options.marked),
            ins: vec![None; p.blocks.len()],
            real: false,
            changed: false,
            refused: Vec::new(),
        };
        if need > most {
            e.refuse(entry, Cause::Stack(need));
        }
        e
    }

    /// The whole program, from this block on.
    pub(crate) fn run(&mut self, entry: BlockId) {
        if !self.refused.is_empty() {
            return;
        }
        loop {
            self.changed = false;
            self.pass(entry);
            if !self.changed {
                break;
            }
        }
        self.real = true;
        self.pass(entry);
        self.tail();
        self.tidy();
    }

    fn pass(&mut self, entry: BlockId) {
        self.code.clear();
        self.refused.clear();
        self.used = [false; 3];
        self.prologue();
        self.m = Marks::at_entry(self.options.marked);
        self.enter(entry);
        for b in (0..self.p.blocks.len() as u32).map(BlockId) {
            let Some(m) = self.ins[b.0 as usize].clone() else { continue };
            self.m = m;
            self.put(Insn::At(Label(b.0)));
            for at in 0..self.p.block(b).ops.len() {
                self.op(b, at);
            }
            self.end(b);
        }
    }

    /// Jumps to what follows anyway are left out.
    fn tidy(&mut self) {
        let code = std::mem::take(&mut self.code);
        for (i, insn) in code.iter().enumerate() {
            if let Insn::Jump(to) = insn {
                let next = code[i + 1..].iter().take_while(|n| matches!(n, Insn::At(_)));
                if next.into_iter().any(|n| *n == Insn::At(*to)) {
                    continue;
                }
            }
            self.code.push(*insn);
        }
    }

    // --- instructions -----------------------------------------------------------------------------------------

    fn put(&mut self, insn: Insn) {
        self.code.push(insn);
    }

    fn alu(&mut self, op: Alu, dst: Reg, src: Src) {
        self.put(Insn::Alu { op, wide: true, dst, src });
    }

    fn mov(&mut self, dst: Reg, src: Reg) {
        if dst != src {
            self.alu(Alu::Mov, dst, Src::Reg(src));
        }
    }

    fn set(&mut self, dst: Reg, value: u64) {
        match i32::try_from(value as i64) {
            Ok(imm) => self.alu(Alu::Mov, dst, Src::Imm(imm)),
            Err(_) if value <= u32::MAX.into() => {
                self.put(Insn::Alu { op: Alu::Mov, wide: false, dst, src: Src::Imm(value as u32 as i32) });
            }
            Err(_) => self.put(Insn::Imm64 { dst, value }),
        }
    }

    fn load(&mut self, size: Size, dst: Reg, base: Reg, off: i16) {
        self.put(Insn::Load { size, dst, base, off });
    }

    fn store(&mut self, size: Size, base: Reg, off: i16, src: Src) {
        self.put(Insn::Store { size, base, off, src });
    }

    fn call(&mut self, helper: Helper) {
        self.put(Insn::Call(helper));
    }

    fn jump(&mut self, to: Label) {
        self.put(Insn::Jump(to));
    }

    fn jump_if(&mut self, cond: Cond, a: Reg, b: Src, to: Label) {
        self.put(Insn::JumpIf { cond, a, b, to });
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    fn at(&mut self, label: Label) {
        self.put(Insn::At(label));
    }

    /// What the program cannot come to, as the checker proved; the kernel does not know.
    fn fault(&mut self) -> Label {
        self.used[0] = true;
        self.fault
    }

    fn refuse(&mut self, b: BlockId, cause: Cause) {
        let element = &self.p.elements[self.p.block(b).owner as usize];
        self.refused.push(Refusal { element: element.clone(), cause });
    }

    fn map(&mut self, map: Map) -> u32 {
        if let Some(i) = self.maps.iter().position(|m| m.role == map.role) {
            return i as u32;
        }
        self.maps.push(map);
        self.maps.len() as u32 - 1
    }

    // --- values -----------------------------------------------------------------------------------------------

    /// The lower (0) or upper (1) half of a value.
    fn half(&self, v: Value, half: usize) -> Option<From> {
        if let Some(c) = self.places.constants.get(&v) {
            return Some(From::Number((c >> (64 * half)) as u64));
        }
        match (self.places.get(v), half) {
            (Some((lo, _)), 0) => Some(From::Location(lo)),
            (Some((_, Some(hi))), _) => Some(From::Location(hi)),
            (Some(_), _) => Some(From::Number(0)),
            (None, _) => None,
        }
    }

    fn fetch_half(&mut self, dst: Reg, v: Value, half: usize) {
        let from = self.half(v, half).unwrap_or(From::Number(0));
        self.fetch_from(dst, from);
    }

    fn fetch_from(&mut self, dst: Reg, from: From) {
        match from {
            From::Number(n) => self.set(dst, n),
            From::Location(Location::Reg(r)) => self.mov(dst, r),
            From::Location(Location::Stack(off)) => self.load(Size::B8, dst, R10, off),
        }
    }

    fn fetch(&mut self, dst: Reg, v: Value) {
        self.fetch_half(dst, v, 0);
    }

    /// The register where a value stands, or this one, where it is put.
    fn reg(&mut self, v: Value, otherwise: Reg) -> Reg {
        match self.half(v, 0) {
            Some(From::Location(Location::Reg(r))) => r,
            _ => {
                self.fetch(otherwise, v);
                otherwise
            }
        }
    }

    /// A value as second operand.
    fn src(&mut self, v: Value, otherwise: Reg) -> Src {
        if let Some(c) = self.places.constants.get(&v)
            && let Ok(imm) = i32::try_from(*c)
        {
            return Src::Imm(imm);
        }
        Src::Reg(self.reg(v, otherwise))
    }

    fn keep_half(&mut self, v: Value, half: usize, src: Reg) {
        let Some((lo, hi)) = self.places.get(v) else { return };
        let Some(place) = (if half == 0 { Some(lo) } else { hi }) else { return };
        self.keep_at(place, src);
    }

    fn keep_at(&mut self, place: Location, src: Reg) {
        match place {
            Location::Reg(r) => self.mov(r, src),
            Location::Stack(off) => self.store(Size::B8, R10, off, Src::Reg(src)),
        }
    }

    fn keep(&mut self, v: Value, src: Reg) {
        self.keep_half(v, 0, src);
    }

    // --- edges ------------------------------------------------------------------------------------------------

    /// Goes to a target. What the end supplies itself is in these registers.
    fn edge(&mut self, t: &Target, supplied: &[Reg]) {
        self.arrive(t.block);
        self.first_round(t.block);
        self.pass_values(t, supplied);
        self.jump(Label(t.block.0));
    }

    /// Goes back to a loop header.
    fn edge_back(&mut self, t: &Target) {
        self.arrive(t.block);
        self.pass_values(t, &[]);
        self.jump(Label(t.block.0));
    }

    /// Goes to another element.
    fn enter(&mut self, b: BlockId) {
        self.arrive(b);
        self.first_round(b);
        self.jump(Label(b.0));
    }

    fn first_round(&mut self, b: BlockId) {
        if let Some(slot) = self.frame.rounds.get(&b) {
            let slot = *slot;
            self.store(Size::B8, R10, slot, Src::Imm(1));
        }
    }

    fn pass_values(&mut self, t: &Target, supplied: &[Reg]) {
        let params = &self.p.block(t.block).params;
        let mut moves: Vec<(Location, From)> = Vec::new();
        for (i, param) in params.iter().enumerate() {
            let Some((lo, hi)) = self.places.get(*param) else { continue };
            if let Some(r) = supplied.get(i) {
                moves.push((lo, From::Location(Location::Reg(*r))));
                continue;
            }
            let arg = t.args[i - supplied.len()];
            for (half, place) in [(0, Some(lo)), (1, hi)] {
                if let (Some(place), Some(from)) = (place, self.half(arg, half)) {
                    moves.push((place, from));
                }
            }
        }
        self.move_all(moves);
    }

    /// Moves at the same time: what is overwritten is read before.
    fn move_all(&mut self, mut moves: Vec<(Location, From)>) {
        moves.retain(|(to, from)| *from != From::Location(*to));
        while !moves.is_empty() {
            let ready = (0..moves.len()).find(|&i| {
                !moves.iter().enumerate().any(|(j, m)| j != i && m.1 == From::Location(moves[i].0))
            });
            if let Some(i) = ready {
                let (to, from) = moves.swap_remove(i);
                match (to, from) {
                    (Location::Reg(r), _) => self.fetch_from(r, from),
                    (Location::Stack(off), From::Number(n)) if i32::try_from(n as i64).is_ok() => {
                        self.store(Size::B8, R10, off, Src::Imm(n as i32));
                    }
                    (Location::Stack(_), From::Location(Location::Reg(r))) => self.keep_at(to, r),
                    (Location::Stack(_), _) => {
                        self.fetch_from(R1, from);
                        self.keep_at(to, R1);
                    }
                }
            } else {
                // A circle: one of it waits in a register.
                let from = moves[0].1;
                self.fetch_from(R5, from);
                moves
                    .iter_mut()
                    .filter(|m| m.1 == from)
                    .for_each(|m| m.1 = From::Location(Location::Reg(R5)));
            }
        }
    }

    // --- start and end ----------------------------------------------------------------------------------------

    fn prologue(&mut self) {
        self.mov(R6, R1);
        self.load_data();
        if self.options.hook == Hook::Tc {
            self.make_linear();
        }
        if let Some(anno) = self.frame.anno {
            for word in 0..6 {
                self.store(Size::B8, R10, anno + 8 * word, Src::Imm(0));
            }
        }
        if let Some(slot) = self.frame.time {
            self.ask_time();
            self.store(Size::B8, R10, slot, Src::Reg(R0));
        }
        for (field, slot) in self.frame.meta.clone() {
            self.fetch_meta(field, R1);
            self.store(Size::B8, R10, slot, Src::Reg(R1));
        }
        if let Some(hops) = self.frame.hops {
            self.store(Size::B8, R10, hops, Src::Imm(0));
        }
    }

    /// Brings the start of a packet that is in pieces together.
    fn make_linear(&mut self) {
        let (there, all) = (self.label(), self.label());
        self.load_end(R1);
        self.alu(Alu::Sub, R1, Src::Reg(R7));
        self.load(Size::B4, R2, R6, 0);
        self.jump_if(Cond::Ge, R1, Src::Reg(R2), there);
        self.jump_if(Cond::Ge, R1, Src::Imm(crate::LINEAR as i32), there);
        self.jump_if(Cond::Le, R2, Src::Imm(crate::LINEAR as i32), all);
        self.set(R2, crate::LINEAR.into());
        self.at(all);
        self.mov(R1, R6);
        self.call(Helper::SkbPullData);
        self.load_data();
        self.at(there);
    }

    /// The first byte of the frame (`xdp_md::data`, `__sk_buff::data`).
    fn load_data(&mut self) {
        let off = if self.options.hook == Hook::Xdp { 0 } else { 76 };
        self.load(Size::B4, R7, R6, off);
    }

    /// The end of what can be looked at.
    fn load_end(&mut self, dst: Reg) {
        let off = if self.options.hook == Hook::Xdp { 4 } else { 80 };
        self.load(Size::B4, dst, R6, off);
    }

    /// Bytes of the whole frame, as a number. Of XDP, `r7` has to be right.
    fn load_len(&mut self, dst: Reg) {
        match self.options.hook {
            Hook::Xdp => {
                self.load_end(dst);
                self.alu(Alu::Sub, dst, Src::Reg(R7));
            }
            Hook::Tc => self.load(Size::B4, dst, R6, 0),
        }
    }

    fn end_number(&self, end: &Ended) -> u64 {
        self.ends.iter().position(|e| e == end).unwrap_or(0) as u64
    }

    /// A packet is dropped.
    fn drop_packet(&mut self, b: BlockId, reason: &Reason) {
        let owner = self.p.block(b).owner;
        let end = self.end_number(&Ended::Dropped { element: owner, reason: reason.clone() });
        self.set(R8, end * 16);
        self.set(R9, self.options.hook.drop());
        self.used[1] = true;
        self.jump(self.finish);
    }

    /// A packet leaves.
    fn exit(&mut self, b: BlockId, port: u32) {
        self.trim_front(b);
        let end = self.end_number(&Ended::Left(port));
        self.set(R8, end * 16);
        self.set(R9, port.into());
        self.used[2] = true;
        self.jump(self.leave);
    }

    /// Counts the packet as one of the end whose place is in `r8`.
    fn count(&mut self) {
        let map = self.map(Map {
            role: Role::Ends,
            kind: MapKind::PerCpuArray,
            key: 4,
            value: 16 * self.ends.len() as u32,
            entries: 1,
        });
        let over = self.label();
        self.zero_key();
        self.put(Insn::Map { dst: R1, map });
        self.call(Helper::MapLookup);
        self.jump_if(Cond::Eq, R0, Src::Imm(0), over);
        self.alu(Alu::Add, R0, Src::Reg(R8));
        self.load(Size::B8, R1, R0, 0);
        self.alu(Alu::Add, R1, Src::Imm(1));
        self.store(Size::B8, R0, 0, Src::Reg(R1));
        self.load_data();
        self.load_len(R2);
        self.load(Size::B8, R1, R0, 8);
        self.alu(Alu::Add, R1, Src::Reg(R2));
        self.store(Size::B8, R0, 8, Src::Reg(R1));
        self.at(over);
    }

    /// `r2` points to a key of 0.
    fn zero_key(&mut self) {
        self.store(Size::B8, R10, -8, Src::Imm(0));
        self.mov(R2, R10);
        self.alu(Alu::Add, R2, Src::Imm(-8));
    }

    fn tail(&mut self) {
        if self.used[2] {
            self.at(self.leave);
            self.count();
            let ports = self.ends.iter().filter(|e| matches!(e, Ended::Left(_))).count().max(1) as u32;
            self.redirect(ports);
            self.put(Insn::Exit);
        }
        if self.used[0] {
            self.at(self.fault);
            self.set(R8, 0);
            self.set(R9, self.options.hook.fault());
            self.used[1] = true;
        }
        if self.used[1] {
            self.at(self.finish);
            self.count();
            self.mov(R0, R9);
            self.put(Insn::Exit);
        }
    }

    /// To the interface of the exit whose number is in `r9`.
    fn redirect(&mut self, ports: u32) {
        match self.options.hook {
            Hook::Xdp => {
                let map = self.map(Map {
                    role: Role::Ports,
                    kind: MapKind::DevMap,
                    key: 4,
                    value: 4,
                    entries: ports,
                });
                self.put(Insn::Map { dst: R1, map });
                self.mov(R2, R9);
                self.set(R3, 0);
                self.call(Helper::RedirectMap);
            }
            Hook::Tc => {
                let map = self.map(Map {
                    role: Role::Ports,
                    kind: MapKind::Array,
                    key: 4,
                    value: 4 * ports,
                    entries: 1,
                });
                self.put(Insn::MapValue { dst: R2, map, off: 0 });
                self.alu(Alu::Lsh, R9, Src::Imm(2));
                self.alu(Alu::Add, R2, Src::Reg(R9));
                self.load(Size::B4, R1, R2, 0);
                self.set(R2, 0);
                self.call(Helper::Redirect);
            }
        }
    }

    fn slot_of(&self, places: &HashMap<BlockId, i16>, b: BlockId) -> i16 {
        places.get(&b).copied().unwrap_or(-8)
    }
}
