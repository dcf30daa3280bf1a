//! Asks the program `z3` about the conditions of a path, when intervals do not decide and the search finds nothing.
//!
//! That there is no solution is a proof. A solution is turned into a packet and tables, and counts only if the
//! conditions hold on the run that starts from them. If `z3` is not installed, nothing is decided.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use easy_smt::{Context, ContextBuilder, Response, SExpr, SExprData};
use weir_ir::program::Width;
use weir_packet::{HEADROOM, HUGE_CAPACITY, LARGE_CAPACITY, SMALL_CAPACITY};

use crate::explore::deadline::Deadline;
use crate::model::anchors::is_behind;
use crate::model::expr::{Expr, Exprs, Node, Symbol};
use crate::model::terms::{Terms, number};
use crate::network::Network;
use crate::solve::Goal;
use crate::solve::defaults::{Wish, wishes};
use crate::solve::eval::{Evaluator, Model};

/// Steps after which z3 gives up a question: about half a second, and the same answer on a slow machine.
const STEPS: u32 = 4_000_000;
/// Milliseconds after which it gives up in any case.
const TIME: u32 = 10_000;
/// Megabytes that z3 may use.
const MEMORY: u32 = 1024;
/// Seconds after which a process ends, whatever it does; or sooner, where there is less time.
const LIFE: u32 = 40;
/// How often a solution is updated where it does not say enough.
const ROUNDS: u32 = 8;
/// Most commands that wait for their answers: what z3 writes meanwhile fits into a pipe.
const AHEAD: usize = 1000;

/// The answer of z3.
pub(crate) enum Answer {
    /// No run goes so.
    Impossible,
    /// Perhaps one from these values.
    Model(Model),
    Unknown,
    /// The program was not found.
    Missing,
}

/// A process of z3, started when it is first asked.
pub(crate) struct Smt {
    program: &'static str,
    process: RefCell<Process>,
}

enum Process {
    None,
    /// Since when, and after how many seconds it ends.
    Runs(Box<Context>, Instant, u32),
    Missing,
}

impl Default for Smt {
    fn default() -> Smt {
        Smt::with("z3")
    }
}

impl Smt {
    /// One that starts this program.
    pub(crate) fn with(program: &'static str) -> Smt {
        Smt { program, process: RefCell::new(Process::None) }
    }

    /// Whether conditions, of which a goal's facts follow, can hold.
    pub(crate) fn ask(
        &self,
        net: &Network,
        goal: &Goal<'_>,
        conditions: &[Expr],
        deadline: &Deadline,
    ) -> Answer {
        let mut process = self.process.borrow_mut();
        // A process that ended, or is about to, is followed by another.
        if let Process::Runs(_, since, life) = &*process
            && since.elapsed() > Duration::from_secs((*life).into()) / 2
        {
            *process = Process::None;
        }
        if let Process::None = *process {
            let life = deadline.left().map_or(LIFE, |left| LIFE.min(left.as_secs() as u32 + 1));
            *process = match start(self.program, life) {
                Ok(context) => Process::Runs(Box::new(context), Instant::now(), life),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Process::Missing,
                Err(_) => Process::None,
            };
        }
        let answer = match &mut *process {
            Process::Missing => return Answer::Missing,
            Process::None => return Answer::Unknown,
            Process::Runs(context, ..) => Query::new(context, net, goal, deadline).answer(conditions),
        };
        answer.unwrap_or_else(|_| {
            *process = Process::None;
            Answer::Unknown
        })
    }
}

fn start(program: &str, life: u32) -> io::Result<Context> {
    let args = ["-smt2".to_owned(), "-in".to_owned(), format!("-T:{life}"), format!("-memory:{MEMORY}")];
    let mut context = ContextBuilder::new().solver(program).solver_args(args).build()?;
    let options = [
        (":timeout", TIME),
        (":rlimit", STEPS),
        (":random-seed", 1),
        (":smt.random_seed", 1),
        (":sat.random_seed", 1),
    ];
    for (name, value) in options {
        let value = context.numeral(value);
        context.set_option(name, value)?;
    }
    Ok(context)
}

struct Query<'a> {
    context: &'a mut Context,
    net: &'a Network,
    x: &'a Exprs,
    goal: &'a Goal<'a>,
    deadline: &'a Deadline,
    terms: Terms<'a>,
}

