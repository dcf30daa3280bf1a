//! What a packet looks like where a path does not care: a whole one, as readers know them.

use weir_ir::program::Layer;

use crate::model::expr::{Exprs, Source, SourceId, Symbol};
use crate::model::facts::Facts;

/// Values that symbols should have together, if that can be.
pub(crate) type Wish = Vec<(Symbol, u128)>;

/// Most VLAN tags that are looked behind.
const TAGS: i64 = 8;
const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// What is wished of the packets that come in, the most important first.
pub(crate) fn wishes(x: &Exprs, facts: &Facts, inputs: u32) -> Vec<Wish> {
    let sources = (0..inputs).filter_map(|i| x.find_source(&Source::Input(i)));
    sources.flat_map(|source| Wishes { x, facts, source, all: Vec::new() }.collect()).collect()
}

struct Wishes<'a> {
    x: &'a Exprs,
    facts: &'a Facts,
    source: SourceId,
    all: Vec<Wish>,
}

impl Wishes<'_> {
    fn collect(mut self) -> Vec<Wish> {
        let marked = self.known(&Symbol::MarkSet(self.source, Layer::Net)) == Some(1);
        if marked {
            let at = self.known(&Symbol::MarkAt(self.source, Layer::Net)).unwrap_or(0);
            self.network(i64::from(at as u32 as i32));
        } else {
            self.frame();
        }
        self.all
    }

    /// The value of a symbol, if only one is left.
    fn known(&self, s: &Symbol) -> Option<u128> {
        self.x.find_symbol(s).and_then(|e| self.facts.value(self.x, e))
    }

    fn may(&self, s: &Symbol, v: u128) -> bool {
        self.x.find_symbol(s).is_none_or(|e| self.facts.set(self.x, e).contains(v))
    }

    fn byte(&self, at: i64) -> Symbol {
        Symbol::Byte(self.source, at)
    }

    fn all_may(&self, at: i64, bytes: &[u8]) -> bool {
        (at..).zip(bytes).all(|(at, &b)| self.may(&self.byte(at), b.into()))
    }

    fn bytes(&mut self, at: i64, bytes: &[u8]) {
        let wish = (at..).zip(bytes).map(|(at, &b)| (self.byte(at), b.into())).collect();
        self.all.push(wish);
    }

    fn frame(&mut self) {
        let mut at = 12;
        while at < 12 + 4 * TAGS && self.known(&self.byte(at)) == Some(0x81) && self.all_may(at + 1, &[0]) {
            at += 4;
        }
        let v4 = self.all_may(at, &[8, 0]);
        if v4 {
            self.bytes(at, &[8, 0]);
        }
        if v4 || self.all_may(at, &[0x86, 0xdd]) {
            self.network(at + 2);
        } else {
            self.all.push(vec![(Symbol::Len(self.source), 60)]);
        }
        self.bytes(0, &[2, 0, 0, 0, 0, 2]);
        self.bytes(6, &[2, 0, 0, 0, 0, 1]);
    }

    fn network(&mut self, net: i64) {
        let known_six = self.known(&self.byte(net)).is_some_and(|b| b >> 4 == 6);
        let six = known_six || (!self.may(&self.byte(net), 0x45) && self.may(&self.byte(net), 0x60));
        let (proto_at, icmp) = if six { (net + 6, ICMPV6) } else { (net + 9, ICMP) };
        let proto = self
            .known(&self.byte(proto_at))
            .map(|v| v as u8)
            .or_else(|| [UDP, TCP, icmp].into_iter().find(|&p| self.may(&self.byte(proto_at), p.into())));
        let header: i64 = match self.known(&self.byte(net)) {
            _ if six => 40,
            Some(first) if (5..=15).contains(&(first & 15)) => (first & 15) as i64 * 4,
            _ => 20,
        };
        let upper: i64 = match proto {
            Some(TCP) => 20,
            _ => 8,
        };
        self.bytes(net, &[if six { 0x60 } else { 0x45 }]);
        if let Some(p) = proto {
            self.bytes(proto_at, &[p]);
        }
        if !six {
            self.bytes(net + 6, &[0, 0]);
        }
        // Lengths agree.
        let [high, low] = (if six { upper } else { header + upper } as u16).to_be_bytes();
        let len_at = if six { net + 4 } else { net + 2 };
        self.all.push(vec![
            (Symbol::Len(self.source), (net + header + upper) as u128),
            (self.byte(len_at), high.into()),
            (self.byte(len_at + 1), low.into()),
        ]);
        let top = net + header;
        if six {
            self.bytes(net + 1, &[0, 0, 0]);
            self.bytes(net + 7, &[64]);
            let mut address = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
            self.bytes(net + 8, &address);
            address[15] = 2;
            self.bytes(net + 24, &address);
        } else {
            self.bytes(net + 8, &[64]);
            self.bytes(net + 12, &[192, 0, 2, 1]);
            self.bytes(net + 16, &[198, 51, 100, 1]);
            self.bytes(net + 1, &[0]);
        }
        match proto {
            Some(UDP | TCP) => {
                self.bytes(top, &40_000u16.to_be_bytes());
                self.bytes(top + 2, &4000u16.to_be_bytes());
                if proto == Some(UDP) {
                    self.bytes(top + 4, &[0, 8]);
                } else {
                    self.bytes(top + 12, &[0x50, 2]);
                }
            }
            Some(p) if p == icmp => self.bytes(top, &[if six { 128 } else { 8 }, 0]),
            _ => {}
        }
    }
}
