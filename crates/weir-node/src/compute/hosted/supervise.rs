//! Watching a function, and starting it again when it has ended by itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::output::{bound, said, tail};
use super::record::Record;
use super::{Function, Main, Shared, Workload};
use crate::compute::cgroup::Cgroup;
use crate::compute::{ComputeError, Health, Notice, NoticeKind};

/// How often a function is looked after.
const INTERVAL: Duration = Duration::from_millis(250);
/// In how many of these rounds its log is looked at.
const LOG_ROUNDS: u32 = 4;
/// In how many of them it is looked whether it works.
const PULSE_ROUNDS: u32 = 8;
/// After how many rounds its namespace is entered to look at its ports: that takes a thread.
const PORT_ROUNDS: u32 = 24;
/// How long it may not work until that is told.
const HUNG_TOLD: Duration = Duration::from_secs(2);
/// How long it may not work until it is started again.
const HUNG_LIMIT: Duration = Duration::from_secs(15);
/// Pause before a function is started again; doubled each time that it dies soon.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A function that has lived this long begins with the first pause again.
const SETTLED: Duration = Duration::from_secs(60);
/// One that dies soon again and again counts as down until it has lived this long.
const STEADY: Duration = Duration::from_secs(5);

/// A function that is watched.
#[derive(Debug)]
pub(super) struct Supervision {
    end: mpsc::Sender<()>,
    /// Gets the main process when the watch is over.
    main: oneshot::Receiver<Option<Main>>,
}

impl Supervision {
    /// Begins to watch. `main` is the main process, if there is one and it is not only known from the record.
    pub fn begin<W: Workload>(
        shared: Arc<Shared<W>>,
        f: Arc<Function>,
        record: Record,
        main: Option<Main>,
    ) -> Supervision {
        let (end, mut ended) = mpsc::channel(1);
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let memory_kills = Cgroup::named(&f.paths.name).memory_kills();
            let mut watch = Watch {
                memory_kills,
                shared,
                f,
                record,
                main,
                pause: FIRST_PAUSE,
                since: Instant::now(),
                unsteady: None,
                hung: None,
            };
            tokio::select! {
                () = watch.run() => {}
                _ = ended.recv() => {}
            }
            // Who ended the watch may want it; else it is waited for here, so that it leaves no zombie.
            if let Err(Some(Main::Child(mut child))) = sender.send(watch.main.take()) {
                _ = child.wait().await;
            }
        });
        Supervision { end, main: receiver }
    }

    /// Ends the watch, whatever happens to the function from now on.
    pub fn end(&self) {
        // It is over already, if this fails.
        _ = self.end.try_send(());
    }

    /// The main process, after the end of the watch.
    pub async fn main(self) -> Option<Main> {
        self.main.await.ok().flatten()
    }
}

/// A function, and what happened to it.
struct Watch<W> {
    shared: Arc<Shared<W>>,
    f: Arc<Function>,
    record: Record,
    main: Option<Main>,
    pause: Duration,
    /// How many of its processes had been killed for want of memory when it came to work.
    memory_kills: u64,
    /// Since when it works.
    since: Instant,
    /// The reason of its last death, while it is not known to be steady.
    unsteady: Option<String>,
    /// Since when it does not work although it has not ended, and whether that was told.
    hung: Option<(Instant, bool)>,
}

impl<W: Workload> Watch<W> {
    /// Goes on until the watch is ended from outside.
    async fn run(&mut self) {
        loop {
            let reason = self.death().await;
            if self.since.elapsed() >= SETTLED {
                self.pause = FIRST_PAUSE;
            }
            self.f.set_health(Health::Down { reason: reason.clone() });
            self.unsteady = (self.pause > FIRST_PAUSE).then(|| reason.clone());
            self.tell(NoticeKind::Died, reason);
            loop {
                sleep(self.pause).await;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                match self.again().await {
                    Ok(()) => break,
                    Err(e) => {
                        let reason = format!("it cannot be started again: {e}");
                        self.f.set_health(Health::Down { reason: reason.clone() });
                        self.tell(NoticeKind::Died, reason);
                    }
                }
            }
            self.since = Instant::now();
            self.hung = None;
            if let Some(reason) = &self.unsteady {
                self.f.set_health(Health::Down {
                    reason: format!("it works, but it has died several times within a minute: {reason}"),
                });
            }
            self.tell(NoticeKind::Restarted, "it works again".to_owned());
        }
    }

    fn tell(&self, what: NoticeKind, text: String) {
        let notice = Notice { id: self.record.instance.id.clone(), what, text };
        // Nobody listens when the daemon ends.
        _ = self.shared.notices.send(notice);
    }

