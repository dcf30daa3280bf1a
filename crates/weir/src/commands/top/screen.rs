//! The screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use weir_api::status::State as GraphState;

use super::lines::{divide, lines};
use super::sections::Section;
use super::state::State;

const KEYS: [(&str, &str); 8] = [
    ("q, Ctrl-C", "quit"),
    ("Space, p", "pause, and go on"),
    ("Left, Right, g", "switch to another graph"),
    ("Tab, Shift-Tab", "one table alone, the next one, all"),
    ("Up, Down, PgUp, PgDn", "scroll, while one table is alone"),
    ("s", "sort by rate, by total, by name"),
    ("/", "only rows with this in a name; Enter, or Esc for all"),
    ("?, h", "this help; any key ends it"),
];

/// Draws all of it.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &State) {
    let [title, graphs, trouble, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title_line(state), title);
    frame.render_widget(graph_line(state, usize::from(graphs.width)), graphs);
    frame.render_widget(trouble_line(state), trouble);
    if state.help {
        let line =
            |(key, what): (&str, &'static str)| Line::from(vec![format!("  {key:22}").bold(), what.into()]);
        frame.render_widget(Paragraph::new(KEYS.map(line).to_vec()), body);
    } else {
        frame.render_widget(Paragraph::new(tables(state, body)), body);
    }
    frame.render_widget(key_line(state), keys);
}

fn title_line(state: &State) -> Line<'_> {
    let mut spans = vec!["weir top".bold(), "  ".into(), Span::from(&*state.node)];
    spans.push(format!("  by {}", state.order.name()).dim());
    if let Some(seconds) = state.rates.seconds {
        spans.push(format!("  over {seconds:.1} s").dim());
    }
    if state.paused {
        spans.push("  PAUSED".yellow().bold());
    }
    Line::from(spans)
}

/// The graphs, beginning so that the one that is looked at can be seen.
fn graph_line(state: &State, width: usize) -> Line<'_> {
    let mut spans = vec!["graphs ".dim()];
    let graphs = &state.rates.graphs;
    if graphs.is_empty() {
        spans.push("none".dim());
    }
    let here = |id: &String| Some(id) == state.rates.graph.as_ref();
    let at = graphs.iter().position(|g| here(&g.id)).unwrap_or(0);
    let long = |from: usize| graphs[from..=at].iter().map(|g| g.id.chars().count() + 3).sum::<usize>() + 7;
    let first = if graphs.is_empty() { 0 } else { (0..at).find(|&i| long(i) <= width).unwrap_or(at) };
    for g in graphs.iter().skip(first) {
        let colour = match g.state {
            GraphState::Running | GraphState::Idle => Style::new(),
            GraphState::Failed { .. } => Style::new().fg(Color::Red),
            GraphState::Starting | GraphState::Stopped | GraphState::Bypass | GraphState::Degraded { .. } => {
                Style::new().fg(Color::Yellow)
            }
        };
        let style = if here(&g.id) { colour.add_modifier(Modifier::REVERSED) } else { colour };
        spans.push(Span::styled(format!(" {} ", g.id), style));
        spans.push(" ".into());
    }
    Line::from(spans)
}

fn trouble_line(state: &State) -> Line<'_> {
    if let Some(error) = &state.error {
        return Line::from(format!("{error}; trying again").red().bold());
    }
    let here = state.rates.graphs.iter().find(|g| Some(&g.id) == state.rates.graph.as_ref());
    match here.map(|g| &g.state) {
        Some(GraphState::Failed { reason }) => Line::from(format!("failed: {reason}").red()),
        Some(GraphState::Degraded { reason }) => Line::from(format!("degraded: {reason}").yellow()),
        Some(GraphState::Starting) => Line::from("starting".yellow()),
        Some(GraphState::Idle) => Line::from("idle: its first packet starts it".dim()),
        Some(GraphState::Stopped) => Line::from("stopped".yellow()),
        Some(GraphState::Bypass) => Line::from("bypass".yellow()),
        Some(GraphState::Running) => Line::default(),
        None if state.rates.graphs.is_empty() => {
            Line::from("the node has no graph; 'weir apply FILE' makes one".yellow())
        }
        None => Line::from("the graph was removed; Right goes to another".yellow()),
    }
}

