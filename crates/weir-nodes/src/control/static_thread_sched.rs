use crate::prelude::*;

engine_node! {
    /// Says which threads (workers, from 0 on) are to run elements: `ELEMENT THREAD` for each. It has no ports.
    ///
    /// The name of a compound element stands for all elements in it. If an element is named by several of these, the one
    /// in the innermost compound element counts. The handler `home_thread` of an element gives its thread.
    ///
    /// What works by itself (sources, `Unqueue`, `ToDevice`) runs on the worker that is named, counted round if there are
    /// fewer. Elements with a queue between them, or that pull from each other, stay together: the last of them that is
    /// named counts. Other elements run wherever a packet comes from; devices are read by all workers, which share the
    /// traffic by flow; scripts, control sockets and elements that call handlers run on worker 0.
    StaticThreadSched: "0/0", "a/a", Sink, Graph;
    example "StaticThreadSched(s 0, d 1); s :: RatedSource -> Queue -> d :: Unqueue -> Discard;";
    params {
        /// Elements and their threads.
        rest preferences: Vec<Preference>,
    }
}

/// An element and its thread.
#[derive(Debug)]
pub(crate) struct Preference {
    element: String,
    pub(crate) thread: u32,
}

impl weir_elements::FromArg for Preference {
    const SYNTAX: &'static str = "ELEMENT THREAD";
    fn from_arg(text: &str) -> Result<Preference, String> {
        let wrong = || format!("'{text}': write an element and the number of a thread");
        let (element, thread) = text.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
        let thread = thread.trim().parse().map_err(|_| wrong())?;
        Ok(Preference { element: element.to_owned(), thread })
    }
}

impl Behavior for StaticThreadSched {
    fn place(&mut self, here: &Neighbours<'_>) -> Result<(), String> {
        match self.preferences.iter().find(|p| here.within(&p.element).is_empty()) {
            Some(p) => Err(format!("there is no element '{}'", p.element)),
            None => Ok(()),
        }
    }

    fn threads(&self) -> Vec<(String, u32)> {
        self.preferences.iter().map(|p| (p.element.clone(), p.thread)).collect()
    }
}
