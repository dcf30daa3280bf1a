//! Ends of blocks.

use weir_ir::Reason;
use weir_ir::Width;
use weir_ir::program::{BlockId, End, MAX_HOPS, Target, Value};

use super::Emit;
use crate::insn::{Alu, Cond, Reg, Size, Src};
use crate::refuse::Cause;
use Reg::{R1, R2, R3, R10};

/// Most rounds of a loop: the kernel's verifier follows each of them.
const MOST_ROUNDS: u32 = 256;

impl Emit<'_> {
    pub(super) fn end(&mut self, b: BlockId) {
        let p = self.p;
        let block = p.block(b);
        match &block.end {
            End::Jump(t) => self.edge(t, &[]),
            End::Branch { cond, then, other } => {
                let yes = self.label();
                let m = self.m.clone();
                self.jump_if_true(*cond, yes);
                self.edge(other, &[]);
                self.at(yes);
                self.m = m;
                self.edge(then, &[]);
            }
            End::Switch { value, cases, default } => self.switch(*value, cases, default),
            End::Again { header, exit } => {
                let limit = p.block(header.block).loop_limit.unwrap_or(1);
                if limit > MOST_ROUNDS {
                    return self.refuse(b, Cause::Rounds { limit, most: MOST_ROUNDS });
                }
                let slot = self.slot_of(&self.frame.rounds, header.block);
                let over = self.label();
                let m = self.m.clone();
                self.load(Size::B8, R1, R10, slot);
                self.jump_if(Cond::Ge, R1, Src::Imm(limit.min(i32::MAX as u32) as i32), over);
                self.alu(Alu::Add, R1, Src::Imm(1));
                self.store(Size::B8, R10, slot, Src::Reg(R1));
                self.edge_back(header);
                self.at(over);
                self.m = m;
                self.edge(exit, &[]);
            }
            End::Require { layer, n, ok, fail } => self.require(*layer, *n, ok, fail),
            End::Push { n, ok, fail } => self.push(b, *n, ok, fail),
            End::Unpull { n, ok, fail } => self.unpull(b, *n, ok, fail),
            End::Put { .. } => self.refuse(b, Cause::Lengthens),
            End::Lookup { table, key, hit, miss } => self.lookup(b, *table, key, hit, miss),
            End::Insert { table, key, ok, full } => self.insert(b, *table, key, ok, full),
            End::Claim { table, .. } => {
                let table = p.tables[table.0 as usize].decl.name.clone();
                self.refuse(b, Cause::Claims { table });
            }
            End::Soonest { table, .. } => {
                let table = p.tables[table.0 as usize].decl.name.clone();
                self.refuse(b, Cause::Evicts { table });
            }
            End::Meter { entry, .. } => {
                let table = self.table_name(*entry);
                self.refuse(b, Cause::Meters { table });
            }
            End::Hold { .. } => self.refuse(b, Cause::Holds),
            End::Emit { port } | End::Exit { exit: port } => self.exit(b, *port),
            End::Drop { reason } => self.drop_packet(b, reason),
            // Only what is started without a packet ends so.
            End::Finish => self.refuse(b, Cause::Starts),
            End::Enter { block, back } => {
                if *back && let Some(hops) = self.frame.hops {
                    let on = self.label();
                    self.load(Size::B8, R1, R10, hops);
                    self.jump_if(Cond::Lt, R1, Src::Imm(MAX_HOPS.into()), on);
                    let m = self.m.clone();
                    self.drop_packet(b, &Reason::LOOP_LIMIT);
                    self.m = m;
                    self.at(on);
                    self.alu(Alu::Add, R1, Src::Imm(1));
                    self.store(Size::B8, R10, hops, Src::Reg(R1));
                }
                self.enter(*block);
            }
        }
    }

    fn switch(&mut self, value: Value, cases: &[(u128, Target)], default: &Target) {
        let m = self.m.clone();
        let wide = self.p.width(value) == Width::W128;
        let labels: Vec<_> = cases.iter().map(|_| self.label()).collect();
        let r = self.reg(value, R1);
        if wide {
            self.fetch_half(R2, value, 1);
        }
        for ((case, _), to) in cases.iter().zip(&labels) {
            let next = self.label();
            if wide {
                self.set(R3, (case >> 64) as u64);
                self.jump_if(Cond::Ne, R2, Src::Reg(R3), next);
            }
            match i32::try_from(*case as u64) {
                Ok(imm) => self.jump_if(Cond::Eq, r, Src::Imm(imm), *to),
                Err(_) => {
                    self.set(R3, *case as u64);
                    self.jump_if(Cond::Eq, r, Src::Reg(R3), *to);
                }
            }
            self.at(next);
        }
        self.edge(default, &[]);
        for ((_, t), label) in cases.iter().zip(&labels) {
            self.at(*label);
            self.m = m.clone();
            self.edge(t, &[]);
        }
    }
}
