//! What the user of the screen did, and what came from the node.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::rates::{Rates, Reading, rates};
use super::sections::{Order, Section, sections};

/// The effect of a key on the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// To draw.
    Draw,
    /// To look at another graph.
    Watch(String),
    /// To end.
    Quit,
}

/// All that the screen shows.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The node's address.
    pub(crate) node: String,
    /// What is shown.
    pub(crate) rates: Rates,
    /// Why there is nothing newer.
    pub(crate) error: Option<String>,
    pub(crate) paused: bool,
    pub(crate) order: Order,
    pub(crate) filter: String,
    /// Whether keys are letters of the filter.
    pub(crate) typing: bool,
    pub(crate) help: bool,
    /// The section that has the whole screen.
    pub(crate) zoom: Option<&'static str>,
    /// How many rows of it are above the screen.
    pub(crate) scroll: usize,
    last: Option<Reading>,
}

impl State {
    pub(crate) fn new(node: &str) -> State {
        State { node: node.to_owned(), ..State::default() }
    }

    /// The node was asked.
    pub(crate) fn update(&mut self, reading: Result<Reading, String>) {
        match reading {
            Ok(_) if self.paused => self.error = None,
            Ok(reading) => {
                self.error = None;
                self.rates = rates(self.last.as_ref(), &reading);
                self.last = Some(reading);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// The tables to show.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let mut all = sections(&self.rates, self.order, &self.filter);
        if let Some(title) = self.zoom {
            all.retain(|s| s.title == title);
        }
        all
    }

    /// A key was pressed.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Effect {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Effect::Quit;
        }
        if self.typing {
            self.letter(key.code);
            return Effect::Draw;
        }
        if self.help {
            self.help = false;
            return Effect::Draw;
        }
        match key.code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => {
                self.filter.clear();
                self.zoom_to(None);
            }
            KeyCode::Tab => self.next_section(1),
            KeyCode::BackTab => self.next_section(-1),
            KeyCode::Right | KeyCode::Char('g') => return self.next_graph(1),
            KeyCode::Left => return self.next_graph(-1),
            KeyCode::Down => self.scroll_by(1),
            KeyCode::Up => self.scroll_by(-1),
            KeyCode::PageDown => self.scroll_by(10),
            KeyCode::PageUp => self.scroll_by(-10),
            _ => {}
        }
        Effect::Draw
    }

    fn letter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = false;
            }
            _ => {}
        }
        self.scroll = 0;
    }

    fn zoom_to(&mut self, zoom: Option<&'static str>) {
        self.zoom = zoom;
        self.scroll = 0;
    }

    /// Goes through all sections together, then each alone.
    fn next_section(&mut self, step: isize) {
        let titles: Vec<&str> =
            sections(&self.rates, self.order, &self.filter).iter().map(|s| s.title).collect();
        let here = self.zoom.and_then(|z| titles.iter().position(|t| *t == z)).map_or(0, |i| i + 1);
        let there = (here as isize + step).rem_euclid(titles.len() as isize + 1) as usize;
        self.zoom_to(there.checked_sub(1).and_then(|i| titles.get(i).copied()));
    }

    fn next_graph(&mut self, step: isize) -> Effect {
        let graphs = &self.rates.graphs;
        if graphs.is_empty() {
            return Effect::Draw;
        }
        let here = graphs.iter().position(|g| Some(&g.id) == self.rates.graph.as_ref());
        let there = here.map_or(0, |i| (i as isize + step).rem_euclid(graphs.len() as isize) as usize);
        self.paused = false;
        self.scroll = 0;
        Effect::Watch(graphs[there].id.clone())
    }

    /// Scrolls, if a section is alone: together they are summaries.
    fn scroll_by(&mut self, rows: isize) {
        if self.zoom.is_none() {
            return;
        }
        let last = self.sections().first().map_or(0, |s| s.rows.len().saturating_sub(1));
        self.scroll = self.scroll.saturating_add_signed(rows).min(last);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::reading;
    use super::*;

    fn press(state: &mut State, code: KeyCode) -> Effect {
        state.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn running() -> State {
        let mut state = State::new("http://127.0.0.1:7400");
        state.update(Ok(reading(1, 100)));
        state.update(Ok(reading(2, 200)));
        state
    }

    #[test]
    fn what_is_shown_stays_when_the_node_goes_and_goes_on_when_it_is_back() {
        let mut state = running();
        let shown = state.rates.clone();
        state.update(Err("no node answers".into()));
        assert_eq!((&state.rates, state.error.as_deref()), (&shown, Some("no node answers")));
        // It comes back, with counts that began anew.
        state.update(Ok(reading(9, 10)));
        assert_eq!((state.error.as_deref(), state.rates.links[0].traffic.packets.per_second), (None, None));
        state.update(Ok(reading(10, 30)));
        assert_eq!(state.rates.links[0].traffic.packets.per_second, Some(20.0));
    }

    #[test]
    fn a_pause_keeps_the_figures() {
        let mut state = running();
        let shown = state.rates.clone();
        press(&mut state, KeyCode::Char(' '));
        state.update(Ok(reading(3, 900)));
        assert_eq!(state.rates, shown);
        press(&mut state, KeyCode::Char(' '));
        state.update(Ok(reading(4, 400)));
        assert_eq!(state.rates.links[0].traffic.packets.per_second, Some(100.0));
    }

    #[test]
    fn graphs_are_gone_through_in_a_circle() {
        let mut state = running();
        assert_eq!(press(&mut state, KeyCode::Right), Effect::Watch("lab".into()));
        assert_eq!(press(&mut state, KeyCode::Left), Effect::Watch("lab".into()));
        state.rates.graph = Some("lab".into());
        assert_eq!(press(&mut state, KeyCode::Char('g')), Effect::Watch("edge".into()));
        state.rates.graphs.clear();
        assert_eq!(press(&mut state, KeyCode::Right), Effect::Draw);
    }

    #[test]
    fn letters_go_into_the_filter_until_enter() {
        let mut state = running();
        "/nqt".chars().for_each(|c| _ = press(&mut state, KeyCode::Char(c)));
        press(&mut state, KeyCode::Backspace);
        assert_eq!(state.filter, "nq");
        press(&mut state, KeyCode::Enter);
        assert_eq!(press(&mut state, KeyCode::Char('q')), Effect::Quit);
        press(&mut state, KeyCode::Esc);
        assert_eq!(state.filter, "");
    }

    #[test]
    fn sections_are_looked_at_alone_and_scrolled_to_their_end() {
        let mut state = running();
        press(&mut state, KeyCode::Tab);
        let titles: Vec<_> = state.sections().iter().map(|s| s.title).collect();
        assert_eq!(titles, ["LINKS"]);
        press(&mut state, KeyCode::PageDown);
        assert_eq!(state.scroll, 1, "two links");
        press(&mut state, KeyCode::BackTab);
        assert_eq!((state.zoom, state.scroll, state.sections().len()), (None, 0, 6));
        press(&mut state, KeyCode::Down);
        assert_eq!(state.scroll, 0);
    }

    #[test]
    fn it_ends_by_control_c_whatever_else_keys_do() {
        let mut state = running();
        press(&mut state, KeyCode::Char('/'));
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.key(key), Effect::Quit);
    }
}
