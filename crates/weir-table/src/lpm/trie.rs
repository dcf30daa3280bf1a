//! A path-compressed trie of 6-bit steps: Tree Bitmap (Eatherton, Varghese, Dittia 2004) whose nodes lie one after
//! another per parent and are found by counting bits, as in Poptrie (Asai, Ohara 2015).
//!
//! Steps end after 3, 9, 15, ..., 123 bits, so that no usual length (8, 16, 24, 32, 48, 64, 128) begins a step: a prefix
//! of `n` bits is kept in the node that reads its last bits, with others of up to 5 bits more or less. To read 6 bits
//! everywhere, the code sees three zeros before each key: a *level* counts bits with these. It is a multiple of 6.
//!
//! A node of level L has the prefixes of L to L + 5 bits that share its first L bits, and a child for each next 6 bits
//! under which there are longer ones. Nodes that would have no prefix and only one child are left out, so `n` prefixes
//! need at most `2 n + 1` nodes, whatever they are: no more than 132 bytes a prefix, and up to as much again that the
//! allocator adds (each node's children are one aligned block).
//!
//! Keys are 128 bits with the first bit of the key in the highest: narrower ones are shifted up by the caller.

/// Bits that a step reads.
const STEP: u32 = 6;

/// Zeros before each key.
const LEAD: u32 = 3;

/// For each value of 6 bits: the places of its prefixes of 0..=5 bits in [`Node::prefixes`].
const PREFIXES_OF: [u64; 64] = {
    let mut of = [0; 64];
    let mut bits = 0;
    while bits < 64 {
        let mut place = (64 | bits) >> 1;
        while place > 0 {
            of[bits] |= 1 << place;
            place >>= 1;
        }
        bits += 1;
    }
    of
};

/// A prefix that was found: its length in bits, and its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixMatch {
    pub len: u32,
    pub slot: u32,
}

/// Prefixes and the slot of each.
#[derive(Debug)]
pub struct Trie {
    root: Node,
    len: usize,
}

/// One cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Node {
    /// The bits before this node, the three zeros among them, followed by a one that says where they end.
    path: u128,
    /// Which prefixes there are: that of bits `b`, `n` of them, has the place `1 << n | b`.
    prefixes: u64,
    /// Which children there are, by the 6 bits that lead to them.
    below: u64,
    children: Box<[Node]>,
    /// The slots of the prefixes, in the order of their places.
    slots: Slots,
}

#[derive(Debug)]
enum Slots {
    /// Two at most: what most nodes have.
    Few([u32; 2]),
    Many(Box<[u32]>),
}

