//! Steps whose outcome is known are left out.
//!
//! As in Click, each path is led past steps that all paths to it have decided, where a bounded number of paths is looked
//! at; then steps about the same word that follow each other become one. What is left keeps its order.

use super::{Step, To, Tree};

/// Most paths to a step that are distinguished.
const PATHS: usize = 4;

/// Steps that are decided on a path, with their outcomes.
type Path = Vec<(usize, bool)>;

impl Tree {
    /// The same decisions with fewer steps.
    pub(super) fn shortened(mut self) -> Tree {
        self.skip_known();
        self.join();
        self.pack();
        self
    }

    /// Leads each path past what is known on it. Paths lead forward only.
    fn skip_known(&mut self) {
        let mut paths: Vec<Option<Vec<Path>>> = vec![None; self.steps.len()];
        if let (To::Step(i), Some(_)) = (self.start, self.steps.first()) {
            paths[i] = Some(vec![Path::new()]);
        }
        for i in 0..self.steps.len() {
            let Some(here) = paths[i].take() else { continue };
            for outcome in [true, false] {
                // Paths that say otherwise do not come by here.
                let step = self.steps[i];
                let goes = |p: &&Path| self.decided(p, &step).is_none_or(|known| known == outcome);
                let all: Vec<Path> = here
                    .iter()
                    .filter(goes)
                    .map(|p| p.iter().copied().chain([(i, outcome)]).collect())
                    .collect();
                if all.is_empty() {
                    continue;
                }
                let visits: Vec<Vec<To>> =
                    all.iter().map(|p| self.visits(p, self.steps[i].to(outcome))).collect();
                // The last place to which all paths lead.
                let common = visits[0].iter().rev().find(|to| visits.iter().all(|v| v.contains(to)));
                let Some(&to) = common else { continue };
                match outcome {
                    true => self.steps[i].yes = to,
                    false => self.steps[i].no = to,
                }
                if let To::Step(next) = to {
                    let known = paths[next].get_or_insert_default();
                    known.extend(all);
                    if known.len() > PATHS {
                        *known = vec![in_common(known)];
                    }
                }
            }
        }
    }

    /// Where a path leads from a place on, as far as it is decided.
    fn visits(&self, path: &Path, from: To) -> Vec<To> {
        let mut visits = vec![from];
        let mut at = from;
        while let To::Step(i) = at
            && let Some(outcome) = self.decided(path, &self.steps[i])
        {
            at = self.steps[i].to(outcome);
            visits.push(at);
        }
        visits
    }

    /// The outcome of a step, if the path says it.
    fn decided(&self, path: &Path, step: &Step) -> Option<bool> {
        // Who took another path than packets that are cut short has the bytes.
        let there = path.iter().filter(|(i, outcome)| self.steps[*i].short_is_yes != *outcome);
        let there = there.map(|(i, _)| self.steps[*i].end()).max().unwrap_or(0);
        path.iter().find_map(|&(i, outcome)| {
            let known = &self.steps[i];
            let result = follows(known, outcome, step)?;
            let whole = known.short_is_yes != outcome || known.end() <= there;
            // Of what is cut short before the one, the other is cut short too.
            (whole || (known.end() <= step.end() && result == step.short_is_yes)).then_some(result)
        })
    }

    /// Makes one step of two about the same word, from the last on.
    fn join(&mut self) {
        for i in (0..self.steps.len()).rev() {
            while self.join_at(i) {}
        }
    }

    /// Whether something changed.
    fn join_at(&mut self, i: usize) -> bool {
        let one = self.steps[i];
        if let To::Step(next) = one.no {
            let other = self.steps[next];
            if compatible(&other, &one, false) && flippable(&one) && one.yes != one.no {
                self.steps[i] = flipped(one);
                return self.join_yes(i);
            }
            let bit = one.value ^ other.value;
            if (one.offset, one.mask, one.yes) == (other.offset, other.mask, other.yes)
                && bit.is_power_of_two()
                && (one.short_is_yes || !other.short_is_yes)
            {
                let mask = one.mask & !bit;
                let joined = Step { mask, value: one.value & mask, no: other.no, ..one };
                if joined.end() == one.end() {
                    self.steps[i] = joined;
                    return true;
                }
            }
        }
        self.join_yes(i)
    }

