//! How much of what a server has left will never be used.
//!
//! A server with free resources s will be offered modules, and takes those that suit it. As in models of discrete choice (logit), what
//! remains of it in the end is worth `W(s) = -T ln(K · mean exp(-W(s - a) / T))` over the modules a as they come, and never more than
//! v(s), what s itself is worth at today's prices: that is, if nothing suits. K says how often it can choose, T how sharply. W of smaller
//! servers gives W of larger ones, so that one pass over a grid suffices.

use crate::random::Random;

/// Cells of the grid.
const CPU: usize = 80;
const MEMORY: usize = 128;
const ROW: usize = MEMORY + 1;
/// Modules in the sample.
const SAMPLE: usize = 256;
/// T and K, from trials of the paper's experiment.
const T: f64 = 0.005;
const K: f64 = 4.0;

/// Cells of a thousandth of a core and of a MB, times 2^32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid((u64, u64));

impl Grid {
    /// For servers of at most so much.
    pub fn new(cpu: i32, memory: i32) -> Grid {
        let scale = |cells: usize, most: i32| ((cells as u64) << 32) / most.max(1) as u64 + 1;
        Grid((scale(CPU, cpu), scale(MEMORY, memory)))
    }

    /// Where free resources stand in a table; those that are overdrawn count as none.
    pub fn cell(self, cpu: i32, memory: i32) -> u32 {
        let (c, m) = (cpu.max(0) as u64 * self.0.0, memory.max(0) as u64 * self.0.1);
        (c >> 32) as u32 * ROW as u32 + (m >> 32) as u32
    }
}

/// The table W over a grid of free resources.
#[derive(Debug, Clone)]
pub(crate) struct Waste {
    table: Vec<f32>,
    /// The one that is being made, and how far it is.
    next: Vec<f32>,
    at: usize,
    /// exp(-W / T) of the one that is being made.
    soft: Vec<f64>,
    modules: Vec<(u8, u8)>,
    prices: (f64, f64),
    grid: Grid,
    sample: Vec<(i32, i32)>,
    seen: usize,
}

impl Waste {
    /// Over a domain's grid.
    pub fn new(grid: Grid) -> Waste {
        Waste {
            grid,
            table: Vec::new(),
            next: Vec::new(),
            at: 0,
            soft: vec![0.0; (CPU + 1) * ROW],
            modules: Vec::new(),
            prices: (0.0, 0.0),
            sample: Vec::with_capacity(SAMPLE),
            seen: 0,
        }
    }

    /// W of a cell, as a share of the worth of the largest server.
    pub fn of(&self, cell: u32) -> f32 {
        self.table[cell as usize]
    }

    /// A module came.
    pub fn see(&mut self, cpu: i32, memory: i32, random: &mut Random) {
        self.seen += 1;
        if self.sample.len() < SAMPLE {
            self.sample.push((cpu, memory));
        } else {
            // Of all that came so far, or of the last few thousand.
            let n = random.below(self.seen.min(40 * SAMPLE));
            if n < SAMPLE {
                self.sample[n] = (cpu, memory);
            }
        }
    }

    /// Begins a new table, for these prices of a thousandth of a core and of a MB.
    pub fn begin(&mut self, prices: (f64, f64)) {
        let round = |x: i32, scale: u64| ((x as u64 * scale + (1 << 31)) >> 32).clamp(1, 255) as u8;
        self.modules.clear();
        self.modules
            .extend(self.sample.iter().map(|(c, m)| (round(*c, self.grid.0.0), round(*m, self.grid.0.1))));
        let cell = |price: f64, scale: u64| price * (1_u64 << 32) as f64 / scale as f64;
        let (c, m) = (cell(prices.0, self.grid.0.0), cell(prices.1, self.grid.0.1));
        let all = c * CPU as f64 + m * MEMORY as f64;
        self.prices = (c / all, m / all);
        self.next.clear();
        self.next.resize((CPU + 1) * ROW, 0.0);
        self.at = 0;
    }

    /// Whether there never was a table.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether a new table is begun and not ready.
    pub fn busy(&self) -> bool {
        self.at < self.next.len()
    }

    /// Works out some cells more; takes the new table when it is ready.
    pub fn advance(&mut self, cells: usize) {
        let end = self.next.len().min(self.at.saturating_add(cells));
        for cell in self.at..end {
            self.next[cell] = self.work_out(cell);
        }
        self.at = end;
        if self.at == self.next.len() && end > 0 {
            std::mem::swap(&mut self.table, &mut self.next);
            self.next.clear();
            self.at = 0;
        }
    }

    fn work_out(&mut self, cell: usize) -> f32 {
        let (c, m) = (cell / ROW, cell % ROW);
        let own = c as f64 * self.prices.0 + m as f64 * self.prices.1;
        let stays = (-own / T).exp();
        let mut sum = 0.0;
        for (x, y) in &self.modules {
            let (x, y) = (*x as usize, *y as usize);
            sum += if x <= c && y <= m { self.soft[(c - x) * ROW + m - y].max(stays) } else { stays };
        }
        let soft = (K * sum / self.modules.len() as f64).clamp(stays, 1.0);
        self.soft[cell] = soft;
        (-T * soft.ln()) as f32
    }
}
