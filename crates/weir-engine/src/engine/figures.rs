//! Counts of all graphs at once, for those who watch many.

use weir_protocol::GraphFigures;

use super::Engine;

impl Engine {
    /// Counts of all graphs, by name.
    pub fn figures(&mut self) -> Vec<GraphFigures> {
        let names: Vec<String> = self.graphs().map(str::to_owned).collect();
        let figures = |name: &String| {
            let (router, rt) = self.graph(name).ok()?;
            Some(router.figures_of_all(rt))
        };
        names.iter().filter_map(figures).collect()
    }
}