    fn join_yes(&mut self, i: usize) -> bool {
        let one = self.steps[i];
        let To::Step(next) = one.yes else { return false };
        if one.no == self.steps[next].yes && one.no != self.steps[next].no && flippable(&self.steps[next]) {
            self.steps[next] = flipped(self.steps[next]);
        }
        let other = self.steps[next];
        if one.no != other.no || !compatible(&one, &other, true) {
            return false;
        }
        let mask = one.mask | other.mask;
        self.steps[i] = Step { mask, value: one.value | other.value, yes: other.yes, ..one };
        true
    }

    /// Removes steps that decide nothing, and those that nothing leads to.
    fn pack(&mut self) {
        let mut instead: Vec<To> = Vec::new();
        for i in 0..self.steps.len() {
            instead.push(To::Step(i));
        }
        for i in (0..self.steps.len()).rev() {
            let lead = |to: To, instead: &[To]| if let To::Step(n) = to { instead[n] } else { to };
            let (yes, no) = (lead(self.steps[i].yes, &instead), lead(self.steps[i].no, &instead));
            (self.steps[i].yes, self.steps[i].no) = (yes, no);
            if yes == no {
                instead[i] = yes;
            }
        }
        if let To::Step(n) = self.start
            && let Some(to) = instead.get(n)
        {
            self.start = *to;
        }
        let mut reached = vec![false; self.steps.len()];
        let mut numbers = vec![0; self.steps.len()];
        let mut kept = Vec::new();
        if let To::Step(n) = self.start {
            reached[n] = true;
        }
        for i in 0..self.steps.len() {
            if !reached[i] {
                continue;
            }
            numbers[i] = kept.len();
            kept.push(self.steps[i]);
            for to in [self.steps[i].yes, self.steps[i].no] {
                if let To::Step(n) = to {
                    reached[n] = true;
                }
            }
        }
        for to in kept.iter_mut().flat_map(|s| [&mut s.yes, &mut s.no]).chain([&mut self.start]) {
            if let To::Step(n) = to {
                *n = numbers[*n];
            }
        }
        self.steps = kept;
    }
}

/// What paths have in common.
fn in_common(paths: &[Path]) -> Path {
    let Some((first, others)) = paths.split_first() else { return Path::new() };
    first.iter().copied().filter(|fact| others.iter().all(|p| p.contains(fact))).collect()
}

/// What the outcome of one step says of another, for packets that are long enough.
fn follows(known: &Step, outcome: bool, step: &Step) -> Option<bool> {
    if known.offset != step.offset {
        return None;
    }
    let both = known.mask & step.mask;
    let agree = known.value & both == step.value & both;
    match outcome {
        true if both == step.mask => Some(agree),
        true => None,
        // What the other asks for and more is not there.
        false if both == known.mask && agree => Some(false),
        false if known.mask == step.mask && known.mask.is_power_of_two() => Some(!agree),
        false => None,
    }
}

/// Whether what matches one step may match the other too.
fn compatible(a: &Step, b: &Step, short: bool) -> bool {
    let both = a.mask & b.mask;
    a.offset == b.offset
        && !(short && a.short_is_yes != b.short_is_yes && a.end() < b.end())
        && a.value & both == b.value & both
}

/// Whether the opposite of a step is a step: it looks at one bit.
fn flippable(step: &Step) -> bool {
    step.mask.is_power_of_two()
}

fn flipped(step: Step) -> Step {
    let short_is_yes = !step.short_is_yes;
    Step { value: step.value ^ step.mask, yes: step.no, no: step.yes, short_is_yes, ..step }
}
