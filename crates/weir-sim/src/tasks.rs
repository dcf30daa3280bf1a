//! What goes on at the same time: futures that are polled one at a time, in an order that is chosen from outside.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The subject of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A client's request, by the graph.
    Client(String),
    /// A node is looked at.
    Settle(String),
    /// A node has dialled.
    Arrive(String),
    /// Graphs of lost nodes are placed anew.
    Replace,
    /// What a controller is about that does not lead any more.
    Old,
}

/// The body of a task. Its output is text for the history.
type Future = Pin<Box<dyn std::future::Future<Output = String>>>;

struct Task {
    about: About,
    future: Future,
    ready: Arc<Ready>,
}

struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tasks.
#[derive(Default)]
pub struct Tasks(Vec<Task>);

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|t| &t.about)).finish()
    }
}

impl Tasks {
    /// Begins another one.
    pub fn spawn(&mut self, about: About, future: impl std::future::Future<Output = String> + 'static) {
        let ready = Arc::new(Ready(AtomicBool::new(true)));
        self.0.push(Task { about, future: Box::pin(future), ready });
    }

    /// Whether there is one about that.
    pub fn has(&self, about: &About) -> bool {
        self.0.iter().any(|t| t.about == *about)
    }

    /// Ends those of which that is so, at the point where they are.
    pub fn abort(&mut self, of: impl Fn(&About) -> bool) {
        self.0.retain(|t| !of(&t.about));
    }

    /// What controllers are about by themselves is now what one is about that does not lead any more. Clients wait still.
    pub fn make_old(&mut self) {
        for task in self.0.iter_mut().filter(|t| !matches!(t.about, About::Client(_))) {
            task.about = About::Old;
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many could go on.
    pub fn ready(&self) -> usize {
        self.0.iter().filter(|t| t.ready.0.load(Ordering::Relaxed)).count()
    }

    /// Lets the n-th of these go on as far as it can; what came of it, if that was to its end.
    pub fn poll(&mut self, n: usize) -> Option<(About, String)> {
        let mut ready = self.0.iter().enumerate().filter(|(_, t)| t.ready.0.load(Ordering::Relaxed));
        let at = ready.nth(n)?.0;
        let task = &mut self.0[at];
        task.ready.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(task.ready.clone());
        match task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(said) => Some((self.0.remove(at).about, said)),
            Poll::Pending => None,
        }
    }
}