    /// Waits until the function has ended by itself, and says how.
    async fn death(&mut self) -> String {
        let mut rounds = 0u32;
        loop {
            if let Some(Main::Child(child)) = &mut self.main {
                tokio::select! {
                    status = child.wait() => {
                        self.main = None;
                        let how = status.map_or_else(|e| e.to_string(), said);
                        return self.ended(&format!("{} ended ({how})", W::MAIN));
                    }
                    () = sleep(INTERVAL) => {}
                }
            } else {
                sleep(INTERVAL).await;
                if self.record.process.is_some_and(|p| !p.lives()) {
                    return self.ended(&format!("{} ended", W::MAIN));
                }
            }
            if self.since.elapsed() >= STEADY && self.unsteady.take().is_some() {
                self.f.set_health(Health::Running);
            }
            rounds += 1;
            if rounds.is_multiple_of(PULSE_ROUNDS)
                && let Some(reason) = self.hangs().await
            {
                return reason;
            }
            if rounds.is_multiple_of(PORT_ROUNDS)
                && let Some(reason) = self.lost_port().await
            {
                return reason;
            }
            if rounds.is_multiple_of(LOG_ROUNDS)
                && let Err(e) = bound(&self.f.paths.log())
            {
                tracing::warn!("the log of {} is not bounded: {e}", self.record.instance.id);
            }
            if !self.f.is_sound(&self.record) {
                return "its network namespace, its control group or an interface was removed".to_owned();
            }
        }
    }

    /// That the function has taken a port away from itself, if so.
    async fn lost_port(&self) -> Option<String> {
        let f = self.f.clone();
        // Ports come and go while it is changed; a TAP interface has no other end in a namespace.
        let Ok(_changing) = f.changing.try_lock() else { return None };
        let port = if W::TAP { None } else { f.lost_port(&self.record).await }?;
        Some(format!("its interface {port} was renamed or moved: it has to keep its name and namespace"))
    }

    /// Looks whether it works, and tells what is new of that; gives why it has to be started again, if it has.
    async fn hangs(&mut self) -> Option<String> {
        let health = self.f.health();
        if health == Health::Paused {
            self.hung = None;
            return None;
        }
        // One that is being changed may be stopped for that.
        let f = self.f.clone();
        let Ok(_changing) = f.changing.try_lock() else { return None };
        let found = self.shared.workload.hang(&f.context(&self.record), self.record.process).await;
        let Some(hang) = found else {
            if let Some((_, true)) = self.hung.take() {
                self.f.set_health(Health::Running);
                self.tell(NoticeKind::Restarted, "it works again".to_owned());
            }
            return None;
        };
        let (since, told) = *self.hung.get_or_insert((Instant::now(), false));
        if hang.cure && since.elapsed() >= HUNG_LIMIT {
            return Some(self.ended(&format!("it hung for {} seconds: {}", HUNG_LIMIT.as_secs(), hang.what)));
        }
        if since.elapsed() >= HUNG_TOLD {
            let then = if hang.cure { "" } else { "; it is not started again for that" };
            let reason = format!("hung: {}{then}", hang.what);
            if !told {
                self.tell(NoticeKind::Hung, reason.clone());
                self.hung = Some((since, true));
            }
            self.f.set_health(Health::Hung { reason });
        }
        None
    }

    fn ended(&self, how: &str) -> String {
        let full = Cgroup::named(&self.f.paths.name).memory_kills() > self.memory_kills;
        let how = if full { &format!("{how}, out of its memory") } else { how };
        let output = tail(&self.f.paths.log(), 0);
        if output.is_empty() { how.to_string() } else { format!("{how}; its last output: {output}") }
    }

    /// Starts the function again, made anew where it is not whole.
    async fn again(&mut self) -> Result<(), ComputeError> {
        let f = self.f.clone();
        let _changing = f.changing.lock().await;
        // An attempt before this one may have failed half-way.
        let whole = f.paths.read().is_some_and(|r| r.whole);
        let has_ports = W::TAP || f.lost_port(&self.record).await.is_none();
        if !W::FRESH && whole && has_ports && f.is_sound(&self.record) {
            self.shared.end_rest(&f, &mut self.record).await?;
        } else {
            let instance = self.record.instance.clone();
            self.shared.create(&f, &instance).await?;
            self.record = f.record(&instance.id)?;
        }
        self.main = self.shared.begin(&f, &mut self.record).await?;
        self.memory_kills = Cgroup::named(&f.paths.name).memory_kills();
        Ok(())
    }
}