fn key_line(state: &State) -> Line<'_> {
    if state.typing {
        return Line::from(vec!["only rows with: ".bold(), Span::from(&*state.filter), "_".slow_blink()]);
    }
    let mut spans = Vec::new();
    if !state.filter.is_empty() {
        spans.push(format!("only '{}' (Esc: all)  ", state.filter).yellow());
    }
    for (key, what) in [
        ("q", "quit"),
        ("Space", "pause"),
        ("g", "graph"),
        ("Tab", "table"),
        ("s", "sort"),
        ("/", "filter"),
        ("?", "help"),
    ] {
        spans.extend([key.bold(), format!(" {what}  ").dim()]);
    }
    Line::from(spans)
}

/// The tables, as many and as much of them as there is space for.
fn tables(state: &State, area: Rect) -> Vec<Line<'static>> {
    let sections = state.sections();
    if sections.is_empty() && !state.filter.is_empty() {
        return vec![Line::from(format!("no row has '{}' in a name", state.filter).dim())];
    }
    // Titles, rows, and an empty line.
    let wanted: Vec<usize> = sections.iter().map(|s| s.rows.len() + 2).collect();
    let given = divide(&wanted, usize::from(area.height), 3);
    let mut out = Vec::new();
    for (section, height) in sections.iter().zip(given).filter(|(_, height)| *height > 0) {
        table(section, usize::from(area.width), state.scroll, height, &mut out);
    }
    out
}

fn table(section: &Section, width: usize, scroll: usize, height: usize, out: &mut Vec<Line<'static>>) {
    let left = section.rows.len().saturating_sub(scroll);
    // The last line is empty, or says what there is no space for.
    let space = height.saturating_sub(2);
    let (titles, rows) = lines(section, width, scroll, space);
    let style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
    out.push(Line::styled(titles, style));
    let shown = rows.len();
    out.extend(rows.into_iter().map(|row| {
        let style = if row.alarm { Style::new().fg(Color::Red) } else { Style::new() };
        Line::styled(row.text, style)
    }));
    out.push(if left > shown {
        Line::from(format!("… {} more of {}", left - shown, section.title.to_lowercase()).dim())
    } else {
        Line::default()
    });
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::rates::tests::reading;
    use super::*;

    fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let cells = terminal.backend().buffer().content.chunks(usize::from(width));
        cells
            .map(|row| {
                row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
            })
            .collect()
    }

    fn running() -> State {
        let mut state = State::new("http://10.0.0.1:7400");
        state.update(Ok(reading(1, 1_000)));
        state.update(Ok(reading(2, 3_000)));
        state
    }

    #[test]
    fn everything_has_a_place_on_a_small_terminal() {
        let screen = screen(&running(), 80, 24);
        assert_eq!(screen[0], "weir top  http://10.0.0.1:7400  by rate  over 1.0 s");
        assert_eq!(screen[1], "graphs  edge   lab");
        for title in ["FROM ", "ELEMENT  ", "FUNCTION ", "DEVICE ", "LOOKUPS IN "] {
            assert!(screen.iter().any(|l| l.starts_with(title)), "{title}: {screen:#?}");
        }
        assert!(screen[4].starts_with("sf:nat:out  sap:wan"), "the busiest link first: {screen:#?}");
        assert!(screen[23].starts_with("q quit  Space pause"), "{screen:#?}");
    }

    #[test]
    fn a_tiny_terminal_shows_what_matters_most_and_says_what_is_left() {
        let screen = screen(&running(), 50, 7);
        assert!(screen[3].starts_with("FROM"), "{screen:#?}");
        assert_eq!(screen[5], "… 1 more of links");
        // Whatever the size, it is drawn.
        for (width, height) in [(1, 1), (3, 40), (200, 2)] {
            super::tests::screen(&running(), width, height);
        }
    }

    #[test]
    fn trouble_is_told() {
        let mut state = running();
        state.update(Err("no node answers".into()));
        assert_eq!(screen(&state, 80, 24)[2], "no node answers; trying again");
        state.filter = "nothing".into();
        assert_eq!(screen(&state, 80, 24)[3], "no row has 'nothing' in a name");
    }

    #[test]
    fn the_help_names_the_keys() {
        let mut state = running();
        state.help = true;
        assert!(screen(&state, 80, 24)[4].contains("Space, p"));
    }

    #[test]
    fn the_graph_that_is_looked_at_can_be_seen() {
        let mut state = running();
        state.rates.graph = Some("lab".into());
        assert_eq!(screen(&state, 14, 5)[1], "graphs  lab");
    }
}