impl Trie {
    pub fn new() -> Trie {
        Trie { root: Node::new(0, 0), len: 0 }
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The slot of the longest prefix of a key.
    pub fn lookup(&self, key: u128) -> Option<u32> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt") && std::arch::is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { self.lookup_with_bit_instructions(key) };
        }
        self.lookup_inlined(key)
    }

    /// The same, a third faster: the instructions that count bits are younger than the x86-64 compiled for.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi2")]
    fn lookup_with_bit_instructions(&self, key: u128) -> Option<u32> {
        self.lookup_inlined(key)
    }

    #[inline(always)]
    fn lookup_inlined(&self, key: u128) -> Option<u32> {
        let mut node = &self.root;
        let mut best = None;
        loop {
            let bits = step(key, node.level());
            let hits = node.prefixes & PREFIXES_OF[bits];
            if hits != 0 {
                best = Some((node, hits));
            }
            match node.child(bits) {
                Some(child) if child.holds(key >> LEAD) => node = child,
                _ => return best.and_then(|(node, hits)| node.slot(hits.ilog2())),
            }
        }
    }

    /// The longest prefix of a key that has at most `max` bits.
    pub fn longest(&self, key: u128, max: u32) -> Option<PrefixMatch> {
        let mut node = &self.root;
        let mut best = None;
        let max = max + LEAD;
        while node.level() <= max && node.holds(key >> LEAD) {
            let level = node.level();
            let bits = step(key, level);
            let short_enough = u64::MAX >> (64 - (2 << (max - level).min(STEP - 1)));
            let hits = node.prefixes & PREFIXES_OF[bits] & short_enough;
            if hits != 0 {
                let at = hits.ilog2();
                best = node.slot(at).map(|slot| PrefixMatch { len: level + at.ilog2() - LEAD, slot });
            }
            let Some(child) = node.child(bits) else { break };
            node = child;
        }
        best
    }

    /// Adds a prefix, or gives one that is there another slot and returns the old one. Bits of `path` beyond `len`
    /// are zero.
    pub fn insert(&mut self, path: u128, len: u32, slot: u32) -> Option<u32> {
        let end = len + LEAD;
        let target = end - end % STEP;
        let mut node = &mut self.root;
        while node.level() < target {
            let bits = step(path, node.level());
            let at = rank(node.below, bits as u32);
            if node.below >> bits & 1 == 0 {
                node.below |= 1 << bits;
                insert_at(&mut node.children, at, Node::new(path, target));
            } else {
                let child = &mut node.children[at];
                let level = child.level();
                let common = (child.path ^ path >> LEAD).leading_zeros().min(target);
                if common < level {
                    let fork = Node::new(path, common - common % STEP);
                    let old = std::mem::replace(child, fork);
                    child.below = 1 << step(old.path << LEAD, child.level());
                    child.children = Box::new([old]);
                }
            }
            node = &mut node.children[at];
        }
        let old = node.put(place(path, target, end), slot);
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes a prefix and returns its slot.
    pub fn remove(&mut self, path: u128, len: u32) -> Option<u32> {
        let slot = self.root.remove(path, len + LEAD)?;
        self.len -= 1;
        Some(slot)
    }

    /// Shows `see` the prefixes that begin with the first `len` bits of `path`, in the order of their bits, shorter
    /// ones first: bits, length, slot. Those that begin with one for which `see` returns false are passed over.
    pub fn within(&self, path: u128, len: u32, see: &mut impl FnMut(u128, u32, u32) -> bool) {
        let mut node = &self.root;
        let end = len + LEAD;
        while node.level() + STEP <= end {
            let Some(child) = node.child(step(path, node.level())) else { return };
            if (child.path ^ path >> LEAD).leading_zeros() < child.level().min(end) {
                return;
            }
            node = child;
        }
        let first = if node.level() <= end { place(path, node.level(), end) } else { 1 };
        node.visit(first, see);
    }

    /// Memory in use, in bytes, without the allocator's own.
    pub fn bytes(&self) -> usize {
        size_of::<Trie>() + self.root.bytes()
    }
}

impl Node {
    fn new(path: u128, level: u32) -> Node {
        let end = 1 << (127 - level);
        Node {
            path: path >> LEAD & !(end | (end - 1)) | end,
            prefixes: 0,
            below: 0,
            children: Box::default(),
            slots: Slots::Few([0; 2]),
        }
    }

    /// Number of bits before this node.
    fn level(&self) -> u32 {
        127 - self.path.trailing_zeros()
    }

    /// Whether the bits before this node are the key's, which has the three zeros.
    fn holds(&self, key: u128) -> bool {
        (self.path ^ key).leading_zeros() >= self.level()
    }

    fn child(&self, bits: usize) -> Option<&Node> {
        if self.below >> bits & 1 == 0 {
            return None;
        }
        self.children.get(rank(self.below, bits as u32))
    }

    fn slot(&self, place: u32) -> Option<u32> {
        if self.prefixes >> place & 1 == 0 {
            return None;
        }
        let at = rank(self.prefixes, place);
        match &self.slots {
            Slots::Few(slots) => slots.get(at).copied(),
            Slots::Many(slots) => slots.get(at).copied(),
        }
    }

    /// Gives the prefix at `place` a slot, and returns the one it had.
    fn put(&mut self, place: u32, slot: u32) -> Option<u32> {
        let old = self.slot(place);
        let at = rank(self.prefixes, place);
        match (&mut self.slots, old) {
            (Slots::Few(slots), Some(_)) => slots[at] = slot,
            (Slots::Many(slots), Some(_)) => slots[at] = slot,
            (Slots::Few(slots), None) => {
                let count = self.prefixes.count_ones() as usize;
                if count < slots.len() {
                    slots[at..].rotate_right(1);
                    slots[at] = slot;
                } else {
                    let mut many: Box<[u32]> = Box::new(*slots);
                    insert_at(&mut many, at, slot);
                    self.slots = Slots::Many(many);
                }
            }
            (Slots::Many(slots), None) => insert_at(slots, at, slot),
        }
        self.prefixes |= 1 << place;
        old
    }