impl<'a> Query<'a> {
    fn new(
        context: &'a mut Context,
        net: &'a Network,
        goal: &'a Goal<'a>,
        deadline: &'a Deadline,
    ) -> Query<'a> {
        let x = goal.exprs;
        Query { context, net, x, goal, deadline, terms: Terms::new(x, goal.facts) }
    }

    fn answer(mut self, conditions: &[Expr]) -> io::Result<Answer> {
        self.context.push()?;
        self.terms.assert_all(conditions);
        self.send()?;
        let answer = match self.check()? {
            Response::Unsat => Answer::Impossible,
            Response::Unknown => Answer::Unknown,
            Response::Sat => self.model()?.map_or(Answer::Unknown, Answer::Model),
        };
        self.context.pop()?;
        Ok(answer)
    }

    /// Asks whether all that was said can be, as long as there is time.
    fn check(&mut self) -> io::Result<Response> {
        self.hurry()?;
        self.context.check()
    }

    /// The same, if all this is so.
    fn check_assuming(&mut self, assumed: Vec<SExpr>) -> io::Result<Response> {
        self.hurry()?;
        self.context.check_assuming(assumed)
    }

    /// Gives the next question no more time than there is.
    fn hurry(&mut self) -> io::Result<()> {
        let Some(left) = self.deadline.left() else { return Ok(()) };
        let left = left.as_millis().clamp(1, TIME.into());
        let left = self.context.numeral(left);
        self.context.set_option(":timeout", left)
    }

    /// Sends the commands that wait.
    fn send(&mut self) -> io::Result<()> {
        let lines = self.terms.take();
        for some in lines.chunks(AHEAD) {
            for line in some {
                let line = self.context.atom(line.as_str());
                self.context.raw_send(line)?;
            }
            for line in some {
                let answer = self.context.raw_recv()?;
                if self.context.get_atom(answer) != Some("success") {
                    let answer = self.context.display(answer);
                    return Err(io::Error::other(format!("z3 answers {answer} to {line}")));
                }
            }
        }
        Ok(())
    }

    /// Values of the symbols, if some that can be built are found.
    fn model(&mut self) -> io::Result<Option<Model>> {
        self.buildable();
        let wanted = wishes(self.x, self.goal.facts, self.goal.inputs);
        let mut names = Vec::new();
        for (i, wish) in wanted.iter().enumerate() {
            names.push(self.wish(i, wish));
        }
        self.send()?;
        let mut kept = self.keep(&names)?;
        if kept.is_none() {
            return Ok(None);
        }
        for _ in 0..ROUNDS {
            let Some(assumed) = &kept else { return Ok(None) };
            let assumed: Vec<SExpr> = assumed.iter().map(|n| self.context.atom(n.as_str())).collect();
            if self.check_assuming(assumed)? != Response::Sat {
                // What was wished for may be in the way.
                kept = match self.check()? {
                    Response::Sat => self.keep(&names)?,
                    _ => None,
                };
                continue;
            }
            let (model, free) = self.values()?;
            let mut eval = Evaluator::of_model(self.x, self.net, &model);
            let wrong: Vec<Expr> =
                free.into_iter().filter(|&(e, v)| eval.eval(e) != v).map(|(e, _)| e).collect();
            if wrong.is_empty() {
                return Ok(Some(model));
            }
            for e in wrong {
                self.terms.learn(e, &mut |o| eval.eval(o));
            }
            self.send()?;
        }
        Ok(None)
    }

    /// Those of the wishes that go together with all that has to be. `None`: not even that goes.
    fn keep(&mut self, names: &[String]) -> io::Result<Option<Vec<String>>> {
        let mut kept: Vec<String> = Vec::new();
        let mut size = names.len();
        let mut rest = names;
        // As many at once as go.
        while !rest.is_empty() {
            let (some, others) = rest.split_at(size.min(rest.len()));
            let assumed: Vec<SExpr> =
                kept.iter().chain(some).map(|n| self.context.atom(n.as_str())).collect();
            match self.check_assuming(assumed)? {
                Response::Sat => {
                    kept.extend_from_slice(some);
                    rest = others;
                }
                // It takes too long, and would again.
                Response::Unknown => break,
                Response::Unsat if size > 1 => size = size.div_ceil(2).min(4),
                Response::Unsat => rest = others,
            }
        }
        Ok((!kept.is_empty() || self.check()? == Response::Sat).then_some(kept))
    }

    /// A name for what is wished.
    fn wish(&mut self, i: usize, wish: &Wish) -> String {
        let name = format!("w{i}");
        self.terms.command(format!("(declare-const {name} Bool)"));
        for (s, v) in wish {
            let bits = self.x.find_symbol(s).map_or(8, |e| self.x.width(e).bits());
            let symbol = self.terms.symbol(s, bits);
            self.terms.assert(&format!("(=> {name} (= {symbol} {}))", number(*v, bits)));
        }
        name
    }

    /// Says what holds of all that is made from a model.
    fn buildable(&mut self) {
        for s in self.terms.symbols().to_vec() {
            if let Symbol::Head(p) | Symbol::Capacity(p) = s {
                let part = |t: &mut Terms<'_>, s: Symbol| t.symbol(&s, 32);
                let (len, pulled) =
                    (part(&mut self.terms, Symbol::Len(p)), part(&mut self.terms, Symbol::Pulled(p)));
                let (head, capacity) =
                    (part(&mut self.terms, Symbol::Head(p)), part(&mut self.terms, Symbol::Capacity(p)));
                let [space, small, large, huge] =
                    [HEADROOM, SMALL_CAPACITY, LARGE_CAPACITY, HUGE_CAPACITY].map(|v| number(v.into(), 32));
                let sized = |need: &str| {
                    let larger = format!("(ite (bvule {need} {large}) {large} {huge})");
                    format!("(= {capacity} (ite (bvule {need} {small}) {small} {larger}))")
                };
                let bytes = format!("(bvadd {pulled} {len})");
                let plain = sized(&format!("(bvadd {space} {bytes})"));
                // As far in front as can be.
                let moved = format!("(ite (bvule {bytes} {space}) {bytes} {space})");
                let front = sized(&format!("(bvsub (bvadd {space} {bytes}) {moved})"));
                self.terms.assert(&format!(
                    "(or (and (= {head} (bvadd {space} {pulled})) {plain}) (and (= {head} (bvsub (bvadd {space} {pulled}) {moved})) {front}))"
                ));
            }
        }
        for e in self.terms.free().to_vec() {
            let (x, name) = (self.x, self.terms.name(e));
            match x.node(e) {
                Node::MeterOk(args) | Node::MeterState(args)
                    if matches!(x.node(args[0]), Node::Symbol(_)) =>
                {
                    self.bucket(e, args);
                }
                Node::Claimed(c) => {
                    let bits = x.width(e).bits();
                    let (start, lo) = (self.terms.fit(c.start, bits), self.terms.fit(c.lo, bits));
                    let Some(ok) = x.find(Width::W1, &Node::ClaimOk(c.clone())) else { continue };
                    let ok = self.terms.name(ok);
                    let zero = number(0, bits);
                    self.terms.assert(&format!(
                        "(ite (= {ok} #b1) (= {start} (bvsub {name} {lo})) (= {name} {zero}))"
                    ));
                }
                _ => {}
            }
        }
    }

    /// Says what a bucket does that is either as new or empty a moment ago.
    fn bucket(&mut self, e: Expr, args: &[Expr; 5]) {
        const UNIT: u128 = 1_000_000_000;
        let [state, now, cost, _, burst] = *args;
        let t = &mut self.terms;
        let (name, bucket) = (t.name(e), t.fit(state, 128));
        let [now, cost, burst] = [now, cost, burst].map(|e| t.fit(e, 64));
        let [zero, one, unit] = [0, 1, UNIT].map(|v| number(v, 64));
        let now = format!("(ite (= {now} {zero}) {one} {now})");
        let full = format!("(ite (bvule {burst} {unit}) {burst} {unit})");
        let fresh = format!("(= {bucket} {})", number(0, 128));
        t.assert(&format!("(or {fresh} (and (bvult {zero} {cost}) (= {bucket} (concat {now} {zero}))))"));
        let enough = format!("(and {fresh} (bvule {cost} {full}))");
        t.assert(&if let Node::MeterOk(_) = self.x.node(e) {
            format!("(= (= {name} #b1) {enough})")
        } else {
            let left = format!("(ite {enough} (bvsub {full} {cost}) (ite {fresh} {full} {zero}))");
            format!("(= {name} (concat {now} (bvmul {left} {unit})))")
        });
    }

    /// Values of the symbols and of the free expressions.
    fn values(&mut self) -> io::Result<(Model, Vec<(Expr, u128)>)> {
        let symbols = self.terms.symbols().to_vec();
        let free = self.terms.free().to_vec();
        let names: Vec<String> = (0..symbols.len())
            .map(|i| format!("s{i}"))
            .chain(free.iter().map(|&e| self.terms.name(e)))
            .collect();
        if names.is_empty() {
            return Ok((Model::default(), Vec::new()));
        }
        let command = self.context.atom(format!("(get-value ({}))", names.join(" ")));
        self.context.raw_send(command)?;
        let answer = self.context.raw_recv()?;
        let values: Option<Vec<u128>> =
            self.context.get_list(answer).and_then(|pairs| pairs.iter().map(|&p| self.value(p)).collect());
        let Some(values) = values.filter(|v| v.len() == names.len()) else {
            return Err(io::Error::other("z3 gives no values"));
        };
        let mut model: Model = Model::default();
        let mut derived = HashSet::new();
        let mut behind = Vec::new();
        for (s, &v) in symbols.iter().zip(&values) {
            match s {
                Symbol::Byte(source, at) if is_behind(*at) => behind.push((*source, *at, v)),
                Symbol::Head(p) => _ = derived.insert((*p, v)),
                Symbol::Capacity(_) => {}
                _ => _ = model.insert(s.clone(), v),
            }
        }
        // Where these are follows from the others.
        let mut eval = Evaluator::of_model(self.x, self.net, &model);
        let places: Vec<i64> = behind.iter().map(|&(_, at, _)| eval.real(at)).collect();
        for ((source, _, v), at) in behind.into_iter().zip(places) {
            model.insert(Symbol::Byte(source, at), v);
        }
        for (p, head) in derived {
            let pulled = model.get(&Symbol::Pulled(p)).copied().unwrap_or(0);
            if head != u128::from(HEADROOM) + pulled {
                model.insert(Symbol::Head(p), 0);
            }
        }
        Ok((model, free.into_iter().zip(values.into_iter().skip(symbols.len())).collect()))
    }

    fn value(&self, pair: SExpr) -> Option<u128> {
        match self.context.get(pair) {
            SExprData::List([_, value]) => self.context.get_u128(*value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