    /// Takes the slot of the prefix at `place` away.
    fn take(&mut self, place: u32) -> Option<u32> {
        let old = self.slot(place)?;
        let at = rank(self.prefixes, place);
        match &mut self.slots {
            Slots::Few(slots) => slots[at..].rotate_left(1),
            Slots::Many(slots) => {
                remove_at(slots, at);
                if let [a, b] = **slots {
                    self.slots = Slots::Few([a, b]);
                }
            }
        }
        self.prefixes &= !(1 << place);
        Some(old)
    }

    fn remove(&mut self, path: u128, end: u32) -> Option<u32> {
        let level = self.level();
        if end < level + STEP {
            return self.take(place(path, level, end));
        }
        let bits = step(path, level);
        if self.below >> bits & 1 == 0 {
            return None;
        }
        let at = rank(self.below, bits as u32);
        let child = &mut self.children[at];
        if child.level() > end || !child.holds(path >> LEAD) {
            return None;
        }
        let slot = child.remove(path, end)?;
        if child.prefixes == 0 && child.children.len() == 1 {
            *child = remove_at(&mut child.children, 0);
        } else if child.prefixes == 0 && child.children.is_empty() {
            self.below &= !(1 << bits);
            remove_at(&mut self.children, at);
        }
        Some(slot)
    }

    /// Shows the prefix at `place`, and all that begin with it.
    fn visit(&self, place: u32, see: &mut impl FnMut(u128, u32, u32) -> bool) {
        if let Some(slot) = self.slot(place) {
            let (level, more) = (self.level(), place.ilog2());
            let end: u128 = 1 << (127 - level);
            let bits = u128::from(place) << (127 - more) << 1;
            let bits = if level == 0 { bits << LEAD } else { bits >> (level - LEAD) };
            if !see((self.path & !end) << LEAD | bits, level + more - LEAD, slot) {
                return;
            }
            if self.children.is_empty() && self.prefixes.count_ones() == 1 {
                return;
            }
        }
        for next in [2 * place, 2 * place + 1] {
            if next < 64 {
                self.visit(next, see);
            } else if let Some(child) = self.child((next - 64) as usize) {
                child.visit(1, see);
            }
        }
    }

    /// Memory of what this node points to.
    fn bytes(&self) -> usize {
        let slots = if let Slots::Many(slots) = &self.slots { size_of_val(&**slots) } else { 0 };
        size_of_val(&*self.children) + slots + self.children.iter().map(Node::bytes).sum::<usize>()
    }
}

/// A key from `level` on, with zeros after its end.
fn after(key: u128, level: u32) -> u128 {
    if level == 0 { key >> LEAD } else { key << (level - LEAD) }
}

/// The 6 bits of a key from `level` on.
fn step(key: u128, level: u32) -> usize {
    (after(key, level) >> (128 - STEP)) as usize
}

/// The place in a node of `level` of the prefix that ends at level `end`.
fn place(path: u128, level: u32, end: u32) -> u32 {
    let leading_one = 1 << 127;
    ((after(path, level) >> 1 | leading_one) >> (127 - (end - level))) as u32
}

/// Number of ones in `set` below `bit`.
fn rank(set: u64, bit: u32) -> usize {
    (set & ((1 << bit) - 1)).count_ones() as usize
}

fn insert_at<T>(list: &mut Box<[T]>, at: usize, item: T) {
    let mut items = std::mem::take(list).into_vec();
    items.reserve_exact(1);
    items.insert(at, item);
    *list = items.into_boxed_slice();
}

fn remove_at<T>(list: &mut Box<[T]>, at: usize) -> T {
    let mut items = std::mem::take(list).into_vec();
    let item = items.remove(at);
    *list = items.into_boxed_slice();
    item
}
